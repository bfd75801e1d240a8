"""Parts of what Spark says when it fails: the line that matters, the innermost cause, the file."""

from __future__ import annotations

import re
from urllib.parse import unquote

from everview.errors import StoreError


def file_name(uri: str) -> str:
    """Return a file as it is shown: as a path if it is local.

    >>> file_name("file:///data/a%20b.csv"), file_name("s3a://b/a.csv")
    ('/data/a b.csv', 's3a://b/a.csv')
    """
    return unquote(re.sub(r"^file:/+", "/", uri)) if uri.startswith("file:") else uri


def path_with_colon(text: str) -> StoreError | None:
    """Return the message for a name with a colon, which Hadoop takes for a URI and cannot read."""
    found = re.search(r"Relative path in absolute URI: ([^\n]*)", text)
    if found is None:
        return None
    name = re.sub(r"^\.(.*)\.crc$", r"\1", found[1])
    return StoreError(
        f"Spark cannot read a file whose path has a colon: {name}",
        next_step="rename it without the colon and run again",
    )


def first_line(error: BaseException) -> str:
    """Return the first line of a message of Spark, without its error class."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return re.sub(r"^\[[A-Z_.0-9]+\]\s*", "", line)


def cause(text: str) -> str:
    """Return the innermost cause of an error of Spark, on one line.

    >>> cause("An error occurred while calling o1.x.\\n: java.lang.RuntimeException: no [x]\\n\\tat a.b")
    'no [x]'
    >>> cause("[INVALID.PATTERN] The pattern is invalid: '('. SQLSTATE: 22023")
    "The pattern is invalid: '('."
    """
    causes = re.findall(r"Caused by: ([^\n]+)", text)
    lost = re.search(r"Lost task [^\n]*?\(TID \d+\) \([^)]*\): ([^\n]+)", text)
    called = re.search(r"An error occurred while calling [^\n]*\n: ([^\n]+)", text)
    line = causes[-1] if causes else next((m[1] for m in (lost, called) if m is not None), text)
    line = first_line(Exception(re.sub(r"^(?:(?:[a-z][\w$]*\.)+[A-Z][\w$]*: )+", "", line)))
    return re.sub(r"\s*SQLSTATE: \w+$", "", line)
