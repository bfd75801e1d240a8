"""The kinds of joins: which words there are, what they mean, and what * has behind them."""

from __future__ import annotations

from itertools import product

import pytest

from everview.algebra import nodes as N
from everview.errors import EverviewError
from everview.sql import plan_of
from everview.sql.dialect import Everview, EverviewParser
from tests.sql.oracle import known

KEYWORDS = set(Everview.Tokenizer.KEYWORDS.values())
METHODS, SIDES, KINDS = (
    ["", *sorted(t.name for t in tokens & KEYWORDS)]
    for tokens in (EverviewParser.JOIN_METHODS, EverviewParser.JOIN_SIDES, EverviewParser.JOIN_KINDS)
)
# Spark's joinType, word for word; any of them but CROSS may have NATURAL before it.
TYPES: dict[str, tuple[type[N.Node], str | None]] = {
    "": (N.Join, None),
    "INNER": (N.Join, None),
    "CROSS": (N.Join, None),
    **{side: (N.OuterJoin, side) for side in ("LEFT", "RIGHT", "FULL")},
    **{f"{side} OUTER": (N.OuterJoin, side) for side in ("LEFT", "RIGHT", "FULL")},
    "SEMI": (N.SemiJoin, None),
    "LEFT SEMI": (N.SemiJoin, None),
    "ANTI": (N.AntiJoin, None),
    "LEFT ANTI": (N.AntiJoin, None),
}  # fmt: skip


@pytest.mark.parametrize(("method", "side", "kind"), list(product(METHODS, SIDES, KINDS)))
def test_the_words_before_join(method: str, side: str, kind: str) -> None:
    """All that sqlglot reads: a join of Spark has its meaning, any other is refused where it stands."""
    words = " ".join(filter(None, (method, side, kind)))
    join = words if kind == "STRAIGHT_JOIN" else f"{words} JOIN".strip()
    condition = "" if method == "NATURAL" else " ON a.k = b.k"
    sql = f"SELECT a.k FROM s a {join} r b{condition}"
    meant = TYPES.get(words.removeprefix("NATURAL").strip())
    if meant is None or words == "NATURAL CROSS":
        with pytest.raises(EverviewError) as refused:
            plan_of(sql, known())
        article = "an" if words[0] in "AEIOU" else "a"
        assert refused.value.what == f"{article} {words} join is not available"
        assert refused.value.next_step is not None
        assert refused.value.place is not None
        assert refused.value.place.column == len("SELECT a.k FROM s a ") + 1
        assert refused.value.place.width == len(join)
        return
    found = next(n for n in plan_of(sql, known()).walk() if len(n.inputs) == 2)
    assert type(found) is meant[0]
    assert getattr(found, "kind", None) == meant[1]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        (
            "SELECT s.k FROM s OUTER JOIN r ON s.k = r.k",
            "an OUTER join is not available\n"
            "  line 1, column 19\n"
            "    SELECT s.k FROM s OUTER JOIN r ON s.k = r.k\n"
            "                      ^^^^^^^^^^\n"
            "  next: write LEFT, RIGHT or FULL OUTER JOIN",
        ),
        (
            "SELECT s.k FROM s JOIN r USING (zzz.k)",
            "USING takes names of columns without a relation\n"
            "  line 1, column 33\n"
            "    SELECT s.k FROM s JOIN r USING (zzz.k)\n"
            "                                    ^^^\n"
            "  next: write the name of the column only: both sides have it",
        ),
        (
            "SELECT s.k FROM s JOIN r USING ()",
            "expected the name of a column\n"
            "  line 1, column 33\n"
            "    SELECT s.k FROM s JOIN r USING ()\n"
            "                                    ^",
        ),
        (
            "SELECT s.k FROM s JOIN r USING k",
            "USING takes names of columns in brackets\n"
            "  line 1, column 32\n"
            "    SELECT s.k FROM s JOIN r USING k\n"
            "                                   ^\n"
            "  next: write USING (column)",
        ),
        (
            "SELECT s.k FROM s JOIN r USING (k, K)",
            "USING names 'K' twice\n"
            "  line 1, column 36\n"
            "    SELECT s.k FROM s JOIN r USING (k, K)\n"
            "                                       ^",
        ),
        (
            "SELECT s.k FROM s CROSS JOIN r USING (k)",
            "a CROSS join has no USING\n"
            "  line 1, column 19\n"
            "    SELECT s.k FROM s CROSS JOIN r USING (k)\n"
            "                      ^^^^^\n"
            "  next: write JOIN instead of CROSS JOIN",
        ),
    ],
)
def test_what_makes_no_join_is_refused(sql: str, message: str) -> None:
    with pytest.raises(EverviewError) as refused:
        plan_of(sql, known())
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("join", "names"),
    [
        ("a LEFT SEMI JOIN (SELECT k FROM r) b USING (k)", ("k", "v", "w", "k2")),
        ("a LEFT ANTI JOIN (SELECT w, k FROM q) b USING (w, k)", ("w", "k", "v", "k2")),
        ("a NATURAL SEMI JOIN (SELECT w, k FROM q) b", ("k", "w", "v", "k2")),
        ("a NATURAL ANTI JOIN (SELECT v FROM r) b", ("v", "k", "w", "k2")),
        ("a LEFT SEMI JOIN (SELECT k FROM r) b ON a.k = b.k", ("v", "k", "w", "k2")),
        ("a JOIN (SELECT k FROM r) b USING (k)", ("k", "v", "w", "k2")),
    ],
)
def test_shared_columns_stand_first_in_the_star(join: str, names: tuple[str, ...]) -> None:
    """As in Spark, where a semi or an anti join has the keys, then the other columns of its left side."""
    given = "WITH a AS (SELECT v, k, v AS w, k AS k2 FROM s), q AS (SELECT k, v AS w FROM r)"
    assert plan_of(f"{given} SELECT * FROM {join}", known()).schema.names == names
    every = plan_of(f"{given} SELECT a.* FROM {join}", known()).schema.names
    assert every == ("v", "k", "w", "k2")
