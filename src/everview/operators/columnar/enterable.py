"""Which rows can still be within the limit of a ranking: fewer better ones than the limit outlast them.

For a limit of one these are the rows that can still be the MAX. Of rows that are never retracted, all others
can be dropped.
"""

from __future__ import annotations

from everview.algebra.over import RankLimit
from everview.operators.columnar.frame import FROM, UNTIL, Frame, N, group_starts
from everview.operators.columnar.hashing import Ints
from everview.operators.columnar.lazy import np
from everview.operators.columnar.standings import OrderedRecords
from everview.operators.columnar.timeline import Bools


def find_enterable(rows: Frame, records: OrderedRecords, limit: RankLimit, bound: int) -> Bools:
    """Return which rows can be within the limit at an instant after the bound.

    A row cannot if rows that count `limit` in all come before it, have begun, and end no earlier.
    """
    until, since = rows[UNTIL].to_numpy(), rows[FROM].to_numpy()
    begun = since <= bound + 1
    codes = records.codes
    peers, parts = records.peers[codes], records.parts[codes]
    weights = np.where(begun, rows[N].to_numpy(), 0)
    ranks = peers
    match limit.function:
        case "row_number":
            ranks = np.empty_like(codes)
            ranks[np.lexsort((-until, codes))] = np.arange(len(codes))
        case "dense_rank":  # of peers, the one counts that ends last
            weights = np.zeros(len(codes), dtype=np.int64)
            order = np.lexsort((-until, ~begun, peers))
            last = order[group_starts(peers[order])]
            weights[last[begun[last]]] = 1
    alive = until > bound
    enterable: Bools = alive & (_sum_better(parts, ranks, until, np.where(alive, weights, 0)) < limit.count)
    return enterable


def _sum_better(parts: Ints, ranks: Ints, until: Ints, weights: Ints) -> Ints:
    """Return for each row the weights of rows of its partition with a lower rank that end no earlier."""
    order = np.lexsort((ranks, -until, parts))
    found = np.empty_like(weights)
    ordered = weights[order]
    if len(until) and (until == until[0]).all():
        by_rank = np.lexsort((ranks, parts))
        sums = np.cumsum(weights[by_rank]) - weights[by_rank]
        starts = group_starts(ranks[by_rank])
        found[by_rank] = sums[starts][np.cumsum(starts) - 1]
    else:
        found[order] = sum_smaller_before(ranks[order], ordered)
    # The ranks of a partition are above those of all partitions before it.
    before = np.cumsum(ordered) - ordered
    starts = group_starts(parts[order])
    found[order] -= before[starts][np.cumsum(starts) - 1]
    return found


def sum_smaller_before(ranks: Ints, weights: Ints) -> Ints:
    """Return for each place the weights of the places before it that have a smaller rank.

    By blocks of two, four, eight places, …: a place in the right half adds the sum over the left half.

    >>> sum_smaller_before(np.array([1, 5, 3, 4]), np.array([1, 10, 100, 1000])).tolist()
    [0, 1, 1, 101]
    """
    size = len(ranks)
    total = np.zeros(size, dtype=np.int64)
    by_rank = np.lexsort((-np.arange(size), ranks))  # of equal ranks the right one first: it is not smaller
    width = 1
    while width < size:
        order = by_rank[np.argsort(by_rank // (2 * width), kind="stable")]
        left = (order // width) % 2 == 0
        added = np.where(left, weights[order], 0)
        before = np.cumsum(added) - added
        starts = group_starts(order // (2 * width))
        inside = before - before[starts][np.cumsum(starts) - 1]
        total[order[~left]] += inside[~left]
        width *= 2
    return total
