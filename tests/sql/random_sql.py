"""Random queries from a small grammar, several operators deep, in words that DuckDB has too.

A query is made with its columns, so that what stands around it can use them. Numbers, instants and texts
are kept apart; whatever the grammar makes must bind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import strategies as st

from tests.sql.oracle import at

Draw = st.DrawFn


@dataclass(frozen=True)
class Column:
    """A column that may be used: as it is written, its plain name, and what it holds."""

    sql: str
    name: str
    kind: str


@dataclass(frozen=True)
class Relation:
    """A relation of FROM: its text without an alias, its own name or None, its columns and their kinds."""

    sql: str
    columns: tuple[tuple[str, str], ...]


_STREAM = (("k", "number"), ("v", "number"), ("ts", "instant"))
_NAMED = {
    "s": _STREAM,
    "r": _STREAM,
    "latest": _STREAM,
    "rooms": _STREAM,
    "fresh": _STREAM,
    "per_k": (("k", "number"), ("n", "number"), ("total", "number")),
    "lonely": (("k", "number"),),
    "t": (("id", "number"), ("name", "text")),
}
_LENGTHS = st.integers(1, 9)
_MOMENTS = st.integers(0, 12).map(at)
_WINDOWS = st.one_of(
    st.just("NOW"),
    st.builds("RANGE {} MICROSECONDS".format, _LENGTHS),
    st.builds("RANGE {} MICROSECONDS SLIDE {} MICROSECONDS LAG {} MICROSECONDS".format, *[_LENGTHS] * 3),
    st.builds("RANGE {} MICROSECONDS SLIDE 4 MICROSECONDS ORIGIN {}".format, _LENGTHS, _MOMENTS),
    st.builds("TUMBLE {} MICROSECONDS".format, _LENGTHS),
    st.builds("FIXED {} MICROSECONDS".format, _LENGTHS),
    st.builds("SINCE {}".format, _MOMENTS),
    st.builds("UNTIL {}".format, _MOMENTS),
)
_ROWS = st.sampled_from(
    ["ROWS 1", "ROWS 3", "PARTITION BY k ROWS 1", "PARTITION BY k ROWS 2", "ROWS 3 SLIDE 2"]
)


@dataclass
class Names:
    """Hands out names that are new in the whole query."""

    used: int = 0

    def new(self, letter: str) -> str:
        self.used += 1
        return f"{letter}{self.used}"


@st.composite
def queries(draw: Draw, depth: int = 2) -> str:
    """A random query as text."""
    return _query(draw, Names(), depth)[0]


def _query(draw: Draw, names: Names, depth: int) -> tuple[str, tuple[tuple[str, str], ...]]:
    if depth > 0 and draw(st.integers(0, 4)) == 0:
        return _set_operation(draw, names, depth)
    if depth > 0 and draw(st.integers(0, 7)) == 0:
        inner, columns = _query(draw, names, depth - 1)
        name = names.new("c")
        text, kinds = _select(draw, names, depth - 1, Relation(name, columns))
        return f"WITH {name} AS ({inner}) {text}", kinds
    return _select(draw, names, depth)


def _set_operation(draw: Draw, names: Names, depth: int) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Two queries of as many numbers each."""
    width = draw(st.integers(1, 2))
    sides = []
    for _ in range(2):
        inner, columns = _query(draw, names, depth - 1)
        usable = [n for n, kind in columns if kind == "number"]
        chosen = [draw(st.sampled_from([*usable, "1"])) for _ in range(width)]
        items = ", ".join(f"{c} AS u{i}" for i, c in enumerate(chosen))
        sides.append(f"(SELECT {items} FROM ({inner}) AS {names.new('q')})")
    words = draw(st.sampled_from(["UNION", "EXCEPT", "INTERSECT"])) + draw(st.sampled_from(["", " ALL"]))
    return f"{sides[0]} {words} {sides[1]}", tuple((f"u{i}", "number") for i in range(width))


