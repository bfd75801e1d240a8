"""The replay of a demo in real time: rows are inserted when they are due, and changes shown as they come."""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pyarrow as pa  # type: ignore[import-untyped]

from everview.query.answers import fetch_answer
from everview.ui.output import ENDS, Sheet

if TYPE_CHECKING:
    from everview.database import Database

_SOURCE = re.compile(r"\s*FROM csv\('[^']*', header => true\)")


@dataclass(frozen=True)
class ReplayedRow:
    """A row of a stream, and how many seconds after the first row it happened."""

    second: float
    stream: str
    row: dict[str, str]


def without_sources(script: str) -> str:
    """Return the script without the sources of its streams, so that rows can be inserted.

    >>> without_sources("CREATE STREAM s (…)\\n  FROM csv('s.csv', header => true);")
    'CREATE STREAM s (…);'
    """
    return _SOURCE.sub("", script)


def read_rows(inputs: Mapping[str, str], folder: Path) -> list[ReplayedRow]:
    """Return the rows of all streams in the order of their times."""
    found = []
    for stream, file in inputs.items():
        with (folder / file).open(encoding="utf-8", newline="") as lines:
            found += [(datetime.fromisoformat(row["ts"]), stream, row) for row in csv.DictReader(lines)]
    found.sort(key=lambda e: (e[0], e[1]))
    return [ReplayedRow((at - found[0][0]).total_seconds(), stream, row) for at, stream, row in found]


def due_batches(
    rows: list[ReplayedRow], speed: float, now: Callable[[], float], sleep: Callable[[float], None]
) -> Iterator[list[ReplayedRow]]:
    """Yield batches of the rows that have become due; more become due while the caller uses a batch."""
    began = now()
    while rows:
        sleep(max(0.0, rows[0].second / speed - (now() - began)))
        due = max((now() - began) * speed, rows[0].second)
        number = sum(event.second <= due for event in rows)
        yield rows[:number]
        rows = rows[number:]


def replay(
    db: Database, script: str, inputs: Mapping[str, str], folder: Path, views: list[str], speed: float,
    out: IO[str], now: Callable[[], float] = time.monotonic, sleep: Callable[[float], None] = time.sleep,
) -> None:  # fmt: skip
    """Run a script, insert the rows of its files in real time, and print the changes of some views."""
    db.execute(without_sources(script))
    for due in due_batches(read_rows(inputs, folder), speed, now, sleep):
        out.write(f"{due[-1].row['ts']}  {len(due)} in\n")
        for stream in inputs:
            rows = [event.row for event in due if event.stream == stream]
            if rows:
                db.insert(stream, pa.Table.from_pylist(rows))  # as a table, whose texts are converted
        _step(db, views, False, out)
    _step(db, views, True, out)


def _step(db: Database, views: list[str], finish: bool, out: IO[str]) -> None:
    before = db.manifest().step
    db.run(finish)
    for view in views:
        Sheet("table", out, ENDS["tags"], title=view).write(fetch_answer(db.changes(view, since=before)))
