"""The manifest: what a store is after a step. One small file for each step, never changed.

A step writes its runs, then its manifest. Whoever reads takes the last manifest, and then
only files that it names: no reader waits for a writer, and none sees half a step.
"""

from __future__ import annotations

import re
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from everview.algebra.text import name_sql
from everview.algebra.time import INFINITY
from everview.errors import StoreError, format_count
from everview.operators.columnar.frame import BEFORE_ALL
from everview.plan.views import KeptPlan, NextPlan, ViewStart
from everview.storage.addresses import file_of
from everview.storage.arrivals import PartTimes
from everview.storage.files import MEND_OR_RESTORE, FileMissing, Files
from everview.storage.plans import plan_path
from everview.storage.records import decode_record, encode_record
from everview.storage.runs import ACCEPTED, ADMITTED, ALL_FOLDERS, Run, TraceId, Traces
from everview.storage.scheduled_change import Change
from everview.storage.trace import missing_run

MANIFEST_FORMAT = 4  # 3: every run was a file of its own
FOLDER = "manifests"
LEFT_OUT, MISSING = "left out", "missing"  # columns of files that are not declared, or declared columns

_NAME = re.compile(rf"{FOLDER}/(\d{{8,}})\.json")
_ATTEMPTS = 3

Scheduled = Mapping[str, tuple[Change, ...]]  # the changes of each table, by its name


class DamagedManifest(StoreError):
    """A manifest that was written completely and has been damaged since."""


@dataclass(frozen=True)
class Replacement:
    """CREATE OR REPLACE of a view: the step that did it, and the instant from which the new rows count.

    The earlier changes are kept as the part `replaced` of the view, unless it begins `anew` because it has
    other columns now. Its changes can be followed from the step `followed_from` on.
    """

    step: int
    at: int
    anew: bool = False
    followed_from: int = 0


@dataclass(frozen=True)
class SetAside:
    """A view that made a step fail, or reads one that did: the step, its error, and the bound before it.

    `because_of` is the view whose error it is.
    """

    step: int
    bound: int
    because_of: str
    error: str
    next_step: str = ""
    kind: str = "view"  # of `because_of`

    @property
    def resume_sql(self) -> str:
        """The statement that lets it go on."""
        return f"ALTER {self.kind.split()[-1].upper()} {name_sql(self.because_of)} RESUME"


@dataclass(frozen=True)
class Rewound:
    """A step in which the store was taken back to an instant: what steps said about later instants is void.

    The changes of the steps from `void_from` up to this one are gone, and come again.
    """

    step: int
    to: int
    void_from: int


