"""A check of a whole store: every file that counts is read and compared with its checksum. No Spark.

A store may be checked while another process writes it: a file that was cleaned away meanwhile is no damage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from everview.errors import StoreError
from everview.storage import manifest as manifests
from everview.storage.checkpoint import require_agreement
from everview.storage.files import Files
from everview.storage.manifest import Manifest
from everview.storage.runs import TraceId
from everview.storage.store import CATALOG, Store

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
    problems = list(_manifest_problems(store.files))
    try:
        last = manifests.read_latest(store.files) or Manifest()
    except StoreError:
        return StoreCheck(0, 0, 0, tuple(problems))
    for path, contents, check in (
        (CATALOG, "names", lambda: store.load_catalog()),
        ("checkpoint", "how far the sources were read", lambda: require_agreement(store.files, last)),
    ):
        try:
            check()
        except StoreError as error:
            problems.append(DamagedPart.of(path, contents, error))
    found = list(_run_problems(store.files, last))
    if found and manifests.list_steps(store.files)[-1:] != [last.step]:
        return check_store(store)  # it was cleaned while it was read
    runs = {run.path: run.bytes for those in last.traces.values() for run in those}
    return StoreCheck(last.step, len(runs), sum(runs.values()), (*problems, *found))


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
    seen: set[str] = set()
    for trace, runs in manifest.traces.items():
        for run in runs:
            if run.path in seen:
                continue
            seen.add(run.path)
            try:
                files.verify(run.path)
            except StoreError as error:
                yield DamagedPart.of(run.path, contents_of(trace), error)


def contents_of(trace: TraceId) -> str:
    """Return what the files of a trace hold, in words.

    >>> contents_of(TraceId("view", "sums"))
    "changes of the view 'sums'"
    """
    return _CONTENTS[trace.kind].format(owner=trace.owner)
