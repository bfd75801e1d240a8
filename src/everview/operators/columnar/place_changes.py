"""What changes among the rows of partitions with the values that they have by their places, leaf by leaf."""

from __future__ import annotations

from dataclasses import dataclass

from everview.operators.columnar.frame import group_starts
from everview.operators.columnar.hashing import Ints
from everview.operators.columnar.lazy import np
from everview.operators.columnar.standings import OrderedRecords, Standings
from everview.operators.columnar.timeline import next_instants


@dataclass(frozen=True)
class PlaceChanges:
    """Rows that are emitted or retracted: code, values, begin, end, n; and codes shown before the slice."""

    codes: Ints
    values: list[Ints]
    since: Ints
    until: Ints
    n: Ints
    before: Ints


def place_differences(
    places: Standings, records: OrderedRecords, which: Ints, values: list[Ints], counts: Ints, before: int
) -> PlaceChanges:
    """Return how the counts of (record, values) differ from those at the first leaf of their partition.

    `before` is the instant before the slice.
    """
    pieces = places.pieces
    codes, leaves = places.codes[which], places.leaves[which]
    shown_before = codes[pieces.times[leaves] == before]
    order = np.lexsort((leaves, *reversed(values), codes))
    codes, leaves, counts = codes[order], leaves[order], counts[order]
    values = [column[order] for column in values]
    starts = group_starts(codes)
    for column in values:
        starts[1:] |= column[1:] != column[:-1]
    ids = np.cumsum(starts) - 1
    again = np.zeros(len(ids), dtype=bool)  # another copy with the same values
    again[1:] = (ids[1:] == ids[:-1]) & (leaves[1:] == leaves[:-1])
    if again.any():
        firsts = np.flatnonzero(~again)
        counts = np.add.reduceat(counts, firsts)
        codes, leaves, ids = codes[firsts], leaves[firsts], ids[firsts]
        values = [column[firsts] for column in values]
    parts = records.parts[codes]
    first, last = pieces.starts[parts], pieces.starts[parts + 1]
    # A row that is not there at the next leaf counts zero from there on.
    following = np.full(len(ids), -1, dtype=np.int64)
    following[:-1] = np.where(ids[1:] == ids[:-1], leaves[1:], -1)
    gone = (following != leaves + 1) & (leaves + 1 < last)
    at = np.repeat(np.arange(len(ids)), 1 + gone)
    is_gap = np.zeros(len(at), dtype=bool)
    is_gap[1:] = at[1:] == at[:-1]
    was = np.zeros(int(ids[-1]) + 1 if len(ids) else 0, dtype=np.int64)
    at_first = leaves == first
    was[ids[at_first]] = counts[at_first]
    differs = np.where(is_gap, 0, counts[at]) - was[ids[at]]
    later = np.flatnonzero(is_gap | ~at_first[at])
    at, is_gap, differs = at[later], is_gap[later], differs[later]
    changed = np.ones(len(at), dtype=bool)
    changed[1:] = (differs[1:] != differs[:-1]) | (ids[at][1:] != ids[at][:-1])
    at, is_gap, differs = at[changed], is_gap[changed], differs[changed]
    since = pieces.times[leaves[at] + is_gap]
    until = next_instants(ids[at], since)
    shown = np.flatnonzero(differs)
    at = at[shown]
    return PlaceChanges(
        codes[at], [column[at] for column in values], since[shown], until[shown], differs[shown], shown_before
    )