@dataclass(frozen=True)
class Manifest:
    """A store after a step.

    `bound` is the common bound of its streams, `bounds` has that of each stream and time line; `present`
    is the greatest timestamp taken in; `batch` the batch of Spark that the step was. `newest` has the
    newest timestamp of each stream and time line, `heard` when (by the clock on the wall) a stream last had
    rows, `counts` how many of its rows were taken, late and refused, `punctuated` up to where punctuations
    (PUNCTUATE WHEN) have said that all is known; `parts` has these times for each part of a source that has
    parts side by side; `start` is the least timestamp of the
    first slice. `since` says from which instant on a view answers that cannot be computed from the beginning,
    and `partial` which streams it reads only from there on. `replaced` has the last replacement of each view
    by CREATE OR REPLACE. `marks` has the bounds
    of the last steps: a step's changes are those between its bound and the one before. `changed` has the
    files of each source that were found changed after they were read, with the time of the change.
    `told` has, by stream, the columns of which it was told that files have them undeclared, or lack them.
    `scheduled` has the changes of each table that are given for an instant after the bound (`scheduled.py`).
    `plans` has the plan that the state of each view belongs to, `next` the one that will replace it, `aside`
    the views that were set aside because they made a step fail. `forgotten` is the instant up to which the
    changes of a view are forgotten that retains a number of them in any case. `reread` has, by stream, the
    files that changed and were read anew when the store was taken back: their time, and the step. `rewound`
    has the steps that took the store back.
    `evaluated` is the last step whose new rows event queries have seen; 0 in stores of releases without
    them. `event_bounds` has the bounds of the time lines of event streams, `event_marks` those of the last
    steps, and `slowest` is the least instant that a view over event streams has reached.
    `catalog` is the checksum of the catalog that belongs to it, `progress` one of how far Spark had read the
    sources in that batch; None in stores of older releases.
    """

    step: int = 0
    bound: int = BEFORE_ALL
    bounds: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    present: int = BEFORE_ALL
    traces: Traces = field(default_factory=dict)
    batch: int | None = None
    finished: bool = False
    newest: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    heard: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    start: int | None = None
    since: Mapping[str, int] = field(default_factory=dict)
    marks: tuple[tuple[int, int], ...] = ()
    changed: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    scheduled: Scheduled = field(default_factory=dict)
    told: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    catalog: int | None = None
    progress: int | None = None
    partial: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    replaced: Mapping[str, Replacement] = field(default_factory=dict)
    plans: Mapping[str, KeptPlan] = field(default_factory=dict)
    next: Mapping[str, NextPlan] = field(default_factory=dict)
    aside: Mapping[str, SetAside] = field(default_factory=dict)
    forgotten: Mapping[str, int] = field(default_factory=dict)
    reread: Mapping[str, Mapping[str, tuple[int, int]]] = field(default_factory=dict)
    rewound: tuple[Rewound, ...] = ()
    evaluated: int = 0
    event_bounds: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    event_marks: Mapping[str, Mapping[str, tuple[tuple[int, int], ...]]] = field(default_factory=dict)
    slowest: int = INFINITY
    punctuated: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    parts: Mapping[str, Mapping[str, PartTimes]] = field(default_factory=dict)

    @property
    def seen(self) -> int:
        """The instant up to which all views have seen the rows of streams."""
        return min(self.bound, self.slowest)

    @property
    def seen_by_events(self) -> int:
        """The last step whose new rows event queries have seen, or would have if there had been any.

        A store that was written by a release without them has evaluated all its steps.
        """
        return self.evaluated or (self.step if self.bound > BEFORE_ALL else 0)

    def new_arrivals(self, runs: Sequence[Run]) -> list[Run]:
        """Return the runs of an inbox that event queries have not seen."""
        return [run for run in runs if run.step > self.evaluated]

    @property
    def starts(self) -> dict[str, ViewStart]:
        """Where the views begin that were created when the store had run."""
        return {view: ViewStart(since, self.partial.get(view)) for view, since in self.since.items()}

    @property
    def clock_range(self) -> tuple[int, int]:
        """From when until when the clock ticks: from the first timestamp to the newest; never, if none came.

        >>> Manifest(start=3, present=9).clock_range
        (3, 9)
        """
        return INFINITY if self.start is None else self.start, self.present

    def runs(self, trace: TraceId) -> tuple[Run, ...]:
        """Return the runs of one trace; none if it has not yet begun."""
        return self.traces.get(trace, ())

    def of(self, kind: str, owner: str | None = None) -> dict[TraceId, tuple[Run, ...]]:
        """Return the traces of a kind, or those of one owner: all parts and partitions."""
        wanted = None if owner is None else owner.casefold()
        return {t: r for t, r in self.traces.items() if t.kind == kind and wanted in (None, t.owner)}

    def admitted(self, stream: str) -> tuple[Run, ...]:
        """Return the runs of rows of a stream that were late or rejected, and count by now."""
        return tuple(run for part in (ADMITTED, ACCEPTED) for run in self.runs(TraceId("late", stream, part)))

    def keeps_rows_of(self, name: str) -> bool:
        """Return whether there are rows of a name: an interrupted DROP leaves them behind."""
        folded = name.casefold()
        known = {n.casefold() for n in (*self.counts, *self.bounds)}
        return folded in known or any(t.owner == folded for t in self.traces if t.kind != "state")

    def voided(self, step: int) -> Rewound | None:
        """Return what took the store back before the changes of a step; None if they still count.

        >>> after = Manifest(rewound=(Rewound(7, 100, 4),))
        >>> [after.voided(step) is None for step in (3, 4, 6, 7)]
        [True, False, False, True]
        """
        return next((r for r in reversed(self.rewound) if r.void_from <= step < r.step), None)

    def still_scheduled(self) -> Scheduled:
        """Return the scheduled changes without those that the bound has passed."""
        left = {t: tuple(c for c in cs if c.at > self.bound) for t, cs in self.scheduled.items()}
        return {table: changes for table, changes in left.items() if changes}

    def with_traces(self, changed: Traces) -> Manifest:
        """Return the manifest with new lists of runs for some traces; a trace without runs is dropped."""
        traces = {**self.traces, **changed}
        return replace(self, traces={trace: tuple(runs) for trace, runs in traces.items() if runs})

    def without_plans(self, gone: Callable[[str], bool]) -> Manifest:
        """Return the manifest without anything about the plans of some views."""
        return replace(
            self,
            plans={name: plan for name, plan in self.plans.items() if not gone(name)},
            next={name: plan for name, plan in self.next.items() if not gone(name)},
            aside={name: found for name, found in self.aside.items() if not gone(name)},
        )

    def paths(self) -> set[str]:
        """Return all files that it names."""
        return self.run_paths() | {plan_path(digest) for digest in self.stored_plans()}

    def run_paths(self) -> set[str]:
        """Return the files of rows that it names."""
        return {file_of(run.path) for runs in self.traces.values() for run in runs}

    def stored_plans(self) -> set[str]:
        """Return the digests of the plans that are in the store."""
        return {kept.plan for kept in self.plans.values()} | {plan.plan for plan in self.next.values()}

    def to_json(self) -> bytes:
        """Return it as JSON, with a checksum.

        >>> manifest = Manifest(3, 7, {"s": {"ts": 7}}, 9)
        >>> Manifest.from_json(manifest.to_json()) == manifest
        True
        """
        rest = encode_record({name: value for name, value in vars(self).items() if name != "traces"})
        # Keys of JSON are strings: traces are pairs.
        traces = encode_record(sorted(self.traces.items(), key=lambda pair: pair[0]))
        return msgspec.json.encode(
            _Document(MANIFEST_FORMAT, _checksum(rest, traces), msgspec.Raw(rest), msgspec.Raw(traces))
        )

    @classmethod
    def from_json(cls, text: bytes) -> Manifest:
        """Return the manifest that `to_json` wrote; ValueError if it did not write this."""
        try:
            whole = msgspec.json.decode(text, type=_Document)
        except msgspec.ValidationError as error:
            raise ValueError("this is no manifest") from error
        if whole.format > MANIFEST_FORMAT:
            raise StoreError(
                f"it was written by a newer Everview (format {whole.format}, "
                f"this one reads {MANIFEST_FORMAT})",
                next_step="upgrade Everview",
            )
        if whole.crc32 != _checksum(whole.body, whole.traces):
            raise ValueError("its checksum is wrong")
        return replace(decode_record(whole.body, cls), traces=dict(decode_record(whole.traces, _Traces)))


