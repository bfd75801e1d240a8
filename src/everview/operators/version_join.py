"""Version join: a stream with the version of a table at the row's own timestamp (⋈NRR; paper 2, 4.1).

Later updates of the table leave the result alone, so that the stream is not kept. A row that is retracted
meets the version that it met when it came: that at its own timestamp. So versions are kept as long as the
timestamps of rows to come can lie in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everview.algebra.time import INFINITY, length_text
from everview.operators.base import (
    Growth,
    InputColumns,
    Operator,
    StatefulOperator,
    StatePart,
    column,
    side_by_side,
    two_inputs_key,
)
from everview.operators.columnar.frame import (
    BEFORE_ALL,
    FROM,
    UNTIL,
    Frame,
    Increment,
    N,
    Slice,
    State,
    by_position,
    consolidate_frame,
    group_starts,
    on_the_right,
    record_columns,
    stacked,
)
from everview.operators.columnar.hashing import Ints, hashes
from everview.operators.columnar.keys import arranged, grouped, matches, spread
from everview.operators.columnar.lazy import np, pl
from everview.operators.columnar.pairs import without_nulls
from everview.operators.columnar.timeline import constant_pieces, in_time_order


@dataclass(frozen=True, eq=False)
class VersionJoinOperator(StatefulOperator):
    """The rows of a stream with the version of a table at their own timestamp; their intervals stay.

    State: the versions of the table. `age` is how far before the bound the timestamps of rows to come can
    lie: so long a version that was replaced is kept.

    >>> from everview.algebra.types import INT, STRING, TIMESTAMP
    >>> from everview.operators.columnar.frame import changes
    >>> from everview.operators.scan import ScanOperator
    >>> s, t = ScanOperator("s", (INT, TIMESTAMP)), ScanOperator("t", (INT, STRING))
    >>> join = VersionJoinOperator(s, t, 1, (0,), (0,))
    >>> stream = changes({"c0": [1], "c1": [5]}, [(5, 15, 1)])
    >>> table = changes({"c0": [1, 1], "c1": ["old", "new"]}, [(0, 6, 1), (6, 99, 1)])
    >>> join.increment([stream, table], join.empty_state([stream, table]), Slice(-1, 9)).output.rows()
    [(1, 5, 1, 'old', 5, 15, 1)]
    """

    left: Operator
    right: Operator
    timestamp: int
    left_keys: tuple[int, ...]
    right_keys: tuple[int, ...]
    nulls_equal: bool = False
    age: int = INFINITY

    def __post_init__(self) -> None:
        self._set_types(self.left.types + self.right.types)

    @property
    def input_columns(self) -> tuple[InputColumns, ...]:
        return side_by_side(len(self.left.types), len(self.right.types))

    @property
    def keys(self) -> tuple[tuple[int, ...], ...]:
        return two_inputs_key(self.left_keys, self.right_keys, len(self.left.types))

    def is_broadcast(self, number: int) -> bool:
        return number == 1 and not self.left_keys

    @property
    def state(self) -> tuple[StatePart, ...]:
        """A version is needed until it is replaced and no row can come whose timestamp lies in it."""
        text = "versions of the table"
        if self.age == INFINITY:
            return (StatePart("versions", text, INFINITY, growth=Growth.BY_UPDATE),)
        later = f" and {length_text(self.age + 1)} later" if self.age else ""
        return (StatePart("versions", text, until=f"until replaced{later}"),)

    def expiry(self, bound: int) -> int:
        return BEFORE_ALL if self.age == INFINITY else min(max(bound + 1 - self.age, BEFORE_ALL), INFINITY)

    def empty_state(self, new: Sequence[Frame]) -> dict[str, Frame]:
        return {"versions": on_the_right(new[1]).clear()}

    def increment(self, new: Sequence[Frame], state: State, slice_: Slice) -> Increment:
        keys = [column(i) for i in self.left_keys], [f"r{i}" for i in self.right_keys]
        at = column(self.timestamp)
        found = join_version(new[0], on_the_right(new[1]), state, at, *keys, self.nulls_equal)
        return Increment(by_position(found.output), found.added)

    def compact(self, part: str, rows: Frame, bound: int) -> Frame:
        return compact_versions(rows, [f"r{i}" for i in self.right_keys], bound)


def join_version(
    stream: Frame, table: Frame, state: State, timestamp: str, left_on: Sequence[str],
    right_on: Sequence[str], nulls_equal: bool = False,
) -> Increment:  # fmt: skip
    """Return the rows with the versions that they meet, and the new versions for the state."""
    stream = without_nulls(stream, [timestamp] if nulls_equal else [*left_on, timestamp])
    table = arranged(table if nulls_equal else without_nulls(table, right_on), right_on)
    instants = stream[timestamp].cast(pl.Int64).to_numpy()
    numbers = hashes(stream, left_on)
    met = []
    for versions in (state["versions"], table):
        if left_on:
            there, here = matches(versions, right_on, stream, left_on, numbers)
        else:
            there, here = _during(versions, instants)
        met.append(_versions(stream, here, instants, versions, there))
    output = stacked([rows for rows, _ in met])
    # A version that was put in and taken back again is none: its rows cancel.
    return Increment(
        consolidate_frame(output) if any(ended for _, ended in met) else output, {"versions": table}
    )


def _during(versions: Frame, instants: Ints) -> tuple[Ints, Ints]:
    """All versions with the rows of the stream that come while they hold."""
    order = np.argsort(instants)
    low, high = (np.searchsorted(instants[order], versions[c].to_numpy()) for c in (FROM, UNTIL))
    here, there = spread(low, np.maximum(low, high))
    return there, order[here]


def _versions(stream: Frame, here: Ints, instants: Ints, versions: Frame, there: Ints) -> tuple[Frame, bool]:
    """Of some rows and versions those where the version holds at the row's instant; has any been ended?"""
    found = versions[[FROM, UNTIL, N]][there]
    at = instants[here]
    kept = np.flatnonzero((found[FROM].to_numpy() <= at) & (at < found[UNTIL].to_numpy()))
    rows = stream[here[kept]]
    copies = found[N].to_numpy()[kept]
    table = versions[record_columns(versions)][there[kept]]
    columns = [*rows[record_columns(stream)].get_columns(), *table.get_columns()]
    n = rows[N].to_numpy() * copies
    return pl.DataFrame([*columns, rows[FROM], rows[UNTIL], pl.Series(N, n)]), bool((copies < 0).any())


