"""What Spark says when a step fails, in words that help: no stack trace, no Spark jargon.

A step that fails has changed nothing: the store is as it was after the last whole step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from everview.errors import EverviewError, StoreError
from everview.runtime.reading import Fed, cause, path_of

_AS_IT_WAS = "the store is as it was after the last whole step"

# What a task of ours raised comes back as text: the class, what it says, and its next step.
_OURS = re.compile(r"^everview\.[\w.]+: (?P<what>[^\n]+)(?:\n\s+next: (?P<next>[^\n]+))?", re.M)

_KNOWN: Sequence[tuple[re.Pattern[str], Callable[[re.Match[str]], StoreError]]] = (
    (
        re.compile(r"(?:FILE_NOT_EXIST|FileNotFoundException)[^\n]*?(file:\S+|/\S+)"),
        lambda m: StoreError(
            f"{_path(m[1])} was there and is gone, before it was read",
            next_step=f"put it back and run again; {_AS_IT_WAS}",
        ),
    ),
    (
        re.compile(r"No space left on device"),
        lambda m: StoreError("the disk is full", next_step=f"make room and run again; {_AS_IT_WAS}"),
    ),
    (
        re.compile(r"(?:Permission denied|AccessDenied)[^\n]*"),
        lambda m: StoreError(
            f"a file may not be read or written: {m[0]}", next_step="check the rights of the folder"
        ),
    ),
)


def failure(error: BaseException, fed: Sequence[Fed] = ()) -> EverviewError:
    """The error that a person is shown for what Spark or a task raised."""
    if isinstance(error, EverviewError):
        return error
    text = str(error)
    ours = _OURS.search(text)
    if ours is not None:
        return StoreError(ours["what"], next_step=ours["next"] or _AS_IT_WAS)
    for pattern, said in _KNOWN:
        found = pattern.search(text)
        if found is not None:
            return said(found)
    where = f" while reading {path_of(fed[0].source)}" if len(fed) == 1 and fed[0].source else ""
    return StoreError(f"a step failed{where}: {cause(text)}", next_step=_AS_IT_WAS)


def _path(text: str) -> str:
    return re.sub(r"^file:/+", "/", text).rstrip(".,")
