"""What a task runs: the work of a stage on one partition, with the state that it reads and writes itself."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import msgspec

from everview import operators as P
from everview.algebra.time import INFINITY
from everview.execute.arrangements import SharedParts
from everview.execute.families import FEWEST_MEMBERS, MOST_MEMBER_ROWS, Places, run_family
from everview.execute.pieces import PartitionedInputFile
from everview.operators.columnar.frame import Frame, Slice, consolidate_frame, stack_frames
from everview.operators.columnar.types import cast_columns, empty_frame
from everview.plan.stages import Stage
from everview.storage.compaction import Policy
from everview.storage.files import Files
from everview.storage.many_runs import RunToWrite, write_runs
from everview.storage.packs import packing
from everview.storage.runs import Run, TraceId
from everview.storage.trace import RowsToRead, Trace
from everview.temporal.expiry import ExpiryBuckets

Runs = Mapping[str, tuple[Run, ...]]  # of each part of a state

_SMALL_RUN = 10_000  # rows; smaller runs are merged first
_FAN = 4  # so many runs of one size are merged


@dataclass(frozen=True)
class Program:
    """A stage in one step, on any partition.

    `operators` has the name of each kernel by its place in the work; `states` what the kernels of a partition
    have kept, packed, so that a task unpacks no other's, `state_rows` how many rows that is in all. `order`
    has the places of the nodes as they run, those of a family together; `pieces` rows that lie ready for each
    port. `slices` has the slice of each kernel; `dropped`, for kernels of event queries, up to where the rows
    of each part of the state were dropped, and are now. `shared` has the parts of states that other kernels
    of the stage keep.
    """

    number: int
    stage: Stage
    operators: Mapping[int, str]
    states: Sequence[bytes]
    files: Files
    step: int
    slices: Mapping[int, Slice]
    dropped: Mapping[int, Mapping[str, tuple[int, int]] | None]
    order: Sequence[Places] = ()
    pieces: Sequence[Sequence[PartitionedInputFile]] = ()
    state_rows: int = 0
    shared: SharedParts = field(default_factory=dict)

    def run(self, given: Sequence[Frame | None], partition: int | None) -> TaskReport:
        """Run the program over the rows of the ports; a stage that only writes may have no partition."""
        with packing(self.files, self.step) as files:
            return replace(self, files=files)._run(given, partition)

    def _run(self, given: Sequence[Frame | None], partition: int | None) -> TaskReport:
        done = TaskReport(partition)
        registers = list(given) if partition is None else self._with_pieces(given, partition)
        states: dict[int, Runs] = pickle.loads(self.states[partition]) if partition is not None else {}
        first = len(registers)
        registers += [None] * len(self.stage.nodes)
        for places in self.order:
            for place, rows in self._evaluate(places, registers, states, partition, done).items():
                registers[first + place] = rows
        self._write_views(registers, done)
        done.handed_on = [self._leaving(registers, i) for i in self.stage.handed_registers]
        return done

    def _evaluate(
        self,
        places: Places,
        registers: Sequence[Frame | None],
        states: Mapping[int, Runs],
        partition: int | None,
        done: TaskReport,
    ) -> dict[int, Frame | None]:
        """Return the rows of a node, or of each operator of a family."""
        if places[0] not in self.operators:
            node = self.stage.nodes[places[0]].node
            rows = [frame for frame in _below(node, registers) if frame is not None]
            made = node.apply(rows) if rows else None
            return {places[0]: None if made is None or made.is_empty() else made}
        outputs: dict[int, Frame | None] = {}
        together: dict[Slice, list[tuple[OperatorStep, list[Frame | None]]]] = {}
        for place in places:
            # An aggregate without keys has one row from the beginning of time: in one partition only.
            slice_ = self.slices[place]
            slice_ = slice_ if partition == 0 or not slice_.first else replace(slice_, first=False)
            step = OperatorStep(self, place, states.get(place, {}), partition or 0)
            below = _below(step.operator, registers)
            if len(places) >= FEWEST_MEMBERS and step.count_rows(below) <= MOST_MEMBER_ROWS:
                together.setdefault(slice_, []).append((step, below))
            else:
                outputs[place] = step.run(below, slice_, done)
        for slice_, members in together.items():
            outputs |= run_family(members, slice_, done)
        return outputs

    def _with_pieces(self, given: Sequence[Frame | None], partition: int) -> list[Frame | None]:
        """Return the rows of the ports with those of the pieces."""
        ports = list(given)
        known: dict[PartitionedInputFile, Frame] = {}  # ports with different windows read the same pieces
        for port, pieces in enumerate(self.pieces):
            found = [piece.read(self.files, partition, known) for piece in pieces]
            frames = [frame for frame in (ports[port], *found) if frame is not None]
            ports[port] = stack_frames(frames) if frames else None
        return ports

    def _leaving(self, registers: Sequence[Frame | None], number: int) -> Frame | None:
        """Return the rows of a register, consolidated if some may cancel."""
        rows = registers[number]
        rows = consolidate_frame(rows) if rows is not None and number in self.stage.cancelling else rows
        return None if rows is None or rows.is_empty() else rows

    def _write_views(self, registers: Sequence[Frame | None], done: TaskReport) -> None:
        parts: dict[str, list[Frame]] = {}
        for view, number in self.stage.writes:
            rows = self._leaving(registers, number)
            if rows is not None:
                parts.setdefault(view, []).append(rows)
        wanted = [
            RunToWrite(view_path(view, self.step, self.number, done.partition), stack_frames(frames))
            for view, frames in parts.items()
        ]
        done.views += zip(parts, write_runs(self.files, wanted, self.step), strict=True)


def _below(node: P.Operator, registers: Sequence[Frame | None]) -> list[Frame | None]:
    """Return the rows of a node's inputs."""
    return [registers[i.number] for i in node.inputs if isinstance(i, P.RegisterOperator)]


