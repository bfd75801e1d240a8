"""Input for tests that restart: rounds of files and inserts, the same each time, and the views over them.

Everything that a round brings is a function of its number. So it can be done again by another process that
does not know how far the one before came: files that are there stay as they are, and what was inserted is
told by the counts of the store.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from everview.database import Database

Rows = Counter[tuple[Any, ...]]

START = datetime(2026, 1, 1)
_FILES = 2  # of each source in a round
_ROWS = 8  # in a file
_INSERTED = 5  # rows in a round
_SECONDS = 10  # that time moves in a round

VIEWS = ("paid", "sums", "unstopped", "newest", "unpaid", "open_orders")


def rows(answer: DataFrame) -> Rows:
    """The rows of an answer, each as often as it is there; records inside are tuples too."""
    return Counter(tuple(r) for r in answer.collect())


def at(seconds: float) -> str:
    """An instant so long after the start, as it stands in a file."""
    return (START + timedelta(seconds=seconds)).isoformat(sep=" ")


def put(path: Path, text: str, second: int) -> None:
    """A file that is there at once and whole; Spark reads files in the order of their times."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}")
    hidden.write_text(text)
    os.utime(hidden, (1_700_000_000 + second,) * 2)
    hidden.rename(path)


@dataclass(frozen=True)
class Feed:
    """Two sources of files and a stream that is fed by INSERT, some rows of which are late or broken."""

    folder: Path
    rounds: int
    seed: int = 0

    @property
    def script(self) -> str:
        """The names of the store."""
        columns = "id INT, k INT, v INT, ts TIMESTAMP, TIMELINE ts LATENESS INTERVAL '4' SECOND"
        return f"""
            CREATE STREAM orders ({columns}) FROM csv('{self.folder}/orders', maxFilesPerTrigger => 1);
            CREATE STREAM payments ({columns}) FROM csv('{self.folder}/payments', maxFilesPerTrigger => 1);
            CREATE STREAM stopped (k INT, ts TIMESTAMP, TIMELINE ts LATENESS INTERVAL '2' SECOND);
            CREATE VIEW paid AS
              SELECT o.id, o.k, o.v, p.v AS amount
              FROM orders [RANGE 30 SECONDS] AS o JOIN payments [RANGE 20 SECONDS] AS p ON o.k = p.k;
            CREATE VIEW sums AS SELECT k, COUNT(*) AS n, SUM(amount) AS amount FROM paid GROUP BY k;
            CREATE VIEW unstopped AS
              SELECT k FROM orders [RANGE 40 SECONDS] EXCEPT SELECT k FROM stopped [RANGE 15 SECONDS];
            CREATE VIEW newest AS SELECT k, v FROM orders [PARTITION BY k ROWS 2];
            CREATE STREAM unpaid TIMELINE until AS
              SELECT o.id, o.k, o.ts + INTERVAL '9' SECOND AS until FROM orders o
              WHERE NOT EXISTS (SELECT 1 FROM payments p WHERE p.k = o.k
                                AND p.ts BETWEEN o.ts AND o.ts + INTERVAL '9' SECOND);
            CREATE VIEW open_orders AS SELECT k, COUNT(*) AS n FROM unpaid [RANGE 20 SECONDS] GROUP BY k;
        """

    def work(self, db: Database, upto: int) -> None:
        """The rounds that are not done yet, up to one."""
        for number in range(max(0, self._begun(db) - 1), upto):
            for name in ("orders", "payments"):
                for file in range(_FILES):
                    self._put(name, number, file)
            if number >= self._begun(db):
                db.insert("stopped", self.inserted(number))
            db.run()

    def _begun(self, db: Database) -> int:
        """How many rounds have inserted their rows."""
        return sum(db._pipeline.store.manifest().counts.get("stopped", ())) // _INSERTED

    def inserted(self, number: int) -> list[dict[str, object]]:
        """The rows that a round inserts; the first is late, but for those of the first round."""
        rng = random.Random(f"{self.seed} inserted {number}")
        moments = [self._moment(rng, number) - (60 if i == 0 else 0) for i in range(_INSERTED)]
        return [{"k": rng.randrange(6), "ts": START + timedelta(seconds=s)} for s in moments]

    def _put(self, name: str, number: int, file: int) -> None:
        """One file of a source: rows out of order, one late, one broken."""
        rng = random.Random(f"{self.seed} {name} {number} {file}")
        place = number * _FILES + file
        lines = []
        for i in range(_ROWS):
            moment = self._moment(rng, number, file) - (90 if i == 0 and place else 0)
            lines.append(f"{place * _ROWS + i},{rng.randrange(6)},{rng.randrange(100)},{at(moment)}")
        lines.insert(3, f"{place},{rng.randrange(6)},many,{at(place)}")
        put(self.folder / name / f"{place:04}.csv", "\n".join(lines) + "\n", place)

    def _moment(self, rng: random.Random, number: int, file: int = 0) -> float:
        """A time of the round, up to 3 s earlier than others of it."""
        length = _SECONDS / _FILES
        return 100 + number * _SECONDS + file * length + rng.randrange(int(length)) - rng.randrange(4)


def everything(db: Database) -> dict[str, Rows]:
    """All that a store shows: each view's changes in both encodings, late and refused rows.

    After a kill, Spark may put files into one batch that came in two. Then late rows are late by another
    bound, so that is left out.
    """
    reason = "regexp_replace(_reason, '[0-9-]+T[0-9:.]+', '…') AS _reason"
    shown = {f"{view} as {e}": rows(db.changes(view, e)) for view in VIEWS for e in ("tags", "intervals")}
    for name in ("orders", "payments"):
        shown[f"{name} late"] = rows(db.query(f"SELECT id, k, v, ts, {reason}, _original FROM {name}$late"))
        shown[f"{name} rejected"] = rows(db.query(f"SELECT _reason, _original FROM {name}$rejected"))
    shown["stopped late"] = rows(db.query(f"SELECT k, ts, {reason}, _original FROM stopped$late"))
    return shown
