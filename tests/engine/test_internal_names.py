"""A user's columns may have any name, those that Everview uses inside or beside them among them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import everview
from everview.algebra.schema import names_beside
from everview.algebra.text import name_sql
from everview.database import Database
from tests.engine.feeding import at

SOURCE = Path(everview.__file__).parent
_QUOTED = re.compile(r"""["'`](_[a-z][a-z_0-9]*)["'`]""")


def internal_names() -> list[str]:
    """The names of columns that stand in the code, and those that stand beside a user's."""
    found = {
        name
        for folder in ("spark", "kernels", "runtime")
        for path in (SOURCE / folder).glob("*.py")
        for name in _QUOTED.findall(path.read_text())
    }
    beside = {"tag", "at", "old", "from", "until", "n", "_tag", "__n", "_step", "_reason", "_original"}
    plans = {"c0", "c1", "s0", "b0", "_", "_late_ts", "record", "value", "metadata", "window_start", "line"}
    return sorted(found | beside | plans | {"_from", "_until", "_n", "_metadata"})


NAMES = internal_names()


def declared() -> str:
    return ", ".join(f"{name_sql(name)} INT" for name in NAMES)


def listed() -> str:
    return ", ".join(map(name_sql, NAMES))


def test_the_code_is_searched() -> None:
    assert {"_from", "_until", "_n", "_old", "_hash", "_side", "_everview_reason"} <= set(NAMES)


@given(st.lists(st.sampled_from(["n", "N", "_n", "__n", "from", "_from", "old", "_old", "x"])))
def test_our_names_meet_no_other(names: list[str]) -> None:
    ours = names_beside(names, "from", "until", "n", "old")
    folded = [n.casefold() for n in names]
    assert len({*ours}) == 4
    assert not {*ours} & {*folded}
    assert [o.lstrip("_") for o in ours] == ["from", "until", "n", "old"]


@pytest.fixture(scope="module")
def db(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """One store: rows by hand, from CSV, JSON and Parquet, and a table; all columns have our names."""
    folder = tmp_path_factory.mktemp("names")
    values = {name: i for i, name in enumerate(NAMES)}
    for kind in ("csv", "json", "parquet"):
        (folder / kind).mkdir()
    header = ",".join(NAMES)
    row = ",".join(str(v) for v in values.values())
    (folder / "csv" / "1.csv").write_text(
        f"{header},ts\n{row},{at(1)}\n{row},never\n" + f"{row},{at(9)}\n", "utf-8"
    )
    with (folder / "json" / "1.json").open("w") as lines:
        for number, when in enumerate((at(1), at(9))):
            lines.write(json.dumps({**values, "line_no": number, "ts": when}) + "\n")
        lines.write("{broken\n")
    columns = f"{declared()}, ts TIMESTAMP, TIMELINE ts"
    with everview.connect(str(folder / "store"), spark, partitions=2) as opened:
        opened.execute(f"""
            CREATE STREAM hand ({columns});
            CREATE STREAM csvs ({columns}) FROM csv('{folder}/csv', header => true);
            CREATE STREAM jsons ({columns}) FROM json('{folder}/json');
            CREATE TABLE versions ({declared()}, line_no INT, PRIMARY KEY (line_no))
              FROM json('{folder}/json');
            CREATE TABLE tab ({declared()}, PRIMARY KEY ({listed()}));
            INSERT INTO tab ({listed()}) VALUES ({row});
        """)
        for stream in ("hand", "csvs", "jsons"):
            opened.execute(f"""
                CREATE VIEW {stream}_all AS SELECT {listed()} FROM {stream};
                CREATE COMPLETE VIEW {stream}_sum AS
                  SELECT {listed()}, COUNT(*) AS many, SUM(`_n`) AS sum, MAX(`_hash`) AS max
                  FROM {stream} [RANGE 3 SECONDS] GROUP BY {listed()};
            """)
        opened.execute(f"""
            CREATE VIEW joined AS SELECT {", ".join("h." + name_sql(n) for n in NAMES)}
              FROM hand h JOIN csvs c ON h.`_n` = c.`_n` AND h.c0 = c.c0 JOIN tab t ON t.`_from` = h.`_from`;
            CREATE VIEW both AS SELECT {listed()} FROM versions;
            CREATE VIEW less AS SELECT {listed()} FROM hand EXCEPT SELECT {listed()} FROM jsons [NOW];
        """)
        opened.insert("hand", [{**values, "ts": at(1)}, {**values, "ts": at(9)}])
        opened.run()
        opened.insert("hand", [{**values, "ts": at(2)}])
        (folder / "csv" / "2.csv").write_text(f"{header},ts\n{row},{at(2)}\n", "utf-8")
        opened.run()
        opened.run(finish=True)
        yield opened


@pytest.mark.spark
class TestEverywhere:
    """Create, insert, run, query, changes, late and rejected rows."""

    expected = tuple(range(len(NAMES)))

    @pytest.mark.parametrize("stream", ["hand", "csvs", "jsons"])
    def test_views(self, db: Database, stream: str) -> None:
        answer = db.query(f"SELECT * FROM {stream}_all")
        assert answer.columns == NAMES
        assert [tuple(r) for r in answer.collect()] == [self.expected] * 2
        summed = db.query(f"SELECT * FROM {stream}_sum AS OF TIMESTAMP '{at(2)}'").collect()
        position = self.expected[NAMES.index("_n")], self.expected[NAMES.index("_hash")]
        assert [tuple(r) for r in summed] == [(*self.expected, 1, *position)]

    @pytest.mark.parametrize("view", ["joined", "less", "both"])
    def test_joins(self, db: Database, view: str) -> None:
        found = {tuple(r) for r in db.query(f"SELECT * FROM {view} AS OF TIMESTAMP '{at(8)}'").collect()}
        assert found == {self.expected}

    @pytest.mark.parametrize("encoding", ["tags", "intervals"])
    def test_changes(self, db: Database, encoding: str) -> None:
        for view in ("hand_all", "hand_sum"):
            frame = db.changes(view, encoding)
            folded = [c.casefold() for c in frame.columns]
            assert len(set(folded)) == len(folded)
            assert frame.collect()

    def test_late_rows(self, db: Database) -> None:
        for stream in ("hand", "csvs"):
            late = db.query(f"SELECT * FROM {stream}$late")
            assert late.columns == [*NAMES, "ts", "__step", "__reason", "__original"]
            (row,) = late.collect()
            assert tuple(row)[: len(NAMES)] == self.expected
            assert json.loads(row["__original"])["_n"] == NAMES.index("_n")

    def test_rejected_rows(self, db: Database) -> None:
        for stream, reason in (("csvs", "ts: never is no TIMESTAMP"), ("jsons", "it is no JSON object")):
            (row,) = db.query(f"SELECT * FROM {stream}$rejected").collect()
            assert row["__reason"] == reason

    def test_a_table_changes(self, spark: SparkSession, tmp_path: Path) -> None:
        with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
            ones = ", ".join("1" for _ in NAMES)
            db.execute(f"""
                CREATE TABLE tab ({declared()});
                CREATE VIEW kept AS SELECT {listed()} FROM tab;
                INSERT INTO tab VALUES ({ones}), ({ones});
            """)
            db.run()
            db.execute("UPDATE tab SET `_n` = `_n` + `_from`, c0 = c1 + 4 WHERE `_until` = 1")
            db.run()
            (row, _) = db.query("SELECT `_n`, c0, c1 FROM kept").collect()
            assert tuple(row) == (2, 5, 1)
            db.execute("DELETE FROM tab WHERE `_n` = 2 AND `_old` = 1")
            db.run()
            assert db.query("SELECT * FROM kept").collect() == []
