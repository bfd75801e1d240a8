"""Random views, random alterations at a random step: as if the last names and columns had always been."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import everview
from everview.database import Database
from tests.engine.reading import put
from tests.seeds import seeds

pytestmark = [pytest.mark.spark, pytest.mark.slow]

# Over the stream {s}; `*` are the columns from before.
BASES = [
    "SELECT {star} FROM {s} [RANGE 20 SECONDS]",
    "SELECT {s}.k, {s}.v FROM {s} [PARTITION BY k ROWS 2]",
    "SELECT k, SUM({s}.v) AS v FROM {s} [RANGE 15 SECONDS] GROUP BY k",
    "SELECT DISTINCT k, v FROM {s}",
    "SELECT k, v FROM {latest}",
    "SELECT k, v FROM {s}$late",
]
OVER = [
    "SELECT {below}.k, COUNT(*) AS v FROM {below} GROUP BY {below}.k",
    "SELECT k, v FROM {below} EXCEPT ALL SELECT k, v FROM {s} [RANGE 3 SECONDS]",
    "SELECT a.k, a.v FROM {below} a JOIN {s} [RANGE 5 SECONDS] AS b ON a.k = b.k",
    "SELECT k, v FROM {below} WHERE k IN (SELECT {s}.k FROM {s} [RANGE 4 SECONDS])",
]
NEW = "SELECT k, b, COUNT(*) AS n FROM {s} [RANGE 30 SECONDS] GROUP BY k, b"


def rows(answer: DataFrame) -> Counter[tuple[object, ...]]:
    return Counter(tuple(r) for r in answer.collect())


def replayed(changes: DataFrame) -> Counter[tuple[object, ...]]:
    """What the tags of a view add up to."""
    found: Counter[tuple[object, ...]] = Counter()
    for r in changes.collect():
        record = tuple(r)[2:-1]
        found[record] += {"+": 1, "u": 1, "-": -1}[r.tag]
        if r.tag == "u":
            found[tuple(r.old)] -= 1
    return +found


class Feed:
    """Rows for two stores: inserted, or files with a header."""

    def __init__(self, folder: Path, rng: random.Random, by_files: bool) -> None:
        self.folder, self.rng, self.by_files = folder, rng, by_files

    def source(self) -> str:
        return f"FROM csv('{self.folder}', header => true)" if self.by_files else ""

    def batch(self, number: int, with_b: bool) -> list[dict[str, object]]:
        """Rows of ten seconds, one of them late."""
        seconds = sorted(self.rng.randrange(10 * number + 1, 10 * number + 11) for _ in range(6))
        seconds += [1] if number > 1 else []
        made = [
            {"k": self.rng.randrange(3), "v": self.rng.randrange(4), "ts": f"2026-01-01 00:00:{s:02}"}
            for s in seconds
        ]
        return [{**row, "b": self.rng.randrange(5)} for row in made] if with_b else made

    def feed(self, stores: dict[Database, str], number: int, with_b: bool) -> None:
        new = self.batch(number, with_b)
        if self.by_files:
            lines = [",".join(new[0]), *(",".join(map(str, row.values())) for row in new)]
            put(self.folder, f"{number}.csv", "\n".join(lines) + "\n")
        for db, stream in stores.items():
            if not self.by_files:
                db.insert(stream, new)
            db.run()


@pytest.mark.parametrize("seed", seeds(2, 4))
def test_as_if_the_last_names_had_always_been(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    feed = Feed(tmp_path / "in", rng, by_files=bool(seed % 2))
    feed.folder.mkdir()
    chain = [rng.choice(BASES), *rng.sample(OVER, 2)]
    step = rng.randrange(1, 4)
    last = {"s": "t", "latest": "newest", "v0": "v0", "v1": "w 1", "v2": "v2"}

    def script(names: dict[str, str], columns: str, star: str) -> list[str]:
        quoted = {name: f"`{new}`" for name, new in names.items()}
        views = [
            f"CREATE VIEW {quoted[f'v{i}']} AS "
            + q.format(star=star, below=quoted.get(f"v{i - 1}"), **{**quoted, "s": names["s"]})
            for i, q in enumerate(chain)
        ]
        stream = f"CREATE STREAM {names['s']} ({columns}, TIMELINE ts) {feed.source()}"
        return [stream, f"CREATE TAGGED STREAM {quoted['latest']} OVER {names['s']} KEY (k)", *views]

    alters = [
        "ALTER STREAM s RENAME TO t", "ALTER VIEW v1 RENAME TO `w 1`", "ALTER STREAM latest RENAME TO newest",
        "ALTER STREAM {s} ADD COLUMN b INT",
    ]  # fmt: skip
    rng.shuffle(alters)
    with (
        everview.connect(str(tmp_path / "always"), spark, partitions=2) as always,
        everview.connect(str(tmp_path / "altered"), spark, partitions=2) as db,
    ):
        columns = "k INT, v INT, ts TIMESTAMP"
        for sql in [
            *script(last, f"{columns}, b INT", "k, v, ts"),
            f"CREATE VIEW new AS {NEW.format(s='t')}",
        ]:
            always.execute(sql)
        names = {name: name for name in last}
        for sql in script(names, columns, "*"):
            db.execute(sql)
        for i in range(5):
            feed.feed({always: "t", db: names["s"]}, i, with_b=i > step)
            if i == step:
                plans = db.manifest().plans
                for sql in alters:
                    db.execute(sql.format(s="t" if "t" in db.catalog else "s"))
                names = last
                assert db.manifest().run_paths()
                assert len(db.manifest().plans) == len(plans)
                db.execute(f"CREATE VIEW new AS {NEW.format(s='t')}")
            for known in ["v0", "v1", "v2", *(["new"] if i >= step else [])]:
                mine, other = names.get(known, known), last.get(known, known)
                answer = rows(db.query(f"SELECT * FROM `{mine}`"))
                assert answer == rows(always.query(f"SELECT * FROM `{other}`")), (known, i)
                if i in (step, 4):
                    assert replayed(db.changes(mine)) == answer, (known, i)
                    assert rows(db.changes(mine)) == rows(always.changes(other)), (known, i)
        assert not db.manifest().next
