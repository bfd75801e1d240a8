"""The operators of a family in one partition, evaluated at once (`operators/columnar/family.py`).

Each keeps its own state, as if it ran alone: the rows of all are read, put together, and what the family
adds is divided among its members. So a store can be read and written with or without families.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from everview import operators as P
from everview.operators.columnar.family import split_members, stack_members
from everview.operators.columnar.frame import UNTIL, Frame, Slice
from everview.operators.columnar.hashing import MEMBER
from everview.operators.columnar.types import cast_columns, empty_frame
from everview.plan.stages import Stage, StageNode
from everview.storage.compaction import merges
from everview.storage.trace import RowsToRead, append_rows

if TYPE_CHECKING:
    from everview.execute.program import OperatorStep, TaskReport

FEWEST_MEMBERS = 3  # members: for fewer, to put rows together and to divide them takes as long as it saves
MOST_MEMBER_ROWS = (
    4_000  # of a member, new and kept: with more, the time of a call is no longer that of any frame
)

Places = tuple[int, ...]
Member: TypeAlias = "tuple[OperatorStep, list[Frame | None]]"  # with its new rows


@lru_cache(maxsize=128)
def order_of_work(stage: Stage) -> tuple[Places, ...]:
    """Return the places of a stage's nodes in an order in which they can run; those of a family together."""
    ports = len(stage.ports)
    depths: list[int] = []
    groups: dict[tuple[object, ...], list[int]] = {}
    for place, work in enumerate(stage.nodes):
        below = [i.number - ports for i in work.node.inputs if isinstance(i, P.RegisterOperator)]
        depths.append(1 + max((depths[i] for i in below if i >= 0), default=0))
        family = _family(work)
        groups.setdefault((depths[place], place if family is None else family), []).append(place)
    return tuple(map(tuple, sorted(groups.values(), key=lambda group: depths[group[0]])))


def _family(work: StageNode) -> tuple[object, ...] | None:
    """Return what the operators share that may run at once; None if one runs alone."""
    if work.kernel is None or work.kernel.family is None:
        return None
    return work.kernel.family, work.route, tuple((part.name, part.queue) for part in work.kernel.state)


def run_family(members: Sequence[Member], slice_: Slice, done: TaskReport) -> dict[int, Frame | None]:
    """Return the rows that each member emits, by its place; the state of each grows by the rows it adds."""
    operator = members[0][0].operator
    inputs = [empty_frame(below.types) for below in operator.inputs]
    outputs: dict[int, Frame | None] = {step.place: None for step, _ in members}
    added: Mapping[str, Frame] = {}
    active = [
        (i, step, [empty if rows is None else rows for rows, empty in zip(given, inputs, strict=True)])
        for i, (step, given) in enumerate(members)
        if step.is_active(given, slice_)
    ]
    if active:
        new = [
            stack_members([(i, rows[side]) for i, _, rows in active], empty)
            for side, empty in enumerate(inputs)
        ]
        state = {
            part: _family_state(part, empty, active, slice_)
            for part, empty in operator.empty_state(new).items()
        }
        result = operator.increment(new, state, slice_)
        if not result.output.is_empty():
            tagged = result.output.get_column(MEMBER)
            rows = cast_columns(result.output, operator.types).hstack([tagged])
            for (step, _), own in zip(members, split_members(rows, len(members)), strict=True):
                outputs[step.place] = None if own.is_empty() else own
        added = result.added
    _keep_states([step for step, _ in members], added, slice_, done)
    return outputs


def _keep_states(
    steps: Sequence[OperatorStep], added: Mapping[str, Frame], slice_: Slice, done: TaskReport
) -> None:
    """Add rows to the states of all members, drop runs that have ended, and merge small ones."""
    number = steps[0].program.step
    for part in {**{part: None for step in steps for part in step.runs}, **added}:
        bound = steps[0].dropped(part, slice_)[1]
        by_hash = part not in steps[0].queues
        keeping = [step.keeps(part) for step in steps]
        traces = [step.trace(part).drop_expired(bound) for step in steps]
        if part in added:
            rows = _choose_rows(added[part], RowsToRead(until_after=bound))
            parts = enumerate(split_members(rows, len(steps), by_hash))
            traces = append_rows(traces, [(i, own) for i, own in parts if keeping[i]], number, bound)
        groups = [
            (i, group)
            for i, trace in enumerate(traces)
            if keeping[i]
            for group in merges(trace.runs, trace.policy, bound)
        ]
        frames = [
            (which, frame)
            for which, (i, group) in enumerate(groups)
            for frame in traces[i].only(group).read_runs(RowsToRead(until_after=bound))
        ]
        if frames:
            rows = _choose_rows(stack_members(frames), RowsToRead(until_after=bound))
            rows = rows if rows.is_empty() else steps[0].operator.compact(part, rows, bound)
            rows = _choose_rows(rows, RowsToRead(until_after=bound))
            shrunk = split_members(rows, len(groups), by_hash)
            merged = [(i, own) for (i, _), own in zip(groups, shrunk, strict=True)]
            traces = append_rows(traces, merged, number, bound)
        for i, group in groups:
            traces[i] = traces[i].without(group)
        for step, trace, own in zip(steps, traces, keeping, strict=True):
            if own:
                step.report_runs(part, trace.runs, done)


def _family_state(
    part: str, empty: Frame, active: Sequence[tuple[int, OperatorStep, list[Frame]]], slice_: Slice
) -> Frame:
    """Return the rows of a part of the state of all members that the slice needs."""
    frames: list[tuple[int, Frame]] = []
    wanted = None
    for i, step, new in active:
        own = step.rows_to_read(part, new, slice_)
        if own is not None:
            wanted = own  # the same for all
            frames += [(i, frame) for frame in step.trace(part).read_runs(own)]
    rows = stack_members(frames, empty)
    return rows if wanted is None else _choose_rows(rows, wanted)


def _choose_rows(rows: Frame, wanted: RowsToRead) -> Frame:
    """Return the rows that end when they have to; whole runs were read."""
    until = rows.get_column(UNTIL).to_numpy()
    kept = np.ones(len(until), dtype=bool)
    if wanted.until_after is not None:
        kept &= until > wanted.until_after
    if wanted.due is not None:
        kept &= (until > wanted.due[0]) & (until <= wanted.due[1])
    return rows if kept.all() else rows[np.flatnonzero(kept)]
