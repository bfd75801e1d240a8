"""Pieces: the rows of an inbox run as one port of a stage takes them, cut by partition.

They are written when rows come in, with the values that their lane computed. So a step that knows how far
time goes needs no Spark between its rows and its kernels: a task opens its own part of each piece.
"""

from __future__ import annotations

import dataclasses
import hashlib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
import polars as pl
from msgspec.structs import replace

from everview import operators as P
from everview.execute.lanes import InputProjection, Lane, LaneWindow
from everview.operators.columnar.frame import FROM, Frame, stack_frames
from everview.operators.step_slices import StepSlices
from everview.storage.compaction import Policy, merges
from everview.storage.files import Files
from everview.storage.manifest import Manifest
from everview.storage.runs import Run, TraceId

AT = "_at"  # when a row came to be, where that is not its begin


@dataclass(frozen=True)
class PartitionedInputFile:
    """A piece as a task reads it: the rows that begin in (b0, b1], or all of them, cut to a window."""

    run: Run
    everywhere: bool
    begins: tuple[int, int] | None
    window: LaneWindow | None = None

    def read(
        self, files: Files, partition: int, known: dict[PartitionedInputFile, Frame] | None = None
    ) -> Frame | None:
        """Return the rows of a partition; None if there are none. `known` has what was read of it before."""
        whole = self if self.window is None else dataclasses.replace(self, window=None)
        rows = None if known is None else known.get(whole)
        rows = whole._rows(files, partition) if rows is None else rows
        if known is not None:
            known[whole] = rows
        if self.window is not None and not rows.is_empty():
            rows = self.window.cut(rows)
        return None if rows.is_empty() else rows

    def _rows(self, files: Files, partition: int) -> Frame:
        rows = files.read_part(self.run.path, 0 if self.everywhere else partition)
        if self.begins is not None:
            b0, b1 = self.begins
            if self.run.least_from <= b0 or self.run.greatest_from > b1:
                at = rows.get_column(AT if AT in rows.columns else FROM).to_numpy()
                inside = (at > b0) & (at <= b1)
                rows = rows if inside.all() else rows.filter(pl.Series(inside))
        return rows.drop(AT) if AT in rows.columns else rows


@dataclass(frozen=True)
class ArrivalId:
    """Rows that came together: a run of an inbox and its pieces share the id.

    `lanes` is a fingerprint of the keys of the lanes for which there are pieces.
    """

    step: int
    lanes: str
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    @classmethod
    def of(cls, step: int, lanes: Iterable[str]) -> ArrivalId:
        """Return a new arrival with pieces for lanes of these keys."""
        return cls(step, _fingerprint(lanes))

    def write(self, inbox: TraceId, rows: Frame, files: Files) -> Run:
        """Write the run of the inbox."""
        path, size = files.save_frame(inbox.unique_path(self.step, self.id), rows)
        run = Run.of(path, rows, size, self.step)
        return replace(run, arrival=self.id, lanes=self.lanes)

    def write_parts(
        self, port: TraceId, rows: Frame, parts: Sequence[Frame], begins: tuple[int, int], files: Files
    ) -> Run:
        """Write a piece: rows and their parts, which begin within some bounds before they are projected."""
        path, size = files.save_parts(port.unique_path(self.step, self.id), parts)
        run = Run.of(path, rows, size, self.step)
        return replace(run, least_from=begins[0], greatest_from=begins[1], arrival=self.id)


def _fingerprint(lanes: Iterable[str]) -> str:
    return hashlib.blake2b(" ".join(sorted(set(lanes))).encode(), digest_size=8).hexdigest()


def write_piece(
    trace: TraceId,
    projection: InputProjection,
    rows: Frame,
    arrival: ArrivalId,
    files: Files,
    partitions: int,
    here: int,
) -> Run | None:
    """Write the piece of a run for a lane; return None if the lane takes none of its rows.

    Rows that may stay wherever they are go to the partition of their task.
    """
    rows = projection.wanted(rows)
    if rows.is_empty():
        return None
    piece = projection.take(rows, {} if projection.begin == FROM else {AT: FROM})
    if projection.broadcast:
        parts = [piece]
    elif projection.partition is None:
        parts = [piece if p == here % partitions else piece.clear() for p in range(partitions)]
    else:
        parts = _by_place(piece, rows.get_column(projection.partition).to_numpy(), partitions)
    begins = rows.get_column(FROM).to_numpy()
    return arrival.write_parts(trace, piece, parts, (int(begins.min()), int(begins.max())), files)


