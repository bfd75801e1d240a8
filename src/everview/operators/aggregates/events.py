"""Begins and ends of rows in time order, per group, on top of the previous sums (paper 1, algorithm 8).

A row adds its contribution to the accumulators of its group when it begins, and subtracts it when it ends.
The events of a slice are summed in its step; later events wait in a queue, each until it is due. So the cost
of a step depends on the number of its events, not on the number of rows.

State: `queue` (future events, in time order) and sums (per group, the sum of all events so far: each step
adds that of its own events, and compaction sums them).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everview.algebra.time import INFINITY
from everview.operators.aggregates.accumulators import (
    Accumulator,
    Sums,
    find_accumulators,
    name_accumulators,
    narrow_limbs,
)
from everview.operators.columnar.frame import FROM, HASH, UNTIL, Frame, Slice, find_repeated, group_starts
from everview.operators.columnar.hashing import Ints, combine_hashes, hash_keys
from everview.operators.columnar.keys import Groups, group_rows, key_hashes, match_keys, pick_keys
from everview.operators.columnar.lazy import np, pl
from everview.operators.columnar.timeline import Bools, sort_by_time


@dataclass(frozen=True)
class Events:
    """Begins and ends of rows: the row of `frame`, the hash of its key, the instant, the contribution."""

    frame: Frame
    rows: Ints
    hashes: Ints
    times: Ints
    adds: Sums

    @classmethod
    def of(cls, frame: Frame, keys: Sequence[str], adds: Sums, slice_: Slice) -> tuple[Events, Frame]:
        """Return the begins and ends of rows in the slice, and a queue of those after it."""
        numbers = hash_keys(frame, keys)
        since, until = frame[FROM].to_numpy(), frame[UNTIL].to_numpy()
        begun, ended = since <= slice_.b1, until <= slice_.b1
        finite = until < INFINITY
        rows, times, now = _begins_and_ends(since, until, adds, begun, ended & finite)
        events = cls(frame, rows, numbers[rows], times, now)
        rows, times, later = _begins_and_ends(since, until, adds, ~begun, ~ended & finite)
        order = np.argsort(times, kind="stable")
        rows = rows[order]
        columns = {
            HASH: numbers[rows],
            UNTIL: times[order],
            **{n: c[order] for n, c in name_accumulators(later).items()},
        }
        return events, pick_keys(frame, keys, rows, columns)

    @classmethod
    def due(cls, queue: Frame, keys: Sequence[str], slice_: Slice) -> Events:
        """Return the events of a queue that are due in the slice."""
        times = queue[UNTIL].to_numpy()
        wanted = (times > slice_.b0) & (times <= slice_.b1)
        due = queue if wanted.all() else queue.filter(wanted)
        adds = {a: _integers(column) for a, column in find_accumulators(due).items()}
        return cls(due, np.arange(due.height), key_hashes(due, keys), times[wanted], adds)


@dataclass(frozen=True)
class Steps:
    """The sums of each group after each instant that has an event.

    The first step of a group has its sums at b0. `groups` has the keys of each group, in the order of their
    hashes, and `grown` what the slice added to its sums.
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
        """Return what the slice added to the sums of the groups, as rows of a state that never end."""
        grown = narrow_limbs(self.grown)
        kept = np.flatnonzero(_any_nonzero(grown, len(self.hashes)))
        forever = np.full(len(kept), INFINITY)
        columns = {
            HASH: self.hashes[kept],
            UNTIL: forever,
            **{n: c[kept] for n, c in name_accumulators(grown).items()},
        }
        return pick_keys(self.groups, keys, kept, columns)


def _begins_and_ends(
    since: Ints, until: Ints, adds: Sums, begins: Bools, ends: Bools
) -> tuple[Ints, Ints, dict[Accumulator, Ints]]:
    """Return the begins of some rows and the ends of others: row, instant, and contribution."""
    first, last = np.flatnonzero(begins), np.flatnonzero(ends)
    both = {name: np.concatenate([column[first], -column[last]]) for name, column in adds.items()}
    return np.concatenate([first, last]), np.concatenate([since[first], until[last]]), both


