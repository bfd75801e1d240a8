"""Views and questions that are answered from a view that contains them, over the life of both."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import everview
from everview.database import Database
from everview.errors import StoreError

pytestmark = pytest.mark.spark


def rows(answer: DataFrame) -> Counter[tuple[object, ...]]:
    return Counter(tuple(r) for r in answer.collect())


def at(second: int) -> str:
    return f"2026-01-01 00:00:{second:02}"


@pytest.fixture
def quiet() -> Iterator[None]:
    """No note may be given: every view is complete."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


def answered_from(db: Database, view: str) -> tuple[str, ...]:
    return db.manifest().plans[view].answered


def test_late_views_and_questions_are_answered_from_a_view(
    spark: SparkSession, tmp_path: Path, quiet: None
) -> None:
    """The file that they would be computed from is gone, and nothing is missed."""
    source = tmp_path / "in"
    source.mkdir()
    lines = [f"{i % 3},{i},{at(i)}" for i in range(1, 20)]
    (source / "a.csv").write_text("\n".join(lines) + "\n")
    narrow = "SELECT k, v FROM s [RANGE 6 SECONDS] WHERE v > 4 AND k < 2"
    coarse = "SELECT COUNT(*) AS n FROM s [RANGE 6 SECONDS] WHERE v > 3"
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute(f"""
            CREATE STREAM s (k INT, v INT, ts TIMESTAMP, TIMELINE ts) FROM csv('{source}');
            CREATE VIEW wide AS SELECT k, v, ts FROM s [RANGE 6 SECONDS] WHERE v > 3;
        """)
        db.run()
        expected = {second: rows(db.query("SELECT k, v FROM wide WHERE v > 4 AND k < 2", as_of=at(second)))
                    for second in (3, 7, 12, 18)}  # fmt: skip
        assert sum(expected[12].values()) == 4
        (source / "a.csv").unlink()
        for second, answer in expected.items():
            assert rows(db.query(narrow, as_of=at(second))) == answer
        db.execute(f"CREATE VIEW late AS {narrow}; CREATE VIEW counted AS {coarse}")
        assert answered_from(db, "late") == answered_from(db, "counted") == ("wide",)
        for second, answer in expected.items():
            assert rows(db.query("SELECT * FROM late", as_of=at(second))) == answer
        assert rows(db.query("SELECT n FROM counted", as_of=at(12))) == {(6,): 1}
        assert "answered from view late" in str(db.explain(narrow))
        db.execute("SET answer_from_views = off")
        assert "answered from" not in str(db.explain(narrow))
        with pytest.raises(StoreError, match=r"a\.csv"):
            rows(db.query(narrow, as_of=at(12)))


def test_a_question_sees_no_less_than_from_the_streams(spark: SparkSession, tmp_path: Path) -> None:
    """History that does not reach, another definition before, a view that is not complete, tables at once."""
    question = "SELECT k FROM s WHERE v > 2"
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute("""
            CREATE STREAM s (k INT, v INT, ts TIMESTAMP, TIMELINE ts);
            CREATE TABLE t (id INT, name STRING);
            CREATE VIEW named AS SELECT id, name FROM t;
            CREATE VIEW short WITH (history => INTERVAL '2' SECOND) AS SELECT k, v FROM s WHERE v > 1;
            INSERT INTO t VALUES (1, 'one');
        """)
        assert rows(db.query("SELECT name FROM t")) == {("one",): 1}  # before any step, the view has none
        for second in range(1, 9):
            db.insert("s", [(second % 2, second, at(second))])
            db.run()
        assert rows(db.query(question, as_of=at(8))) == rows(db.query(question)) == {(0,): 3, (1,): 3}
        assert rows(db.query(question, as_of=at(4))) == {(0,): 1, (1,): 1}
        db.execute("INSERT INTO t VALUES (2, 'two')")
        assert rows(db.query("SELECT name FROM t")) == {("one",): 1}  # from the next step on, as for views
        db.execute("CREATE OR REPLACE VIEW short AS SELECT k, v FROM s WHERE v > 0")
        db.execute("SET answer_from_views = off")
        direct = {second: rows(db.query(question, as_of=at(second))) for second in (4, 8)}
        db.execute("SET answer_from_views = on")
        assert direct == {second: rows(db.query(question, as_of=at(second))) for second in (4, 8)}


