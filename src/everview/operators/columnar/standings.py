"""Rows of partitions in their order, at each instant of a slice at which that changes.

A record has a *code*, its place in the order of all records of its partition, and a *peer* number, which
records with equal sort keys share. While its number of copies is constant it is a *piece*, over a stretch of
the *leaves*: the instants of the slice at which its partition changes, and the instant before the slice.

Which pieces hold at a leaf is found for all leaves at once, by a segment tree over them: a stretch is the
union of few nodes, and a node hands its pieces to its two children. With a limit only those that can be
within it are handed on, so that the work is that of the limit times the changes. Pieces that hold during
the whole slice are counted first: those behind the limit, and changes behind it, are left out before any leaf
is made. So are those before the first change, whose places stay the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from everview.algebra.over import RankLimit
from everview.algebra.time import INFINITY
from everview.operators.columnar.frame import FROM, UNTIL, Frame, N, Slice, group_starts
from everview.operators.columnar.hashing import Ints, to_ordered_bits
from everview.operators.columnar.lazy import np, pl
from everview.operators.columnar.timeline import Bools, sort_by_time

_MOST = 1 << 20  # places that are worked out at once
_MOST_NEAR = 1 << 17  # the same, where most places are left out if few leaves are looked at
_FEW_LEAVES = 64  # so few are never divided


@dataclass(frozen=True)
class SortColumn:
    """A column that rows are ordered by."""

    position: int
    descending: bool
    nulls_first: bool


@dataclass(frozen=True)
class OrderedRecords:
    """Records in the order of their partitions: the code of each row; peer, partition and a row of a code."""

    codes: Ints
    peers: Ints
    parts: Ints
    rows: Ints


@dataclass(frozen=True)
class HeldPieces:
    """How often a record holds (`counts`) at the leaves from `begins` up to but not including `ends`.

    They are sorted by code. A partition has the leaves from its entry in `starts` to the next one.
    """

    codes: Ints
    begins: Ints
    ends: Ints
    counts: Ints
    starts: Ints
    times: Ints

    def take(self, kept: Ints | Bools) -> HeldPieces:
        """Return some of the pieces."""
        return HeldPieces(
            self.codes[kept], self.begins[kept], self.ends[kept], self.counts[kept], self.starts, self.times
        )

    @property
    def leaves(self) -> int:
        return len(self.times)


@dataclass(frozen=True)
class Standings:
    """The pieces that hold at each leaf, in order, and how many rows and peers come before each.

    `peers_before` counts rows before all peers, `distinct_before` different peers.
    """

    pieces: HeldPieces
    leaves: Ints
    numbers: Ints
    before: Ints
    peers_before: Ints
    distinct_before: Ints

    @property
    def codes(self) -> Ints:
        return self.pieces.codes[self.numbers]

    @property
    def counts(self) -> Ints:
        return self.pieces.counts[self.numbers]

    def standing(self, function: str) -> Ints:
        """Return how far from the first place each piece is, by a rank function."""
        by = {"row_number": self.before, "rank": self.peers_before, "dense_rank": self.distinct_before}
        return by[function]


def order_records(
    rows: Frame, parts: Ints, order: Sequence[tuple[str, bool, bool]], ties: Sequence[str]
) -> OrderedRecords:
    """Sort rows by partition, by the columns of `order` (name, descending, NULLs first), and by `ties`.

    >>> rows = pl.DataFrame({"v": [3, None, 5, 3], "w": [1, 1, 1, 0]})
    >>> found = order_records(rows, np.zeros(4, np.int64), [("v", True, False)], ["w"])
    >>> found.codes.tolist(), found.peers.tolist()
    ([2, 3, 0, 1], [0, 1, 1, 2])
    """
    named = [(name, descending, not first) for name, descending, first in order]
    named += [(name, False, False) for name in ties if all(name != known for known, _, _ in order)]
    columns = [_sortable(rows.get_column(name)).alias(f"_{i}") for i, (name, _, _) in enumerate(named)]
    keys = pl.DataFrame([pl.Series("_part", parts), *columns])
    directions = [False, *(descending for _, descending, _ in named)]
    nulls_last = [False, *(last for _, _, last in named)]
    by = keys.select(pl.arg_sort_by(keys.columns, descending=directions, nulls_last=nulls_last))
    places = by.to_series().to_numpy().astype(np.int64)
    ordered = keys[places]
    another_peer = _differs_from_previous(ordered, 1 + len(order))
    another = another_peer | _differs_from_previous(ordered, len(ordered.columns))
    codes = np.empty(len(places), dtype=np.int64)
    codes[places] = np.cumsum(another) - 1
    firsts = np.flatnonzero(another)
    peers = np.cumsum(another_peer) - 1
    return OrderedRecords(codes, peers[firsts], parts[places[firsts]], places[firsts])


def _sortable(values: pl.Series) -> pl.Series:
    """Return values that Polars sorts and compares as Spark does: one NaN, the greatest, and no -0.0."""
    if not values.dtype.is_float():
        return values
    bits = pl.Series(to_ordered_bits(values.fill_null(0.0).cast(pl.Float64).to_numpy()))
    return (
        bits if not values.null_count() else pl.select(pl.when(values.is_not_null()).then(bits)).to_series()
    )


def _differs_from_previous(ordered: Frame, columns: int) -> Bools:
    differs = np.zeros(ordered.height, dtype=bool)
    differs[:1] = True
    for column in ordered.get_columns()[:columns]:
        differs[1:] |= column[1:].ne_missing(column[:-1]).to_numpy()
    return differs


def find_pieces(rows: Frame, records: OrderedRecords, count: int, slice_: Slice) -> HeldPieces:
    """Return how often each record holds in the slice; `count` is the number of partitions."""
    after = min(slice_.b1 + 1, INFINITY)
    begins = np.maximum(rows[FROM].to_numpy(), slice_.b0)
    ends = np.minimum(rows[UNTIL].to_numpy(), after)
    alive = np.flatnonzero(begins < ends)
    ended = alive[ends[alive] < after]
    codes = np.concatenate([records.codes[alive], records.codes[ended]])
    times = np.concatenate([begins[alive], ends[ended]])
    n = rows[N].to_numpy()
    changes = np.concatenate([n[alive], -n[ended]])
    order, firsts = sort_by_time(codes, times)
    codes, times = codes[order][firsts], times[order][firsts]
    each = np.add.reduceat(changes[order], firsts) if len(firsts) else changes
    changed = each != 0
    codes, times, each = codes[changed], times[changed], each[changed]
    starts = group_starts(codes)
    total = np.cumsum(each)
    counts = total - (total - each)[starts][np.cumsum(starts) - 1]
    until = np.full(len(times), after)
    until[:-1] = np.where(starts[1:], after, times[1:])
    shown = np.flatnonzero(counts > 0)
    return _on_leaves(codes[shown], times[shown], until[shown], counts[shown], records, count, slice_)


def _on_leaves(
    codes: Ints, since: Ints, until: Ints, counts: Ints, records: OrderedRecords, count: int, slice_: Slice
) -> HeldPieces:
    """Return pieces over leaves instead of instants: those at which one of them begins or ends."""
    parts = records.parts[codes]
    ended = np.flatnonzero(until <= slice_.b1)
    ids = np.concatenate([np.arange(count), parts, parts[ended]])
    times = np.concatenate([np.full(count, slice_.b0), since, until[ended]])
    order, firsts = sort_by_time(ids, times)
    leaf = np.empty(len(ids), dtype=np.int64)
    first = np.zeros(len(ids), dtype=bool)
    first[firsts] = True
    leaf[order] = np.cumsum(first) - 1
    starts = np.searchsorted(ids[order][firsts], np.arange(count + 1))
    ends = starts[parts + 1]
    ends[ended] = leaf[count + len(parts) :]
    return HeldPieces(codes, leaf[count : count + len(parts)], ends, counts, starts, times[order][firsts])


@dataclass(frozen=True)
class Reach:
    """How far from a change rows matter: so many rows, and the codes from `low` up to but not `high`.

    `low` and `high` are by the code of what changes; None: only `rows` count.
    """

    rows: int
    low: Ints | None = None
    high: Ints | None = None


def find_places(
    pieces: HeldPieces,
    records: OrderedRecords,
    bound: RankLimit | None,
    whole: bool = False,
    reach: Reach | None = None,
) -> Iterator[Standings]:
    """Yield the places of all pieces that change, or whose places may change, a stretch of leaves at a time.

    Within a stretch, the first leaf of a partition is as it was before. With `whole`, a partition that
    changes has all its pieces, or those within reach of a change.
    """
    none = np.zeros(len(pieces.starts) - 1, dtype=np.int64)
    yield from _divide(pieces, records, bound, whole, reach, none, none)


def _divide(
    pieces: HeldPieces,
    records: OrderedRecords,
    bound: RankLimit | None,
    whole: bool,
    reach: Reach | None,
    before: Ints,
    distinct: Ints,
) -> Iterator[Standings]:
    """Yield the places of pieces; `before` and `distinct` count what was left out before them."""
    pieces, before, distinct = _leave_out(pieces, records, bound, whole, reach, before, distinct)
    if not len(pieces.codes):
        return
    size = int((pieces.ends - pieces.begins).sum())
    if bound is not None:
        size = min(size, bound.count * pieces.leaves)
    if size > (_MOST if reach is None else _MOST_NEAR) and pieces.leaves > _FEW_LEAVES:
        # Each half again leaves out what does not change in it. They overlap by one leaf.
        middle = pieces.leaves // 2
        for low, high in ((0, middle), (middle - 1, pieces.leaves)):
            yield from _divide(_cut(pieces, low, high), records, bound, whole, reach, before, distinct)
        return
    parts = records.parts[pieces.codes]
    at, numbers = _pieces_at(pieces, records, bound, before[parts], distinct[parts])
    yield _place(pieces, records, at, numbers, before[parts], distinct[parts])


def _cut(pieces: HeldPieces, low: int, high: int) -> HeldPieces:
    """Return the pieces of some leaves only."""
    begins, ends = np.clip(pieces.begins, low, high) - low, np.clip(pieces.ends, low, high) - low
    cut = HeldPieces(
        pieces.codes,
        begins,
        ends,
        pieces.counts,
        np.clip(pieces.starts, low, high) - low,
        pieces.times[low:high],
    )
    return cut.take(begins < ends)


def _leave_out(
    pieces: HeldPieces,
    records: OrderedRecords,
    bound: RankLimit | None,
    whole: bool,
    reach: Reach | None,
    rows: Ints,
    different: Ints,
) -> tuple[HeldPieces, Ints, Ints]:
    """Leave out pieces that are never within the bound or whose places stay the same, and unused leaves.

    Also return how many rows and how many different peers come before the rest of each partition; `rows` and
    `different` came before all these pieces.
    """
    count = len(pieces.starts) - 1
    parts, peers = records.parts[pieces.codes], records.peers[pieces.codes]
    first, last = pieces.starts[parts], pieces.starts[parts + 1]
    constant = (pieces.begins == first) & (pieces.ends == last)
    peer_starts = np.flatnonzero(group_starts(peers))
    of_peer = np.repeat(peer_starts, np.diff(np.append(peer_starts, len(peers))))
    part_starts = np.searchsorted(parts, np.arange(count))
    before = _sum_before(np.where(constant, pieces.counts, 0), part_starts, parts) + rows[parts]
    steady_peer = np.zeros(len(peers), dtype=np.int64)
    if len(peer_starts):
        steady_peer[peer_starts] = np.maximum.reduceat(constant, peer_starts)
    distinct = _sum_before(steady_peer, part_starts, parts)[of_peer] + different[parts]
    kept = np.ones(len(peers), dtype=bool)
    if bound is not None:
        ahead = before if bound.function == "row_number" else before[of_peer]
        kept = (distinct if bound.function == "dense_rank" else ahead) < bound.count
    changing = np.flatnonzero(kept & ~constant)
    first_change = np.full(count, -1, dtype=np.int64)
    first_change[parts[changing[::-1]]] = changing[::-1]
    kept &= first_change[parts] >= 0
    rows_before, distinct_before = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.int64)
    if not whole:
        active = np.flatnonzero(first_change >= 0)
        at = of_peer[first_change[active]]
        rows_before[active], distinct_before[active] = before[at], distinct[at]
        kept &= peers >= peers[first_change[parts]]
    elif reach is not None:
        kept &= _within_reach(pieces, reach, parts, constant, before, first_change)
    used = np.zeros(pieces.leaves, dtype=bool)
    used[pieces.starts[:-1][first_change >= 0]] = True
    used[pieces.begins[changing]] = True
    used[pieces.ends[changing][pieces.ends[changing] < last[changing]]] = True
    number = np.append(0, np.cumsum(used))
    rest = replace(pieces, starts=number[pieces.starts], times=pieces.times[used]).take(kept)
    rest = replace(rest, begins=number[rest.begins], ends=number[rest.ends])
    return rest, rows_before, distinct_before


def _within_reach(
    pieces: HeldPieces, reach: Reach, parts: Ints, constant: Bools, before: Ints, first_change: Ints
) -> Bools:
    """Return which pieces of partitions that change are within reach of a change, or between two.

    `before` counts the constant rows before each piece: those that are there at all leaves.
    """
    changing = np.flatnonzero(~constant)
    last_change = np.full(len(first_change), -1, dtype=np.int64)
    last_change[parts[changing]] = changing
    first, last = first_change[parts], last_change[parts]
    after = before + np.where(constant, pieces.counts, 0)
    near = (after > before[first] - reach.rows) & (before - before[last] < reach.rows)
    number = np.arange(len(parts))
    near |= (number >= first) & (number <= last)
    if reach.low is not None and reach.high is not None:
        codes = pieces.codes
        near |= (codes >= reach.low[codes[first]]) & (codes < reach.high[codes[last]])
    return near


def _sum_before(values: Ints, part_starts: Ints, parts: Ints) -> Ints:
    """Return the sum of the values before each one in its partition."""
    before = np.append(0, np.cumsum(values))
    total: Ints = before[:-1] - before[part_starts][parts]
    return total


def _pieces_at(
    pieces: HeldPieces, records: OrderedRecords, bound: RankLimit | None, before: Ints, distinct: Ints
) -> tuple[Ints, Ints]:
    """Return the pieces that hold at each leaf, as pairs of leaf and piece, sorted."""
    assigned = _assign_to_nodes(pieces.begins, pieces.ends)
    nodes = numbers = np.zeros(0, dtype=np.int64)
    for height in range(len(assigned) - 1, -1, -1):
        nodes = np.concatenate([2 * nodes, 2 * nodes + 1, assigned[height][0]])
        numbers = np.concatenate([numbers, numbers, assigned[height][1]])
        inside = np.flatnonzero((nodes << height) < pieces.leaves)
        nodes, numbers = nodes[inside], numbers[inside]
        if bound is not None or height == 0:
            order = np.argsort(nodes * len(pieces.codes) + numbers)
            nodes, numbers = nodes[order], numbers[order]
        if bound is not None:
            standing = _place(pieces, records, nodes, numbers, before, distinct).standing(bound.function)
            within = standing < bound.count
            nodes, numbers = nodes[within], numbers[within]
    return nodes, numbers


def _assign_to_nodes(begins: Ints, ends: Ints) -> list[tuple[Ints, Ints]]:
    """Return for each height of the tree the nodes that stretches consist of, and their stretches."""
    low, high, which = begins, ends, np.arange(len(begins))
    found = []
    while True:
        odd_low, odd_high = np.flatnonzero(low & 1), np.flatnonzero(high & 1)
        nodes = np.concatenate([low[odd_low], high[odd_high] - 1])
        found.append((nodes, np.concatenate([which[odd_low], which[odd_high]])))
        low, high = (low + 1) >> 1, high >> 1
        rest = np.flatnonzero(low < high)
        if not len(rest):
            return found
        low, high, which = low[rest], high[rest], which[rest]


def _place(
    pieces: HeldPieces, records: OrderedRecords, nodes: Ints, numbers: Ints, before: Ints, distinct: Ints
) -> Standings:
    """Return the places of pieces that are sorted by node and code."""
    counts, peers = pieces.counts[numbers], records.peers[pieces.codes[numbers]]
    starts = group_starts(nodes)
    peer_starts = starts.copy()
    peer_starts[1:] |= peers[1:] != peers[:-1]
    node, peer = np.cumsum(starts) - 1, np.cumsum(peer_starts) - 1
    sums = np.cumsum(counts) - counts
    rows = sums - sums[starts][node] + before[numbers]
    different = peer - peer[starts][node] + distinct[numbers]
    return Standings(pieces, nodes, numbers, rows, rows[peer_starts][peer], different)
