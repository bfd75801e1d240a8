"""A check of a whole store: every file that counts is read and compared with its checksum. No Spark.

A store may be checked while another process writes it: a file that was cleaned away meanwhile is no damage.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from everview.errors import StoreError
from everview.storage import manifest as manifests
from everview.storage.addresses import file_of
from everview.storage.checkpoint import checkpoint_problems, require_agreement
from everview.storage.files import MEND_OR_RESTORE, Files
from everview.storage.manifest import Manifest
from everview.storage.plans import PlanReader, plan_path
from everview.storage.runs import Run, TraceId
from everview.storage.store import (
    CATALOG,
    CATALOG_COPY,
    NEXT_CATALOG,
    SETTINGS_COPY,
    SETTINGS_FILE,
    STEP_FILE,
    Store,
    encode_settings,
    read_settings,
)

_ATTEMPTS = 5  # to read a store while another process writes it

# What a file of each kind of trace is to a person.
_CONTENTS = {
    "state": "state of operators",
    "view": "changes of the view '{owner}'",
    "complete": "present answer of the view '{owner}'",
    "inbox": "rows of '{owner}'",
    "late": "late rows of '{owner}'",
    "rejected": "rejected rows of '{owner}'",
    "port": "rows that wait for the bound",
    "scheduled": "scheduled changes of '{owner}'",
}


@dataclass(frozen=True)
class DamagedPart:
    """A damaged part of a store: the file, what it holds, what is wrong with it, and what to do."""

    path: str
    contents: str
    what: str
    next_step: str

    @classmethod
    def of(cls, path: str, contents: str, error: StoreError) -> DamagedPart:
        return cls(path, contents, error.what, error.next_step or "")


@dataclass(frozen=True)
class StoreCheck:
    """The result of a check: how much was read, and the problems that were found."""

    step: int
    files: int
    bytes: int
    problems: tuple[DamagedPart, ...]


def check_store(store: Store) -> StoreCheck:
    """Read every file that the last manifest names, the manifests, the catalog and Spark's checkpoint."""
    reader = Store(store.files, store.settings)  # a writer would be refused; a reader is warned
    for _ in range(_ATTEMPTS):
        found, last = _check_once(reader)
        if not found.problems or last is None or manifests.read_latest(store.files) == last:
            break  # else it was written while it was read
    return found


def _check_once(store: Store) -> tuple[StoreCheck, Manifest | None]:
    """Return what is found, and the last manifest; None if that is damaged."""
    problems = list(_manifest_problems(store.files))
    try:
        last = manifests.read_latest(store.files)
    except StoreError:
        return StoreCheck(0, 0, 0, tuple(problems)), None
    manifest = last or Manifest()
    for path, contents, check in (
        (CATALOG, "names", lambda: store.load_catalog()),
        (STEP_FILE, "the last step", lambda: store.require_last_manifest(manifest)),
        ("checkpoint", "how far the sources were read", lambda: require_agreement(store.files, manifest)),
    ):
        try:
            check()
        except StoreError as error:
            problems.append(DamagedPart.of(path, contents, error))
    problems += [
        DamagedPart(path, "how far the sources were read", what, MEND_OR_RESTORE)
        for path, what in checkpoint_problems(store.files, manifest)
    ]
    problems += _settings_problems(store)
    problems += _catalog_copy_problems(store.files, manifest)
    problems += _run_problems(store.files, manifest)
    problems += [
        DamagedPart.of(plan_path(digest), "plan of views", error)
        for digest, error in damaged_plans(store.files, manifest)
    ]
    runs = {run.path: run.bytes for those in manifest.traces.values() for run in those}
    files = len({file_of(path) for path in runs})
    return StoreCheck(manifest.step, files, sum(runs.values()), tuple(problems)), last


def _settings_problems(store: Store) -> Iterator[DamagedPart]:
    """Yield what is wrong with the settings, which the store was perhaps opened without, and their copy."""
    files = store.files
    try:
        if read_settings(files) is None:
            what = f"{files}/{SETTINGS_FILE} is missing"
            yield DamagedPart(SETTINGS_FILE, "settings", what, MEND_OR_RESTORE)
    except StoreError as error:
        yield DamagedPart.of(SETTINGS_FILE, "settings", error)
    if files.exists(SETTINGS_COPY) and files.read(SETTINGS_COPY) != encode_settings(store.settings):
        yield _no_copy(files, SETTINGS_COPY, SETTINGS_FILE, "settings")


def _catalog_copy_problems(files: Files, last: Manifest) -> Iterator[DamagedPart]:
    """Yield the copy of the catalog if it is damaged; stores of older releases have none."""
    if not files.exists(CATALOG_COPY) or files.exists(NEXT_CATALOG):
        return  # a change of names was interrupted: the next one writes the copy
    if last.catalog not in (None, zlib.crc32(files.read(CATALOG_COPY))):
        yield _no_copy(files, CATALOG_COPY, CATALOG, "names")


def _no_copy(files: Files, path: str, of: str, contents: str) -> DamagedPart:
    return DamagedPart(path, contents, f"{files}/{path} is damaged: it is no copy of {of}", MEND_OR_RESTORE)


def _manifest_problems(files: Files) -> Iterator[DamagedPart]:
    steps = manifests.list_steps(files)
    for step in steps:
        try:
            manifests.read(files, step)
        except manifests.DamagedManifest as error:
            if step == steps[-1]:
                yield DamagedPart.of(manifests.path_of(step), "the last step", error)
            else:
                next_step = "nothing needs it: the next clean-up removes it"
                yield DamagedPart(manifests.path_of(step), f"step {step}", error.what, next_step)
        except StoreError as error:
            if files.exists(manifests.path_of(step)):
                yield DamagedPart.of(manifests.path_of(step), f"step {step}", error)


def _run_problems(files: Files, manifest: Manifest) -> Iterator[DamagedPart]:
    """Yield the runs of a manifest that are missing or damaged; of a packed file each kind of them once."""
    seen: set[tuple[str, str]] = set()
    for trace, run, error in damaged_runs(files, manifest):
        found = file_of(run.path), contents_of(trace)
        if found not in seen:
            seen.add(found)
            yield DamagedPart.of(*found, error)


def damaged_plans(files: Files, manifest: Manifest) -> Iterator[tuple[str, StoreError]]:
    """Yield the plans of a manifest that are missing or damaged, by their digests."""
    read = PlanReader(files)
    for digest in sorted(manifest.stored_plans()):
        try:
            read(digest)
        except StoreError as error:
            yield digest, error


def damaged_runs(files: Files, manifest: Manifest) -> Iterator[tuple[TraceId, Run, StoreError]]:
    """Yield the runs of a manifest that are missing or damaged, by trace; each file is read once."""
    errors: dict[str, StoreError | None] = {}
    for trace, runs in manifest.traces.items():
        for run in runs:
            if run.path not in errors:
                errors[run.path] = _error_of(files, run.path)
            error = errors[run.path]
            if error is not None:
                yield trace, run, error


def _error_of(files: Files, path: str) -> StoreError | None:
    try:
        files.verify(path)
    except StoreError as error:
        return error
    return None


def contents_of(trace: TraceId) -> str:
    """Return what the files of a trace hold, in words.

    >>> contents_of(TraceId("view", "sums"))
    "changes of the view 'sums'"
    """
    return _CONTENTS[trace.kind].format(owner=trace.owner)