def view_path(view: str, step: int, stage: int, partition: int | None) -> str:
    """Return the path for the changes of a view: where the partition is known, the same in every attempt."""
    if partition is None:
        return TraceId("view", view).unique_path(step)
    return TraceId("view", view, partition=partition).path(step, stage)


@dataclass
class TaskReport:
    """What a task did: runs of views, and for each part of a state that changed its runs."""

    partition: int | None
    views: list[tuple[str, Run]] = field(default_factory=list)
    states: list[tuple[int, str, tuple[Run, ...]]] = field(default_factory=list)
    handed_on: list[Frame | None] = field(default_factory=list)
    known: set[str] = field(default_factory=set)

    def report(self, number: int) -> StageReport:
        """Return what the driver has to know."""
        states = [
            (place, part, [run.path if run.path in self.known else run for run in runs])
            for place, part, runs in self.states
        ]
        return StageReport(number, self.partition, self.views, states)


class StageReport(msgspec.Struct, frozen=True):
    """What a task of a stage did, as it comes to the driver: runs of views, and of parts of states.

    A state is a place in the work, a part, and its runs; of a run that was there before, only the path.
    """

    stage: int
    partition: int | None
    views: list[tuple[str, Run]]
    states: list[tuple[int, str, list[str | Run]]]


