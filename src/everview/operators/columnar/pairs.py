"""Pairs of rows of two sides, as every join emits them (paper 1, equations 3 and 11)."""

from __future__ import annotations

from collections.abc import Sequence

from everview.operators.columnar.frame import CHANGE, FROM, UNTIL, Frame, N, record_columns
from everview.operators.columnar.hashing import Ints
from everview.operators.columnar.lazy import np, pl


def pair_rows(left: Frame, left_rows: Ints, right: Frame, right_rows: Ints) -> Frame:
    """Return the pairs of rows that overlap in time: both records, the common interval, the product of n."""
    here, there = left[list(CHANGE)][left_rows], right[list(CHANGE)][right_rows]
    since = np.maximum(here[FROM].to_numpy(), there[FROM].to_numpy())
    until = np.minimum(here[UNTIL].to_numpy(), there[UNTIL].to_numpy())
    n = here[N].to_numpy() * there[N].to_numpy()
    overlap = since < until
    if not overlap.all():
        kept = np.flatnonzero(overlap)
        left_rows, right_rows = left_rows[kept], right_rows[kept]
        since, until, n = since[kept], until[kept], n[kept]
    records = [
        *left[record_columns(left)][left_rows].get_columns(),
        *right[record_columns(right)][right_rows].get_columns(),
    ]
    return pl.DataFrame([*records, pl.Series(FROM, since), pl.Series(UNTIL, until), pl.Series(N, n)])


def drop_null_rows(frame: Frame, columns: Sequence[str]) -> Frame:
    """Return the rows without NULL in these columns; a comparison with NULL is never true."""
    return frame.drop_nulls(columns) if any(frame[c].null_count() for c in columns) else frame
