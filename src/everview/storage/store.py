"""A store: the folder in which a pipeline keeps all that it knows.

    everview.json   the format, what never changes (the number of partitions, the time zone), the strategy
    everview.lock   who is writing
    everview.step   the number of the last step: a missing manifest is noticed
    everview.clock  what the clock said when the last batch was taken in, where rows are stamped by it
    catalog.json    the names; the last manifest has its checksum
    manifests/      what the store is after each step
    runs/           the state of operators        views/      the changes of views
    complete/       the present answers of COMPLETE views
    inbox/          rows that wait for the bound  ports/      the same as kernels take them
    late/, rejected/   rows that were not taken
    backfill/       the same for views that were computed later, a folder for each time
    checkpoint/     how far Spark has read the sources
    copies/         copies of everview.json and catalog.json, for `everview repair`
    held/           manifests that a backup under way still reads

One process writes, under a lock; any number read, without one.

>>> import tempfile
>>> folder = tempfile.TemporaryDirectory()
>>> with Store.open(folder.name, Settings(partitions=4), create=True).lock() as store:
...     store.write_manifest(Manifest(step=1, bound=5))
>>> Store.open(folder.name).manifest().bound
5
"""

from __future__ import annotations

import json
import warnings
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from zoneinfo import ZoneInfo, available_timezones

from everview.catalog import Catalog, StreamEntry, TableEntry
from everview.errors import StoreError, format_choices, nearest
from everview.plan.strategies import find_strategy
from everview.storage import manifest as manifests
from everview.storage.checkpoint import CHECKPOINT as CHECKPOINT
from everview.storage.compaction import Policy
from everview.storage.files import MEND_OR_RESTORE, FileMissing, Files, is_temporary
from everview.storage.held import held_steps
from everview.storage.lock import LOCK, Lock, acquire
from everview.storage.manifest import Manifest
from everview.storage.names import source_log_name
from everview.storage.runs import ALL_FOLDERS, TraceId, bring_files_to_disk
from everview.storage.trace import Trace

# 1: only the first 64 and the last 8 bytes of a string counted in the hashes of its state
# 2: operators and columns of state had other names; route, lanes and arrival stood in the names of files
STORE_FORMAT = 3
# 4: a strategy other than UPA, which older releases do not know. Stores of both formats are read.
STRATEGY_FORMAT = 4
SETTINGS_FILE = "everview.json"
CATALOG = "catalog.json"
NEXT_CATALOG = "catalog.next.json"  # from before the manifest of a change of names until after it
BACKUP_FILE = "backup.json"  # the list of the files of a backup, which is no store
STEP_FILE = "everview.step"
CLOCK_FILE = "everview.clock"
SETTINGS_COPY, CATALOG_COPY = "copies/everview.json", "copies/catalog.json"
_ATTEMPTS = 3  # to read the catalog and the manifest of one moment


@dataclass(frozen=True)
class Settings:
    """The settings of a store, fixed when it is created; only the strategy may be another one later."""

    partitions: int = 8
    time_zone: str = "UTC"
    strategy: str = "UPA"

    def __post_init__(self) -> None:
        object.__setattr__(self, "strategy", find_strategy(self.strategy))
        if type(self.partitions) is not int:
            raise TypeError("partitions is no whole number")
        if not 0 < self.partitions <= 10_000:
            raise StoreError(f"a store cannot have {self.partitions} partitions", choices=["1 … 10000"])
        try:
            ZoneInfo(self.time_zone)
        except (ValueError, OSError, KeyError):
            raise StoreError(
                f"there is no time zone '{self.time_zone}'",
                meant=nearest(self.time_zone, available_timezones()),
                next_step="give a name such as Europe/Berlin, or UTC",
            ) from None


@dataclass(frozen=True)
class Cleaned:
    """What a clean-up has deleted."""

    files: int
    bytes: int


