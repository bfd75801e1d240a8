"""The few file operations that a store needs: whole files, written at once or not at all.

A store lies in a local folder, or wherever `pyarrow.fs` can go (`hdfs://…`, `s3://…`, `gs://…`). A file is
written under a temporary name beside its own and renamed: who reads sees the old file or the new one,
never a half. Frames are Arrow IPC files: compressed where they cross a network, and plain in a local
folder, so that a task maps them into its memory and reads only what it looks at. A frame has a file of its
own, or is one of several in a packed file (`packs.py`): then an address takes the place of its path.
"""

from __future__ import annotations

import errno
import functools
import os
import re
import struct
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.fs as arrow_fs  # type: ignore[import-untyped]
import pyarrow.ipc as arrow_ipc  # type: ignore[import-untyped]
from pyarrow.lib import ArrowException  # type: ignore[import-untyped]

from everview.errors import StoreError
from everview.operators.columnar.frame import Frame
from everview.operators.columnar.lazy import pl
from everview.storage.addresses import file_of, split_address
from everview.storage.conditional import ConditionalObject, conditional_object
from everview.storage.encoding import ArrowStream, decode_frame, encode_frame, encode_parts
from everview.storage.frame_cache import COPIED, LARGEST_COPY, MAPPED, Version, bytes_in_memory, version_of

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
# What only its owner may read: definitions may have passwords in their options. Tasks read none of these.
_PRIVATE = re.compile(r"(copies/)?catalog[\w.-]*\.json$|(manifests|held|sinks)/")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)

MEND_OR_RESTORE = "everview repair mends it, or names what is lost; everview restore puts a backup back"

_Parts = Sequence[bytes | memoryview]  # the bytes of a file, one after the other


def arrow_uri(uri: str) -> str:
    """Return a URI as pyarrow names it: the file system that Hadoop calls s3a is s3 there.

    >>> arrow_uri("s3a://bucket/store"), arrow_uri("hdfs://host/store")
    ('s3://bucket/store', 'hdfs://host/store')
    """
    scheme, colon, rest = uri.partition(":")
    return f"s3:{rest}" if colon and scheme.casefold() in ("s3a", "s3n") else uri


class FileMissing(StoreError):
    """A file that should exist and does not."""


@dataclass(frozen=True)
class Listed:
    """A file that was found: its path below the root, and its size."""

    path: str
    bytes: int


