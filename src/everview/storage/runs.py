"""Runs: what is known of a file of rows without reading it, and what it is called.

A kernel is deterministic, and so is the name of a run of its state: the trace it belongs to, the step that
wrote it, and its number within the step. Other runs have names of their own in each attempt.
"""

from __future__ import annotations

import bisect
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import msgspec
from msgspec.structs import force_setattr, replace

from everview.algebra.time import INFINITY, LEAST
from everview.errors import StoreError
from everview.operators.columnar.frame import FROM, UNTIL, Frame, N
from everview.operators.columnar.lazy import np, pl
from everview.storage.addresses import file_of
from everview.storage.files import Files
from everview.storage.names import safe_name

# The folder of each kind of trace.
FOLDERS = {
    "state": "runs", "view": "views", "complete": "complete", "inbox": "inbox", "late": "late",
    "rejected": "rejected", "port": "ports", "scheduled": "scheduled",
}  # fmt: skip

BACKFILL = "backfill"  # the folder of the files of backfills, one folder for each
PLANS = "plans"  # the folder of the plans that state belongs to
ALL_FOLDERS = (*FOLDERS.values(), BACKFILL, PLANS)

# Parts of the late rows of a stream, which count as its rows: late rows that were re-admitted, and rejected
# rows that were accepted later. They begin when they count from, and have the columns of late rows.
ADMITTED, ACCEPTED = "admitted", "accepted"
REPLACED = "replaced"  # the part of a view with its changes from before it was replaced

_PARTS = 8  # into so many equal parts the rows of a run are cut, by their ends or begins


class TraceId(msgspec.Struct, frozen=True, order=True, omit_defaults=True):
    """Which trace: a part of an operator's state, a view's changes, a stream's inbox, its late rows, …

    Names that differ in case only are one name, as in the catalog. `route` has the columns of the key by
    which the rows of a state are partitioned; `change` is the number of the scheduled change that reads the
    rows. Folders are named after all this for people: nothing is read back from a path.
    """

    kind: str
    owner: str
    part: str = ""
    partition: int = 0
    route: tuple[int, ...] = ()
    change: int = 0

    def __post_init__(self) -> None:
        if self.kind not in FOLDERS:
            raise StoreError(f"there is no kind of trace '{self.kind}'", choices=FOLDERS)
        force_setattr(self, "owner", self.owner.casefold())
        force_setattr(self, "part", self.part.casefold())

    @property
    def folder(self) -> str:
        """The folder of the trace below the store's root.

        >>> TraceId("state", "join", "left", route=(0, 2)).folder
        'runs/join/left_by_0_2'
        >>> TraceId("scheduled", "stations", "m0", change=7).folder
        'scheduled/stations/7/m0'
        """
        part = f"{self.part}_by_{'_'.join(map(str, self.route))}" if self.route else self.part
        below = [str(self.change)] if self.change else []
        below += [safe_name(part)] if part else []
        return "/".join([FOLDERS[self.kind], safe_name(self.owner), *below])

    def path(self, step: int, sequence: int) -> str:
        """Return the path of a run below the store's root.

        >>> TraceId("state", "join 3", "left", 5).path(12, 0)
        'runs/join_3~5f339b4f3261/left/p0005-00000012-0000.arrow'
        """
        return f"{self.folder}/p{self.partition:04}-{step:08}-{sequence:04}.arrow"

    def unique_path(self, step: int, id_: str | None = None) -> str:
        """Return a path that no other attempt of the step has; only the files that a manifest names count."""
        return f"{self.folder}/{step:08}-{id_ or uuid.uuid4().hex}.arrow"

    def merged_path(self, step: int) -> str:
        """Return such a path for rows that are merged: no row has come with its step."""
        return f"{self.folder}/merged-{step:08}-{uuid.uuid4().hex}.arrow"


