"""Many small runs written at once.

What Polars and Arrow do once for a frame takes longer than to write a few rows. So frames of equal columns
are put together, and each run is a stretch of the whole; its file is the same as if it was written alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from everview.operators.columnar.frame import Frame, stack_frames
from everview.storage.encoding import encode_batch, has_fixed_width
from everview.storage.files import Files
from everview.storage.runs import Run


@dataclass(frozen=True)
class RunToWrite:
    """Rows, at least one, the path that their run has if it has a file of its own, and its number."""

    path: str
    frame: Frame
    sequence: int = -1


def write_runs(files: Files, wanted: Sequence[RunToWrite], step: int) -> list[Run]:
    """Write runs; return them in the same order."""
    alike: dict[tuple[object, ...], list[int]] = {}
    for i, run in enumerate(wanted):
        alike.setdefault((*run.frame.columns, *run.frame.dtypes), []).append(i)
    found: dict[int, Run] = {}
    for places in alike.values():
        group = [wanted[i] for i in places]
        if len(group) > 1 and has_fixed_width(group[0].frame):
            found |= zip(places, _write_alike(files, group, step), strict=True)
        else:
            found |= {i: _write_one(files, run, step) for i, run in zip(places, group, strict=True)}
    return [found[i] for i in range(len(wanted))]


def _write_one(files: Files, run: RunToWrite, step: int) -> Run:
    path, size = files.save_frame(run.path, run.frame)
    return Run.of(path, run.frame, size, step, run.sequence)


def _write_alike(files: Files, group: Sequence[RunToWrite], step: int) -> list[Run]:
    """Write runs with the same columns, all of fixed width."""
    rows = stack_frames([run.frame for run in group]).rechunk()
    [batch] = rows.to_arrow().to_batches()
    edges = list(accumulate((run.frame.height for run in group), initial=0))
    saved = [
        files.save_encoded(run.path, encode_batch(batch.slice(begin, end - begin), files.local))
        for run, (begin, end) in zip(group, pairwise(edges), strict=True)
    ]
    paths, sizes = [path for path, _ in saved], [size for _, size in saved]
    return Run.of_stretches(paths, rows, edges, sizes, step, [run.sequence for run in group])
