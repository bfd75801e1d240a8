"""What a view shows is a function of the input alone, and of a whole prefix of it (DESIGN section 2)."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import everview
from tests.engine.feeding import Rows, at, put, rows

pytestmark = pytest.mark.spark

LATENESS = 10

# Determinism

READINGS = """
CREATE STREAM readings (id INT, room INT, x DOUBLE, ts TIMESTAMP, TIMELINE ts LATENESS INTERVAL '10' SECOND)
  FROM csv('{folder}/readings', maxFilesPerTrigger => {files});
CREATE STREAM alarms (id INT, room INT, x DOUBLE, ts TIMESTAMP, TIMELINE ts LATENESS INTERVAL '10' SECOND)
  FROM csv('{folder}/alarms', maxFilesPerTrigger => {files});
CREATE TAGGED STREAM rooms OVER readings KEY (room) DELETE WHEN x < -900;
"""
VIEWS = {
    "near": "SELECT r.id, a.id AS alarm, r.x FROM readings [RANGE 8 SECONDS] AS r"
    " JOIN alarms [RANGE 15 SECONDS SLIDE 3 SECONDS] AS a ON r.room = a.room",
    "calm": "SELECT r.id, a.x FROM readings [TUMBLE 6 SECONDS] AS r"
    " LEFT JOIN alarms [RANGE 9 SECONDS] AS a ON r.room = a.room AND a.x > r.x",
    "rest": "SELECT room FROM readings [RANGE 12 SECONDS]"
    " EXCEPT ALL SELECT room FROM alarms [RANGE 9 SECONDS]",
    "once": "SELECT DISTINCT room FROM readings [FIXED 7 SECONDS] WHERE x > 0",
    "sums": "SELECT room, COUNT(*) AS n, SUM(x) AS s, AVG(x) AS a, STDDEV(x) AS d, MIN(x) AS low,"
    " MAX(x) AS high, COUNT(DISTINCT x) AS kinds FROM readings [RANGE 20 SECONDS] GROUP BY room",
    "most": "SELECT n, COUNT(*) AS rooms, SUM(s) AS s FROM sums GROUP BY n",
    "last": "SELECT id, room FROM readings [PARTITION BY room ROWS 2]",
    "warm": "SELECT room, x FROM rooms SYNC EVERY INTERVAL '4' SECOND WHERE x > 0",
    "quiet": "SELECT room, x FROM rooms WHERE NOT EXISTS"
    " (SELECT 1 FROM alarms [RANGE 5 SECONDS] AS a WHERE a.room = rooms.room AND a.x > rooms.x)",
}


def readings(rng: random.Random, count: int, length: int) -> list[tuple[str, float]]:
    """Lines of a file with their times; values that are not exact in binary, huge and tiny ones."""
    found = []
    for i in range(count):
        second = rng.randrange(length * 2) / 2
        x = rng.choice([0.1, 0.7, 1e16, -1e16, 3.3, rng.random(), -999])
        found.append((f"{i},{rng.randrange(5)},{x},{at(second)}", second))
    return found


def shuffled(rng: random.Random, lines: Iterable[tuple[str, float]]) -> list[str]:
    """Another order in which no row is late, whatever the batches are."""
    delayed = [(second + rng.random() * LATENESS, line) for line, second in lines]
    return [line for _, line in sorted(delayed)]


def put_files(folder: Path, lines: Sequence[str], sizes: Sequence[int]) -> None:
    """The lines in files of such sizes, in turn."""
    begin = number = 0
    while begin < len(lines):
        end = begin + sizes[number % len(sizes)]
        put(folder / f"{number:04}.csv", "\n".join(lines[begin:end]) + "\n", number)
        begin, number = end, number + 1


def test_order_batches_and_partitions_do_not_matter(spark: SparkSession, tmp_path: Path) -> None:
    """Sums of floating point among them, to the last bit."""
    rng = random.Random(5)
    given = {"readings": readings(rng, 120, 60), "alarms": readings(rng, 60, 60)}
    found: list[dict[str, Rows]] = []
    for name, sizes, files, partitions in (
        ("whole", [1000], 1, 1),
        ("files", [13, 40, 29], 1, 3),
        ("pieces", [5, 30, 1, 17, 60], 2, 4),
    ):
        for stream, lines in given.items():
            put_files(tmp_path / name / stream, shuffled(rng, lines), sizes)
        with everview.connect(str(tmp_path / name / "store"), spark, partitions=partitions) as db:
            views = "".join(f"CREATE VIEW {view} AS {sql};" for view, sql in VIEWS.items())
            db.execute(READINGS.format(folder=tmp_path / name, files=files) + views)
            done = db.run(finish=True)
            assert not any(a.late or a.rejected for a in done.arrived.values())
            found.append({view: rows(db.changes(view, "intervals")) for view in VIEWS})
    assert all(found[0].values())
    for other in found[1:]:
        assert {
            v: (found[0][v] - other[v], other[v] - found[0][v]) for v in VIEWS if found[0][v] != other[v]
        } == {}


# Internal consistency

BANK = """
CREATE STREAM transfers (id INT, source INT, target INT, amount INT, ts TIMESTAMP,
                         TIMELINE ts LATENESS INTERVAL '10' SECOND)
  FROM csv('{folder}', maxFilesPerTrigger => 1);
