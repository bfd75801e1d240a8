"""The partitions that a step looks at again: those with new rows, and those for which something is due."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everview.algebra.time import INFINITY
from everview.operators.base import InputRows, StatePart, column
from everview.operators.columnar.frame import FROM, HASH, UNTIL, Frame, Slice, drop_ended, stack_frames
from everview.operators.columnar.hashing import MEMBER, Ints, hash_keys
from everview.operators.columnar.keys import group_rows, key_hashes, match_keys
from everview.operators.columnar.lazy import np, pl
from everview.operators.columnar.timeline import Bools


@dataclass(frozen=True)
class TouchedRows:
    """The kept and the new rows of some partitions: the partition of each, whether it is new, how many."""

    rows: Frame
    parts: Ints
    is_new: Bools
    count: int


def partition_columns(partition: Sequence[int], rows: Frame) -> list[str]:
    """Return the columns of a partition; rows of a family have their member too."""
    return [*map(column, partition), *([MEMBER] if MEMBER in rows.columns else [])]


def events_part(rows: InputRows) -> StatePart:
    """Return the part of a state that holds the instants at which rows of an input will begin or end."""
    return StatePart(
        "queue", "ends to come", rows.waits, until="until due",
        expires_within=rows.expires_within, queue=True, may_cancel=False,
    )  # fmt: skip


def touched_rows(new: Frame, kept: Frame, due: Frame, keys: Sequence[str], slice_: Slice) -> TouchedRows:
    """Return the rows of the partitions that may change in a slice, without those that begin after it."""
    columns = [*new.columns]
    begun = new.filter(pl.col(FROM) <= slice_.b1)
    wanted = stack_frames([begun[list(keys)], due[list(keys)]]) if keys else pl.DataFrame()
    kept = drop_ended(kept, slice_.b0)
    if not keys:
        count = int(not (begun.is_empty() and due.is_empty()))
        kept = kept if count else kept.clear()
        old, parts = kept[columns], np.zeros(kept.height + begun.height, dtype=np.int64)
    else:
        numbers = np.concatenate([hash_keys(begun, keys), key_hashes(due, keys)])
        groups = group_rows(wanted, keys, numbers)
        count = len(groups.firsts)
        found, which = match_keys(kept, keys, wanted[groups.firsts], keys, groups.hashes)
        old, parts = kept[columns][found], np.concatenate([which, groups.ids[: begun.height]])
    is_new = np.arange(len(parts)) >= old.height
    return TouchedRows(stack_frames([old, begun]), parts, is_new, count)


def empty_events(rows: Frame, keys: Sequence[str]) -> Frame:
    """Return a queue of instants without any; only the types of the rows are used."""
    return (
        rows.clear().select(*keys, pl.lit(0, pl.Int64).alias(UNTIL), pl.lit(0, pl.Int64).alias(HASH)).clear()
    )


def future_events(rows: Frame, keys: Sequence[str], slice_: Slice) -> Frame:
    """Return a queue of the instants after the slice at which rows begin or end, sorted by time."""
    since, until = rows[FROM].to_numpy(), rows[UNTIL].to_numpy()
    begins = np.flatnonzero(since > slice_.b1)
    ends = np.flatnonzero((until > slice_.b1) & (until < INFINITY))
    which = np.concatenate([begins, ends])
    times = np.concatenate([since[begins], until[ends]])
    order = np.argsort(times, kind="stable")
    found = rows[list(keys)][which[order]] if keys else pl.DataFrame()
    columns = [
        pl.Series(UNTIL, times[order], pl.Int64),
        pl.Series(HASH, hash_keys(found, keys) if keys else np.zeros(len(which), np.int64), pl.Int64),
    ]
    queue = found.hstack(columns) if keys else pl.DataFrame(columns)
    return unique_events(queue, keys)


def due_events(queue: Frame, slice_: Slice) -> Frame:
    """Return the instants of a queue that are due in the slice."""
    return queue.filter((pl.col(UNTIL) > slice_.b0) & (pl.col(UNTIL) <= slice_.b1))


def unique_events(queue: Frame, keys: Sequence[str]) -> Frame:
    """Return a queue with each instant of a partition once, sorted by time."""
    return queue.unique([*keys, UNTIL], keep="first", maintain_order=True).sort(UNTIL, maintain_order=True)
