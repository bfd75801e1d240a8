"""CREATE OR REPLACE VIEW on a store that has run: the view and all over it are computed anew, at one step."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import everview
from everview.errors import EverviewError, StoreError
from tests.seeds import seeds

pytestmark = pytest.mark.spark

BASES = [
    "SELECT k, v FROM s [RANGE 20 SECONDS]",
    "SELECT k, v + 1 AS v FROM s [RANGE 12 SECONDS] WHERE v > 0",
    "SELECT k, v FROM s [PARTITION BY k ROWS 2]",
    "SELECT k, SUM(v) AS v FROM s [RANGE 15 SECONDS] GROUP BY k",
    "SELECT DISTINCT k, v FROM s",
]
OVER = [
    "SELECT k, v * 2 AS v FROM {below}",
    "SELECT k, CAST(COUNT(*) AS INT) AS v FROM {below} GROUP BY k",
    "SELECT k, v FROM {below} EXCEPT ALL SELECT k, v FROM s [RANGE 3 SECONDS]",
    "SELECT a.k, a.v FROM {below} a JOIN s [RANGE 5 SECONDS] b ON a.k = b.k",
]
TOP = "SELECT COUNT(*) AS n, MAX(v) AS high FROM {below}"


def rows(answer: DataFrame) -> Counter[tuple[object, ...]]:
    return Counter(tuple(r) for r in answer.collect())


def replayed(changes: DataFrame) -> Counter[tuple[object, ...]]:
    """What the tags of a view add up to."""
    found: Counter[tuple[object, ...]] = Counter()
    for r in changes.collect():
        record = tuple(r)[2:-1]
        if r.tag in "+u":
            found[record] += 1
        if r.tag == "-":
            found[record] -= 1
        if r.tag == "u":
            found[tuple(r.old)] -= 1
    return +found


def batch(rng: random.Random, start: int) -> list[dict[str, object]]:
    return [
        {"k": rng.randrange(3), "v": rng.randrange(4), "ts": f"2026-01-01 00:{s // 60:02}:{s % 60:02}"}
        for s in sorted(rng.randrange(start, start + 10) for _ in range(8))
    ]


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(2, 5))
def test_a_replaced_view_is_as_if_it_had_always_been(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    chain = [rng.choice(BASES), *rng.sample(OVER, 2)]
    number = rng.randrange(3)
    other = rng.choice([q for q in (BASES if number == 0 else OVER) if q != chain[number]])
    later = [other if i == number else q for i, q in enumerate(chain)]
    step = rng.randrange(1, 4)

    def views(queries: list[str]) -> list[str]:
        return [f"CREATE VIEW v{i} AS {q.format(below=f'v{i - 1}')}" for i, q in enumerate(queries)]

    names = ["v0", "v1", "v2", "top"]
    with (
        everview.connect(str(tmp_path / "always"), spark, partitions=2) as always,
        everview.connect(str(tmp_path / "replaced"), spark, partitions=2) as db,
    ):
        for each, queries in ((always, later), (db, chain)):
            each.execute("CREATE STREAM s (k INT, v INT, ts TIMESTAMP, TIMELINE ts)")
            for sql in [*views(queries), f"CREATE VIEW top AS {TOP.format(below='v2')}"]:
                each.execute(sql)
        seen: dict[str, Counter[tuple[object, ...]]] = {}
        for i in range(5):
            new = batch(rng, 10 * i + 1)
            for each in (always, db):
                each.insert("s", new)
                each.run()
            if i == step:
                seen = {name: rows(db.query(f"SELECT * FROM {name}")) for name in names}
                bound = db.manifest().bound
                old = db.manifest().step
                db.execute(views(later)[number].replace("CREATE", "CREATE OR REPLACE"))
            for name in names:
                sql = f"SELECT * FROM {name}"
                answer = rows(db.query(sql))
                if i >= step:
                    assert answer == rows(always.query(sql)), (name, i)
                if i != step:  # the rows of the new definition count from after the bound
                    assert replayed(db.changes(name)) == answer, (name, i)
        for name in names:
            instant = f"TIMESTAMP '{_instant(bound)}'"
            earlier = rows(db.query(f"SELECT * FROM {name} AS OF {instant}"))
            assert earlier == seen[name], "before it was replaced, it answers as it did"
            after = seen[name].copy()
            for r in db.changes(name, since=old).collect():
                after[tuple(r)[2:-1]] += 1 if r.tag in "+u" else -1
                if r.tag == "u":
                    after[tuple(r.old)] -= 1
            assert +after == rows(db.query(f"SELECT * FROM {name}")), "who followed it misses nothing"


def _instant(chronon: int) -> str:
    from everview.algebra.time import format_timestamp

    return format_timestamp(chronon)


def test_an_aggregate_over_a_replaced_view_has_one_row(spark: SparkSession, tmp_path: Path) -> None:
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute("""
            CREATE STREAM s (k INT, v INT, ts TIMESTAMP, TIMELINE ts);
            CREATE VIEW held AS SELECT k, v FROM s [RANGE 1 MINUTE];
            CREATE VIEW total AS SELECT SUM(v) AS v FROM held;
            CREATE COMPLETE VIEW ready AS SELECT v FROM total;
        """)
        db.insert("s", [{"k": 1, "v": 3, "ts": "2026-01-01 00:00:01"}])
        db.run()
        db.execute("CREATE OR REPLACE VIEW held AS SELECT k, v * 10 AS v FROM s [RANGE 1 MINUTE]")
        assert rows(db.query("SELECT * FROM total")) == rows(db.query("SELECT * FROM ready")) == {(30,): 1}
        db.insert("s", [{"k": 1, "v": 4, "ts": "2026-01-01 00:00:02"}])
        db.run()
        assert rows(db.query("SELECT * FROM total")) == rows(db.query("SELECT * FROM ready")) == {(70,): 1}
        assert rows(db.query("SELECT * FROM total", as_of="2026-01-01 00:00:01")) == {(3,): 1}
        tags = [(r.tag, r.v) for r in db.changes("total").collect()]
        assert tags[-1] == ("+", 70) or tags[-1][1] == 70


def test_other_columns_end_the_changes_before(spark: SparkSession, tmp_path: Path) -> None:
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute("""
            CREATE STREAM s (k INT, v INT, ts TIMESTAMP, TIMELINE ts);
            CREATE VIEW held AS SELECT k FROM s [RANGE 1 MINUTE];
        """)
        db.insert("s", [{"k": 1, "v": 3, "ts": "2026-01-01 00:00:01"}])
        step = db.run().step
        db.execute("CREATE OR REPLACE VIEW held AS SELECT k, v FROM s [RANGE 1 MINUTE]")
        assert rows(db.query("SELECT * FROM held")) == {(1, 3): 1}
        with pytest.raises(StoreError, match=f"'held' was replaced in step {step + 1}"):
            db.changes("held", since=step)
        assert [tuple(r)[2:-1] for r in db.changes("held").collect()] == [(1, 3)]


def test_what_cannot_be_computed_anew_is_not_replaced(spark: SparkSession, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.csv").write_text("1,2026-01-01 00:00:01\n2,2026-01-01 00:00:02\n")
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute(f"""
            CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts) FROM csv('{source}');
            CREATE VIEW held AS SELECT k FROM s [RANGE 1 MINUTE];
            CREATE VIEW n AS SELECT COUNT(*) AS n FROM held;
        """)
        db.run()
        before = rows(db.query("SELECT * FROM n"))
        (source / "a.csv").unlink()
        with pytest.raises(
            EverviewError, match=r"'held' cannot be replaced: 's' has read the file .* is gone"
        ):
            db.execute("CREATE OR REPLACE VIEW held AS SELECT k + 1 AS k FROM s [RANGE 1 MINUTE]")
        assert rows(db.query("SELECT * FROM n")) == before
        assert "k + 1" not in str(db.execute("DESCRIBE held"))


FILLED = """
    CREATE STREAM s (k INT, v INT, ts TIMESTAMP, TIMELINE ts);
    CREATE VIEW always AS SELECT k, v FROM s [RANGE 5 SECONDS];