def compact_versions(rows: Frame, right_on: Sequence[str], horizon: int) -> Frame:
    """The versions as rows that end where they were replaced; before the horizon nobody looks any more.

    >>> from everview.operators.columnar.frame import changes
    >>> table = changes({"id": [1, 1, 1]}, [(0, 99, 1), (6, 99, -1), (8, 99, 1)])
    >>> compact_versions(table, ["id"], 4).drop("_hash").rows(), compact_versions(table, ["id"], 6).height
    ([(1, 4, 6, 1), (1, 8, 99, 1)], 1)
    """
    since = rows[FROM].to_numpy().clip(min=horizon)
    until, n = rows[UNTIL].to_numpy(), rows[N].to_numpy()
    held = np.flatnonzero(since < until)
    rows, since, until, n = rows[held], since[held], until[held], n[held]
    columns = record_columns(rows)
    groups = grouped(rows, columns, hashes(rows, columns))
    ids = np.concatenate([groups.ids, groups.ids])
    times, counts = np.concatenate([since, until]), np.concatenate([n, -n])
    order, firsts = in_time_order(ids, times)
    copies = np.cumsum(np.add.reduceat(counts[order], firsts)) if len(order) else counts
    ids, times = ids[order][firsts], times[order][firsts]
    closed = constant_pieces(rows[groups.firsts], columns, ids, times, copies, group_starts(ids))
    return arranged(closed, right_on)
