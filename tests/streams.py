"""Small streams for tests: readable tables, and random ones for properties.

Time in tests is a few chronons; all begins and ends are in DOMAIN, or ∞.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from everview.algebra import nodes as N
from everview.algebra.changes import ChangeRow, Logical, Record, from_raw
from everview.algebra.expressions import And, Column, Comparison, Expression, IsNull, Literal, Not, Or
from everview.algebra.schema import Schema
from everview.algebra.time import INFINITY, Grid
from everview.algebra.types import INT, STRING, TIMESTAMP
from everview.algebra.windows import Band, Fixed, Range, Rows, TimeWindow
from everview.reference.meaning import meaning

DOMAIN = range(24)
LAST_ARRIVAL = 14

COLUMNS = Schema.of(("k", INT), ("v", INT), ("ts", TIMESTAMP), timeline="ts")
S = N.Stream("s", COLUMNS)
R = N.Stream("r", COLUMNS)
Q = N.Stream("q", COLUMNS)
T = N.Table("t", Schema.of(("id", INT), ("name", STRING)), key=("id",))
NRR = N.Table("nrr", T.columns, key=("id",), retroactive=False)


def rows(text: str) -> list[Record]:
    """Return the records of a table: a line a record, columns separated by blanks; integers where possible.

    >>> rows("a 99 1\\nb - 2")
    [('a', 99, 1), ('b', None, 2)]
    """
    return [tuple(map(_value, line.split())) for line in text.strip().splitlines()]


def _value(word: str) -> object:
    if word == "-":
        return None
    return int(word) if word.lstrip("-").isdigit() else word


def arrivals_of(records: Sequence[Record]) -> list[ChangeRow]:
    """Return the change rows of a base stream from records whose last column is the timestamp."""
    return from_raw(records, lambda e: int(str(e[-1])))


def values(top: int = 2) -> st.SearchStrategy[int | None]:
    """Draw from a few values, so that records match; NULL is among them."""
    return st.one_of(st.none(), st.integers(0, top))


def arrivals(most: int = 7) -> st.SearchStrategy[list[ChangeRow]]:
    """Draw a base stream over COLUMNS, with equal timestamps, duplicates and NULLs."""
    record = st.tuples(values(), values(), st.integers(0, LAST_ARRIVAL))
    return st.lists(record, max_size=most).map(arrivals_of)


def table_rows(most: int = 4) -> st.SearchStrategy[list[ChangeRow]]:
    """Draw a table over (id, name), of versions that begin and end."""

    def row(record: Record, from_: int, length: int | None) -> ChangeRow:
        return ChangeRow(record, from_, INFINITY if length is None else from_ + length)

    record = st.tuples(values(), st.sampled_from(["x", "y"]))
    length = st.one_of(st.none(), st.integers(1, 12))
    return st.lists(st.builds(row, record, st.integers(0, LAST_ARRIVAL), length), max_size=most)


def inputs() -> st.SearchStrategy[dict[str, list[ChangeRow]]]:
    """Draw the rows of all the streams and tables above."""
    return st.fixed_dictionaries(
        {"s": arrivals(), "r": arrivals(), "q": arrivals(4), "t": table_rows(), "nrr": table_rows()}
    )


def same(left: N.Node, right: N.Node, given: dict[str, list[ChangeRow]], domain: range = DOMAIN) -> bool:
    """Return whether two plans have the same meaning over these inputs."""
    return meaning(left, given, domain) == meaning(right, given, domain)


def keep(node: N.Node, *names: str) -> N.Node:
    """Return the projection to these columns (π).

    >>> keep(S, "v", "ts").schema.names
    ('v', 'ts')
    """
    return N.Project(node, tuple((n, node.column(n)) for n in names))


def at(logical: Logical, t: int) -> dict[Record, int]:
    """Return the snapshot at t."""
    return {e: n for (e, when), n in logical.items() if when == t}


def filled(*streams: N.Stream) -> st.SearchStrategy[dict[str, list[ChangeRow]]]:
    """Draw the rows of these base streams only; drawing more than a property reads takes time."""
    return st.fixed_dictionaries({stream.name: arrivals() for stream in streams})


def conditions(*names: str, relation: str | None = None) -> st.SearchStrategy[Expression]:
    """Draw a condition over columns of COLUMNS, all of them unless named; true, false and NULL occur.

    Without a relation it is valid for every input that has these columns once.
    """
    types = {"k": INT, "v": INT, "ts": TIMESTAMP}
    columns = st.sampled_from([Column(n, types[n], relation) for n in names or types])

    def compared(operator: str, column: Column, value: int) -> Expression:
        return Comparison(operator, column, Literal(value * 5 if column.name == "ts" else value, column.type))

    operators = st.sampled_from(["=", "<>", "<", ">="])
    leaves = st.one_of(st.builds(compared, operators, columns, st.integers(0, 2)), columns.map(IsNull))
    return st.recursive(
        leaves, lambda c: st.one_of(st.builds(And, c, c), st.builds(Or, c, c), c.map(Not)), max_leaves=3
    )


def time_windows() -> st.SearchStrategy[TimeWindow]:
    """Draw time windows of every type: sliding with slide and lag, tumbling, fixed, landmarks and bands."""
    instant = st.integers(0, LAST_ARRIVAL)
    band = st.tuples(instant, instant).map(lambda ends: Band(min(ends), max(ends)))
    return st.one_of(
        st.builds(Range, st.integers(1, 9)),
        st.builds(Range, st.integers(1, 9), st.integers(1, 5), st.integers(0, 4), st.integers(0, 4)),
        st.builds(Fixed, st.integers(1, 9), st.integers(0, 4)),
        st.builds(Band, st.none() | instant),
        st.builds(Band, st.none(), instant),
        band,
    )


def row_windows() -> st.SearchStrategy[Rows]:
    """Draw windows [ROWS n] and [PARTITION BY k ROWS n]."""
    return st.builds(Rows, st.integers(1, 3), st.sampled_from([(), ("k",)]))


def grids() -> st.SearchStrategy[Grid]:
    """Draw grids of a few instants, not all of them with a point at 0."""
    return st.builds(Grid, st.integers(1, 6), st.integers(0, 5))


@st.composite
def changes(draw: st.DrawFn, most: int = 7) -> list[ChangeRow]:
    """Draw rows over COLUMNS as a view has them: some end, by their interval or by a negative row."""
    found: list[ChangeRow] = []
    for row in draw(arrivals(most)):
        end = draw(st.one_of(st.none(), st.integers(row.from_ + 1, LAST_ARRIVAL + 6)))
        if end is None:
            found.append(row)
        elif draw(st.booleans()):
            found.append(row._replace(until=end))
        else:
            found.extend([row, ChangeRow(row.record, end, INFINITY, -1)])
    return found
