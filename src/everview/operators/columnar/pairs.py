"""Pairs of rows of two sides, as every join emits them (paper 1, equations 3 and 11)."""

from __future__ import annotations

from collections.abc import Sequence

from everview.operators.columnar.frame import CHANGE, FROM, UNTIL, Frame, N, record_columns
from everview.operators.columnar.hashing import MEMBER, Ints
from everview.operators.columnar.lazy import np, pl

_FEW = 1_000  # pairs; to look at their intervals before their records saves nothing then


def pair_rows(left: Frame, left_rows: Ints, right: Frame, right_rows: Ints) -> Frame:
    """Return the pairs of rows that overlap in time: both records, the common interval, the product of n."""
    taken = (left_rows, right_rows) if len(left_rows) >= _FEW else None
    if taken is None:
        left, right = left[left_rows], right[right_rows]
        here, there = left, right
    else:
        here, there = left[list(CHANGE)][left_rows], right[list(CHANGE)][right_rows]
    since = np.maximum(here[FROM].to_numpy(), there[FROM].to_numpy())
    until = np.minimum(here[UNTIL].to_numpy(), there[UNTIL].to_numpy())
    n = here[N].to_numpy() * there[N].to_numpy()
    overlap = since < until
    if not overlap.all():
        kept = np.flatnonzero(overlap)
        taken = (kept, kept) if taken is None else (left_rows[kept], right_rows[kept])
        since, until, n = since[kept], until[kept], n[kept]
    if taken is not None:
        left, right = left[record_columns(left)][taken[0]], right[record_columns(right)][taken[1]]
    own = record_columns(left)
    records = [left.get_column(c) for c in own]
    records += [right.get_column(c) for c in record_columns(right) if c != MEMBER or c not in own]
    return pl.DataFrame([*records, pl.Series(FROM, since), pl.Series(UNTIL, until), pl.Series(N, n)])


def drop_null_rows(frame: Frame, columns: Sequence[str]) -> Frame:
    """Return the rows without NULL in these columns; a comparison with NULL is never true."""
    return frame.drop_nulls(columns) if any(frame[c].null_count() for c in columns) else frame
