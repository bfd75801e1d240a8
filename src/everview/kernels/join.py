"""The join of two streams of change rows (paper 1, equations 3 and 11; algorithm 5).

Every pair whose keys match and whose intervals overlap: the concatenation, [max from, min until), n·m.
New pairs are ΔL×R, L×ΔR and ΔL×ΔR.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from everview.kernels.frame import FROM, UNTIL, Frame, N, Result, State, comparable, stacked

_RIGHT = {FROM: "_from_right", UNTIL: "_until_right", N: "_n_right"}


def join(
    new: tuple[Frame, Frame],
    state: State,
    left_on: Sequence[str],
    right_on: Sequence[str],
    nulls_equal: bool = False,
) -> Result:
    """One step of the join; its state is both inputs.

    Without keys every pair that overlaps in time matches; that is a join on the intervals, not a
    nested loop.

    >>> from everview.kernels.frame import changes
    >>> left = changes({"k": [1], "a": ["x"]}, [(0, 9, 1)])
    >>> right = changes({"j": [1, 2], "b": ["y", "z"]}, [(5, 20, 2), (0, 9, 1)])
    >>> none = {"left": left.clear(), "right": right.clear()}
    >>> join((left, right), none, ["k"], ["j"]).output.rows()
    [(1, 'x', 1, 'y', 5, 9, 2)]
    """
    left, right = new
    pairs = [
        _pairs(stacked([state["left"], left]), right, left_on, right_on, nulls_equal),
        _pairs(left, state["right"], left_on, right_on, nulls_equal),
    ]
    return Result(stacked(pairs), {"left": left, "right": right})


def _pairs(
    left: Frame, right: Frame, left_on: Sequence[str], right_on: Sequence[str], nulls_equal: bool
) -> Frame:
    columns = [*(c for c in left.columns if c not in (FROM, UNTIL, N)), *right.columns]
    there = right.rename(_RIGHT)
    if left_on:
        keys = [f"_key{i}" for i in range(len(left_on))]
        here = left.with_columns(comparable(left, c).alias(k) for c, k in zip(left_on, keys, strict=True))
        there = there.with_columns(comparable(there, c).alias(k) for c, k in zip(right_on, keys, strict=True))
        matched = here.join(there, on=keys, how="inner", nulls_equal=nulls_equal)
        matched = matched.filter(
            pl.max_horizontal(FROM, _RIGHT[FROM]) < pl.min_horizontal(UNTIL, _RIGHT[UNTIL])
        )
    else:
        matched = left.join_where(
            there, pl.col(FROM) < pl.col(_RIGHT[UNTIL]), pl.col(_RIGHT[FROM]) < pl.col(UNTIL)
        )
    return matched.with_columns(
        pl.max_horizontal(FROM, _RIGHT[FROM]).alias(FROM),
        pl.min_horizontal(UNTIL, _RIGHT[UNTIL]).alias(UNTIL),
        (pl.col(N) * pl.col(_RIGHT[N])).alias(N),
    ).select(columns)