@dataclass(frozen=True)
class OperatorStep:
    """An operator with state, in one step and one partition."""

    program: Program
    place: int
    runs: Runs
    partition: int

    @cached_property
    def operator(self) -> P.StatefulOperator:
        node = self.program.stage.nodes[self.place].node
        assert isinstance(node, P.StatefulOperator)
        return node

    def run(self, given: Sequence[Frame | None], slice_: Slice, done: TaskReport) -> Frame | None:
        """Return the rows that an operator emits; its state grows by the rows that it adds."""
        output: Frame | None = None
        added: dict[str, Frame] = {}
        if self.is_active(given, slice_):
            types = [below.types for below in self.operator.inputs]
            new = [empty_frame(t) if f is None else f for f, t in zip(given, types, strict=True)]
            result = self.operator.increment(new, self._state(new, slice_), slice_)
            output, added = result.output, result.added
        self.keep_state(added, slice_, done)
        return None if output is None or output.is_empty() else cast_columns(output, self.operator.types)

    def is_active(self, given: Sequence[Frame | None], slice_: Slice) -> bool:
        """Return whether there is work: new rows, or rows that are due; no run is read to find out."""
        if any(frame is not None for frame in given):
            return True
        if slice_.b0 == slice_.b1:
            return False
        due = (slice_.b0, slice_.b1)
        waiting = (run for part in self.queues for run in self.runs.get(part, ()))
        return self.operator.runs_without_rows(slice_, any(self.runs.values())) or any(
            run.holds(None, due, None) for run in waiting
        )

    def count_rows(self, given: Sequence[Frame | None]) -> int:
        """Return the number of rows, new and kept."""
        kept = sum(run.rows for runs in self.runs.values() for run in runs)
        return kept + sum(frame.height for frame in given if frame is not None)

    @cached_property
    def _parts(self) -> dict[str, P.StatePart]:
        return {part.name: part for part in self.operator.state}

    @cached_property
    def queues(self) -> set[str]:
        """The parts of the state of which only the rows that are due are read."""
        return {name for name, part in self._parts.items() if part.queue}

    def _state(self, new: Sequence[Frame], slice_: Slice) -> dict[str, Frame]:
        found = self.operator.empty_state(new)
        for part, empty in found.items():
            wanted = self.rows_to_read(part, new, slice_)
            if wanted is not None:
                found[part] = self.trace(part).read(
                    empty, until_after=wanted.until_after, due=wanted.due, runs_due=wanted.runs_due
                )
        return found

    def rows_to_read(self, part: str, new: Sequence[Frame], slice_: Slice) -> RowsToRead | None:
        """Return which rows of a part of the state a step over new rows needs; None: none."""
        if part in self.queues:
            return RowsToRead(due=(slice_.b0, slice_.b1))
        if not self.operator.reads_part(part, slice_):
            return None
        wanted = self.operator.parts_to_read(new)
        if wanted is not None and part not in wanted:
            return None
        ends = self.operator.ends_to_read(part, new)
        return RowsToRead(self.dropped(part, slice_)[0] if ends is None else None, runs_due=ends)

    def keep_state(self, added: Mapping[str, Frame], slice_: Slice, done: TaskReport) -> None:
        """Add rows to the parts of the state, drop runs that have ended, and merge small ones."""
        for part in {**self.runs, **added}:
            if not self.keeps(part):
                continue
            bound = self.dropped(part, slice_)[1]
            grown = self.trace(part).drop_expired(bound)
            if part in added:
                grown = grown.append(added[part], self.program.step, bound)

            def shrink(rows: Frame, at: int, part: str = part) -> Frame:
                return self.operator.compact(part, rows, at)

            self.report_runs(part, grown.compact(shrink, self.program.step, bound).runs, done)

    def keeps(self, part: str) -> bool:
        """Return whether it keeps a part of its state itself: else another operator of the stage does."""
        return (self.place, part) not in self.program.shared

    def report_runs(self, part: str, after: tuple[Run, ...], done: TaskReport) -> None:
        """Report the runs of a part of the state, if they are others now."""
        before = self.runs.get(part, ())
        if after != before:
            done.known.update(run.path for run in before)
            done.states.append((self.place, part, after))

    def dropped(self, part: str, slice_: Slice) -> tuple[int, int]:
        """Return up to where rows of a part were dropped before the step, and are after it."""
        own = self.program.dropped[self.place]
        if own is not None:
            return own[part]
        return self.operator.expiry(slice_.b0), self.operator.expiry(slice_.b1)

    @cached_property
    def _turn(self) -> int:
        """A number that differs by operator and partition."""
        return self.partition + zlib.crc32(self.program.operators[self.place].encode())

    def trace(self, part: str) -> Trace:
        """Return the runs of a part of the state."""
        operator, route = self.program.operators[self.place], self.program.stage.nodes[self.place].route
        id_ = TraceId("state", operator, part, self.partition, route or ())
        runs, arranged = self.runs.get(part, ()), self.operator.arrangements.get(part)
        policy = policy_of(self._parts.get(part), self._turn, runs)
        return Trace(id_, runs, self.program.files, policy, "" if arranged is None else arranged.prefix)


def policy_of(part: P.StatePart | None, turn: int = 0, runs: Sequence[Run] = ()) -> Policy:
    """Return how a part of a state is laid out: by how its rows end, and how far their ends are apart.

    With different `turn`s, runs are merged at different numbers of them: so not all are in the same steps.
    """
    fan = _FAN + turn % _FAN
    if part is None:
        return Policy(small=_SMALL_RUN, fan=fan)
    buckets = None
    if part.expires_within is not None:
        ends = [run.greatest_until for run in runs if run.greatest_until < INFINITY]
        spread = max(ends) - min(run.least_until for run in runs) if ends else 0
        files = sum(run.rows for run in runs) // _SMALL_RUN
        buckets = ExpiryBuckets.of_spread(part.expires_within, spread, files)
    return Policy(buckets, _SMALL_RUN, part.fan or fan, cancelling=part.may_cancel, coalescing=part.coalesces)