CREATE VIEW credits AS SELECT target AS account, SUM(amount) AS paid FROM transfers GROUP BY target;
CREATE VIEW debits AS SELECT source AS account, SUM(amount) AS paid FROM transfers GROUP BY source;
CREATE VIEW balance AS
  SELECT c.account, c.paid - d.paid AS balance FROM credits c JOIN debits d ON c.account = d.account;
CREATE VIEW total AS SELECT SUM(balance) AS total, COUNT(*) AS accounts FROM balance;
CREATE VIEW themselves AS
  SELECT a.id, b.id AS other FROM transfers AS a LEFT JOIN transfers AS b ON a.id = b.id;
"""


def transfers(rng: random.Random, count: int) -> list[str]:
    """First each account pays and is paid, at one instant; then random transfers, out of order."""
    ring = [(f"{i},{i},{(i + 1) % 10},5,{at(0)}", 0.0) for i in range(10)]
    later = []
    for i in range(10, count):
        source, target = rng.sample(range(10), 2)
        second = 1 + i // 4
        later.append((f"{i},{source},{target},{rng.randrange(1, 100)},{at(second)}", float(second)))
    return [line for line, _ in ring] + shuffled(rng, later)


def test_no_view_shows_a_state_that_never_was(spark: SparkSession, tmp_path: Path) -> None:
    """Money is neither made nor lost at any instant; a row that is joined with itself is never alone."""
    rng = random.Random(7)
    put_files(tmp_path / "in", transfers(rng, 200), [25, 13, 18])
    path = str(tmp_path / "bank")
    with everview.connect(path, spark, partitions=3) as db, everview.connect(path, spark) as reader:
        db.execute(BANK.format(folder=tmp_path / "in"))
        seen: list[Rows] = []
        after = db.run(
            progress=lambda _: seen.append(rows(reader.query("SELECT total, accounts FROM total")))
        )
        assert after.steps == len(seen) == 11
        assert seen == [{(0, 10): 1}] * after.steps
        db.run(finish=True)
        shown = [(r.tag, r.total, r.accounts) for r in db.changes("total").collect()]
        assert shown == [("+", None, 0), ("u", 0, 10)], "it has changed once, when the accounts came"
        kept = db.changes("themselves", "intervals").collect()
        assert len(kept) == 200
        assert all(r.other == r.id and r.until is None for r in kept)
        assert len(db.changes("balance").collect()) > 200, "while the balances did change"
