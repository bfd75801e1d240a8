"""How far each sink has come: a small file for each, beside the manifests.

A target that has transactions knows the step that it has itself, and that counts: this file is written after
it. A backup does not have these files, as the target goes on when the store is put back: a sink without one
is set aside.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from everview.algebra.text import name_sql
from everview.storage.files import FileMissing, Files
from everview.storage.names import safe_name
from everview.storage.records import decode_record, encode_record

SINKS_FOLDER = "sinks"


@dataclass(frozen=True)
class SinkPosition:
    """A sink has all changes of its view up to a `step`; 0 and not `begun`: nothing, not even an answer.

    `error` says why it was set aside, since the step `failed`; it is tried again unless it is `stopped`:
    then it waits for RESUME. With `rewrite`, what it has is to be replaced by the present answer.
    """

    name: str
    view: str
    step: int = 0
    begun: bool = False
    error: str = ""
    next_step: str = ""
    failed: int = 0
    stopped: bool = False
    rewrite: bool = False
    function: bool = False

    @property
    def aside(self) -> bool:
        """Whether it was set aside."""
        return bool(self.error)

    @property
    def note(self) -> str:
        """What there is to say of it."""
        if not self.error:
            return ""
        return f"set aside in step {self.failed}: {self.error}"

    @property
    def resume_sql(self) -> str:
        """The statement that lets it go on at once."""
        return f"ALTER SINK {name_sql(self.name)} RESUME"

    def reached(self, step: int) -> SinkPosition:
        """Return the position after all was written up to a step."""
        return replace(
            self, step=step, begun=True, rewrite=False, error="", next_step="", failed=0, stopped=False
        )


@dataclass(frozen=True)
class SinkPositions:
    """The positions of all sinks of a store."""

    files: Files

    def read(self, id_: str) -> SinkPosition | None:
        """Return the position of a sink; None if it is not known, or damaged."""
        try:
            return decode_record(self.files.read(_path(id_)), SinkPosition)
        except (FileMissing, ValueError):
            return None

    def write(self, id_: str, position: SinkPosition) -> None:
        """Write the position of a sink."""
        self.files.write(_path(id_), encode_record(position))

    def delete(self, id_: str) -> None:
        """Forget a sink."""
        self.files.delete(_path(id_))

    def clear(self) -> None:
        """Forget how far all sinks have come."""
        for id_ in list(self.ids()):
            self.delete(id_)

    def ids(self) -> Iterator[str]:
        """Yield the ids of all sinks that have a position."""
        for file in self.files.list_files(SINKS_FOLDER, recursive=False):
            name = file.path.rsplit("/", 1)[1]
            if name.endswith(".json"):
                yield name.removesuffix(".json")


def function_id(name: str) -> str:
    """Return the id of a Python function that changes are given to: its position is kept by its name."""
    return f"function-{safe_name(name)}"


def _path(id_: str) -> str:
    return f"{SINKS_FOLDER}/{id_}.json"
