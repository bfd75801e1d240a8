"""What is damaged in a store, and from which step it can go on. Nothing is written here; no Spark.

A store goes on from a manifest and a batch of Spark that belong together: the newest such pair. Rows of
sources that came later are read again; rows that were inserted later are taken from their files.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from everview.catalog import Catalog, FedEntry, StreamEntry, TableEntry
from everview.errors import StoreError, format_count
from everview.operators.base import column
from everview.operators.columnar.frame import CHANGE, FROM, Frame
from everview.operators.columnar.lazy import pl
from everview.storage import manifest as manifests
from everview.storage.altered import altered_since, name_at, placed_run
from everview.storage.arrivals import latest
from everview.storage.check import DamagedPart, check_store
from everview.storage.checkpoint import CHECKPOINT, find_checkpoint_damage, intact_batch, require_agreement
from everview.storage.files import Files, Listed
from everview.storage.manifest import Manifest
from everview.storage.names import source_log_name
from everview.storage.runs import Run, TraceId
from everview.storage.source_log import source_offsets
from everview.storage.store import (
    CATALOG,
    CATALOG_COPY,
    NEXT_CATALOG,
    SETTINGS_COPY,
    SETTINGS_FILE,
    STEP_FILE,
    Settings,
    Store,
    encode_settings,
    read_settings,
)

_INSERTED = re.compile(r"p0000-(\d{8,})-(\d{4,})\.arrow")  # a run of inserted rows: its step, its number
_WRITTEN = re.compile(r"(?:p\d{4}-)?(\d{8,})-.*\.arrow")
_RESTORE = "everview restore puts a backup back, if there is one"


@dataclass
class RepairNotes:
    """What a repair does, what is lost by it, and what it cannot mend: sentences."""

    actions: list[str] = field(default_factory=list)
    losses: list[str] = field(default_factory=list)
    unmendable: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Diagnosis:
    """What is damaged, and from where a store can go on.

    `step` is the last step that is known of. `last` is the last intact manifest, `base` the one to go on
    from, with all rows that were inserted since; `batch` the batch of Spark to go on after, -1 for none.
    `checkpoint` says whether Spark's log must be mended, `read_again` whether batches are then sent again,
    and `damaged` which of its files are damaged.
    `all_views` says that the names have changed since the base, and all views must be computed.
    """

    problems: tuple[DamagedPart, ...]
    notes: RepairNotes
    step: int
    last: Manifest
    base: Manifest
    batch: int
    catalog: Catalog
    checkpoint: bool = False
    read_again: bool = False
    damaged: Mapping[str, str] = field(default_factory=dict)
    all_views: bool = False


def readable_settings(files: Files, notes: RepairNotes) -> Settings:
    """Return the settings of a store, or those of their copy; raise an error if neither can be read."""
    found: dict[str, Settings | None] = {}
    errors = []
    for path in (SETTINGS_FILE, SETTINGS_COPY):
        try:
            found[path] = read_settings(files, path)
        except StoreError as error:
            errors.append(error)
    own, copy = found.get(SETTINGS_FILE), found.get(SETTINGS_COPY)
    settings = own or copy
    if settings is None and errors:
        raise StoreError(f"{errors[0].what}; there is no intact copy of it", next_step=_RESTORE)
    if settings is None:
        return Store.open(files).settings  # which says that there is no store
    if own is None:
        notes.actions.append(f"{SETTINGS_FILE} is put back from its copy")
    elif files.exists(SETTINGS_COPY) and files.read(SETTINGS_COPY) != encode_settings(own):
        notes.actions.append(f"{SETTINGS_COPY} is written anew")
    return settings


def diagnose(store: Store, notes: RepairNotes) -> Diagnosis:
    """Find out what is damaged, and from where the store can go on; raise an error if it cannot."""
    files = store.files
    problems = check_store(store).problems
    intact, bad = _intact_manifests(files)
    step, last = store.last_step(), intact[0] if intact else Manifest()
    # Without the number of the last step, only Spark's log shows that a manifest is missing, and the copy of
    # the catalog that all are.
    lost = step > last.step or not (files.exists(STEP_FILE) or _agrees(files, last))
    lost = lost or (not intact and files.exists(CATALOG_COPY))
    if not intact and lost:
        notes.actions.append("all manifests are damaged or missing: the store begins again")
    elif step > last.step:
        notes.actions.append(
            f"the manifest of step {step} is damaged or missing: step {last.step} is the last one"
        )
    notes.actions += [
        f"{manifests.path_of(s)}, which nothing needs, is deleted" for s in bad if s < last.step
    ]
    catalog, adopted = _readable_catalog(store, last, lost, notes)
    intact = [altered_since(manifest, catalog) for manifest in intact]
    last = intact[0] if intact else last
    damaged = find_checkpoint_damage(files)
    found: tuple[Manifest, int] | None = last, -1 if last.batch is None else last.batch
    if lost or damaged or _gap(problems) or not _agrees(files, last):
        # Before a rewind, the views had seen rows that were other ones then.
        begun = max((rewound.step for rewound in last.rewound), default=0)
        found = _find_base(files, [m for m in intact if m.step >= begun] or [last], damaged)
    base, batch = found or (_begun_again(last, catalog, notes), -1)
    if base is not last and found is not None:
        notes.actions.append(f"Spark's checkpoint goes with step {base.step}: it is the last one")
        all_views = base.catalog != last.catalog
        base = _with_inserted(base, last, catalog)
    else:
        all_views = False
    if lost:
        base = _with_found_rows(files, base, last.step, catalog, notes)
        if not intact:
            _require_no_inserts(files, catalog, notes)
    read_again = found is None or not _agrees(files, base)
    if read_again:
        catalog = _with_columns_read_again(catalog, files, batch)
    mend = read_again or bool(damaged) or _gap(problems)
    if read_again:
        again = "everything" if batch < 0 else f"what came after batch {batch}"
        notes.actions.append(f"{again} is read again by the next run, from the files that are still there")
    elif mend:
        notes.actions.append(
            "Spark's checkpoint is mended: " + ", ".join(sorted(damaged) or ["a missing file"])
        )
    base = replace(base, batch=batch) if batch >= 0 else replace(base, batch=None, progress=None)
    return Diagnosis(
        problems, notes, step, last, base, batch, catalog, mend, read_again, damaged, all_views or adopted,
    )  # fmt: skip


def _intact_manifests(files: Files) -> tuple[list[Manifest], list[int]]:
    """Return the manifests that can be read, the newest first, and the steps of the others."""
    intact, bad = [], []
    for step in reversed(manifests.list_steps(files)):
        try:
            intact.append(manifests.read(files, step))
        except manifests.DamagedManifest:
            bad.append(step)
    return intact, bad


def _agrees(files: Files, manifest: Manifest) -> bool:
    try:
        require_agreement(files, manifest)
    except StoreError:
        return False
    return True


def _gap(problems: Sequence[DamagedPart]) -> bool:
    """Return whether a file of the checkpoint is missing."""
    return any(problem.path.startswith("checkpoint/") for problem in problems)


def _find_base(
    files: Files, intact: Sequence[Manifest], damaged: Mapping[str, str]
) -> tuple[Manifest, int] | None:
    """Return the newest manifest that Spark's log goes with, and the batch; None if there is none.

    One that has taken no batch is of use only if none after it has: else all is read again in any case.
    """
    for manifest in intact:
        useful = manifest.batch is not None or manifest is intact[0]
        batch = intact_batch(files, manifest, damaged) if useful else None
        if batch is not None:
            return manifest, batch
    return None


def _readable_catalog(store: Store, last: Manifest, lost: bool, notes: RepairNotes) -> tuple[Catalog, bool]:
    """Return the catalog of the last manifest, and whether it is of a later step, which is lost."""
    files = store.files
    texts = {n: files.read(n) for n in (CATALOG, NEXT_CATALOG, CATALOG_COPY) if files.exists(n)}
    fits = {name for name, data in texts.items() if last.catalog in (None, zlib.crc32(data))}
    if last.catalog is None and CATALOG in texts and not lost:
        return _decoded_catalog(files, texts[CATALOG]), False
    if fits and not (lost and _equal_copies(texts) and CATALOG not in fits):
        if not fits & {CATALOG, NEXT_CATALOG}:
            notes.actions.append(f"{CATALOG} is put back from its copy")
        elif CATALOG_COPY in texts and CATALOG_COPY not in fits and NEXT_CATALOG not in texts:
            notes.actions.append(f"{CATALOG_COPY} is written anew")
        return _decoded_catalog(files, texts[sorted(fits)[0]]), False
    if lost and _equal_copies(texts):
        notes.actions.append(
            f"the names are those of {CATALOG}, from a step that is lost: all views are computed anew"
        )
        return _decoded_catalog(files, texts[CATALOG]), True
    if not texts and last.catalog is None:
        return Catalog(), False
    raise StoreError(
        f"the names of {files} cannot be had: {CATALOG} is missing or damaged, and so is its copy",
        next_step=_RESTORE,
    )


def _equal_copies(texts: Mapping[str, bytes]) -> bool:
    return CATALOG in texts and texts[CATALOG] == texts.get(CATALOG_COPY)


def _decoded_catalog(files: Files, data: bytes) -> Catalog:
    try:
        return Catalog.from_json(data.decode("utf-8", "surrogatepass"))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise files.damaged(CATALOG, f"{type(error).__name__} {error}") from error


def fed_by_hand(catalog: Catalog) -> Iterator[FedEntry]:
    """Yield the streams and tables whose rows are inserted: all of them are kept."""
    for entry in catalog:
        if isinstance(entry, (StreamEntry, TableEntry)) and entry.source is None:
            yield entry


def _with_inserted(base: Manifest, last: Manifest, catalog: Catalog) -> Manifest:
    """Return a manifest with all rows that were inserted up to a later one; the views have not seen them.

    Rows are inserted for instants after the bound: those of the later manifest are also after this one's.
    """
    names = {entry.name for entry in fed_by_hand(catalog)}
    owners = {name.casefold() for name in names}
    kinds = ("inbox", "late", "scheduled")
    traces = {t: r for t, r in base.traces.items() if t.kind not in kinds or t.owner not in owners}
    traces |= {t: r for t, r in last.traces.items() if t.kind in kinds and t.owner in owners}
    taken: dict[str, Any] = {
        part: {
            **{n: v for n, v in getattr(base, part).items() if n not in names},
            **{n: v for n, v in getattr(last, part).items() if n in names},
        }
        for part in ("newest", "heard", "counts")
    }
    new = [e for e in catalog if isinstance(e, StreamEntry) and e.name not in base.bounds]
    bounds = {e.name: {line.column: base.bound for line in e.timelines[:1]} for e in new}
    return replace(
        base, traces=traces, scheduled=last.scheduled, marks=last.marks, catalog=last.catalog,
        bounds={**base.bounds, **bounds}, **taken,
    )  # fmt: skip


def _begun_again(last: Manifest, catalog: Catalog, notes: RepairNotes) -> Manifest:
    """Return a manifest from which the store is computed from the beginning, with all inserted rows."""
    for entry in catalog:
        if isinstance(entry, TableEntry) and entry.source is not None:
            notes.unmendable.append(
                f"which files the table '{entry.name}' has read, and when, is not known any more"
            )
    begun = Manifest(step=last.step, start=last.start, replaced={}, rewound=last.rewound)
    begun = replace(_with_inserted(begun, last, catalog), bounds={}, marks=())
    if last.bound > begun.bound:
        notes.actions.append("the views are computed from the beginning by the next run")
    for view in last.replaced:
        notes.losses.append(f"the changes of the view '{view}' from before it was replaced")
    return begun


def _with_columns_read_again(catalog: Catalog, files: Files, batch: int) -> Catalog:
    """Return the catalog for a store that goes on after a batch: later files are read with all columns."""
    offsets = source_offsets(files.below(CHECKPOINT), batch) if batch >= 0 else {}
    after = catalog.copy()
    for entry in catalog:
        if isinstance(entry, (StreamEntry, TableEntry)) and entry.additions:
            name = source_log_name(entry.created_as or entry.name, entry.incarnation)
            last = offsets.get(name, -1)
            dated = tuple(replace(a, read=min(a.read, last)) for a in entry.additions)
            after.entries[entry.name.casefold()] = replace(entry, additions=dated)
    return after


def _with_found_rows(
    files: Files, manifest: Manifest, step: int, catalog: Catalog, notes: RepairNotes
) -> Manifest:
    """Return the manifest with rows that were inserted after a step, whose manifests are lost."""
    named = manifest.paths()
    for entry in fed_by_hand(catalog):
        for kind in ("inbox", "late"):
            trace = TraceId(kind, entry.name)
            for file in _files_of(files, trace, step, catalog):
                name = file.path.rsplit("/", 1)[-1]
                written, inserted = _WRITTEN.fullmatch(name), _INSERTED.fullmatch(name)
                if file.path in named or written is None or int(written[1]) <= step:
                    continue
                frame = _read(files, file.path)
                if isinstance(entry, TableEntry) or inserted is None or frame is None:
                    what = "what was changed in the table" if isinstance(entry, TableEntry) else "rows of"
                    notes.losses.append(f"{what} '{entry.name}' after step {step}: {file.path} has it")
                    continue
                run = Run.of(file.path, frame, file.bytes, int(inserted[1]), int(inserted[2]))
                run = _placed(run, len(frame.columns) - len(CHANGE), entry.name, catalog)
                manifest = _with_run(manifest, entry, trace, run, frame)
                rows = format_count(run.rows, "late row" if kind == "late" else "row")
                verb = "is" if run.rows == 1 else "are"
                notes.actions.append(
                    f"{rows} of '{entry.name}', inserted in step {run.step}, {verb} taken from {run.path}"
                )
    return manifest


def _files_of(files: Files, trace: TraceId, step: int, catalog: Catalog) -> Iterator[Listed]:
    """Yield the files of a trace after a step: a folder has the name that its entry had in the step."""
    entry = catalog.get(trace.owner)
    then = [name_at(catalog, entry.name, s) for s in (step, *(a.step for a in catalog.alterations))]
    for name in sorted({entry.name, *(name for name in then if name is not None)}):
        for file in files.list_files(TraceId(trace.kind, name).folder, recursive=False):
            written = _WRITTEN.fullmatch(file.path.rsplit("/", 1)[-1])
            if written is not None and name_at(catalog, entry.name, int(written[1])) == name:
                yield file


def _placed(run: Run, columns: int, name: str, catalog: Catalog) -> Run:
    """Return a run with the places of its columns, if others were added after it was written."""
    for alteration in catalog.alterations:
        mine = name_at(catalog, name, alteration.step) == alteration.name
        run = placed_run(run, alteration, columns) if alteration.added and mine else run
    return run


def _read(files: Files, path: str) -> Frame | None:
    try:
        return files.read_frame(path)
    except StoreError:
        return None


def _with_run(manifest: Manifest, entry: StreamEntry, trace: TraceId, run: Run, frame: Frame) -> Manifest:
    taken, late, rejected = manifest.counts.get(entry.name, (0, 0, 0))
    counts = (
        (taken, late + run.rows, rejected) if trace.kind == "late" else (taken + run.rows, late, rejected)
    )
    newest = dict(manifest.newest)
    if trace.kind == "inbox":
        places = {line.column: entry.columns.names.index(line.column) for line in entry.timelines}
        times = {line: frame[column(place)].cast(pl.Int64).max() for line, place in places.items()}
        known = {line: int(t) for line, t in times.items() if isinstance(t, int)}
        newest[entry.name] = latest(manifest.newest.get(entry.name, {}), known)
    start = run.least_from if manifest.start is None and FROM in frame.columns else manifest.start
    grown = manifest.with_traces({trace: (*manifest.runs(trace), run)})
    return replace(grown, counts={**manifest.counts, entry.name: counts}, newest=newest, start=start)


def _require_no_inserts(files: Files, catalog: Catalog, notes: RepairNotes) -> None:
    """Name the inserted rows of a store without manifests: which of their files count is not known."""
    for entry in fed_by_hand(catalog):
        if files.list_files(TraceId("inbox", entry.name).folder):
            notes.unmendable.append(f"which rows were inserted into '{entry.name}' is not known any more")
