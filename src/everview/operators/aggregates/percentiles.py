"""PERCENTILE: the value at a position of the sorted values that hold at an instant, for many at once.

The values are numbered in their order. All instants look for their number at once, bit by bit from the
highest: how many of the rows that hold then have this bit zero decides in which half it is. Everything is
computed on whole columns; of V different values and E begins and ends it takes log V sorts of E events.
"""

from __future__ import annotations

from everview.operators.aggregates.accumulators import AggregateColumn
from everview.operators.aggregates.events import Steps
from everview.operators.aggregates.extremes import GROUP, find_steps
from everview.operators.columnar.frame import FROM, UNTIL, Frame, N
from everview.operators.columnar.hashing import Ints, from_ordered_bits, to_ordered_bits
from everview.operators.columnar.lazy import np, pl
from everview.operators.columnar.profile import distinct_rows


def percentile_value(aggregate: AggregateColumn, rows: Frame, stepped: Steps) -> pl.Series:
    """Return a percentile at each step, over the rows of the touched groups."""
    column = str(aggregate.argument)
    present = rows.select(GROUP, column, FROM, UNTIL, N).filter(pl.col(column).is_not_null())
    if aggregate.distinct:  # the intervals during which a value occurs
        present = distinct_rows(present, {"rows": present.clear()}).output
    if present.is_empty():
        return pl.Series([None], dtype=pl.Float64).clear(stepped.size)
    # One NaN, and no -0.0: equal values have one number.
    bits = to_ordered_bits(present[column].cast(pl.Float64).to_numpy())
    different, codes = np.unique(bits, return_inverse=True)
    values = from_ordered_bits(different)
    ids, n = present[GROUP].to_numpy(), present[N].to_numpy()
    ends = [find_steps(stepped, ids, present[c].to_numpy()) for c in (FROM, UNTIL)]
    events = np.concatenate(ends), np.concatenate([codes, codes]), np.concatenate([n, -n])
    count = np.cumsum(_sum_at(stepped.size, events[0], events[2]))
    assert aggregate.fraction is not None
    position = np.maximum(count - 1, 0) * aggregate.fraction
    lower, upper = np.floor(position), np.ceil(position)
    low, high = (
        values[codes_at(stepped.size, *events, place.astype(np.int64), len(values))]
        for place in (lower, upper)
    )
    with np.errstate(invalid="ignore"):
        between = low + (position - lower) * (high - low)
    same = (low == high) | (np.isnan(low) & np.isnan(high))
    found = pl.Series(np.where(same, low, between))
    return pl.select(pl.when(pl.Series(count > 0)).then(found)).to_series()


def _sum_at(size: int, steps: Ints, n: Ints) -> Ints:
    """Return the sum of n at each step; what comes after the last one is left out."""
    out = np.zeros(size + 1, dtype=np.int64)
    np.add.at(out, steps, n)
    return out[:size]


def codes_at(size: int, steps: Ints, codes: Ints, n: Ints, place: Ints, different: int) -> Ints:
    """Return for each of `size` steps the code at a place in the order of the rows that hold then.

    From its step on, an event adds n rows of a code, which is less than `different`. Where there is no row,
    some code is returned.

    >>> events = np.array([0, 0, 1]), np.array([2, 0, 1]), np.array([1, 1, 2])
    >>> codes_at(2, *events, np.array([1, 1]), 3).tolist()
    [2, 1]
    """
    inside = steps < size
    steps, codes, n = steps[inside], codes[inside], n[inside]
    found, rest, every = np.zeros(size, dtype=np.int64), place, np.arange(size)
    for level in range(max(different - 1, 1).bit_length() - 1, -1, -1):
        lower = np.flatnonzero((codes >> level) & 1 == 0)
        # The events of a prefix lie side by side, in the order of their steps.
        keys = (codes[lower] >> level) * size + steps[lower]
        order = np.argsort(keys, kind="stable")
        keys, total = keys[order], np.concatenate([[0], np.cumsum(n[lower][order])])
        prefix = found << 1
        until = np.searchsorted(keys, prefix * size + every, side="right")
        since = np.searchsorted(keys, prefix * size, side="left")
        zeros = total[until] - total[since]
        upward = rest >= zeros
        rest = np.where(upward, rest - zeros, rest)
        found = prefix | upward
    return np.minimum(found, different - 1)
