"""Nothing that was written is dropped: every argument that sqlglot knows, on every node that is bound."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlglot import exp

from everview.errors import EverviewError
from everview.sql import Script, bind_script, bind_statement, parse_script
from everview.sql.expressions import _HANDLERS
from everview.sql.guard import USED
from tests.lanes import one_in
from tests.sql.golden_cases import shown
from tests.sql.oracle import known

# Queries that together hold every kind of node that is bound.
SAMPLES = [
    "WITH c (x) AS (SELECT k FROM s [RANGE 5 SECONDS]) SELECT DISTINCT c.x AS y FROM c WHERE x > 0"
    " ORDER BY y",
    "SELECT k, COUNT(DISTINCT v) FILTER (WHERE v > 0) FROM s GROUP BY k HAVING COUNT(*) > 1 LIMIT 3 OFFSET 1",
    "SELECT x.k FROM (SELECT * FROM s) AS x (k, w, at) JOIN r USING (k) LEFT JOIN t ON t.id = x.w",
    "SELECT s.k FROM s SEMI JOIN t ON s.k = t.id NATURAL ANTI JOIN latest FULL JOIN r ON s.v = r.v",
    "SELECT s.k FROM s JOIN t FOR SYSTEM_TIME AS OF s.ts ON t.id = s.k",
    "SELECT k FROM s UNION SELECT k FROM r EXCEPT SELECT k FROM r INTERSECT SELECT v FROM r",
    "SELECT * EXCEPT (k) FROM (VALUES (1, 'a')) AS w (k, name)",
    "SELECT -k, NOT k > 1, ~k, k & v, k | v, k ^ v, k << 1, k >> 1, k + v, k - v, k * v, k / v, k % v FROM s",
    "SELECT k, RANK() OVER w AS n FROM s WINDOW w AS (PARTITION BY k ORDER BY v) QUALIFY n = 1",
    "SELECT LAG(v) IGNORE NULLS OVER (ORDER BY v), LEAD(v) RESPECT NULLS OVER (ORDER BY v),"
    " SUM(v) OVER (ORDER BY v ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING) FROM s",
    "SELECT k DIV v, k = v, k <> v, k < v, k <= v, k >= v, k <=> v, k IS DISTINCT FROM v, k IS NULL FROM s",
    "SELECT k BETWEEN 1 AND 2, k IN (1, 2), (k > 0) AND (v > 0) OR TRUE FROM s",
    "SELECT CASE k WHEN 1 THEN 2 ELSE 3 END FROM s",
    "SELECT name LIKE 'a', name ILIKE 'a', name RLIKE 'a', name LIKE 'a' ESCAPE '!', name || 'x' FROM t",
    "SELECT TRIM(BOTH 'x' FROM name), SUBSTRING(name FROM 1 FOR 2), upper(name) FROM t",
    "SELECT name LIKE ANY ('a%', 'b'), name NOT ILIKE ALL ('c') FROM t",
    "SELECT POSITION('a', name, 2) FROM t",
    "SELECT CAST(k AS DECIMAL(5, 2)), TRY_CAST(k AS INT), k::BIGINT FROM s",
    "SELECT EXTRACT(HOUR FROM ts), X'1F', r'a' FROM s",
    "SELECT ts + INTERVAL '5' SECOND, ts - INTERVAL '1 02:03:04' DAY TO SECOND, NULL FROM s",
    "SELECT k FROM s WHERE EXISTS (SELECT 1 FROM r) AND (k, v) IN (SELECT k, v FROM r)",
    "SELECT k FROM s WHERE k IN (SELECT k FROM r)",
    "SELECT current_timestamp, current_date",
]  # fmt: skip
GARBAGE = (exp.Literal.string("garbage"), [exp.Literal.string("garbage")], "GARBAGE", True)


def statements() -> Iterator[tuple[exp.Expr, Script]]:
    for sql in SAMPLES:
        yield from ((node, Script(sql)) for node in parse_script(sql))


def nodes_of(kind: type[exp.Expr]) -> Iterator[tuple[exp.Expr, exp.Expr, Script]]:
    """Statements, each with a node of a kind in it."""
    for statement, script in statements():
        for node in statement.walk():
            if type(node) is kind:
                yield statement, node, script
                break


def test_the_samples_bind() -> None:
    for statement, script in statements():
        bind_statement(statement, script, known())


def test_every_kind_that_is_bound_is_guarded() -> None:
    assert set(_HANDLERS) <= set(USED)


def test_every_kind_that_is_guarded_stands_in_a_sample() -> None:
    found = {type(node) for statement, _ in statements() for node in statement.walk()}
    aside = {exp.Paren, exp.Cast} if exp.Cast not in found else {exp.Paren}
    assert set(USED) - aside <= found


ARGUMENTS = [(kind, name) for kind, used in USED.items() for name in kind.arg_types if name not in used]


@pytest.mark.slow
@pytest.mark.parametrize("argument", one_in(5, ARGUMENTS, lambda pair: f"{pair[0].__name__}.{pair[1]}"))
def test_an_argument_that_is_not_used_is_refused_with_its_place(argument: tuple[type[exp.Expr], str]) -> None:
    kind, name = argument
    for garbage in GARBAGE:
        for statement, node, script in nodes_of(kind):
            node.set(name, garbage)
            with pytest.raises(EverviewError) as refused:
                bind_statement(statement, script, known())
            assert refused.value.place is not None


# No name, no text and no expression that is bound: what sqlglot takes for a name where none stands.
STRANGERS = (exp.Placeholder(), exp.Placeholder(this="a"), exp.Parameter(this=exp.var("v1")))
for stranger in STRANGERS:
    stranger.meta.update(start=0, end=0)  # as the parser notes it


@pytest.mark.slow
@pytest.mark.parametrize("sql", one_in(20, SAMPLES))
def test_an_argument_of_another_kind_is_refused_with_its_place(sql: str) -> None:
    """A parameter in the place of any part of a query."""
    count = len(list(parse_script(sql)[0].walk()))
    for place in range(count):
        for name in USED.get(type(list(parse_script(sql)[0].walk())[place]), ()):
            for stranger in STRANGERS:
                statement = parse_script(sql)[0]
                node = list(statement.walk())[place]
                if not (value := node.args.get(name)):
                    continue
                node.set(name, [stranger.copy(), *value[1:]] if isinstance(value, list) else stranger.copy())
                with pytest.raises(EverviewError) as refused:
                    bind_statement(statement, Script(sql), known())
                assert refused.value.place is not None, f"{type(node).__name__}.{name} of {sql}"


@pytest.mark.parametrize(
    ("sql", "at"),
    [
        ("SELECT k FROM s@v1", "@v1"),
        ("SELECT k FROM s ?", "?"),
        ("SELECT k FROM s $x", "$x"),
        ("SELECT k FROM s :x", ":x"),
        ("SELECT k FROM (SELECT k FROM s) @x", "@x"),
        ("SELECT s.k FROM s JOIN r@v2 ON s.k = r.k", "@v2"),
        ("SELECT k ? FROM s", "?"),
        ("SELECT k :a FROM s", ":a"),
        ("WITH ? AS (SELECT k FROM s) SELECT k FROM s", "?"),
        ("SELECT a FROM (SELECT k FROM s) AS d (?)", "?"),
    ],
)
def test_a_name_is_a_name(sql: str, at: str) -> None:
    (statement,) = parse_script(sql)
    with pytest.raises(EverviewError) as refused:
        bind_statement(statement, Script(sql), known())
    lead = " " * sql.index(at)
    assert str(refused.value) == (
        f"expected a name\n  line 1, column {sql.index(at) + 1}\n    {sql}\n    {lead}{'^' * len(at)}\n"
        "  next: write a name, or leave this out"
    )


# Signs and texts that sqlglot takes for a name behind AS. Spark takes none of them.
NO_NAMES = ("5", "5.5", "5e3", "'x'", '"x"', "X'1F'", "r'x'", "<=", "||", "<>")
BEHIND_AS = (
    "SELECT k AS {} FROM s",
    "SELECT k + 1 AS {}, v FROM s",
    "SELECT x.k FROM s AS {}",
    "SELECT x.k FROM (SELECT k FROM s) AS {}",
    "SELECT x.k FROM s [RANGE 5 SECONDS] AS {}",
    "SELECT x.a FROM (VALUES (1)) AS {} (a)",
    "SELECT x.k FROM s JOIN r AS {} ON TRUE",
    "SELECT x.k FROM s JOIN (r JOIN t ON TRUE) AS {} ON TRUE",
    "SELECT x.a FROM s AS x ({}, b, c)",
    "SELECT x.a FROM (SELECT k, v FROM s) AS x (a, {})",
    "WITH c ({}) AS (SELECT k FROM s) SELECT k FROM s",
    "UPDATE t AS {} SET name = 'a'",
    "DELETE FROM t AS {} WHERE id = 1",
)


@pytest.mark.parametrize("sign", NO_NAMES)
@pytest.mark.parametrize("sql", BEHIND_AS)
def test_neither_a_sign_nor_a_text_is_a_name(sql: str, sign: str) -> None:
    refusal = refused_name(sql.format(sign))
    start = sql.index("{}")
    lead = " " * start
    assert refusal.splitlines()[:4] == [
        "expected a name",
        f"  line 1, column {start + 1}",
        f"    {sql.format(sign)}",
        f"    {lead}{'^' * len(sign)}",
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k FROM s {}",
        "SELECT k FROM (SELECT k FROM s) {}",
        "WITH {} AS (SELECT k FROM s) SELECT k FROM s",
    ],
)
@pytest.mark.parametrize("text", ["'x'", '"x"'])
def test_a_text_is_no_name_without_as(sql: str, text: str) -> None:
    assert refused_name(sql.format(text)).endswith("  next: write `x`")


def test_any_word_is_a_name_behind_as() -> None:
    for word in ("x", "5a", "_5", "`5`", "`a b`", "from", "where", "year", "all", "timestamp", "é"):
        (statement,) = parse_script(f"SELECT k AS {word} FROM s")
        bind_statement(statement, Script(""), known())


def refused_name(sql: str) -> str:
    with pytest.raises(EverviewError) as refused:
        list(bind_script(sql, known()))
    return str(refused.value)


# What changes nothing here: the dialect's own notes, words that are the default, names that need no relation.
IDLE = {
    (exp.Column, "table"), (exp.Identifier, "this"), (exp.Literal, "this"), (exp.Literal, "is_string"),
    (exp.Div, "safe"), (exp.Ordered, "nulls_first"), (exp.Identifier, "quoted"),
    (exp.Version, "this"), (exp.Trim, "position"), (exp.Union, "distinct"), (exp.Window, "over"),
}  # fmt: skip


@pytest.mark.parametrize("sql", one_in(20, SAMPLES))
def test_an_argument_that_is_used_matters(sql: str) -> None:
    """Without it the statement is bound to something else, or not at all."""
    whole = bound(parse_script(sql)[0], sql)
    count = len(list(parse_script(sql)[0].walk()))
    for place in range(count):
        for name in USED.get(type(list(parse_script(sql)[0].walk())[place]), ()):
            statement = parse_script(sql)[0]
            node = list(statement.walk())[place]
            if not node.args.get(name) or (type(node), name) in IDLE:
                continue
            node.args.pop(name)
            assert bound(statement, sql) != whole, f"{type(node).__name__}.{name} of {sql}"


def bound(statement: exp.Expr, sql: str) -> str | None:
    """What a statement is bound to, as text; None if it is refused, or is no tree any more."""
    try:
        return shown(bind_statement(statement, Script(sql), known()), known())
    except (EverviewError, AttributeError, KeyError, TypeError, ValueError, IndexError):
        return None


@pytest.mark.parametrize(
    "text", ["SELECT '\ud800' AS x", "SELECT 1 AS `\udfff`", "CREATE STREAM `a\ud800` (k INT)"]
)
def test_half_of_a_surrogate_pair_is_no_text(text: str) -> None:
    with pytest.raises(EverviewError, match=r"'\\ud[0-9a-f]{3}', is half of a pair and no text"):
        parse_script(text)