"""


def at(second: int) -> str:
    return f"2026-01-01 00:00:{second:02}"


def test_options_of_a_view_change(spark: SparkSession, tmp_path: Path) -> None:
    """COMPLETE or not, and a longer history: the answers stay those of the same query."""
    query = "SELECT k, v FROM s [RANGE 5 SECONDS]"
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute(f"""{FILLED}
            CREATE VIEW to AS {query};
            CREATE COMPLETE VIEW back AS {query};
            CREATE VIEW brief WITH (history => INTERVAL '2' SECOND) AS {query};
        """)
        for second in (1, 8, 16):
            db.insert("s", [{"k": second, "v": 1, "ts": at(second)}])
            db.run()
        db.execute(f"""
            CREATE OR REPLACE COMPLETE VIEW to AS {query};
            CREATE OR REPLACE VIEW back AS {query};
            CREATE OR REPLACE VIEW brief AS {query};
        """)
        db.insert("s", [{"k": 17, "v": 1, "ts": at(17)}])
        db.run()
        for name in ("to", "back", "brief"):
            for instant in (None, at(3), at(9)):
                sql = "SELECT * FROM {}"
                wanted = rows(db.query(sql.format("always"), as_of=instant))
                assert rows(db.query(sql.format(name), as_of=instant)) == wanted, (name, instant)


def test_a_view_over_one_that_forgets_is_computed_from_the_stream(
    spark: SparkSession, tmp_path: Path
) -> None:
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute(f"""{FILLED}
            CREATE VIEW h WITH (history => INTERVAL '1' SECOND) AS SELECT k FROM s [RANGE 9 SECONDS];
            CREATE VIEW early AS SELECT COUNT(*) AS n FROM h SYNC EVERY INTERVAL '10' SECOND;
        """)
        for second in (1, 8, 16, 27):
            db.insert("s", [{"k": second, "v": 1, "ts": at(second)}])
            db.run()
        db.execute("""
            CREATE VIEW later AS SELECT COUNT(*) AS n FROM h SYNC EVERY INTERVAL '10' SECOND;
            CREATE VIEW other AS SELECT COUNT(*) AS n FROM h SYNC EVERY INTERVAL '5' SECOND;
            CREATE OR REPLACE VIEW later AS SELECT COUNT(*) + 0 AS n FROM h SYNC EVERY INTERVAL '10' SECOND;
        """)
        db.insert("s", [{"k": 1, "v": 1, "ts": at(41)}])
        db.run()
        assert rows(db.query("SELECT * FROM later")) == rows(db.query("SELECT * FROM early"))
        for second in (12, 22, 32):
            asked = [rows(db.query(f"SELECT * FROM {v}", as_of=at(second))) for v in ("later", "early")]
            assert asked[0] == asked[1]
        assert not db.manifest().since


def test_names_in_another_case_and_what_a_drop_left(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute(FILLED + "CREATE VIEW v AS SELECT k FROM s [RANGE 30 SECONDS]")
        db.insert("s", [{"k": 1, "v": 1, "ts": at(1)}])
        db.run()
        db.execute("CREATE OR REPLACE VIEW V AS SELECT k + 20 AS k FROM s [RANGE 30 SECONDS]")
        assert rows(db.query("SELECT * FROM v", as_of=at(1))) == {(1,): 1}
        assert rows(db.query("SELECT * FROM v")) == {(21,): 1}
        with monkeypatch.context() as crash:
            crash.setattr(db._pipeline, "forget_names", lambda views: None)
            db.execute("DROP VIEW v")
        db.execute("CREATE VIEW v AS SELECT k + 40 AS k FROM s [RANGE 30 SECONDS]")
        assert (
            rows(db.query("SELECT * FROM v", as_of=at(1))) == rows(db.query("SELECT * FROM v")) == {(41,): 1}
        )
        assert [r.k for r in db.changes("v").collect()] == [41]
