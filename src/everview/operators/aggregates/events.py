"""Begins and ends of rows in time order, per group, on top of what was carried over (paper 1, algorithm 8).

A row adds something to the accumulators of its group when it begins, and takes it away when it ends. What
happens in a slice is worked out in it; what is to come waits in a queue, an event alive until it is due.
So the work of a step is that of what begins and ends in it, however much there is in all.

State: `queue` (events to come, in the order of time), and sums (per group what has been added so far: each
step adds what it has seen, and compaction adds that up).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everview.algebra.time import INFINITY
from everview.operators.aggregates.accumulators import (
    Accumulator,
    Sums,
    accumulators_of,
    as_columns,
    narrowed,
)
from everview.operators.columnar.frame import FROM, HASH, UNTIL, Frame, Slice, group_starts, occurs_twice
from everview.operators.columnar.hashing import Ints, combined, hashes
from everview.operators.columnar.keys import Groups, grouped, keyed, matches, numbers_of
from everview.operators.columnar.lazy import np, pl
from everview.operators.columnar.timeline import Bools, in_time_order


@dataclass(frozen=True)
class Events:
    """Who (a row of some frame that has the keys), the number of that key, when, and what is added."""

    frame: Frame
    rows: Ints
    hashes: Ints
    times: Ints
    adds: Sums

    @classmethod
    def of(cls, frame: Frame, keys: Sequence[str], adds: Sums, slice_: Slice) -> tuple[Events, Frame]:
        """The begins and ends of rows in the slice, and a queue of those after it."""
        numbers = hashes(frame, keys)
        since, until = frame[FROM].to_numpy(), frame[UNTIL].to_numpy()
        begun, ended = since <= slice_.b1, until <= slice_.b1
        finite = until < INFINITY
        rows, times, now = _both(since, until, adds, begun, ended & finite)
        events = cls(frame, rows, numbers[rows], times, now)
        rows, times, later = _both(since, until, adds, ~begun, ~ended & finite)
        order = np.argsort(times, kind="stable")
        rows = rows[order]
        columns = {
            HASH: numbers[rows],
            UNTIL: times[order],
            **{n: c[order] for n, c in as_columns(later).items()},
        }
        return events, keyed(frame, keys, rows, columns)

    @classmethod
    def due(cls, queue: Frame, keys: Sequence[str], slice_: Slice) -> Events:
        """The events of a queue that are due in the slice."""
        times = queue[UNTIL].to_numpy()
        wanted = (times > slice_.b0) & (times <= slice_.b1)
        due = queue if wanted.all() else queue.filter(wanted)
        adds = {a: _integers(column) for a, column in accumulators_of(due).items()}
        return cls(due, np.arange(due.height), numbers_of(due, keys), times[wanted], adds)


@dataclass(frozen=True)
class Steps:
    """The sums of each group after each instant at which something happens.

    The first step of a group is what was carried over, as at b0. `groups` has the keys of each group, in
    the order of their numbers, and `grown` what the slice added to its sums.
    """

    groups: Frame
    hashes: Ints
    ids: Ints
    times: Ints
    first: Bools
    sums: dict[Accumulator, Ints]
    grown: dict[Accumulator, Ints]

    @property
    def size(self) -> int:
        return len(self.ids)

    def added(self, keys: Sequence[str]) -> Frame:
        """What the sums of the groups grew by, as rows of a state that never end."""
        grown = narrowed(self.grown)
        kept = np.flatnonzero(_any_nonzero(grown, len(self.hashes)))
        forever = np.full(len(kept), INFINITY)
        columns = {
            HASH: self.hashes[kept],
            UNTIL: forever,
            **{n: c[kept] for n, c in as_columns(grown).items()},
        }
        return keyed(self.groups, keys, kept, columns)


def _both(
    since: Ints, until: Ints, adds: Sums, begins: Bools, ends: Bools
) -> tuple[Ints, Ints, dict[Accumulator, Ints]]:
    """The begins of some rows and the ends of others: whose, when, and what they add."""
    first, last = np.flatnonzero(begins), np.flatnonzero(ends)
    both = {name: np.concatenate([column[first], -column[last]]) for name, column in adds.items()}
    return np.concatenate([first, last]), np.concatenate([since[first], until[last]]), both


def steps(events: Sequence[Events], sums: Frame, keys: Sequence[str], b0: int) -> Steps:
    """All events in time order per group, on top of the sums so far."""
    who, groups = _groups(events, keys)
    times = np.concatenate([e.times for e in events])
    order, firsts = in_time_order(groups.ids, times)
    ids = groups.ids[order][firsts]
    starts = group_starts(ids)
    carried = _carried(sums, who, keys, groups.hashes)
    # Group by group, first what was carried over.
    places = np.arange(len(ids)) + ids + 1
    size = len(ids) + len(groups.hashes)
    first = np.ones(size, dtype=bool)
    first[places] = False
    out: dict[Accumulator, Ints] = {}
    grown: dict[Accumulator, Ints] = {}
    for name in dict.fromkeys([*carried, *(name for e in events for name in e.adds)]):
        adds = np.concatenate([e.adds.get(name, np.zeros(len(e.times), dtype=np.int64)) for e in events])
        total, before, grown[name] = _running(adds[order], firsts, starts)
        base = carried.get(name, np.zeros(len(groups.hashes), dtype=np.int64))
        out[name] = np.empty(size, dtype=np.int64)
        out[name][first] = base
        out[name][places] = total + (base - before)[ids]
    all_ids, all_times = np.empty(size, dtype=np.int64), np.full(size, b0)
    all_ids[first], all_ids[places] = np.arange(len(groups.hashes)), ids
    all_times[places] = times[order][firsts]
    return Steps(who, groups.hashes, all_ids, all_times, first, out, grown)


def _groups(events: Sequence[Events], keys: Sequence[str]) -> tuple[Frame, Groups]:
    """The groups of all events, and their keys."""
    numbers = np.concatenate([e.hashes for e in events])
    if not keys:
        some = np.zeros(min(len(numbers), 1), dtype=np.int64)
        return pl.DataFrame(), Groups(numbers, some, some)
    frame = pl.concat([e.frame[list(keys)] for e in events])
    offsets = np.cumsum([0, *(e.frame.height for e in events)])
    rows = np.concatenate([e.rows + offset for e, offset in zip(events, offsets, strict=False)])
    picked = frame[rows]
    groups = grouped(picked, keys, numbers)
    return picked[groups.firsts], groups


def _running(adds: Ints, firsts: Ints, starts: Bools) -> tuple[Ints, Ints, Ints]:
    """The sums after each instant over all groups, those before each group, and what each group adds."""
    if not len(adds):
        return adds, adds, adds
    each = np.add.reduceat(adds, firsts)
    total = np.cumsum(each)
    begins = np.flatnonzero(starts)
    before = total[begins] - each[begins]
    return total, before, np.diff(np.append(before, total[-1]))


def _carried(sums: Frame, groups: Frame, keys: Sequence[str], numbers: Ints) -> dict[Accumulator, Ints]:
    """What the groups' sums are before the slice."""
    if keys:
        rows, which = matches(sums, keys, groups, keys, numbers)
        sums = sums[rows]
    else:
        which = np.zeros(sums.height, dtype=np.int64)
    out = {}
    for accumulator, column in accumulators_of(sums).items():
        out[accumulator] = np.zeros(len(numbers), dtype=np.int64)
        if len(numbers):
            np.add.at(out[accumulator], which, _integers(column))
    return out