class Store:
    """A store that is open; for writing once it is locked."""

    def __init__(self, files: Files, settings: Settings) -> None:
        self.files = files
        self.settings = settings
        self._lock: Lock | None = None
        self._strategy: str | None = None  # the one that was asked for, "" for that of the store
        self._checked = False  # whether the files that the last manifest names are known to be there
        self._last: Manifest | None = None  # the last one that was written under the lock
        self.in_progress: set[str] = set()  # folders with files that no manifest names yet
        self.in_use: set[str] = set()  # files that are read for longer than their manifests are kept

    @classmethod
    def open(
        cls,
        path: str | Files,
        settings: Settings | None = None,
        *,
        create: bool = False,
        durable: bool = True,
        strategy: str | None = None,
    ) -> Store:
        """Open the store at a path; with `create`, create it if there is none.

        With settings, they must be those of the store. A `strategy` counts from now on; it is saved when the
        store is locked.
        """
        if strategy is not None:
            strategy = find_strategy(strategy)  # before anything is created
        files = path if isinstance(path, Files) else Files(path, durable)
        found = read_settings(files)
        if found is None and files.exists(SETTINGS_COPY):
            raise FileMissing(f"{files}/{SETTINGS_FILE} is missing", next_step=MEND_OR_RESTORE)
        if found is None and not create:
            raise _no_store(files, next_step="check the path, or make a store there")
        if found is None:
            wanted = settings or Settings()
            found = _create(files, wanted if strategy is None else replace(wanted, strategy=strategy))
        if settings is not None and replace(settings, strategy=found.strategy) != found:
            raise StoreError(
                f"the store {files} was made with {_shown(found)}, not with {_shown(settings)}",
                next_step="leave that out, or make another store",
            )
        store = cls(files, found if strategy is None else replace(found, strategy=strategy))
        store._strategy = strategy or ""
        return store

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def lock(self) -> Store:
        """Lock this store for writing; raise an error if another process writes it."""
        if self._lock is None:
            self._lock = acquire(self.files)
            self._checked, self._last = False, None
            self._save_strategy()
        return self

    def _save_strategy(self) -> None:
        """Save the strategy that was asked for, if it is another one; else take that which was saved last."""
        if self._strategy is None:
            return  # the settings may be damaged: the store is opened to be repaired
        found = read_settings(self.files) or self.settings
        self.settings = replace(found, strategy=self._strategy or found.strategy)
        if self.settings != found:
            write_settings(self.files, self.settings)

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    @property
    def checkpoint(self) -> str:
        """Where Spark keeps how far it has read the sources, as Spark calls it."""
        files = self.files
        return f"file://{files.full_path(CHECKPOINT)}" if files.local else f"{files.root}/{CHECKPOINT}"

    def sync_checkpoint(self, batch: int) -> None:
        """Sync the log of a batch of Spark to the disk.

        A manifest says that a batch was done: Spark must never make another one of that number.
        """
        if not self.files.local or not self.files.durable:
            return
        logs = [f"{CHECKPOINT}/offsets/{batch}"]
        there = self.files.list_files(f"{CHECKPOINT}/sources")
        newest: dict[str, str] = {}
        for file in there:
            folder, name = file.path.rsplit("/", 1)
            if name.split(".")[0].isdecimal():
                newest[folder] = max(newest.get(folder, ""), name, key=lambda n: int(n.split(".")[0] or -1))
        bring_files_to_disk(self.files, [*logs, *(f"{folder}/{name}" for folder, name in newest.items())])

    def _must_be_locked(self) -> None:
        if self._lock is None:
            raise StoreError(f"the store {self.files} is open for reading", next_step="lock() it first")
        self._lock.check()

    def save_catalog(self, catalog: Catalog, manifest: Manifest | None = None) -> None:
        """Save the catalog, and a manifest with it: after a crash both are there, or neither.

        The manifest has the checksum of its catalog. Until it is written, the catalog before counts; from
        then on the next one, also if there was no time to put it into its place.
        """
        self._must_be_locked()
        data = catalog.to_json().encode("utf-8", "surrogatepass")
        self.files.write(NEXT_CATALOG, data)
        last = manifest or self.manifest()
        last = last.without_plans(lambda view: view.casefold() not in catalog.entries)
        self.write_manifest(replace(last, catalog=zlib.crc32(data)))
        self.files.write(CATALOG, data)
        self.files.write(CATALOG_COPY, data)
        self.files.delete(NEXT_CATALOG)

    def load_catalog(self) -> Catalog:
        """Load the catalog of the last manifest; it is empty before the first was saved.

        Older releases did not count what was dropped. Spark's logs show that something was: a source that is
        made again must not take up the log of one that is gone.
        """
        data, fits = self._catalog_bytes()
        try:
            catalog = Catalog() if data is None else Catalog.from_json(data.decode("utf-8", "surrogatepass"))
            if not fits:
                raise StoreError(
                    f"it is not the catalog that step {self.manifest().step} was written with: "
                    "the file was changed or damaged",
                    next_step=f"{MEND_OR_RESTORE}; names change by SQL only",
                )
            fed = [e for e in catalog if isinstance(e, (StreamEntry, TableEntry)) and e.source is not None]
            known = {source_log_name(e.created_as or e.name, e.incarnation) for e in fed}
            if not catalog.dropped and self._logs() - known:
                catalog.dropped = 1
            return catalog
        except StoreError as error:
            raise StoreError(f"{self.files}/{CATALOG}: {error.what}", next_step=error.next_step) from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self.files.damaged(CATALOG, f"{type(error).__name__} {error}") from error

    def _catalog_bytes(self) -> tuple[bytes | None, bool]:
        """Return the catalog, None if there is none yet, and whether it belongs to the last manifest."""
        for _ in range(_ATTEMPTS):
            last = self.manifest()
            try:
                return self.catalog_bytes(last), True
            except FileMissing:
                continue  # the names have just changed; or it is damaged
        found = self._read_if_there(CATALOG)
        if found is None:
            raise FileMissing(
                f"{self.files}/{CATALOG} is missing, and the store has run", next_step=MEND_OR_RESTORE
            )
        return found, False

    def catalog_bytes(
        self, manifest: Manifest, names: Sequence[str] = (CATALOG, NEXT_CATALOG)
    ) -> bytes | None:
        """Return the catalog that a manifest was written with, in one of some files; None if it has none.

        Raise FileMissing if none of the files is that catalog.
        """
        found = [self._read_if_there(name) for name in names]
        if manifest.catalog is None:
            return found[0]
        for data in found:
            if data is not None and zlib.crc32(data) == manifest.catalog:
                return data
        raise FileMissing(
            f"the catalog of step {manifest.step} of {self.files} is missing", next_step=MEND_OR_RESTORE
        )

    def _read_if_there(self, path: str) -> bytes | None:
        try:
            return self.files.read(path)
        except FileMissing:
            return None

    def _logs(self) -> set[str]:
        """Return the names of the sources that Spark has a log of, without its heartbeat."""
        folder = f"{CHECKPOINT}/sources"
        paths = (file.path.removeprefix(f"{folder}/") for file in self.files.list_files(folder))
        return {name for name in (path.split("/")[0] for path in paths) if name.startswith("s_")}

    def write_manifest(self, manifest: Manifest) -> None:
        """Write the manifest of a step: from now on it is the state of the store."""
        self._must_be_locked()
        manifests.write(self.files, manifest)
        self._last = manifest
        if self.files.local:  # elsewhere a write takes long
            Files(self.files.root, durable=False).write(STEP_FILE, str(manifest.step).encode())

    def clock_of_batch(self, batch: int, progress: int | None, now: int) -> int:
        """Return what the clock said when a batch was first taken in; `now`, and remember it, if that is now.

        Spark repeats a batch whose step was not committed, and its rows get the same stamps again. `progress`
        tells apart batches of the same number in a checkpoint that was mended.
        """
        known = (self._read_if_there(CLOCK_FILE) or b"").decode(errors="replace").split()
        if known[:-1] == [str(batch), str(progress)] and known[-1].isdigit():
            return int(known[-1])
        Files(self.files.root, durable=False).write(CLOCK_FILE, f"{batch} {progress} {now}".encode())
        return now

    def last_step(self) -> int:
        """Return the number of the last step that is known to have ended, also if its manifest is gone."""
        return max([*manifests.list_steps(self.files)[-1:], self._marked_step()])

    def _marked_step(self) -> int:
        """Return the last step by the file that has its number; 0 without one."""
        mark = self._read_if_there(STEP_FILE) or b""
        return int(mark) if mark.isdigit() else 0

    def oldest_step(self) -> int:
        """Return the step of the oldest manifest that is kept; 0 before the first."""
        return next(iter(manifests.list_steps(self.files)), 0)

    def require_last_manifest(self, found: Manifest) -> None:
        """Raise an error if there was a later manifest than this one, or if all are gone."""
        if self.last_step() > found.step:
            raise StoreError(
                f"a manifest of {self.files} is missing: step {self.last_step()} was the last, "
                f"and the last manifest is that of step {found.step}",
                next_step=MEND_OR_RESTORE,
            )
        if self._has_had_manifests() and not manifests.list_steps(self.files):
            raise StoreError(f"the manifests of {self.files} are missing", next_step=MEND_OR_RESTORE)

    def manifest(self) -> Manifest:
        """Return the last manifest; before the first step an empty one, of step 0.

        A writer gets an error for a damaged file, and at the start for a missing one; a reader gets the
        manifest before a damaged or missing one, and a warning.
        """
        if self._lock is None:
            return self._manifest_to_read()
        if self._last is not None:
            return self._last  # who holds the lock wrote it
        found = manifests.read_latest(self.files) or Manifest()
        if not self._checked:
            self.require_last_manifest(found)
            manifests.check_runs(self.files, found)
            self._checked = True
        return found

    def _manifest_to_read(self) -> Manifest:
        """Return the last manifest that there is; warn if it was not the last."""
        marked = self._marked_step()  # first, as it is written after its manifest
        found = manifests.read_latest(self.files, only_reading=True)
        if found is None and self._has_had_manifests():
            warnings.warn(f"the manifests of {self.files} are missing", stacklevel=3)
        elif found is not None and marked > max(found.step, *manifests.list_steps(self.files)):
            warnings.warn(
                f"the manifest of step {marked} of {self.files} is missing; "
                f"reading the store as it was after step {found.step}",
                stacklevel=3,
            )
        return found or Manifest()

    def _has_had_manifests(self) -> bool:
        """Return whether a manifest was ever written: the copy of a catalog is written after one."""
        return self.files.exists(CATALOG_COPY)

    def trace(self, manifest: Manifest, trace: TraceId, policy: Policy | None = None) -> Trace:
        """Return a trace in the state of a manifest."""
        return Trace(trace, manifest.runs(trace), self.files, policy or Policy())

    def clean(self, keep_manifests: int = 20) -> Cleaned:
        """Delete all but the last manifests, files that none of these names, and temporary files.

        To be called between steps: the runs of a step under way are not yet named. A reader has the time
        of so many steps to finish what it began.
        """
        self._must_be_locked()
        steps = manifests.list_steps(self.files)
        kept = sorted({*steps[-max(1, keep_manifests) :], *(held_steps(self.files) & set(steps))})
        # The last one must be readable; of an older one that is damaged nobody can want the files.
        named = set() if not kept else manifests.read(self.files, kept[-1]).paths()
        for step in kept[:-1]:
            try:
                named |= manifests.read(self.files, step).paths()
            except manifests.DamagedManifest:
                continue
        named |= {manifests.path_of(step) for step in kept}
        # Manifests go first: none that can be found names a file that is gone.
        folders = (manifests.FOLDER, *ALL_FOLDERS)
        there = [f for folder in folders for f in self.files.list_files(folder)]
        named |= self.in_use
        gone = [f for f in there if f.path not in named and not f.path.startswith(tuple(self.in_progress))]
        gone += [f for f in self.files.list_files("", recursive=False) if is_temporary(f.path)]
        for file in gone:
            self.files.delete(file.path)
        return Cleaned(len(gone), sum(f.bytes for f in gone))


