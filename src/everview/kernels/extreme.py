"""MIN and MAX: the greatest value among the intervals that cover an instant, for many instants at once.

Instants are sorted points; an interval covers a stretch of them. A stretch is the union of two stretches
whose lengths are powers of two, as in a sparse table: each interval marks two cells, then cells hand
their mark down to their halves. All in whole columns: no row is looked at alone.
"""

from __future__ import annotations

import numpy as np

NOTHING = -1


def greatest_at(size: int, begin: np.ndarray, end: np.ndarray, rank: np.ndarray) -> np.ndarray:
    """For each of `size` points the greatest rank of the stretches [begin, end) that hold it, or NOTHING.

    >>> greatest_at(5, np.array([0, 1]), np.array([4, 3]), np.array([1, 7])).tolist()
    [1, 7, 7, 1, -1]
    """
    long = end > begin
    begin, end, rank = begin[long], end[long], rank[long]
    if not len(begin):
        return np.full(size, NOTHING, dtype=np.int64)
    level = np.frexp((end - begin).astype(np.float64))[1] - 1
    best = np.full(size, NOTHING, dtype=np.int64)
    for k in range(int(level.max()), -1, -1):
        here = level == k
        width = 1 << k
        np.maximum.at(best, begin[here], rank[here])
        np.maximum.at(best, end[here] - width, rank[here])
        if k:
            best = _handed_down(best, width // 2)
    return best


def _handed_down(best: np.ndarray, half: int) -> np.ndarray:
    """Each cell's mark, now for its first half, goes to the second half too."""
    down = best.copy()
    np.maximum(down[half:], best[:-half], out=down[half:])
    return down


def undominated(group: np.ndarray, rank: np.ndarray, until: np.ndarray) -> np.ndarray:
    """Which rows can still be the greatest of their group: no other is as great and ends as late.

    All of them have begun. Of equal rows one is kept.

    >>> undominated(np.array([0, 0, 0]), np.array([5, 3, 3]), np.array([9, 9, 12])).tolist()
    [True, False, True]
    """
    order = np.lexsort((-rank, -until, group))
    g, r = group[order], rank[order]
    starts = np.ones(len(g), dtype=bool)
    starts[1:] = g[1:] != g[:-1]
    # Within a group ranks are shifted above those of all groups before, so that one maximum serves all.
    span = int(rank.max()) + 2 if len(rank) else 1
    lifted = r + g.astype(np.int64) * span
    before = np.empty_like(lifted)
    before[0:1] = NOTHING
    before[1:] = np.maximum.accumulate(lifted)[:-1]
    kept = np.empty(len(g), dtype=bool)
    kept[order] = starts | (lifted > before)
    return kept