class _Document(msgspec.Struct):
    """The file of a manifest; the checksum is that of the bytes of what follows it."""

    format: int
    crc32: int = 0
    body: msgspec.Raw = msgspec.Raw()
    traces: msgspec.Raw = msgspec.Raw()


_Traces = list[tuple[TraceId, tuple[Run, ...]]]


def path_of(step: int) -> str:
    """Return the path of the manifest of a step.

    >>> path_of(12)
    'manifests/00000012.json'
    """
    return f"{FOLDER}/{step:08}.json"


def write(files: Files, manifest: Manifest) -> None:
    """Write a manifest; from then on it is the last one."""
    files.write(path_of(manifest.step), manifest.to_json())


def list_steps(files: Files) -> list[int]:
    """Return the steps whose manifests are there, in order."""
    found = (_NAME.fullmatch(f.path) for f in files.list_files(FOLDER, recursive=False))
    return sorted(int(m[1]) for m in found if m is not None)


def read(files: Files, step: int) -> Manifest:
    """Read the manifest of a step; raise an error that names the file if it is damaged or too new."""
    path = path_of(step)
    data = files.read(path)
    try:
        found = Manifest.from_json(data)
        if found.step != step:
            raise ValueError(f"it is the manifest of step {found.step}")
        return found
    except StoreError as error:
        raise StoreError(f"{files}/{path}: {error.what}", next_step=error.next_step) from error
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedManifest(
            f"{files}/{path} is damaged: {str(error).splitlines()[0]}",
            next_step=MEND_OR_RESTORE,
        ) from error


def read_latest(files: Files, only_reading: bool = False) -> Manifest | None:
    """Read the last manifest; None before the first step.

    A manifest is renamed into place whole, so a damaged one is damage of the disk. A writer must not go
    on from the one before: Spark would not send the batch again. A reader may, and is warned.
    """
    for _ in range(_ATTEMPTS):
        try:
            return _latest(files, only_reading)
        except FileMissing:
            continue  # clean-up has deleted it since it was listed: there is a later one
    raise StoreError(
        f"the manifests of {files} go away faster than they can be read",
        next_step="keep more of them when you clean the store",
    )


def _latest(files: Files, only_reading: bool) -> Manifest | None:
    found = list_steps(files)
    for step in reversed(found):
        try:
            return read(files, step)
        except DamagedManifest as error:
            if not only_reading or step == found[0]:
                raise
            warnings.warn(f"{error.what}; reading the store as it was before step {step}", stacklevel=3)
    return None


def check_runs(files: Files, manifest: Manifest) -> None:
    """Raise an error if a file that the manifest names is missing; called when writing begins."""
    there = {f.path for folder in ALL_FOLDERS for f in files.list_files(folder)}
    missing: Sequence[str] = sorted(manifest.paths() - there)
    if missing:
        error = missing_run(files, missing[0])
        more = f" (and {format_count(len(missing) - 1, 'more file')})" if len(missing) > 1 else ""
        raise FileMissing(f"{error.what}: {path_of(manifest.step)}{more}", next_step=error.next_step)


def _checksum(*parts: bytes | msgspec.Raw) -> int:
    """Return the CRC-32 of some bytes.

    >>> _checksum(b"ab", b"c") == zlib.crc32(b"abc")
    True
    """
    crc = 0
    for part in parts:
        crc = zlib.crc32(memoryview(part), crc)
    return crc