def sum_events(events: Sequence[Events], sums: Frame, keys: Sequence[str], b0: int) -> Steps:
    """Sum all events in time order per group, on top of the previous sums."""
    group_keys, groups = _groups(events, keys)
    times = np.concatenate([e.times for e in events])
    order, firsts = sort_by_time(groups.ids, times)
    ids = groups.ids[order][firsts]
    starts = group_starts(ids)
    previous = _sums_before(sums, group_keys, keys, groups.hashes)
    # The steps of each group: first its sums at b0, then its instants.
    positions = np.arange(len(ids)) + ids + 1
    size = len(ids) + len(groups.hashes)
    first = np.ones(size, dtype=bool)
    first[positions] = False
    out: dict[Accumulator, Ints] = {}
    grown: dict[Accumulator, Ints] = {}
    for name in dict.fromkeys([*previous, *(name for e in events for name in e.adds)]):
        adds = np.concatenate([e.adds.get(name, np.zeros(len(e.times), dtype=np.int64)) for e in events])
        total, before, grown[name] = _running(adds[order], firsts, starts)
        base = previous.get(name, np.zeros(len(groups.hashes), dtype=np.int64))
        out[name] = np.empty(size, dtype=np.int64)
        out[name][first] = base
        out[name][positions] = total + (base - before)[ids]
    all_ids, all_times = np.empty(size, dtype=np.int64), np.full(size, b0)
    all_ids[first], all_ids[positions] = np.arange(len(groups.hashes)), ids
    all_times[positions] = times[order][firsts]
    return Steps(group_keys, groups.hashes, all_ids, all_times, first, out, grown)


def _groups(events: Sequence[Events], keys: Sequence[str]) -> tuple[Frame, Groups]:
    """Return the keys of the groups of all events, and the groups."""
    numbers = np.concatenate([e.hashes for e in events])
    if not keys:
        some = np.zeros(min(len(numbers), 1), dtype=np.int64)
        return pl.DataFrame(), Groups(numbers, some, some)
    frame = pl.concat([e.frame[list(keys)] for e in events])
    offsets = np.cumsum([0, *(e.frame.height for e in events)])
    rows = np.concatenate([e.rows + offset for e, offset in zip(events, offsets, strict=False)])
    picked = frame[rows]
    groups = group_rows(picked, keys, numbers)
    return picked[groups.firsts], groups


def _running(adds: Ints, firsts: Ints, starts: Bools) -> tuple[Ints, Ints, Ints]:
    """Return the sum after each instant over all groups, that before each group, and that of each group."""
    if not len(adds):
        return adds, adds, adds
    each = np.add.reduceat(adds, firsts)
    total = np.cumsum(each)
    begins = np.flatnonzero(starts)
    before = total[begins] - each[begins]
    return total, before, np.diff(np.append(before, total[-1]))


def _sums_before(sums: Frame, groups: Frame, keys: Sequence[str], numbers: Ints) -> dict[Accumulator, Ints]:
    """Return the sums of the groups before the slice."""
    if keys:
        rows, which = match_keys(sums, keys, groups, keys, numbers)
        sums = sums[rows]
    else:
        which = np.zeros(sums.height, dtype=np.int64)
    out = {}
    for accumulator, column in find_accumulators(sums).items():
        out[accumulator] = np.zeros(len(numbers), dtype=np.int64)
        if len(numbers):
            np.add.at(out[accumulator], which, _integers(column))
    return out


def _integers(column: pl.Series) -> Ints:
    """Return the column of an accumulator, with zero for NULL."""
    return (column.fill_null(0) if column.null_count() else column).to_numpy()


def _any_nonzero(columns: Sums, size: int) -> Bools:
    found = np.zeros(size, dtype=bool)
    for column in columns.values():
        found |= column != 0
    return found


def compact_events(rows: Frame, keys: Sequence[str], by_time: bool, keeps_instants: bool = False) -> Frame:
    """Sum rows of equal key, with `by_time` of equal key and instant, and drop zeros.

    MIN and MAX need the instant even if the sum is zero: a row that ends as another begins may change them.
    """
    numbers = key_hashes(rows, keys)
    rows = rows.with_columns(pl.Series(HASH, numbers))
    repeated = find_repeated(combine_hashes([numbers, rows[UNTIL].to_numpy()]))
    if repeated.any():
        apart = rows.filter(~repeated)
        added_up = _sum_rows(rows.filter(repeated), keys, by_time, keeps_instants)
        rows = pl.concat([apart, added_up], how="diagonal")
    order = rows[UNTIL if by_time else HASH].to_numpy()
    return rows if (order[1:] >= order[:-1]).all() else rows[np.argsort(order)]


def _sum_rows(rows: Frame, keys: Sequence[str], by_time: bool, keeps_instants: bool) -> Frame:
    both = [*keys, UNTIL] if by_time else list(keys)
    groups = group_rows(rows, both, hash_keys(rows, both) if by_time else rows[HASH].to_numpy())
    order = np.argsort(groups.ids)
    firsts = np.flatnonzero(group_starts(groups.ids[order]))
    sums = narrow_limbs(
        {a: np.add.reduceat(_integers(c)[order], firsts) for a, c in find_accumulators(rows).items()}
    )
    size = len(firsts)
    kept = np.arange(size) if keeps_instants else np.flatnonzero(_any_nonzero(sums, size))
    first_rows = groups.firsts[kept]
    columns = {HASH: rows[HASH].to_numpy()[first_rows], UNTIL: rows[UNTIL].to_numpy()[first_rows]}
    return pick_keys(
        rows, keys, first_rows, {**columns, **{n: c[kept] for n, c in name_accumulators(sums).items()}}
    )
