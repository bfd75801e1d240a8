"""A trace: the state of an operator in one partition, an immutable list of runs (DESIGN section 7).

A task is given the runs that the last manifest names, reads of them what it needs, adds what its step adds,
and hands back the new list; the files of the old one stay until no manifest names them.

Spark's state store is not used: it hands rows to Python key by key, and has no runs that expire whole. Table
formats (Delta, Iceberg) commit each table for itself; here one manifest commits all states and views.

>>> import tempfile
>>> from everview.operators.columnar.frame import make_frame, consolidate_frame
>>> folder = tempfile.TemporaryDirectory()
>>> trace = Trace(TraceId("state", "join3", "left", 5), (), Files(folder.name))
>>> trace = trace.append(make_frame({"v": [1, 2]}, [(0, 5, 1), (3, 9, 1)]), step=1, bound=4)
>>> trace = trace.append(make_frame({"v": [2]}, [(6, 9, -1)]), step=2, bound=7)
>>> trace.read(until_after=7).rows()
[(2, 3, 9, 1), (2, 6, 9, -1)]
>>> trace.read(runs_due=(7, 9)).rows()
[(1, 0, 5, 1), (2, 3, 9, 1), (2, 6, 9, -1)]
>>> trace.merged(trace.runs, consolidate_frame, step=2, bound=7).runs
()
>>> trace.drop_expired(9).runs
()
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from everview.errors import StoreError
from everview.operators.columnar.frame import BEFORE_ALL, FROM, UNTIL, Frame
from everview.operators.columnar.lazy import np, pl
from everview.storage.addresses import file_of
from everview.storage.compaction import Policy, merges
from everview.storage.files import MEND_OR_RESTORE, FileMissing, Files
from everview.storage.many_runs import RunToWrite, write_runs
from everview.storage.runs import Run, TraceId, next_sequence

# Rows with a bound → as few rows that answer the same after it: `consolidate_frame`, or the kernel's own.
Shrink = Callable[[Frame, int], Frame]


@dataclass(frozen=True)
class RowsToRead:
    """The rows that end after an instant, or in (b0, b1]; with `runs_due`, whole runs with such rows."""

    until_after: int | None = None
    due: tuple[int, int] | None = None
    runs_due: tuple[int, int] | None = None


@dataclass(frozen=True)
class Trace:
    """The runs of one trace, and how to read and grow them. Every method leaves this one as it is.

    With a `prefix`, the columns of a record are read under names that begin with it, whatever their names in
    the files are: operators that share a state name its columns in their own way.
    """

    id: TraceId
    runs: tuple[Run, ...]
    files: Files
    policy: Policy = field(default_factory=Policy)
    prefix: str = ""

    @property
    def rows(self) -> int:
        """How many rows are kept, also those that have ended or will cancel."""
        return sum(run.rows for run in self.runs)

    def drop_expired(self, bound: int) -> Trace:
        """Return it without the runs whose rows have all ended; no file is read or deleted."""
        left = tuple(run for run in self.runs if run.greatest_until > bound)
        return self if len(left) == len(self.runs) else replace(self, runs=left)

    def append(self, frame: Frame, step: int, bound: int = BEFORE_ALL) -> Trace:
        """Append the rows of a frame that end after the bound, as one run or one for each expiry bucket."""
        return append_rows([self], [(0, _ending_after(frame, bound))], step, bound)[0]

    def read(
        self,
        empty: Frame | None = None,
        *,
        until_after: int | None = None,
        due: tuple[int, int] | None = None,
        at: int | None = None,
        runs_due: tuple[int, int] | None = None,
        columns: Sequence[str] | None = None,
    ) -> Frame:
        """Read the rows that end after an instant, end in (b0, b1], or hold at an instant; else all.

        Only runs that can have such rows are read. With `runs_due` they are read whole: all rows that end in
        (b0, b1], and others, as they lie in the files. `empty` says which columns there are when no row is
        found. Runs may have different columns, as the sums of a sweep do: what a run does not have is NULL.
        """
        wanted = [
            run for run in self.runs if run.holds(until_after, due, at) and run.holds(None, runs_due, None)
        ]
        frames = [] if empty is None else [empty if columns is None else empty.select(columns)]
        frames += [self._read_run(run, columns, until_after, due, at) for run in wanted]
        if not frames:
            return pl.DataFrame()
        return frames[0] if len(frames) == 1 else self._together(frames)

    def read_runs(self, wanted: RowsToRead) -> list[Frame]:
        """Read the runs that can have such rows, all rows of each."""
        return [
            self._read_run(run, None, None, None, None)
            for run in self.runs
            if run.holds(wanted.until_after, wanted.due, None) and run.holds(None, wanted.runs_due, None)
        ]

    def _read_run(
        self,
        run: Run,
        columns: Sequence[str] | None,
        until_after: int | None,
        due: tuple[int, int] | None,
        at: int | None,
    ) -> Frame:
        try:
            needed = None if columns is None else [*columns, *{FROM, UNTIL}.difference(columns)]
            frame = self.files.read_frame(run.path, needed, rows=run.rows)
        except FileMissing as error:
            raise missing_run(self.files, run.path) from error
        if self.prefix:
            frame = with_prefix(frame, self.prefix)
        frame = _chosen_rows(run, frame, until_after, due, at)
        return frame if columns is None else frame.select(c for c in columns if c in frame.columns)

    def _together(self, frames: Sequence[Frame]) -> Frame:
        try:
            return pl.concat(frames, how="diagonal")
        except pl.exceptions.PolarsError as error:
            raise StoreError(
                f"the runs in {self.files}/{self.id.folder} do not have the same types: {error}",
                next_step="drop what they belong to and make it anew: it was changed under its old name",
            ) from error

    def compact(self, shrink: Shrink, step: int, bound: int) -> Trace:
        """Merge runs where the policy finds that worth it; no snapshot after the bound changes.

        `shrink` may get a part of the rows only, and must not change any answer then. A function that sums
        equal rows, or drops rows that another row makes redundant, is of this kind.
        """
        trace = self.drop_expired(bound)
        for group in merges(trace.runs, trace.policy, bound):
            trace = trace.merged(group, shrink, step, bound)
        return trace

    def merged(self, group: Sequence[Run], shrink: Shrink, step: int, bound: int) -> Trace:
        """Replace some runs by one (or one for each bucket)."""
        together = self.only(group).read(until_after=bound)
        small = together if together.is_empty() else shrink(together, bound)
        return self.append(small, step, bound).without(group)

    def only(self, runs: Sequence[Run]) -> Trace:
        """Return it with these runs alone, in the order of their ends.

        A state of events is then in the order of time, and is sorted faster.
        """
        return replace(self, runs=tuple(sorted(runs, key=lambda run: (run.least_until, run.greatest_until))))

    def without(self, runs: Sequence[Run]) -> Trace:
        """Return it without these runs."""
        gone = {run.path for run in runs}
        return replace(self, runs=tuple(run for run in self.runs if run.path not in gone))


def append_rows(
    traces: Sequence[Trace], rows: Sequence[tuple[int, Frame]], step: int, bound: int = BEFORE_ALL
) -> list[Trace]:
    """Append rows, all of which end after the bound, to traces of the same files, given by their numbers."""
    grown = [trace.runs for trace in traces]
    wanted: list[tuple[int, RunToWrite]] = []
    sequences: dict[int, int] = {}
    for i, frame in rows:
        if frame.is_empty():
            continue
        parts = traces[i].policy.split(frame, bound) if UNTIL in frame.columns else [frame]
        first = sequences.get(i, next_sequence(grown[i], step))
        sequences[i] = first + len(parts)
        for number, part in enumerate(parts, first):
            wanted.append((i, RunToWrite(traces[i].id.path(step, number), part, number)))
    if not wanted:
        return list(traces)
    written = write_runs(traces[0].files, [run for _, run in wanted], step)
    for (i, _), run in zip(wanted, written, strict=True):
        grown[i] = (*grown[i], run)
    return [t if t.runs == runs else replace(t, runs=runs) for t, runs in zip(traces, grown, strict=True)]


def with_prefix(frame: Frame, prefix: str) -> Frame:
    """Return a frame whose columns c0, c1, … or r0, r1, … have names with this prefix.

    >>> with_prefix(pl.DataFrame({"r0": [1], "_n": [1]}), "c").columns
    ['c0', '_n']
    """
    names = [name if name.startswith("_") else prefix + name[1:] for name in frame.columns]
    if names == frame.columns:
        return frame
    same = frame.clone()
    same.columns = names
    return same


def missing_run(files: Files, path: str) -> StoreError:
    """Return the error for a run that a manifest names and that does not exist."""
    return FileMissing(
        f"{files}/{file_of(path)} is missing, and a manifest names it",
        next_step="who only reads and has read for long: read again, the file was cleaned away; "
        f"else {MEND_OR_RESTORE}",
    )


def _ending_after(frame: Frame, bound: int) -> Frame:
    """Return the rows that end after the bound; mostly these are all, and nothing is copied."""
    if UNTIL not in frame.columns or bound == BEFORE_ALL:
        return frame
    later = frame[UNTIL].to_numpy() > bound
    return frame if later.all() else frame[np.flatnonzero(later)]


def _chosen_rows(
    run: Run, frame: Frame, until_after: int | None, due: tuple[int, int] | None, at: int | None
) -> Frame:
    """Return the rows of a run that are asked for; NumPy finds a few among many faster than a filter."""
    chosen = []
    if until_after is not None and run.least_until <= until_after:
        chosen.append(frame[UNTIL].to_numpy() > until_after)
    if due is not None and not due[0] < run.least_until <= run.greatest_until <= due[1]:
        until = frame[UNTIL].to_numpy()
        chosen.append((until > due[0]) & (until <= due[1]))
    if at is not None and not run.greatest_from <= at < run.least_until:
        chosen.append((frame[FROM].to_numpy() <= at) & (frame[UNTIL].to_numpy() > at))
    return frame[np.flatnonzero(np.logical_and.reduce(chosen))] if chosen else frame