def _by_place(rows: Frame, places: np.ndarray, partitions: int) -> list[Frame]:
    """Return the rows of each partition, in the order in which they came."""
    if partitions == 1:
        return [rows]
    order = np.argsort(places, kind="stable")
    ends = np.searchsorted(places[order], np.arange(partitions + 1))
    ordered = rows[order]
    return [ordered[int(a) : int(b)] for a, b in pairwise(ends)]


@dataclass(frozen=True)
class Due:
    """Where the rows of a slice come from: pieces for ports of stages, and runs that Spark must read."""

    pieces: Mapping[tuple[int, int], tuple[PartitionedInputFile, ...]]
    rest: Mapping[P.ScanOperator, tuple[Run, ...]]


def find_due_pieces(lanes: Sequence[Lane], manifest: Manifest, slices: StepSlices) -> Due:
    """Return the pieces that hold rows of a step, and the runs that were written for other lanes."""
    pieces: dict[tuple[int, int], list[PartitionedInputFile]] = {}
    rest: dict[P.ScanOperator, tuple[Run, ...]] = {}
    for scan in {lane.scan: None for lane in lanes}:
        now = _fingerprint(lane.key for lane in lanes if lane.scan.relation == scan.relation)
        inbox = (*manifest.runs(TraceId("inbox", scan.relation)), *manifest.admitted(scan.relation))
        begins: tuple[int, int] | None = None
        if scan.source == P.ARRIVALS:
            here = manifest.new_arrivals(inbox)
        else:
            slice_ = slices.of_operator(scan)
            b0, b1 = begins = slice_.b0, slice_.b1
            here = [r for r in inbox if r.greatest_from > b0 and r.least_from <= b1]
        rest[scan] = tuple(r for r in here if r.lanes != now)
        arrivals = {r.arrival for r in here if r.lanes == now}
        for lane in lanes:
            if lane.scan == scan:
                trace, everywhere = lane.projection.port(lane.key), lane.projection.broadcast
                found = (run for run in manifest.runs(trace) if run.arrival in arrivals)
                port = pieces.setdefault((lane.stage, lane.port), [])
                port += [PartitionedInputFile(run, everywhere, begins, lane.window) for run in found]
    return Due({place: tuple(found) for place, found in pieces.items()}, rest)


def merge_waiting(manifest: Manifest, files: Files, policy: Policy) -> dict[TraceId, tuple[Run, ...]]:
    """Merge runs of a source, with their pieces, where many wait for the bound."""
    changed: dict[TraceId, tuple[Run, ...]] = {}
    ports = manifest.of("port")
    for trace, runs in manifest.of("inbox").items():
        kinds: dict[str, list[Run]] = {}
        for run in runs:
            if run.greatest_from > manifest.bound and run.lanes is not None:
                kinds.setdefault(run.lanes, []).append(run)
        for lanes, waiting in kinds.items():
            for group in merges(waiting, policy, manifest.bound):
                arrival = ArrivalId(manifest.step, lanes)
                rows = stack_frames([files.read_frame(run.path) for run in group])
                merged = replace(arrival.write(trace, rows, files), places=group[0].places)
                changed[trace] = _in_place_of(group, changed.get(trace, runs), merged)
                merging = {run.arrival for run in group}
                for port, pieces in ports.items():
                    mine = [piece for piece in pieces if piece.arrival in merging]
                    if mine:
                        one = _merged_pieces(mine, arrival, port, files)
                        changed[port] = _in_place_of(mine, changed.get(port, pieces), one)
    return changed


def _merged_pieces(pieces: Sequence[Run], arrival: ArrivalId, port: TraceId, files: Files) -> Run:
    """Merge some pieces into one, part by part."""
    read = [files.read_parts(piece.path) for piece in pieces]
    parts = [stack_frames(frames) for frames in zip(*read, strict=True)]
    begins = min(p.least_from for p in pieces), max(p.greatest_from for p in pieces)
    return arrival.write_parts(port, stack_frames(parts), parts, begins, files)


def _in_place_of(gone: Sequence[Run], runs: Sequence[Run], merged: Run) -> tuple[Run, ...]:
    paths = {run.path for run in gone}
    return (*(run for run in runs if run.path not in paths), merged)


def pieces_of(manifest: Manifest) -> dict[TraceId, tuple[Run, ...]]:
    """Return the pieces of runs that still wait for the bound, and of those that no step has evaluated."""
    inbox = [run for runs in manifest.of("inbox").values() for run in runs]
    waiting = {run.arrival for run in inbox}
    new = {run.arrival for run in manifest.new_arrivals(inbox)}
    return {
        t: tuple(r for r in runs if r.arrival in (new if t.part == P.ARRIVALS else waiting))
        for t, runs in manifest.of("port").items()
    }