def read_settings(files: Files, path: str = SETTINGS_FILE) -> Settings | None:
    """Return the settings of a store, or their copy; None if there is no such file."""
    if not files.exists(path):
        return None
    return decode_settings(files.read(path), files, path)


def encode_settings(settings: Settings) -> bytes:
    """Return settings as they are written: with the format of the store, and a checksum."""
    body = {"format": STORE_FORMAT, **asdict(settings)}
    if settings.strategy == "UPA":
        del body["strategy"]
    else:
        body["format"] = STRATEGY_FORMAT
    return json.dumps({**body, "crc32": _settings_checksum(body)}, indent=2).encode()


def decode_settings(data: bytes, files: Files, path: str = SETTINGS_FILE) -> Settings:
    """Return the settings that were written; raise an error if they are damaged or of another format.

    Stores of older releases have no checksum.
    """
    try:
        body = json.loads(data)
        version = int(body["format"])
        if version in (STORE_FORMAT, STRATEGY_FORMAT):
            checksum = body.pop("crc32", None)
            if checksum not in (None, _settings_checksum(body)):
                raise ValueError("its checksum is wrong")
            del body["format"]
            return Settings(**body)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise files.damaged(path, str(error)) from error
    newer = version > STRATEGY_FORMAT
    raise StoreError(
        f"the store {files} was made by {'a newer' if newer else 'an older'} Everview"
        f" (format {version}, this one reads {STORE_FORMAT} and {STRATEGY_FORMAT})",
        next_step="upgrade Everview"
        if newer
        else "run its SQL with --path on a new folder, or open it with the Everview that made it",
    )


