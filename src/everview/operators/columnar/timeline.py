"""Step functions of time, one for each group, as columns of groups, instants and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from everview.algebra.time import INFINITY
from everview.operators.columnar.frame import BEFORE_ALL, FROM, UNTIL, Frame, N, group_starts
from everview.operators.columnar.hashing import Ints
from everview.operators.columnar.keys import pick_keys
from everview.operators.columnar.lazy import np, npt

Bools: TypeAlias = "npt.NDArray[np.bool_]"


def sort_by_time(ids: Ints, times: Ints) -> tuple[Ints, Ints]:
    """Return the order by group and time, and the positions in it at which another instant begins.

    >>> order, firsts = sort_by_time(np.array([1, 0, 1]), np.array([5, 7, 5]))
    >>> [int(i) for i in order[firsts]]
    [1, 0]
    """
    if not len(ids):
        return ids, ids
    # Group and time as one integer if it fits in 64 bits; ∞ is mapped to the last time.
    least = int(times.min())
    most = max(int(times.max(where=times < INFINITY, initial=BEFORE_ALL)) + 1, least)
    span = most - least + 1
    if (int(ids.max()) + 1) * span < 2**63:
        code = ids * span + (np.minimum(times, most) - least)
    else:
        ranks = np.unique(times, return_inverse=True)[1]
        code = ids * len(times) + ranks
    order = np.argsort(code)
    return order, np.flatnonzero(group_starts(code[order]))


def constant_pieces(
    groups: Frame, keys: Sequence[str], ids: Ints, times: Ints, values: Ints, first: Bools
) -> Frame:
    """Return the maximal pieces of constant value as rows with that n; pieces of zero are left out.

    A value holds from its instant to the next one of its group, the last one for ever. `first` marks the
    first instant of each group; before it the value is zero.
    """
    differs = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=differs[1:])
    kept = np.flatnonzero(np.where(first, values != 0, differs))
    ids, times, values = ids[kept], times[kept], values[kept]
    until = next_instants(ids, times)
    shown = np.flatnonzero(values)
    return pick_keys(groups, keys, ids[shown], {FROM: times[shown], UNTIL: until[shown], N: values[shown]})


def next_instants(ids: Ints, times: Ints) -> Ints:
    """Return the instant of the next row of the same group, or ∞."""
    until = np.full(len(times), INFINITY)
    if len(ids):
        until[:-1] = np.where(ids[1:] == ids[:-1], times[1:], INFINITY)
    return until
