"""Errors of Spark as messages for users: no stack trace, no Spark jargon.

A step that fails has changed nothing: the store is as it was after the last whole step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from everview.catalog import FedEntry
from everview.errors import EverviewError, Fault, StoreError
from everview.execute.spark_errors import cause, file_name, path_with_colon

# What Spark raises: itself, on the way to its Java process, and when that process is gone.
SPARK_FAILURES = (PySparkException, Py4JError, ConnectionError)

_AS_IT_WAS = "the store is as it was after the last whole step"

# What a task of ours raised comes back as text: the class, what it says, and its next step.
_OURS = re.compile(r"^everview\.[\w.]+: (?P<what>[^\n]+)(?:\n\s+next: (?P<next>[^\n]+))?", re.M)
# A call without an answer has nothing behind the name of what was called, and no class of Spark is found.
_JAVA_IS_GONE = re.compile(
    r"Answer from Java side is empty|Connection refused|Error while sending or receiving"
    r"|org\.apache\.spark\.\S+ does not exist in the JVM"
    r"|^An error occurred while calling \S+$"
)

_READING = re.compile(r"while reading file (\S+?)\.?\s[^\n]*SQLSTATE")  # Spark writes the path as a URI
_DENIED = re.compile(r"Permission denied|AccessDenied|AccessControlException")
_GONE = re.compile(r"FILE_NOT_EXIST|FileNotFoundException")

_OF_THE_MACHINE = re.compile(
    r"[Nn]o space left|the disk is full|Permission denied|AccessDenied|Read-only file system"
    r"|Too many open files|Connection (?:reset|refused)|[Tt]imed out|Service ?Unavailable|Input/output error"
    r"|Stale file handle"
)

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
    (
        re.compile(r"\bMemoryError\b|ArrowMemoryError|Python worker exited unexpectedly"),
        lambda m: StoreError(
            "a Python process of Spark has run out of memory, or has crashed",
            next_step=f"put a shorter window on the view, or give the machine more memory; {_AS_IT_WAS}",
        ),
    ),
    (
        re.compile(r"java\.lang\.OutOfMemoryError"),
        lambda m: StoreError(
            "Spark has too little memory",
            next_step=f"give it more, with a session whose spark.driver.memory is larger; {_AS_IT_WAS}",
        ),
    ),
)


@contextmanager
def explained_failures(fed: Sequence[FedEntry] = (), doing: str = "a step failed") -> Iterator[None]:
    """Turn what Spark raises inside the block into an error that a person can read."""
    try:
        yield
    except SPARK_FAILURES as error:
        raise failure(error, fed, doing) from error


def failure(
    error: BaseException, fed: Sequence[FedEntry] = (), doing: str = "a step failed"
) -> EverviewError:
    """Return the error to show for what Spark or a task raised while it was `doing` something."""
    if isinstance(error, EverviewError):
        return error
    text = str(error) or type(error).__name__
    if isinstance(error, (Py4JNetworkError, ConnectionError)) or _JAVA_IS_GONE.search(text):
        return StoreError(
            "Spark has ended: its Java process is gone",
            next_step="start again; if the system ended it for want of memory, give it less to do at once; "
            + _AS_IT_WAS,
        )
    ours = _OURS.search(text)
    if ours is not None:
        return StoreError(ours["what"], next_step=ours["next"] or _AS_IT_WAS)
    colon, reading = path_with_colon(text), _READING.search(text)
    if colon is not None:
        return colon
    if reading is not None:
        return _unreadable(file_name(reading[1]), text)
    for pattern, said in _KNOWN:
        found = pattern.search(text)
        if found is not None:
            return said(found)
    where = f" while reading {fed[0].source.full_path}" if len(fed) == 1 and fed[0].source else ""
    files = re.findall(r'^\s+File "([^"]+)"', text, re.M)
    if files and not any("everview" in file for file in files):  # a user function in an inserted frame
        return StoreError(
            f"{doing}: a Python function in the frame failed: {_python_error(text)}",
            next_step=f"mend the function; {_AS_IT_WAS}",
        )
    if "Traceback (most recent call last)" in text:  # of Python, in a task: that is code of ours
        return Fault(f"{doing}{where}: {_python_error(text)}", next_step=_AS_IT_WAS)
    return StoreError(f"{doing}{where}: {cause(text)}", next_step=_AS_IT_WAS)


def is_of_the_machine(error: BaseException) -> bool:
    """Return whether an error is about the machine or the sources, and not about a view."""
    text = str(error)
    gone = isinstance(error, (Py4JNetworkError, ConnectionError)) or _JAVA_IS_GONE.search(text)
    return bool(gone or _OF_THE_MACHINE.search(text))


def may_be_of_a_view(error: BaseException) -> bool:
    """Return whether an error of Spark may come from an expression, and not from the machine or a source."""
    text = str(error)
    elsewhere = is_of_the_machine(error) or _READING.search(text) or _GONE.search(text)
    return isinstance(error, SPARK_FAILURES) and not elsewhere


def _unreadable(path: str, text: str) -> StoreError:
    """Return the error for a file that Spark was reading."""
    if _DENIED.search(text):
        return StoreError(
            f"{path} cannot be read: this user has no right to read it",
            next_step=f"check the rights of the file and of its folders, and run again; {_AS_IT_WAS}",
        )
    if _GONE.search(text):
        return StoreError(
            f"{path} was there and is gone, before it was read",
            next_step=f"put it back and run again; {_AS_IT_WAS}",
        )
    return StoreError(
        f"{path} cannot be read: {cause(text)}",
        next_step=f"write it again, or take it away, and run again; {_AS_IT_WAS}",
    )


def _python_error(text: str) -> str:
    """Return the last line of a Python traceback.

    >>> _python_error("Traceback (most recent call last):\\n  File x\\nValueError: odd\\n\\n\\tat org.x.Y")
    'ValueError: odd'
    """
    after = text.rpartition("Traceback (most recent call last)")[2].splitlines()[1:]
    return next((line for line in after if line and not line[0].isspace()), "an error in a task")


def _path(text: str) -> str:
    return re.sub(r"^file:/+", "/", text).rstrip(".,")