class Files:
    """The files below a root. It can be pickled: a task in another process opens the same store.

    `durable` says whether a local file is on the disk, not only in the system's memory, before a write
    returns; other file systems have their own rules for that.
    """

    def __init__(self, root: str, durable: bool = True, filesystem: Any = None) -> None:
        self.durable = durable
        self.given = filesystem
        if filesystem is not None or _URI.match(root):
            self.root = root.rstrip("/")
        else:
            self.root = os.path.abspath(os.path.expanduser(root))

    def __reduce__(self) -> tuple[Any, ...]:
        return Files, (self.root, self.durable, self.given)

    def below(self, folder: str) -> Files:
        """Return the files in a folder below this root; they are not synced to the disk."""
        return Files(f"{self.root}/{folder}", durable=False, filesystem=self.given)

    def __str__(self) -> str:
        """Return the root as it is shown: without a user and password that it may hold."""
        return _without_secrets(self.root)

    @functools.cached_property
    def _opened(self) -> tuple[Any, str]:
        """The file system, and the root as it calls it."""
        if self.given is not None:
            return self.given, self.root
        if not _URI.match(self.root):
            return arrow_fs.LocalFileSystem(), self.root
        try:
            filesystem, base = arrow_fs.FileSystem.from_uri(arrow_uri(self.root))
        except (OSError, ArrowException) as error:
            raise StoreError(
                f"{self} cannot be opened: {_first_line(error)}",
                next_step="give a local folder, or a URI of a file system that pyarrow knows and can reach",
            ) from error
        return filesystem, base.rstrip("/")

    @property
    def local(self) -> bool:
        """Whether these are files of this machine."""
        return isinstance(self._opened[0], arrow_fs.LocalFileSystem)

    def full_path(self, path: str) -> str:
        """Return the path as the file system names it; a path outside the root is refused."""
        if path.startswith("/") or ".." in path.split("/"):
            raise StoreError(f"'{path}' does not lie in the store {self}", next_step="check who wrote that")
        return f"{self._opened[1]}/{path}" if path else self._opened[1]

    def write(self, path: str, *data: bytes | memoryview) -> None:
        """Write a whole file, given in one part or in several; it replaces one that is there."""
        full = self.full_path(path)
        folder, name = full.rsplit("/", 1)
        temporary = f"{folder}/.{name}.{uuid.uuid4().hex}.tmp"
        write = self._write_local if self.local else self._write_other
        with self._explained("write", path):
            write(folder, temporary, full, data)
        _forget(full)

    def _write_local(self, folder: str, temporary: str, full: str, data: _Parts) -> None:
        mode = 0o600 if _PRIVATE.match(full[len(self._opened[1]) + 1 :]) else 0o666
        try:
            try:
                self._write_temporary(temporary, data, mode)
            except FileNotFoundError:
                self._make_folder(folder)
                self._write_temporary(temporary, data, mode)
            os.replace(temporary, full)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        self._sync_folder(folder)

    def _write_temporary(self, temporary: str, data: _Parts, mode: int) -> None:
        with open(temporary, "xb", opener=functools.partial(os.open, mode=mode)) as handle:
            handle.writelines(data)
            handle.flush()
            if self.durable:
                os.fsync(handle.fileno())

    def _make_folder(self, folder: str) -> None:
        above = os.path.dirname(folder)
        if not os.path.exists(above):
            self._make_folder(above)
        with suppress(FileExistsError):
            os.mkdir(folder)
        self._sync_folder(above)

    def _sync_folder(self, folder: str) -> None:
        """Sync the folder of a file: a rename is on the disk only when the folder is."""
        if self.durable:
            handle = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def _write_other(self, folder: str, temporary: str, full: str, data: _Parts) -> None:
        filesystem = self._opened[0]
        try:
            filesystem.create_dir(folder, recursive=True)
            with filesystem.open_output_stream(temporary) as stream:
                for part in data:
                    stream.write(part)
            try:
                filesystem.move(temporary, full)
            except OSError:
                # HDFS does not rename onto a file. Only a task that is run again meets one, with the
                # same rows, and the few files at the top of a store.
                if not self._is_file(full):
                    raise
                filesystem.delete_file(full)
                filesystem.move(temporary, full)
        except BaseException:
            with suppress(OSError):
                filesystem.delete_file(temporary)
            raise

    def _is_file(self, full: str) -> bool:
        return bool(self._opened[0].get_file_info(full).type == arrow_fs.FileType.File)

    def read(self, path: str) -> bytes:
        """Return all bytes of a file."""
        with self._explained("read", path), self._opened[0].open_input_file(self.full_path(path)) as stream:
            return bytes(stream.read())

    def save_frame(self, path: str, frame: Frame) -> tuple[str, int]:
        """Write a frame; return its path or address, and its size in bytes."""
        return self.save_encoded(path, encode_frame(frame, self.local))

    def save_encoded(self, path: str, data: memoryview) -> tuple[str, int]:
        """Write the bytes of a frame; return its path or address, and its size in bytes."""
        return path, self._write_sealed(path, data)

    def read_frame(
        self,
        path: str,
        columns: Sequence[str] | None = None,
        where: pl.Expr | None = None,
        rows: int | None = None,
    ) -> Frame:
        """Read a frame: the given columns as far as it has them, and the rows for which `where` holds.

        `rows` is how many it was written with; another number is damage. A local file is mapped, not
        read: what nobody looks at stays on the disk. The file may be deleted meanwhile, as a mapping
        holds it; it is never written to again.
        """
        needed = None if columns is None else {*columns, *(() if where is None else where.meta.root_names())}
        try:
            frame = self._whole_frame(path, needed)
        # A panic of Polars is no Exception, and damaged bytes can cause one.
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ArrowException, OSError) as error:
            raise self.damaged(path, _first_line(error)) from error
        if rows is not None and frame.height != rows:
            raise self.damaged(path, f"it has {frame.height} rows, and was written with {rows}")
        frame = frame if where is None else frame.filter(where)
        return frame if columns is None else frame.select(c for c in columns if c in frame.columns)

    def _whole_frame(self, path: str, columns: set[str] | None) -> Frame:
        """Return a frame, perhaps without columns that are not needed: from memory if it was kept there."""
        version = self._version(path)
        if version is None:
            return decode_frame(self._verified(path), columns)
        name = self.full_path(path)
        MAPPED.drop_gone()
        frame = COPIED.get(name, version)
        frame = MAPPED.get(name, version) if frame is None else frame
        if frame is None:
            data = self._verified(path)
            is_small = data.size <= LARGEST_COPY
            frame = decode_frame(pa.py_buffer(data.to_pybytes()) if is_small else data, None)
            kept = COPIED if is_small else MAPPED
            kept.put(name, version, frame, bytes_in_memory(frame, data.size))
        return frame

    def write_parts(self, path: str, parts: Sequence[Frame]) -> int:
        """Write frames of the same columns as the parts of one file; return its size in bytes."""
        return self._write_sealed(path, encode_parts(parts, self.local))

    def _write_sealed(self, path: str, data: memoryview) -> int:
        """Write the bytes of a frame with their checksum behind them; return the size of the file."""
        self.write(path, data, seal(path, data))
        return len(data) + CHECKSUM_BYTES

    def save_parts(self, path: str, parts: Sequence[Frame]) -> tuple[str, int]:
        """Write frames as the parts of one file; return its path or address, and its size in bytes."""
        return path, self.write_parts(path, parts)

    def read_part(self, path: str, number: int) -> Frame:
        """Return one part of a file; the others are not read."""
        return self._parts(path, lambda _: [number])[0]

    def read_parts(self, path: str) -> list[Frame]:
        """Return all parts of a file."""
        return self._parts(path, range)

    def _parts(self, path: str, chosen: Callable[[int], Iterable[int]]) -> list[Frame]:
        data = self._verified(path)
        frames = []
        try:
            reader = arrow_ipc.open_file(data)
            for number in chosen(reader.num_record_batches):
                batch = reader.get_batch(number)
                batch.validate()
                frames.append(pl.DataFrame(ArrowStream(batch)))
        except (ArrowException, ValueError) as error:
            raise self.damaged(path, _first_line(error)) from error
        return frames

    def verify(self, path: str) -> None:
        """Raise an error if the bytes of a frame are not those that were written."""
        self._unsealed(path, self._mapped(path), known=False)

    def _verified(self, path: str) -> Any:
        """Return the bytes of a frame. A local file is verified when this process first reads it."""
        # Looked up first: a file that is written again meanwhile is never taken for its older version.
        version = self._version(path)
        data = self._mapped(path)
        if version is None:
            return self._unsealed(path, data, known=False)
        read = self.full_path(path), version
        body = self._unsealed(path, data, known=read in _VERIFIED)
        if len(_VERIFIED) >= _MOST_VERIFIED:
            _VERIFIED.clear()
        _VERIFIED.add(read)
        return body

    def _version(self, path: str) -> Version | None:
        """Return the version of a local file; None for others, which are verified at every read."""
        if not self.local:
            return None
        file = file_of(path)
        with self._explained("read", file):
            return version_of(os.stat(self.full_path(file)))

    def _unsealed(self, path: str, data: Any, known: bool) -> Any:
        """Return the bytes before the checksum; `known` says that they were compared with it before."""
        size = data.size - _SEAL.size
        if size < 0:
            raise self.damaged(path, "it was cut off")
        checksum, mark = _SEAL.unpack(data.slice(size).to_pybytes())
        body = data.slice(0, size)
        if mark != _MARK:
            raise self.damaged(path, "it was cut off, or is not a file of rows")
        if not known and _checksum(path, body) != checksum:
            raise self.damaged(path, "its checksum is wrong: it was changed, or is another file")
        return body

    def _mapped(self, path: str) -> Any:
        """Return the bytes of a frame as a buffer; those of a local file as they lie on the disk."""
        file, place = split_address(path)
        with self._explained("read", file):
            data = self._mapped_file(file) if self.local else self._read_range(file, place)
        if place is None:
            return data
        if not self.local:
            place = (0, place[1])
        if place[0] + place[1] > data.size:
            raise self.damaged(path, "it was cut off")
        return data.slice(*place)

    def _mapped_file(self, file: str) -> Any:
        full = self.full_path(file)
        if not os.path.getsize(full):  # there is nothing to map
            return pa.py_buffer(b"")
        with pa.memory_map(full) as stream:
            return stream.read_buffer()

    def _read_range(self, file: str, place: tuple[int, int] | None) -> Any:
        """Return a file, or the bytes at a place in it, as far as it has them."""
        with self._opened[0].open_input_file(self.full_path(file)) as stream:
            if place is None:
                return stream.read_buffer()
            stream.seek(min(place[0], stream.size()))
            return stream.read_buffer(place[1])

    def list_files(self, folder: str = "", recursive: bool = True) -> list[Listed]:
        """Return the files in a folder, sorted by path; none if it is missing."""
        found = self._infos(folder, recursive)
        skip = len(self._opened[1]) + 1
        files = [Listed(f.path[skip:], f.size or 0) for f in found if f.type == arrow_fs.FileType.File]
        return sorted(files, key=lambda f: f.path)

    def names(self) -> list[str]:
        """Return what lies directly below the root, files and folders; nothing if the root is missing."""
        return sorted(f.base_name for f in self._infos("", recursive=False))

    def _infos(self, folder: str, recursive: bool) -> list[Any]:
        selector = arrow_fs.FileSelector(self.full_path(folder), allow_not_found=True, recursive=recursive)
        with self._explained("list", folder):
            return list(self._opened[0].get_file_info(selector))

    def make_root(self) -> None:
        """Make the root, and the folders above it."""
        with self._explained("make", ""):
            if self.local:
                self._make_folder(self.full_path(""))
            else:
                self._opened[0].create_dir(self.full_path(""), recursive=True)

    def delete(self, path: str) -> None:
        """Delete a file; one that is already gone is no error."""
        _forget(self.full_path(path))
        with suppress(FileMissing), self._explained("delete", path):
            self._opened[0].delete_file(self.full_path(path))

    def clear(self) -> None:
        """Delete all that lies below the root; the root stays."""
        with self._explained("delete", ""):
            self._opened[0].delete_dir_contents(self.full_path(""))

    def conditional(self, path: str) -> ConditionalObject | None:
        """Return a file that can be written under a condition; None where the file system has no such."""
        if self.given is not None or self.local:
            return None
        return conditional_object(arrow_uri(self.root), path, getattr(self._opened[0], "region", None))

    def exists(self, path: str) -> bool:
        """Return whether there is a file of this path."""
        with self._explained("look at", path):
            return self._is_file(self.full_path(path))

    def damaged(self, path: str, why: str) -> StoreError:
        """Return the error that names a damaged file."""
        return StoreError(
            f"{self}/{file_of(path)} is damaged: {why}",
            next_step=MEND_OR_RESTORE,
        )

    @contextmanager
    def _explained(self, verb: str, path: str) -> Iterator[None]:
        """Turn an error of the system into a message with a next step."""
        try:
            yield
        except OSError as error:
            raise _explanation(verb, self._shown(path), error) from error
        except ArrowException as error:
            raise StoreError(f"could not {verb} {self._shown(path)}: {_first_line(error)}") from error

    def _shown(self, path: str) -> str:
        return f"{self}/{path}" if path else str(self)


