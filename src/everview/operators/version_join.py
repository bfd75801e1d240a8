"""Version join: a stream with the version of a table at the row's own timestamp (⋈NRR; paper 2, 4.1).

Later updates of the table do not change the result, so that the stream is not kept. A retraction joins the
same version as the row that it retracts: that at its timestamp. So a version is kept as long as rows with a
timestamp in it can still arrive.
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
    join_input_columns,
    join_key,
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
    consolidate_frame,
    group_starts,
    name_by_position,
    name_right_columns,
    record_columns,
    stack_frames,
)
from everview.operators.columnar.hashing import Ints, hash_keys
from everview.operators.columnar.keys import expand_ranges, group_rows, match_keys, sort_by_key
from everview.operators.columnar.lazy import np, pl
from everview.operators.columnar.pairs import drop_null_rows
from everview.operators.columnar.timeline import constant_pieces, sort_by_time


@dataclass(frozen=True, eq=False)
class VersionJoinOperator(StatefulOperator):
    """The rows of a stream with the version of a table at their own timestamp; their intervals stay.

    State: the versions of the table. `age` is how far before the bound the timestamps of future rows can
    be: a version is kept that long after it was replaced.

    >>> from everview.algebra.types import INT, STRING, TIMESTAMP
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.scan import ScanOperator
    >>> s, t = ScanOperator("s", (INT, TIMESTAMP)), ScanOperator("t", (INT, STRING))
    >>> join = VersionJoinOperator(s, t, 1, (0,), (0,))
    >>> stream = make_frame({"c0": [1], "c1": [5]}, [(5, 15, 1)])
    >>> table = make_frame({"c0": [1, 1], "c1": ["old", "new"]}, [(0, 6, 1), (6, 99, 1)])
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
        return join_input_columns(len(self.left.types), len(self.right.types))

    @property
    def keys(self) -> tuple[tuple[int, ...], ...]:
        return join_key(self.left_keys, self.right_keys, len(self.left.types))

    def is_broadcast(self, number: int) -> bool:
        return number == 1 and not self.left_keys

    @property
    def state(self) -> tuple[StatePart, ...]:
        """The versions; each is kept until it is replaced and no row with a timestamp in it can arrive."""
        text = "versions of the table"
        if self.age == INFINITY:
            return (StatePart("versions", text, INFINITY, growth=Growth.BY_UPDATE),)
        later = f" and {length_text(self.age + 1)} later" if self.age else ""
        return (StatePart("versions", text, until=f"until replaced{later}"),)

    def expiry(self, bound: int) -> int:
        return BEFORE_ALL if self.age == INFINITY else min(max(bound + 1 - self.age, BEFORE_ALL), INFINITY)

    def empty_state(self, new: Sequence[Frame]) -> dict[str, Frame]:
        return {"versions": name_right_columns(new[1]).clear()}

    def increment(self, new: Sequence[Frame], state: State, slice_: Slice) -> Increment:
        keys = [column(i) for i in self.left_keys], [f"r{i}" for i in self.right_keys]
        at = column(self.timestamp)
        found = join_version(new[0], name_right_columns(new[1]), state, at, *keys, self.nulls_equal)
        return Increment(name_by_position(found.output), found.added)

    def compact(self, part: str, rows: Frame, bound: int) -> Frame:
        return compact_versions(rows, [f"r{i}" for i in self.right_keys], bound)


def join_version(
    stream: Frame, table: Frame, state: State, timestamp: str, left_on: Sequence[str],
    right_on: Sequence[str], nulls_equal: bool = False,
) -> Increment:  # fmt: skip
    """Return the rows joined with their versions, and the new versions for the state."""
    stream = drop_null_rows(stream, [timestamp] if nulls_equal else [*left_on, timestamp])
    table = sort_by_key(table if nulls_equal else drop_null_rows(table, right_on), right_on)
    instants = stream[timestamp].cast(pl.Int64).to_numpy()
    numbers = hash_keys(stream, left_on)
    met = []
    for versions in (state["versions"], table):
        if left_on:
            there, here = match_keys(versions, right_on, stream, left_on, numbers)
        else:
            there, here = _match_all_keys(versions, instants)
        met.append(_keep_valid(stream, here, instants, versions, there))
    output = stack_frames([rows for rows, _ in met])
    # The pairs of a version that was inserted and retracted cancel.
    return Increment(
        consolidate_frame(output) if any(ended for _, ended in met) else output, {"versions": table}
    )


def _match_all_keys(versions: Frame, instants: Ints) -> tuple[Ints, Ints]:
    """Return all versions with the rows of the stream whose timestamp is in their interval."""
    order = np.argsort(instants)
    low, high = (np.searchsorted(instants[order], versions[c].to_numpy()) for c in (FROM, UNTIL))
    here, there = expand_ranges(low, np.maximum(low, high))
    return there, order[here]


def _keep_valid(
    stream: Frame, here: Ints, instants: Ints, versions: Frame, there: Ints
) -> tuple[Frame, bool]:
    """Return the pairs whose version holds at the row's instant, and whether any version has negative n."""
    found = versions[[FROM, UNTIL, N]][there]
    at = instants[here]
    kept = np.flatnonzero((found[FROM].to_numpy() <= at) & (at < found[UNTIL].to_numpy()))
    rows = stream[here[kept]]
    multiplicity = found[N].to_numpy()[kept]
    table = versions[record_columns(versions)][there[kept]]
    columns = [*rows[record_columns(stream)].get_columns(), *table.get_columns()]
    n = rows[N].to_numpy() * multiplicity
    return pl.DataFrame([*columns, rows[FROM], rows[UNTIL], pl.Series(N, n)]), bool((multiplicity < 0).any())


def compact_versions(rows: Frame, right_on: Sequence[str], horizon: int) -> Frame:
    """Return the versions as rows that end where they were replaced; instants before the horizon are dropped.

    >>> from everview.operators.columnar.frame import make_frame
    >>> table = make_frame({"id": [1, 1, 1]}, [(0, 99, 1), (6, 99, -1), (8, 99, 1)])
    >>> compact_versions(table, ["id"], 4).drop("_hash").rows(), compact_versions(table, ["id"], 6).height
    ([(1, 4, 6, 1), (1, 8, 99, 1)], 1)
    """
    since = rows[FROM].to_numpy().clip(min=horizon)
    until, n = rows[UNTIL].to_numpy(), rows[N].to_numpy()
    held = np.flatnonzero(since < until)
    rows, since, until, n = rows[held], since[held], until[held], n[held]
    columns = record_columns(rows)
    groups = group_rows(rows, columns, hash_keys(rows, columns))
    ids = np.concatenate([groups.ids, groups.ids])
    times, counts = np.concatenate([since, until]), np.concatenate([n, -n])
    order, firsts = sort_by_time(ids, times)
    multiplicity = np.cumsum(np.add.reduceat(counts[order], firsts)) if len(order) else counts
    ids, times = ids[order][firsts], times[order][firsts]
    closed = constant_pieces(rows[groups.firsts], columns, ids, times, multiplicity, group_starts(ids))
    return sort_by_key(closed, right_on)