def _relation(draw: Draw, names: Names, depth: int) -> Relation:
    if depth > 0 and draw(st.integers(0, 2)) == 0:
        inner, columns = _query(draw, names, depth - 1)
        return Relation(f"({inner})", columns)
    name = draw(st.sampled_from(["s", "s", "r", "r", *_NAMED]))
    text, columns = name, _NAMED[name]
    if name in ("s", "r") and draw(st.integers(0, 3)) == 0:
        text += f" [{draw(_ROWS)}]"
    elif columns == _STREAM and draw(st.integers(0, 3)):
        text += f" [{draw(_WINDOWS)}]"
    if name != "t" and draw(st.integers(0, 5)) == 0:
        text += draw(
            st.sampled_from([" SYNC ON ticks", " SYNC EVERY INTERVAL '4' MICROSECOND"])
            | _MOMENTS.map(" SYNC EVERY INTERVAL '3' MICROSECOND ORIGIN {}".format)
        )
    return Relation(text, columns)


def _columns(alias: str, relation: Relation) -> list[Column]:
    return [Column(f"{alias}.{name}", name, kind) for name, kind in relation.columns]


def _select(
    draw: Draw, names: Names, depth: int, first: Relation | None = None
) -> tuple[str, tuple[tuple[str, str], ...]]:
    relation = first or _relation(draw, names, depth)
    alias = names.new("a")
    scope = _columns(alias, relation)
    text = f"FROM {relation.sql} AS {alias}"
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 1, 2])) if depth > 0 else 0):
        text, scope = _joined(draw, names, depth, text, scope)
    conditions = [_condition(draw, scope, 1)] if draw(st.booleans()) else []
    if depth > 0 and draw(st.integers(0, 3)) == 0:
        conditions.append(_nested(draw, names, depth, scope))
    if conditions:
        text += " WHERE " + " AND ".join(f"({c})" for c in conditions)
    if draw(st.integers(0, 3)) == 0:
        return _grouped(draw, names, text, scope)
    if first is None and "(SELECT" not in text and draw(st.integers(0, 3)) == 0:
        return _ranked(draw, names, text, scope)
    chosen = draw(st.lists(st.sampled_from(scope), min_size=1, max_size=3, unique=True))
    items = [(f"{c.sql} AS {names.new('x')}", c.kind) for c in chosen]
    if draw(st.booleans()):
        items.append((f"{_number(draw, scope, 2)} AS {names.new('x')}", "number"))
    distinct = "DISTINCT " * (draw(st.integers(0, 4)) == 0)
    return f"SELECT {distinct}{', '.join(i for i, _ in items)} {text}", _outputs(items)


