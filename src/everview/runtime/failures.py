"""What Spark says when a step fails, in words that help: no stack trace, no Spark jargon.

A step that fails has changed nothing: the store is as it was after the last whole step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from everview.errors import EverviewError, StoreError
from everview.runtime.sources import Fed, first_line, path_of

_AS_IT_WAS = "the store is as it was after the last whole step"

# What a task of ours raised comes back as text: the class, what it says, and its next step.
_OURS = re.compile(r"^everview\.[\w.]+: (?P<what>[^\n]+)(?:\n\s+next: (?P<next>[^\n]+))?", re.M)

_KNOWN: Sequence[tuple[re.Pattern[str], Callable[[re.Match[str]], StoreError]]] = (
    (
        re.compile(r"CSV header does not conform.*?Expected: (.*?) but found: (.*?)\nCSV file: (\S+)", re.S),
        lambda m: StoreError(
            f"the header of {_path(m[3])} is not that of the files before: "
            f"'{m[2]}' stands where '{m[1]}' was",
            next_step="give the file the same columns in the same order, or make another stream for it; "
            + _AS_IT_WAS,
        ),
    ),
    (
        re.compile(r"(?:FILE_NOT_EXIST|FileNotFoundException)[^\n]*?(file:\S+|/\S+)"),
        lambda m: StoreError(
            f"{_path(m[1])} was there and is gone, before it was read",
            next_step=f"put it back and run again; {_AS_IT_WAS}",
        ),
    ),
    (
        re.compile(r"PARQUET_COLUMN_DATA_TYPE_MISMATCH.*?file (\S+)\. Data type.*?column \[([^\]]+)\]", re.S),
        lambda m: StoreError(
            f"the column '{m[2]}' of {_path(m[1])} has another type than declared",
            next_step=f"declare its type, or write the file again; {_AS_IT_WAS}",
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
    return StoreError(f"a step failed{where}: {_cause(text)}", next_step=_AS_IT_WAS)


def _cause(text: str) -> str:
    """The innermost cause that Spark tells, on one line."""
    causes = re.findall(r"Caused by: ([^\n]+)", text)
    return first_line(Exception(causes[-1] if causes else text))


def _path(text: str) -> str:
    return re.sub(r"^file:/+", "/", text).rstrip(".,")