def _integers(column: pl.Series) -> Ints:
    """A column of an accumulator; in rows that do not have it, it is zero."""
    return (column.fill_null(0) if column.null_count() else column).to_numpy()


def _any_nonzero(columns: Sums, size: int) -> Bools:
    found = np.zeros(size, dtype=bool)
    for column in columns.values():
        found |= column != 0
    return found


def compact_events(rows: Frame, keys: Sequence[str], by_time: bool, keeps_instants: bool = False) -> Frame:
    """Sums, or events of one instant, added up; those that come to nothing are gone.

    MIN and MAX need the instant itself: a row that ends as another begins may change them.
    """
    numbers = numbers_of(rows, keys)
    rows = rows.with_columns(pl.Series(HASH, numbers))
    repeated = occurs_twice(combined([numbers, rows[UNTIL].to_numpy()]))
    if repeated.any():
        apart = rows.filter(~repeated)
        added_up = _added_up(rows.filter(repeated), keys, by_time, keeps_instants)
        rows = pl.concat([apart, added_up], how="diagonal")
    order = rows[UNTIL if by_time else HASH].to_numpy()
    return rows if (order[1:] >= order[:-1]).all() else rows[np.argsort(order)]


def _added_up(rows: Frame, keys: Sequence[str], by_time: bool, keeps_instants: bool) -> Frame:
    both = [*keys, UNTIL] if by_time else list(keys)
    groups = grouped(rows, both, hashes(rows, both) if by_time else rows[HASH].to_numpy())
    order = np.argsort(groups.ids)
    firsts = np.flatnonzero(group_starts(groups.ids[order]))
    sums = narrowed(
        {a: np.add.reduceat(_integers(c)[order], firsts) for a, c in accumulators_of(rows).items()}
    )
    size = len(firsts)
    kept = np.arange(size) if keeps_instants else np.flatnonzero(_any_nonzero(sums, size))
    places = groups.firsts[kept]
    columns = {HASH: rows[HASH].to_numpy()[places], UNTIL: rows[UNTIL].to_numpy()[places]}
    return keyed(rows, keys, places, {**columns, **{n: c[kept] for n, c in as_columns(sums).items()}})
