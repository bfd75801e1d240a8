"""A folder of Parquet, JSON or CSV files: `step=00000012/part-00000.parquet`, a folder for each step.

A folder is written under a temporary name and renamed: it is there whole or not at all, and a step that is
there is not written again. Object stores rename nothing: there the file `_SUCCESS` comes last, and a folder
without it does not count. A step without changes has no folder.
"""

from __future__ import annotations

import io
import json
import os
import re
import shutil
from collections.abc import Iterator

from everview.errors import StoreError
from everview.operators.columnar.frame import Frame
from everview.sinks.delivery import REWRITE, Delivery, SinkLayout, TargetAhead, plain_text
from everview.storage.files import FileMissing, Files

OWNER_FILE, SUCCESS = "_everview.json", "_SUCCESS"
_STEP = re.compile(r"step=(\d{8,})")


class FolderTarget:
    """A folder with the steps of one sink."""

    can_rewrite = True

    def __init__(self, layout: SinkLayout) -> None:
        self._layout = layout
        self._files = Files(layout.path)

    def prepare(self) -> None:
        """Take the folder for this sink; it must be empty, or not there yet."""
        owner = self._owner()
        if owner == self._layout.entry.id:
            return
        if owner is not None or self._files.names():
            what = "holds what another sink has written" if owner else "is not empty"
            raise StoreError(f"{self._files} {what}", next_step="choose an empty folder for the sink")
        self._files.make_root()
        mark = {"sink": self._layout.entry.id, "name": self._layout.entry.name}
        self._files.write(OWNER_FILE, json.dumps(mark).encode())

    def write(self, delivery: Delivery) -> None:
        """Write the folder of a step, unless it is there."""
        if self._owner() != self._layout.entry.id:
            raise StoreError(
                f"{self._files} is not the folder of the sink any more: {OWNER_FILE} is gone or another one",
                next_step="put the folder back, or drop the sink and create it with an empty folder",
            )
        there = self._steps()
        if delivery.kind == REWRITE:
            for step in there:
                self._delete(_folder(step))
            there = []
        if there and there[-1] > delivery.store_step:
            raise TargetAhead.of(there[-1], delivery)
        if delivery.step in there:
            return
        self._write_step(_folder(delivery.step), delivery)

    def close(self) -> None:
        """There is nothing to close."""

    def _owner(self) -> str | None:
        """Return the id of the sink that the folder belongs to; None if it belongs to none."""
        try:
            found = json.loads(self._files.read(OWNER_FILE))
            return str(found["sink"])
        except (FileMissing, ValueError, KeyError, TypeError):
            return None

    def _steps(self) -> list[int]:
        """Return the steps whose folders are whole, in order."""
        found = (_STEP.fullmatch(name) for name in self._files.names())
        steps = sorted(int(m[1]) for m in found if m is not None)
        return [step for step in steps if self._is_whole(_folder(step))]

    def _is_whole(self, folder: str) -> bool:
        return self._files.local or self._files.exists(f"{folder}/{SUCCESS}")

    def _write_step(self, folder: str, delivery: Delivery) -> None:
        if self._files.local:
            self._write_local(folder, delivery)
            return
        for name, data in self._parts(delivery):
            self._files.write(f"{folder}/{name}", data)
        self._files.write(f"{folder}/{SUCCESS}", b"")

    def _write_local(self, folder: str, delivery: Delivery) -> None:
        temporary = f".{folder}.tmp"
        self._delete(temporary)
        for name, data in self._parts(delivery):
            self._files.write(f"{temporary}/{name}", data)
        root = self._files.full_path("")
        os.rename(f"{root}/{temporary}", f"{root}/{folder}")
        handle = os.open(root, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def _delete(self, folder: str) -> None:
        if self._files.local:
            shutil.rmtree(self._files.full_path(folder), ignore_errors=True)
        else:
            for file in self._files.list_files(folder):
                self._files.delete(file.path)

    def _parts(self, delivery: Delivery) -> Iterator[tuple[str, bytes]]:
        format_ = self._layout.entry.format
        parts = (part.rows for part in delivery.parts())
        for number, rows in enumerate(rows for rows in parts if not rows.is_empty()):
            yield f"part-{number:05}.{format_}", self._encoded(rows, format_)

    def _encoded(self, rows: Frame, format_: str) -> bytes:
        if self._layout.entry.mode == "changes":
            rows = rows.drop(self._layout.change_names[2])  # a u is known by its key
        buffer = io.BytesIO()
        if format_ == "parquet":
            rows.write_parquet(buffer)
        elif format_ == "json":
            plain_text(rows).write_ndjson(buffer)
        else:
            header = self._layout.text("header", "true").casefold() == "true"
            separator = self._layout.text("sep", ",")
            plain_text(rows).write_csv(buffer, include_header=header, separator=separator)
        return buffer.getvalue()


def _folder(step: int) -> str:
    return f"step={step:08}"
