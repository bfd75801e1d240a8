"""Small streams for tests: little tables a person can read, and random ones for properties.

Time in tests is a handful of chronons; all that happens lies in DOMAIN.
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
    """Records from a little table: a line a record, columns apart by blanks; ints where they can be.

    >>> rows("a 99 1\\nb - 2")
    [('a', 99, 1), ('b', None, 2)]
    """
    return [tuple(map(_value, line.split())) for line in text.strip().splitlines()]


def _value(word: str) -> object:
    if word == "-":
        return None
    return int(word) if word.lstrip("-").isdigit() else word


def arrivals_of(records: Sequence[Record]) -> list[ChangeRow]:
    """Raw records whose last column is their timestamp, as the change rows of a base stream."""
    return from_raw(records, lambda e: int(str(e[-1])))


def values(top: int = 2) -> st.SearchStrategy[int | None]:
    """Few values, so that records meet; NULL among them."""
    return st.one_of(st.none(), st.integers(0, top))


def arrivals(most: int = 7) -> st.SearchStrategy[list[ChangeRow]]:
    """A random base stream over COLUMNS: equal timestamps, duplicates and NULLs among its rows."""
    record = st.tuples(values(), values(), st.integers(0, LAST_ARRIVAL))
    return st.lists(record, max_size=most).map(arrivals_of)


def table_rows(most: int = 4) -> st.SearchStrategy[list[ChangeRow]]:
    """A random table over (id, name): versions that come and go."""

    def row(record: Record, from_: int, length: int | None) -> ChangeRow:
        return ChangeRow(record, from_, INFINITY if length is None else from_ + length)

    record = st.tuples(values(), st.sampled_from(["x", "y"]))
    length = st.one_of(st.none(), st.integers(1, 12))
    return st.lists(st.builds(row, record, st.integers(0, LAST_ARRIVAL), length), max_size=most)


def inputs() -> st.SearchStrategy[dict[str, list[ChangeRow]]]:
    """All the streams and tables above, filled at random."""
    return st.fixed_dictionaries(
        {"s": arrivals(), "r": arrivals(), "q": arrivals(4), "t": table_rows(), "nrr": table_rows()}
    )


def same(left: N.Node, right: N.Node, given: dict[str, list[ChangeRow]], domain: range = DOMAIN) -> bool:
    """Whether two plans mean the same over these inputs."""
    return meaning(left, given, domain) == meaning(right, given, domain)


def keep(node: N.Node, *names: str) -> N.Node:
    """π: these columns only.

    >>> keep(S, "v", "ts").schema.names
    ('v', 'ts')
    """
    return N.Project(node, tuple((n, node.column(n)) for n in names))


def at(logical: Logical, t: int) -> dict[Record, int]:
    """The snapshot at t."""
    return {e: n for (e, when), n in logical.items() if when == t}


def filled(*streams: N.Stream) -> st.SearchStrategy[dict[str, list[ChangeRow]]]:
    """Only these base streams, filled at random; drawing more than a property reads takes time."""
    return st.fixed_dictionaries({stream.name: arrivals() for stream in streams})


def conditions(*names: str, relation: str | None = None) -> st.SearchStrategy[Expression]:
    """A random condition over columns of COLUMNS, all of them unless named; true, false and NULL occur.

    Without a relation it fits every input that has these columns once.
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
    """Every type of time window: sliding with slide and lag, tumbling, fixed, landmarks and bands."""
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
    """ROWS, and PARTITION BY k ROWS."""
    return st.builds(Rows, st.integers(1, 3), st.sampled_from([(), ("k",)]))


def grids() -> st.SearchStrategy[Grid]:
    """Grids of a few instants, not all of them with a point at 0."""
    return st.builds(Grid, st.integers(1, 6), st.integers(0, 5))


@st.composite
def changes(draw: st.DrawFn, most: int = 7) -> list[ChangeRow]:
    """Random rows over COLUMNS as a view has them: some end, by themselves or by a negative row."""
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