class Run(msgspec.Struct, frozen=True, omit_defaults=True):
    """An immutable file of rows, or a part of a packed one: `path` is its path, or its address.

    Rows without `_until` never end, rows without `_from` hold from the beginning. `ends` cuts the rows, in
    the order of their ends, into equal parts: so one can tell how many have ended without reading any.
    `begins` does the same by their begins, of merged changes that do not all end.
    `negative` is how many rows take others back; None for rows that are no changes, but are added up.
    `sequence` is its number within `step`, which its name has; -1 if it has an own name. `arrival` is the id
    that a run of an inbox shares with its pieces, `lanes` stands for the lanes for which it has pieces (None:
    for none, Spark reads it). `places` is set where columns were added to a stream or table after the run was
    written: the position in the file of each column that there is now, -1 of one that the file does not have.
    """

    path: str
    rows: int
    least_until: int
    greatest_until: int
    least_from: int
    greatest_from: int
    bytes: int
    ends: tuple[int, ...] = ()
    negative: int | None = None
    step: int = 0
    sequence: int = -1
    arrival: str = ""
    lanes: str | None = None
    places: tuple[int, ...] = ()
    begins: tuple[int, ...] = ()

    @classmethod
    def of(cls, path: str, frame: Frame, size: int, step: int = 0, sequence: int = -1) -> Run:
        """Return the run of a frame, which is not empty, in a file of this size."""
        [found] = cls.of_stretches([path], frame, [0, frame.height], [size], step, [sequence])
        return found

    @classmethod
    def of_stretches(
        cls,
        paths: Sequence[str],
        frame: Frame,
        edges: Sequence[int],
        sizes: Sequence[int],
        step: int,
        sequences: Sequence[int],
    ) -> list[Run]:
        """Return the runs of stretches of a frame, of which none is empty, each in a file of its own."""
        until, since = _column(frame, UNTIL, INFINITY), _column(frame, FROM, LEAST)
        least, greatest, first, last = (
            function.reduceat(times, edges[:-1]).tolist()
            for times in (until, since)
            for function in (np.minimum, np.maximum)
        )
        negative: Sequence[int | None] = [None] * len(paths)
        if N in frame.columns:
            taken_back = (frame[N].to_numpy() < 0).astype(np.int64)
            negative = np.add.reduceat(taken_back, edges[:-1]).tolist()
        return [
            cls(
                path, end - begin, least[i], greatest[i], first[i], last[i], sizes[i],
                _equal_parts(until[begin:end]) if least[i] < greatest[i] else (),
                negative[i], step, sequences[i],
            )
            for i, (path, (begin, end)) in enumerate(zip(paths, pairwise(edges), strict=True))
        ]  # fmt: skip

    @property
    def cancelling(self) -> int:
        """How many rows may cancel others, or add up with them."""
        return self.rows if self.negative is None else self.negative

    def alive(self, bound: int) -> int:
        """Return a lower bound of the rows that end after the bound; at most an eighth of all rows too low.

        >>> run = Run("a", 80, 10, 90, 0, 9, 0, (20, 30, 40, 50, 60, 70, 80))
        >>> run.alive(9), run.alive(30), run.alive(31), run.alive(89), run.alive(90)
        (80, 50, 50, 1, 0)
        """
        if bound < self.least_until:
            return self.rows
        # In the order of ends, ends[i] is that of row (i + 1) · rows / 8; the rows after it end no earlier.
        later = bisect.bisect_right(self.ends, bound)
        if later == len(self.ends):
            return int(bound < self.greatest_until)
        return self.rows - self.rows * (later + 1) // _PARTS

    def with_begins(self, frame: Frame) -> Run:
        """Return it with the begins that cut its rows, which are those of the frame, into equal parts."""
        if self.greatest_until < INFINITY or self.least_from == self.greatest_from:
            return self
        return replace(self, begins=_equal_parts(_column(frame, FROM, LEAST)))

    def parts_by_end(self) -> Iterator[tuple[int, int]]:
        """Yield an instant and a number of rows, for parts of it: the rows of the part end then or later.

        >>> list(Run("a", 16, 10, 90, 0, 9, 0, (20, 30, 40, 50, 60, 70, 80)).parts_by_end())[:3]
        [(10, 2), (20, 2), (30, 2)]
        """
        yield from _parts(self.rows, (self.least_until, *self.ends))

    def parts_by_begin(self) -> Iterator[tuple[int, int]]:
        """Yield an instant and a number of rows, for parts of it: the rows of the part begin then or later.

        >>> list(Run("a", 5, 10, 90, 3, 9, 0).parts_by_begin())
        [(3, 5)]
        """
        yield from _parts(self.rows, (self.least_from, *self.begins))

    def holds(self, until_after: int | None, due: tuple[int, int] | None, at: int | None) -> bool:
        """Return whether some rows may end after an instant, end in (b0, b1], or hold at an instant."""
        return (
            (until_after is None or self.greatest_until > until_after)
            and (due is None or (self.greatest_until > due[0] and self.least_until <= due[1]))
            and (at is None or self.least_from <= at < self.greatest_until)
        )


def _equal_parts(times: np.ndarray) -> tuple[int, ...]:
    """Return the times that cut rows into equal parts; none for a few rows."""
    if len(times) < _PARTS:
        return ()
    places = [len(times) * i // _PARTS for i in range(1, _PARTS)]
    return tuple(np.partition(times, places)[places].tolist())


def _parts(rows: int, cuts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield each cut, and the number of rows up to the next one."""
    for i, instant in enumerate(cuts):
        yield instant, rows * (i + 1) // len(cuts) - rows * i // len(cuts)


Traces = Mapping[TraceId, tuple[Run, ...]]


def next_sequence(runs: Sequence[Run], step: int) -> int:
    """Return the first number that no run of this step has taken."""
    return max((run.sequence + 1 for run in runs if run.step == step), default=0)


def _column(frame: Frame, name: str, otherwise: int) -> np.ndarray:
    if name in frame.columns:
        return frame[name].cast(pl.Int64).to_numpy()
    return np.full(frame.height, otherwise, dtype=np.int64)


_SYNCS = 8  # files that are synced at a time


def bring_to_disk(files: Files, before: Traces, after: Traces) -> None:
    """Sync the new files of a step and their folders to the disk, in a durable local store.

    A manifest must not name a file that a crash of the machine could lose. The system writes many small files
    faster when all are there than one after the other.
    """
    if not files.durable or not files.local:
        return
    old = {file_of(run.path) for trace in after for run in before.get(trace, ())}
    bring_files_to_disk(files, sorted({file_of(run.path) for runs in after.values() for run in runs} - old))


def bring_files_to_disk(files: Files, paths: Sequence[str]) -> None:
    """Sync some local files and their folders to the disk."""
    folders = {above for path in paths for above in _folders(path)}
    with ThreadPoolExecutor(_SYNCS) as pool:
        list(pool.map(_synced, [files.full_path(path) for path in (*paths, *sorted(folders))]))


def _folders(path: str) -> list[str]:
    """Return the folders that a file lies in, from its own up to the root.

    >>> _folders("runs/join/left/p0.arrow")
    ['runs/join/left', 'runs/join', 'runs', '']
    """
    parts = path.split("/")[:-1]
    return ["/".join(parts[:i]) for i in range(len(parts), -1, -1)]


def _synced(path: str) -> None:
    try:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise StoreError(
            f"{path} could not be brought to the disk: {os.strerror(error.errno or 0)}",
            next_step="check the disk and start again; the store is as its last finished step left it",
        ) from error