def _ranked(
    draw: Draw, names: Names, text: str, scope: list[Column]
) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Ranks, functions over frames, a condition on one, or LIMIT; ties are broken by all columns."""
    if draw(st.integers(0, 2)) == 0:
        chosen = draw(st.lists(st.sampled_from(scope), min_size=1, max_size=3, unique=True))
        items = [(f"{c.sql} AS {names.new('x')}", c.kind) for c in chosen]
        order = ", ".join(f"{name}{draw(_DIRECTIONS)}" for name, _ in _outputs(items))
        limit = draw(st.sampled_from(["LIMIT 1", "LIMIT 3", "LIMIT 2 OFFSET 1"]))
        return f"SELECT {', '.join(i for i, _ in items)} {text} ORDER BY {order} {limit}", _outputs(items)
    rank = _rank(draw, scope) if draw(st.booleans()) else _over(draw, scope)
    chosen = draw(st.lists(st.sampled_from(scope), min_size=1, max_size=2, unique=True))
    items = [(f"{c.sql} AS {names.new('x')}", c.kind) for c in chosen]
    if draw(st.booleans()):
        items.append((f"{rank} AS {names.new('x')}", "number"))
    elif draw(st.booleans()):
        items.append((f"{_rank(draw, scope)} AS {names.new('x')}", "number"))
    if draw(st.integers(0, 3)) or " OVER (" not in items[-1][0]:
        limit = draw(st.sampled_from(["<= 1", "= 1", "< 3", "<= 2", "= 2", "> 1"]))
        text += f" QUALIFY {rank} {limit}"
        if draw(st.integers(0, 2)) == 0:
            text += f" AND {_condition(draw, scope, 0)}"
    return f"SELECT {', '.join(i for i, _ in items)} {text}", _outputs(items)


_DIRECTIONS = st.sampled_from([" NULLS FIRST", " NULLS LAST", " DESC NULLS FIRST", " DESC NULLS LAST"])


def _rank(draw: Draw, scope: list[Column]) -> str:
    function = draw(st.sampled_from(["RANK", "DENSE_RANK", "ROW_NUMBER"]))
    partition = draw(st.lists(st.sampled_from(scope), max_size=2, unique=True))
    order = draw(st.lists(st.sampled_from(scope), min_size=1, max_size=2, unique=True))
    keys = [f"{c.sql}{draw(_DIRECTIONS)}" for c in order]
    if function == "ROW_NUMBER":
        keys += [f"{c.sql} NULLS FIRST" for c in scope if c not in order]
    by = f"PARTITION BY {', '.join(c.sql for c in partition)} " if partition else ""
    return f"{function}() OVER ({by}ORDER BY {', '.join(keys)})"


_FRAMES = st.sampled_from(
    [
        "",
        "ROWS 1 PRECEDING",
        "ROWS UNBOUNDED PRECEDING",
        "ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING",
        "ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING",
        "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    ]
)


def _over(draw: Draw, scope: list[Column]) -> str:
    """A number from other rows of a partition: ties are broken by all columns where they matter."""
    numbers = [c for c in scope if c.kind == "number"]
    function = draw(
        st.sampled_from(["LAG", "LEAD", "FIRST_VALUE", "LAST_VALUE", "COUNT", "SUM", "MIN", "MAX"])
    )
    argument = draw(st.sampled_from(numbers)).sql if numbers else "1"
    partition = draw(st.lists(st.sampled_from(scope), max_size=2, unique=True))
    order = draw(st.lists(st.sampled_from(scope), min_size=1, max_size=2, unique=True))
    keys = [f"{c.sql}{draw(_DIRECTIONS)}" for c in order]
    keys += [f"{c.sql} NULLS FIRST" for c in scope if c not in order]
    by = f"PARTITION BY {', '.join(c.sql for c in partition)} " if partition else ""
    frame = "" if function in ("LAG", "LEAD") else draw(_FRAMES)
    return f"{function}({argument}) OVER ({by}ORDER BY {', '.join(keys)} {frame})"


def _outputs(items: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple((item.rsplit(" AS ", 1)[1], kind) for item, kind in items)


def _joined(draw: Draw, names: Names, depth: int, text: str, scope: list[Column]) -> tuple[str, list[Column]]:
    relation = _relation(draw, names, depth - 1)
    alias = names.new("a")
    other = _columns(alias, relation)
    words = draw(
        st.sampled_from(
            ["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"]
        )
    )
    numbers = [[c.sql for c in side if c.kind == "number"] for side in (scope, other)]
    if not all(numbers):
        return f"{text} CROSS JOIN {relation.sql} AS {alias}", scope + other
    left, right = (draw(st.sampled_from(side)) for side in numbers)
    condition = f"{left} {draw(st.sampled_from(['=', '=', '=', '<=>', '<']))} {right}"
    if draw(st.integers(0, 2)) == 0:
        condition += f" AND ({_condition(draw, scope + other, 1)})"
    text = f"{text} {words} {relation.sql} AS {alias} ON {condition}"
    return text, scope if words in ("LEFT SEMI JOIN", "LEFT ANTI JOIN") else scope + other


def _nested(draw: Draw, names: Names, depth: int, scope: list[Column]) -> str:
    """[NOT] IN (…) or [NOT] EXISTS (…), correlated or not."""
    relation = _relation(draw, names, depth - 1)
    alias = names.new("a")
    inner = _columns(alias, relation)
    conditions = [_condition(draw, inner, 1)] if draw(st.booleans()) else []
    if draw(st.booleans()):
        mine, yours = (_number(draw, side, 0) for side in (inner, scope))
        conditions.append(f"{mine} {draw(st.sampled_from(['=', '<']))} {yours}")
    where = " WHERE " + " AND ".join(f"({c})" for c in conditions) if conditions else ""
    negation = draw(st.sampled_from(["", "NOT "]))
    source = f"FROM {relation.sql} AS {alias}{where}"
    number, there = _number(draw, scope, 1), _number(draw, inner, 1)
    forms = [f"{negation}EXISTS (SELECT 1 {source})", f"{number} {negation}IN (SELECT {there} {source})"]
    if draw(st.integers(0, 2)):
        return draw(st.sampled_from(forms))
    operator = draw(st.sampled_from(["=", "<>", "<", ">="]))
    some = draw(st.sampled_from(["ANY", "ALL"]))
    forms += [
        f"{number} {operator} {some} (SELECT {there} {source})",
        f"{number} {operator} (SELECT {draw(st.sampled_from(['MAX', 'COUNT']))}({there}) {source})",
    ]
    return f"({draw(st.sampled_from(forms))} OR {_condition(draw, scope, 0)})"


_AGGREGATES = (
    "COUNT({})",
    "SUM({})",
    "AVG({})",
    "MIN({})",
    "MAX({})",
    "COUNT(DISTINCT {})",
    "STDDEV({})",
    "VAR_POP({})",
    "MEDIAN({})",
    "MEDIAN(DISTINCT {})",
)


def _grouped(
    draw: Draw, names: Names, text: str, scope: list[Column]
) -> tuple[str, tuple[tuple[str, str], ...]]:
    keys = draw(st.lists(st.sampled_from(scope), max_size=2, unique=True))
    items = [(f"{c.sql} AS {names.new('x')}", c.kind) for c in keys]
    for _ in range(draw(st.integers(0 if keys else 1, 2))):
        items.append((f"{_aggregate(draw, scope)} AS {names.new('x')}", "number"))
    if keys:
        text += " GROUP BY " + ", ".join(c.sql for c in keys)
    if draw(st.integers(0, 2)) == 0:
        text += f" HAVING COUNT(*) > {draw(st.integers(0, 2))}"
        if draw(st.booleans()):
            text += f" OR {_aggregate(draw, scope)} IS NULL"
    return f"SELECT {', '.join(i for i, _ in items)} {text}", _outputs(items)


def _aggregate(draw: Draw, scope: list[Column]) -> str:
    if draw(st.integers(0, 3)) == 0:
        call = "COUNT(*)"
    else:
        call = draw(st.sampled_from(_AGGREGATES)).format(_number(draw, scope, 1))
    if draw(st.integers(0, 4)) == 0:
        call += f" FILTER (WHERE {_condition(draw, scope, 0)})"
    return call


# Expressions


def _number(draw: Draw, scope: list[Column], depth: int) -> str:
    columns = [c.sql for c in scope if c.kind == "number"]
    if depth == 0 or draw(st.integers(0, 2)) == 0:
        return draw(st.sampled_from([*columns, *columns, "0", "1", "2", "CAST(NULL AS INT)"]))

    def one() -> str:
        return _number(draw, scope, depth - 1)

    makers: list[Callable[[], str]] = [
        lambda: f"{one()} {draw(st.sampled_from('+-*'))} {one()}",
        lambda: f"({one()} - {one()}) * {one()}",
        lambda: f"- {one()}",
        lambda: f"CASE WHEN {_condition(draw, scope, depth - 1)} THEN {one()} ELSE {one()} END",
        lambda: f"COALESCE({one()}, {one()})",
        lambda: f"NULLIF({one()}, {one()})",
        lambda: f"ABS({one()})",
        lambda: f"GREATEST({one()}, {one()})",
        lambda: f"({one()}) / 2",
    ]
    return makers[draw(st.integers(0, len(makers) - 1))]()


def _condition(draw: Draw, scope: list[Column], depth: int) -> str:
    if depth > 0 and draw(st.booleans()):
        left, right = (_condition(draw, scope, depth - 1) for _ in range(2))
        return draw(
            st.sampled_from(
                [f"{left} AND {right}", f"{left} OR {right}", f"NOT ({left})", f"({left}) IS NULL"]
            )
        )
    column = draw(st.sampled_from(scope))
    if column.kind == "instant":
        operator = draw(st.sampled_from(["<", "<=", ">", ">=", "<>"]))
        return f"{column.sql} - INTERVAL '{draw(st.integers(0, 3))}' MICROSECOND {operator} {draw(_MOMENTS)}"
    if column.kind == "text":
        return draw(
            st.sampled_from([f"{column.sql} = 'x'", f"{column.sql} > 'x'", f"{column.sql} LIKE '%y'"])
        )
    one, two = (_number(draw, scope, 1) for _ in range(2))
    operator = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"]))
    forms = [
        f"{one} {operator} {two}",
        f"{column.sql} IS NOT NULL",
        f"{column.sql} IN (0, {two})",
        f"{column.sql} NOT IN (1, {two})",
        f"{column.sql} BETWEEN 0 AND {two}",
        f"{one} IS DISTINCT FROM {two}",
    ]
    return draw(st.sampled_from(forms))
