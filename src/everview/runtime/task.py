"""What a Spark task does for a kernel: read the state of its partition, run the kernel, write what it adds.

The task tells what it wrote in a small file of its own, named after operator, step and partition; the step
reads these once its job is done. A task that is run again writes the same files again.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]

from everview.kernels.frame import CHANGE, Frame, Slice
from everview.runtime.files import Files
from everview.runtime.runs import Run, TraceId
from everview.runtime.stage import compact, empty_state, run_kernel
from everview.runtime.trace import Trace
from everview.spark import physical as P
from everview.spark.exchange import PARTITION, SIDE, Layout, slot

# State whose rows wait for their instant: only those that are due are read.
_QUEUES = ("queue", "coming")


@dataclass(frozen=True)
class KernelTask:
    """A kernel in one step, on any partition."""

    node: P.Physical
    layout: Layout
    operator: str
    traces: Mapping[TraceId, tuple[Run, ...]]
    files: Files
    step: int
    slice: Slice
    output: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows that this partition emits."""
        received = [b for b in batches if b.num_rows]
        if not received:
            return
        frame = pl.from_arrow(pa.Table.from_batches(received))
        assert isinstance(frame, pl.DataFrame)
        partition = int(frame[PARTITION][0])
        new = [self._input(frame, side) for side in range(len(self.layout.sides))]
        emitted = self._run(new, partition)
        yield from emitted.select(self.output.names).to_arrow().cast(self.output).to_batches()

    def _input(self, frame: Frame, side: int) -> Frame:
        """The rows of one side, their columns named by position again."""
        columns = [pl.col(slot(s)).alias(P.column(i)) for i, s in enumerate(self.layout.sides[side])]
        return frame.filter(pl.col(SIDE) == side).select(*columns, *CHANGE)

    def _run(self, new: list[Frame], partition: int) -> Frame:
        empty = empty_state(self.node, new)
        traces = {part: self._trace(part, partition) for part in empty}
        state = {part: self._read(part, trace, empty[part]) for part, trace in traces.items()}
        # An aggregate without keys has one row from the beginning of time: in one partition only.
        slice_ = self.slice if partition == 0 else replace(self.slice, first=False)
        result = run_kernel(self.node, new, state, slice_)
        bound = self.slice.b1
        kept: dict[str, list[dict[str, object]]] = {}
        for part, trace in traces.items():
            grown = trace.drop_expired(bound)
            if part in result.added:
                grown = grown.append(result.added[part], self.step, bound)

            def shrink(rows: Frame, at: int, part: str = part) -> Frame:
                return compact(self.node, part, rows, at)

            kept[part] = [run.to_json() for run in grown.compact(shrink, self.step, bound).runs]
        report = {"rows": result.output.height, "runs": kept}
        self.files.write(report_path(self.operator, self.step, partition), json.dumps(report).encode())
        return result.output

    def _trace(self, part: str, partition: int) -> Trace:
        trace = TraceId("state", self.operator, part, partition)
        return Trace(trace, self.traces.get(trace, ()), self.files)

    def _read(self, part: str, trace: Trace, empty: Frame) -> Frame:
        if part in _QUEUES:
            return trace.read(empty, due=(self.slice.b0, self.slice.b1))
        return trace.read(empty, until_after=self.slice.b0)


def report_path(operator: str, step: int, partition: int) -> str:
    """Where a task says what it wrote."""
    return f"steps/{step:08}/{operator}-{partition:04}.json"


def read_report(files: Files, operator: str, step: int, partition: int) -> dict[TraceId, tuple[Run, ...]]:
    """The runs of an operator's state in one partition after a step."""
    report = json.loads(files.read(report_path(operator, step, partition)))
    return {
        TraceId("state", operator, part, partition): tuple(Run.from_json(r) for r in runs)
        for part, runs in report["runs"].items()
    }


@dataclass(frozen=True)
class ViewTask:
    """Writes the change rows that a view emits in one step, as one run a partition, and tells which."""

    view: str
    files: Files
    step: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """A line for the run that was written, if there were rows."""
        received = [b for b in batches if b.num_rows]
        if not received:
            return
        frame = pl.from_arrow(pa.Table.from_batches(received))
        assert isinstance(frame, pl.DataFrame)
        # Only the files that a manifest names count: a name that no other attempt has is enough.
        path = f"{TraceId('view', self.view).folder}/{self.step:08}-{uuid.uuid4().hex}.arrow"
        run = Run.of(path, frame, self.files.write_frame(path, frame))
        line = {"view": [self.view], "run": [json.dumps(run.to_json())]}
        yield pa.RecordBatch.from_pydict(
            line, schema=pa.schema([("view", pa.string()), ("run", pa.string())])
        )


VIEW_LINES = "view string, run string"


@dataclass(frozen=True)
class ReadTask:
    """Reads runs: which ones, the rows of the input say by their number."""

    paths: tuple[str, ...]
    files: Files
    output: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of the runs."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                frame = self.files.read_frame(self.paths[number])
                yield from frame.select(self.output.names).to_arrow().cast(self.output).to_batches()
