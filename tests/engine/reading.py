"""What tests of sources share: files with times in their order, and what became of all rows of a stream."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from pathlib import Path

from everview.database import Database

_count = itertools.count()


def put(folder: Path, name: str, content: str | bytes) -> Path:
    """A new file, later than all before it: Spark reads files in the order of their times."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return dated(path)


def dated(path: Path) -> Path:
    """The file, later than all before it."""
    seconds = 1_700_000_000 + next(_count)
    os.utime(path, (seconds, seconds))
    return path


def taken(db: Database, stream: str) -> Counter[tuple[object, ...]]:
    """The rows that a view over the whole stream holds; to be asked after the end of the input."""
    return Counter(tuple(r) for r in db.query(f"SELECT * FROM all_of_{stream}").collect())


def rejected(db: Database, stream: str) -> Counter[tuple[str, str]]:
    """Reasons and original texts of the rows that were refused."""
    rows = db.query(f"SELECT _reason, _original FROM {stream}$rejected").collect()
    return Counter((r._reason, r._original) for r in rows)


def late(db: Database, stream: str) -> Counter[str]:
    """Original texts of the rows that were late."""
    return Counter(r._original for r in db.query(f"SELECT _original FROM {stream}$late").collect())
