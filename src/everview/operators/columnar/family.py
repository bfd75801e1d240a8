"""Families: operators that differ in their inputs alone, evaluated at once over the rows of all of them.

With many views, each operator has a few rows in a step, and takes the time that calls take for any frame. The
rows of a family are one frame with one more column: the number of the operator that a row belongs to, its
*member*. It is part of every key, so rows of different members never meet.

>>> rows = stack_members([(0, pl.DataFrame({"k": [7, 8]})), (1, pl.DataFrame({"k": [7]}))], pl.DataFrame())
>>> rows.rows()
[(7, 0), (8, 0), (7, 1)]
>>> [part.rows() for part in split_members(rows, 3)]
[[(7,), (8,)], [(7,)], []]
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from everview.operators.columnar.frame import HASH, Frame, stack_frames
from everview.operators.columnar.hashing import MEMBER, Ints, member_offsets
from everview.operators.columnar.lazy import np, pl


def stack_members(frames: Sequence[tuple[int, Frame]], empty: Frame | None = None) -> Frame:
    """Return the rows of members as those of a family; `empty` has the columns that they have in any case.

    Frames may have different columns, as the sums of a sweep do: what a frame does not have is NULL.
    """
    alike: dict[tuple[str, ...], list[tuple[int, Frame]]] = {}
    for member, frame in frames:
        alike.setdefault(tuple(frame.columns), []).append((member, frame))
    stacked = [_stack_alike(group) for group in alike.values()]
    if empty is not None and not (len(stacked) == 1 and {*stacked[0].columns}.issuperset(empty.columns)):
        stacked.insert(0, empty)
    return stacked[0] if len(stacked) == 1 else pl.concat(stacked, how="diagonal")


def _stack_alike(frames: Sequence[tuple[int, Frame]]) -> Frame:
    """Return the rows of frames with the same columns; their hashes become those of keys with members."""
    rows = stack_frames([frame for _, frame in frames])
    members = np.repeat([member for member, _ in frames], [frame.height for _, frame in frames])
    rows = rows.hstack([pl.Series(MEMBER, members)])
    if HASH in rows.columns:
        hashes = rows[HASH] + pl.Series(member_offsets(rows))
        rows.replace_column(rows.get_column_index(HASH), hashes.alias(HASH))
    return rows


def split_members(rows: Frame, count: int, by_hash: bool = False) -> list[Frame]:
    """Return the rows of each member in the order that they have, or sorted by the hash of their key."""
    members: Ints = rows[MEMBER].to_numpy()
    own = rows.drop(MEMBER)
    if HASH in rows.columns:
        hashes = rows[HASH].to_numpy() - member_offsets(rows)
        own.replace_column(own.get_column_index(HASH), pl.Series(HASH, hashes))
    if by_hash and HASH in rows.columns:
        order = np.lexsort((hashes, members))
    else:
        order = np.argsort(members, kind="stable")
    own = own[order]
    edges = np.searchsorted(members[order], np.arange(count + 1)).tolist()
    return [own[begin:end] for begin, end in pairwise(edges)]