def _settings_checksum(body: Mapping[str, object]) -> int:
    return zlib.crc32(json.dumps(body, sort_keys=True).encode())


def write_settings(files: Files, settings: Settings) -> None:
    """Write the settings of a store, which make a folder a store, and then their copy.

    In this order, another process that looks meanwhile sees an empty folder or a store.
    """
    files.write(SETTINGS_FILE, encode_settings(settings))
    files.write(SETTINGS_COPY, encode_settings(settings))


def _create(files: Files, settings: Settings) -> Settings:
    """Create a store in an empty place; return its settings, or those that another process just wrote."""
    if _others(files) and read_settings(files) is None:
        raise _no_store(files, next_step="choose an empty folder, or one that is not there yet")
    files.make_root()
    lock = acquire(files)
    try:
        found = read_settings(files)
        if found is None:
            write_settings(files, settings)
        return found or settings
    finally:
        lock.release()


def _others(files: Files) -> list[str]:
    """Return the files and folders at a path that do not belong to a store."""
    return [f for f in files.names() if f != LOCK and not is_temporary(f)]


def _no_store(files: Files, next_step: str) -> StoreError:
    others = _others(files)
    if BACKUP_FILE in others:
        step = f"put it back with everview restore {files} --path STORE"
        return StoreError(f"{files} is a backup, and no store", next_step=step)
    if others:
        what = f"{files} is not an Everview store: it holds other files ({format_choices(others)})"
        return StoreError(what, next_step=next_step)
    return StoreError(f"there is no Everview store at {files}", next_step=next_step)


def _shown(settings: Settings) -> str:
    return f"{settings.partitions} partitions and time zone {settings.time_zone}"