_SEAL = struct.Struct("<I4s")  # behind every frame: the checksum of its bytes, and a mark
_MARK = b"EVC1"
CHECKSUM_BYTES = _SEAL.size
_MOST_VERIFIED = 100_000
# Frames of local files that this process has compared with their checksum.
_VERIFIED: set[tuple[str, Version]] = set()


def _forget(full: str) -> None:
    """Forget the frame of a local file that is deleted or written again."""
    COPIED.forget(full)
    MAPPED.forget(full)


def seal(path: str, data: memoryview) -> bytes:
    """Return what stands behind the bytes of a frame: their checksum."""
    return _SEAL.pack(_checksum(path, data), _MARK)


def _checksum(path: str, data: Any) -> int:
    """Return the checksum of a file: of its path, so that no other file passes for it, and of its bytes.

    A backfill writes below a folder of its own, and that is no part of the path then.
    """
    own = path.split("/", 2)[2] if path.startswith("backfill/") else path
    return zlib.crc32(data, zlib.crc32(own.encode("utf-8", "surrogatepass")))


def is_temporary(path: str) -> bool:
    """Return whether a file is temporary: being written, or never finished."""
    name = path.rsplit("/", 1)[-1]
    return name.startswith(".") and name.endswith(".tmp")


def _without_secrets(text: str) -> str:
    return re.sub(r"//[^/@\s]*@", "//", text)


