"""MIN and MAX: the greatest value among the intervals that cover an instant, for many instants at once.

Instants are sorted points; an interval covers a stretch of them. A stretch is the union of two stretches
whose lengths are powers of two, as in a sparse table: each interval updates two cells, then each cell
updates its halves. Everything is computed on whole columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from everview.operators.aggregates.accumulators import AggregateColumn
from everview.operators.aggregates.events import Steps
from everview.operators.columnar.frame import FROM, HASH, UNTIL, Frame, N, group_starts, sum_begun
from everview.operators.columnar.hashing import Ints, from_ordered_bits, to_ordered_bits
from everview.operators.columnar.keys import group_rows, key_hashes, match_keys
from everview.operators.columnar.lazy import np, pl
from everview.operators.columnar.profile import distinct_rows
from everview.operators.columnar.standings import order_records
from everview.operators.columnar.timeline import Bools

NOTHING = -(2**63)
GROUP = "_group"
Decode: TypeAlias = "Callable[[Ints], pl.Series]"


def rows_of_groups(read: Sequence[str], keys: Sequence[str], stepped: Steps, parts: Sequence[Frame]) -> Frame:
    """Return the kept and the new rows of the touched groups, with the number of the group of each."""
    columns = [*dict.fromkeys(read), FROM, UNTIL, N]
    found = [_touched_rows(rows, keys, columns, stepped) for rows in parts]
    return pl.concat([part for part, _ in found]).with_columns(
        pl.Series(GROUP, np.concatenate([ids for _, ids in found]))
    )


def _touched_rows(rows: Frame, keys: Sequence[str], columns: list[str], stepped: Steps) -> tuple[Frame, Ints]:
    """Return the rows of the touched groups, and the group of each."""
    if not keys:
        return rows.select(columns), np.zeros(rows.height, dtype=np.int64)
    found, ids = match_keys(rows, keys, stepped.groups, keys, stepped.hashes)
    return rows[columns][found], ids


def extreme_value(aggregate: AggregateColumn, rows: Frame, signed: bool, stepped: Steps) -> pl.Series:
    """Return MIN or MAX at each step, over the rows of the touched groups."""
    column, compared = str(aggregate.argument), _compared(aggregate)
    present = rows.select(GROUP, *aggregate.read, FROM, UNTIL, N)
    if present[compared].null_count():
        present = present.filter(pl.col(compared).is_not_null())
    if signed:  # the intervals during which a value occurs
        present = distinct_rows(present, {"rows": present.clear()}).output
    if present.is_empty():
        return present[column].clear(stepped.size)
    codes, decoded = _encode_values(present, aggregate)
    ids = present[GROUP].to_numpy()
    begin, end = (find_steps(stepped, ids, present[c].to_numpy()) for c in (FROM, UNTIL))
    best = greatest_at(stepped.size, begin, end, codes)
    nothing = best == NOTHING
    if not nothing.any():
        return decoded(best)
    filled = decoded(np.where(nothing, codes[0], best))
    return pl.select(pl.when(pl.Series(~nothing)).then(filled)).to_series()


def _compared(aggregate: AggregateColumn) -> str:
    """Return the column whose least or greatest value is looked for."""
    return str(aggregate.argument) if aggregate.by is None else aggregate.by


def _encode_values(rows: Frame, aggregate: AggregateColumn) -> tuple[Ints, Decode]:
    """Return integers in the order of the values, and the decoder; of MIN_BY, by both columns."""
    if aggregate.by is None:
        return _encode(rows[str(aggregate.argument)], aggregate.is_least)
    one = np.zeros(rows.height, dtype=np.int64)
    ordered = order_records(rows, one, [(aggregate.by, False, True)], [str(aggregate.argument)])
    sign, values = -1 if aggregate.is_least else 1, rows[str(aggregate.argument)]
    return sign * ordered.codes, lambda codes: values.gather(pl.Series(ordered.rows[sign * codes]))


def _encode(values: pl.Series, descending: bool) -> tuple[Ints, Decode]:
    """Return integers in the order of the values (or descending), and the decoder; NaN is the greatest."""
    sign, type_ = -1 if descending else 1, values.dtype
    if type_.is_float():
        # One NaN, and no -0.0: equal values have one code.
        bits = to_ordered_bits(values.cast(pl.Float64).to_numpy())
        return sign * bits, lambda codes: pl.Series(from_ordered_bits(sign * codes)).cast(type_)
    if type_.is_integer() or type_.is_temporal():
        whole = values.to_physical().cast(pl.Int64).to_numpy()
        if whole.min(initial=0) > NOTHING:
            return sign * whole, lambda codes: pl.Series(sign * codes).cast(type_)
    order = values.unique().sort()
    ranks = values.rank("dense").cast(pl.Int64).to_numpy() - 1
    return sign * ranks, lambda codes: order.gather(pl.Series(sign * codes))


def find_steps(stepped: Steps, ids: Ints, times: Ints) -> Ints:
    """Return for (group, time) pairs the first step of that group at or after the time."""
    starts = np.flatnonzero(stepped.first)
    if not len(starts):
        return np.zeros(len(ids), dtype=np.int64)
    out = starts[ids]
    b0, last = int(stepped.times[0]), int(stepped.times.max())
    later = times > last
    out[later] = np.append(starts[1:], stepped.size)[ids[later]]
    inside = np.flatnonzero((times > b0) & ~later)
    span = last - b0 + 1
    points, wanted = stepped.times, times[inside]
    if len(starts) * span < 2**63:
        points, wanted = points - b0, wanted - b0
    else:
        instants = np.unique(points)
        points, wanted = np.searchsorted(instants, points), np.searchsorted(instants, wanted)
        span = len(instants)
    out[inside] = np.searchsorted(stepped.ids * span + points, ids[inside] * span + wanted)
    return out


def greatest_at(size: int, begin: Ints, end: Ints, rank: Ints) -> Ints:
    """Return for each of `size` points the greatest rank of the stretches [begin, end) with it, or NOTHING.

    >>> [int(r) for r in greatest_at(4, np.array([0, 1]), np.array([4, 3]), np.array([1, 7]))]
    [1, 7, 7, 1]
    """
    long = end > begin
    begin, end, rank = begin[long], end[long], rank[long]
    best = np.full(size, NOTHING)
    if not len(begin):
        return best
    level = np.frexp((end - begin).astype(np.float64))[1] - 1
    for k in range(int(level.max()), -1, -1):
        here = np.flatnonzero(level == k)
        width = 1 << k
        np.maximum.at(best, begin[here], rank[here])
        if k:
            np.maximum.at(best, end[here] - width, rank[here])
            best = _fill_second_half(best, width // 2)
    return best


def _fill_second_half(best: Ints, half: int) -> Ints:
    """Copy the value of each cell, now that of its first half, to the second half."""
    down = best.copy()
    np.maximum(down[half:], best[:-half], out=down[half:])
    return down


def prune_rows(
    extremes: Sequence[AggregateColumn],
    keys: Sequence[str],
    keeps_all: bool,
    rows: Frame,
    bound: int,
) -> Frame:
    """Return the rows that can still be the least or the greatest of their group after the bound.

    An unsigned row is dropped when another one that has begun is at least as extreme and ends no earlier.
    With `keeps_all`, as over signed rows, rows are split at the bound (paper 1): what began by then is
    summed, what was retracted is gone.
    """
    rows = rows.filter(pl.col(UNTIL) > bound)
    if keeps_all:
        rows = sum_begun(rows, bound)
    elif not rows.is_empty():
        numbers = key_hashes(rows, keys)
        groups = group_rows(rows, keys, numbers).ids
        begun, until = rows[FROM].to_numpy() <= bound, rows[UNTIL].to_numpy()
        kept = np.zeros(rows.height, dtype=bool)
        for aggregate in extremes:
            present = rows[_compared(aggregate)].is_not_null().to_numpy()
            usable = np.flatnonzero(begun & present)
            codes, _ = _encode_values(rows[usable], aggregate)
            kept[usable[find_undominated(groups[usable], codes, until[usable])]] = True
            kept |= ~begun & present
        rows = rows.filter(pl.Series(kept))
    return rows.sort(HASH) if HASH in rows.columns else rows


def find_undominated(group: Ints, rank: Ints, until: Ints) -> Bools:
    """Return which rows can still be the greatest of their group: no other is as great and ends as late.

    All rows have begun. Of equal rows one is kept.

    >>> find_undominated(np.array([0, 0, 0]), np.array([5, 3, 3]), np.array([9, 9, 12])).tolist()
    [True, False, True]
    """
    if not len(group):
        return np.zeros(0, dtype=bool)
    least, span = int(rank.min()), int(rank.max()) - int(rank.min()) + 2
    if (int(group.max()) + 1) * span >= 2**63:
        return find_undominated(group, np.unique(rank, return_inverse=True)[1], until)
    order = np.lexsort((-rank, -until, group))
    g, r = group[order], rank[order] - least
    # The ranks of a group are shifted above those of all groups before it: one running maximum serves all.
    lifted = r + g * span
    before = np.empty_like(lifted)
    before[0] = -1
    before[1:] = np.maximum.accumulate(lifted)[:-1]
    kept = np.empty(len(g), dtype=bool)
    kept[order] = group_starts(g) | (lifted > before)
    return kept