CONTAINED = {
    "filtered": "SELECT k, v FROM latest WHERE v > 3",
    "grouped": "SELECT k, COUNT(*) AS n, SUM(v) AS total FROM s [RANGE 5 SECONDS] WHERE k < 2 GROUP BY k",
    "joined": "SELECT a.k, a.v, r.v AS w FROM latest a JOIN r [RANGE 9 SECONDS] ON a.k = r.k WHERE a.v > 2",
}


def test_the_view_that_answers_is_dropped_replaced_or_renamed(
    spark: SparkSession, tmp_path: Path, quiet: None
) -> None:
    """Views that were answered from it go on as those that were not, also when the store is opened again."""

    def open_store() -> Database:
        return everview.connect(str(tmp_path / "store"), spark, partitions=2)

    def go_on(db: Database, second: int) -> None:
        db.insert("s", [(second % 3, second % 7, at(second)), (0, second % 4, at(second))])
        db.insert("r", [(second % 3, second, at(second))])
        db.run()
        for name in CONTAINED:
            for instant in (second, second - 1, 2):
                left, right = (
                    rows(db.query(f"SELECT * FROM {view}", as_of=at(instant)))
                    for view in (name, f"own_{name}")
                )
                assert left == right, (name, second, instant)
            changes = [rows(db.changes(view, encoding="intervals")) for view in (name, f"own_{name}")]
            assert changes[0] == changes[1], (name, second)

    with open_store() as db:
        db.execute("""
            CREATE STREAM s (k INT, v INT, ts TIMESTAMP, TIMELINE ts);
            CREATE STREAM r (k INT, v INT, ts TIMESTAMP, TIMELINE ts);
            CREATE TAGGED STREAM latest OVER s KEY (k);
            CREATE VIEW wide AS SELECT k, v FROM latest WHERE v > 1;
            CREATE VIEW held AS SELECT k, v, ts FROM s [RANGE 5 SECONDS];
        """)
        for second in range(1, 6):
            db.insert("s", [(second % 3, second, at(second))])
            db.insert("r", [(second % 3, second, at(second))])
            db.run()
        for name, sql in CONTAINED.items():
            db.execute(f"""
                SET answer_from_views = on; CREATE VIEW {name} AS {sql};
                SET answer_from_views = off; CREATE VIEW own_{name} AS {sql};
                SET answer_from_views = on;
            """)
        assert answered_from(db, "filtered") == answered_from(db, "joined") == ("wide",)
        assert not any(answered_from(db, f"own_{name}") for name in CONTAINED)
        go_on(db, 6)
        db.execute("ALTER VIEW wide RENAME TO broad")
        assert answered_from(db, "filtered") == ("broad",)
        shown = str(db.execute(f"EXPLAIN CREATE OR REPLACE VIEW filtered AS {CONTAINED['filtered']}"))
        assert shown.endswith("answered from view broad")
        go_on(db, 8)
    with open_store() as db:
        go_on(db, 10)
        before = db.manifest().plans["filtered"]
        db.execute("CREATE OR REPLACE VIEW broad AS SELECT k, v FROM latest WHERE v > 5")
        assert db.manifest().plans["filtered"] == before
        go_on(db, 12)
        db.execute("DROP VIEW broad; DROP VIEW held")
        go_on(db, 14)
    with open_store() as db:
        go_on(db, 16)
        assert db.manifest().plans["filtered"] == before
        db.execute(f"CREATE OR REPLACE VIEW filtered AS {CONTAINED['filtered']} AND k >= 0")
        db.execute(f"CREATE OR REPLACE VIEW own_filtered AS {CONTAINED['filtered']} AND k >= 0")
        go_on(db, 18)
