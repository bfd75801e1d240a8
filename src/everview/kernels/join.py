"""The join of two streams of change rows (paper 1, equations 3 and 11; algorithm 5).

Every pair whose keys match and whose intervals overlap: the concatenation, [max from, min until), n·m.
New pairs are ΔL×R, L×ΔR and ΔL×ΔR. The rows of a state that have one of the new keys are found by the
numbers of their keys (`keys.py`); the others are not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

from everview.kernels.band import band_join
from everview.kernels.frame import Frame, Result, State, stacked
from everview.kernels.keys import arranged, matches, numbers_of
from everview.kernels.pairs import paired, without_nulls


def join(
    new: tuple[Frame, Frame],
    state: State,
    left_on: Sequence[str],
    right_on: Sequence[str],
    nulls_equal: bool = False,
) -> Result:
    """One step of the join on a key; its state is both inputs. Without keys all that overlap in time match.

    >>> from everview.kernels.frame import changes
    >>> left = changes({"k": [1], "a": ["x"]}, [(0, 9, 1)])
    >>> right = changes({"j": [1, 2], "b": ["y", "z"]}, [(5, 20, 2), (0, 9, 1)])
    >>> none = {"left": left.clear(), "right": right.clear()}
    >>> join((left, right), none, ["k"], ["j"]).output.rows()
    [(1, 'x', 1, 'y', 5, 9, 2)]
    """
    if not left_on:
        return band_join(new, state)
    left, right = (
        arranged(side if nulls_equal else without_nulls(side, on), on)
        for side, on in zip(new, (left_on, right_on), strict=True)
    )
    old_left, there = matches(state["left"], left_on, right, right_on, numbers_of(right, right_on))
    new_left, both = matches(left, left_on, right, right_on, numbers_of(right, right_on))
    old_right, here = matches(state["right"], right_on, left, left_on, numbers_of(left, left_on))
    pairs = [
        paired(state["left"], old_left, right, there),
        paired(left, new_left, right, both),
        paired(left, here, state["right"], old_right),
    ]
    return Result(stacked(pairs), {"left": left, "right": right})