def _first_line(error: BaseException) -> str:
    return _without_secrets((str(error).splitlines() or [type(error).__name__])[0])


def _explanation(verb: str, where: str, error: OSError) -> StoreError:
    if error.errno in _FULL:
        return StoreError(
            f"there is no space left to {verb} {where}",
            next_step="make space and start again; the store is as its last finished step left it",
        )
    if error.errno in _DENIED:
        return StoreError(
            f"no right to {verb} {where}: {os.strerror(error.errno or 0)}",
            next_step="run as a user who may, or change the rights of the folder",
        )
    if isinstance(error, FileNotFoundError) and verb in ("write", "make"):
        return StoreError(
            f"could not {verb} {where}: the folder that it lies in cannot be made",
            next_step="check the path and the file system, or choose another place for the store",
        )
    if isinstance(error, FileNotFoundError):
        return FileMissing(
            f"{where} is missing",
            next_step=MEND_OR_RESTORE,
        )
    if error.errno in (errno.ENOTDIR, errno.EISDIR):
        return StoreError(
            f"could not {verb} {where}: a file is where a folder should be, or the other way round",
            next_step="move it away, or choose another place for the store",
        )
    return StoreError(
        f"could not {verb} {where}: {_first_line(error)}",
        next_step="check the disk or the connection to the file system, and start again",
    )
