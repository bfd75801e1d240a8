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
        for folder in ("operators", "execute", "ingest", "query", "storage")
        for path in (SOURCE / folder).rglob("*.py")
        for name in _QUOTED.findall(path.read_text())
    }
    beside = {"tag", "at", "old", "from", "until", "n", "_tag", "__n", "_step", "_reason", "_original"}
    plans = {"c0", "c1", "s0", "b0", "_", "_late_ts", "record", "value", "metadata", "window_start", "line"}
    return sorted(found | beside | plans | {"_from", "_until", "_n", "_metadata"})


NAMES = internal_names()


# The names that meet those of the reader of a source: why a row was refused, where it stands, the change.
READ = [n for n in NAMES if n.startswith("_everview")] + ["_metadata", "_from", "_n", "_reason", "c0", "c1"]


def declared(names: list[str]) -> str:
    return ", ".join(f"{name_sql(name)} INT" for name in names)


def listed(names: list[str], relation: str = "") -> str:
    return ", ".join(relation + name_sql(name) for name in names)


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
    """One store: rows by hand, from CSV and JSON, and tables; all columns have our names."""
    folder = tmp_path_factory.mktemp("names")
    for kind in ("csv", "json"):
        (folder / kind).mkdir()
    row = ",".join(str(i) for i in range(len(READ)))
    header = ",".join(READ)
    (folder / "csv" / "1.csv").write_text(f"{header},ts\n{row},{at(1)}\n{row},never\n{row},{at(9)}\n")
    with (folder / "json" / "1.json").open("w") as lines:
        for number, when in enumerate((at(1), at(9))):
            values = dict(zip(READ, range(len(READ)), strict=True))
            lines.write(json.dumps({**values, "line_no": number, "ts": when}) + "\n")
        lines.write("{broken\n")
    read = f"{declared(READ)}, ts TIMESTAMP, TIMELINE ts"
    with everview.connect(str(folder / "store"), spark, partitions=1) as opened:
        opened.execute(f"""
            CREATE STREAM hand ({declared(NAMES)}, ts TIMESTAMP, TIMELINE ts);
            CREATE STREAM csvs ({read}) FROM csv('{folder}/csv', header => true);
            CREATE STREAM jsons ({read}) FROM json('{folder}/json');
            CREATE TABLE versions ({declared(READ)}, line_no INT, PRIMARY KEY (line_no))
              FROM json('{folder}/json');
            CREATE VIEW hand_all AS SELECT {listed(NAMES)} FROM hand;
            CREATE COMPLETE VIEW hand_sum AS
              SELECT `_n`, `_from`, c0, tag, COUNT(*) AS n, SUM(`_hash`) AS old, MAX(`_held`) AS `from`
              FROM hand [RANGE 3 SECONDS] GROUP BY `_n`, `_from`, c0, tag;
            CREATE VIEW csvs_all AS SELECT {listed(READ)} FROM csvs;
            CREATE VIEW jsons_all AS SELECT {listed(READ)} FROM jsons;
            CREATE VIEW versions_all AS SELECT {listed(READ)} FROM versions;
            CREATE VIEW joined AS SELECT {listed(READ, "c.")}
              FROM jsons j JOIN csvs c ON j.`_n` = c.`_n` AND j.c0 = c.c0 WHERE j.ts = c.ts;
            CREATE VIEW less AS SELECT {listed(READ)} FROM csvs EXCEPT SELECT {listed(READ)} FROM jsons [NOW];
        """)
        values = dict(zip(NAMES, range(len(NAMES)), strict=True))
        opened.insert("hand", [{**values, "ts": at(1)}, {**values, "ts": at(9)}])
        opened.run()
        opened.insert("hand", [{**values, "ts": at(2)}])
        (folder / "csv" / "2.csv").write_text(f"{header},ts\n{row},{at(2)}\n")
        opened.run()
        opened.run(finish=True)
        yield opened


@pytest.mark.spark
class TestEverywhere:
    """Create, insert, run, query, changes, late and rejected rows."""

    @pytest.mark.parametrize("view", ["hand_all", "csvs_all", "jsons_all", "versions_all", "joined"])
    def test_views(self, db: Database, view: str) -> None:
        answer = db.query(f"SELECT * FROM {view}")
        names = NAMES if view == "hand_all" else READ
        assert answer.columns == names
        assert [tuple(r) for r in answer.collect()] == [tuple(range(len(names)))] * 2

    def test_aggregates_and_differences(self, db: Database) -> None:
        (summed,) = db.query(f"SELECT * FROM hand_sum AS OF TIMESTAMP '{at(2)}'").collect()
        keys = [NAMES.index(n) for n in ("_n", "_from", "c0", "tag")]
        assert tuple(summed) == (*keys, 1, NAMES.index("_hash"), NAMES.index("_held"))
        less = {tuple(r) for r in db.query(f"SELECT * FROM less AS OF TIMESTAMP '{at(8)}'").collect()}
        assert less == {tuple(range(len(READ)))}

    @pytest.mark.parametrize("encoding", ["tags", "intervals"])
    @pytest.mark.parametrize("view", ["hand_all", "hand_sum"])
    def test_changes(self, db: Database, view: str, encoding: str) -> None:
        frame = db.changes(view, encoding)
        folded = [c.casefold() for c in frame.columns]
        assert len(set(folded)) == len(folded)
        assert frame.collect()

    def test_late_rows(self, db: Database) -> None:
        for stream, names, beside in (
            ("hand", NAMES, ["__step", "__reason", "__original"]),
            ("csvs", READ, ["_step", "__reason", "_original"]),
        ):
            late = db.query(f"SELECT * FROM {stream}$late")
            assert late.columns == [*names, "ts", *beside]
            (row,) = late.collect()
            assert tuple(row)[: len(names)] == tuple(range(len(names)))
            text, place = row[beside[2]], names.index("_n")
            shown = json.loads(text)["_n"] if stream == "hand" else int(text.split(",")[place])
            assert shown == place

    def test_rejected_rows(self, db: Database) -> None:
        for stream, reason in (("csvs", "ts: never is no TIMESTAMP"), ("jsons", "it is no JSON object")):
            (row,) = db.query(f"SELECT __reason FROM {stream}$rejected").collect()
            assert row[0] == reason

    def test_a_table_changes(self, spark: SparkSession, tmp_path: Path) -> None:
        with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
            ones = ", ".join("1" for _ in NAMES)
            db.execute(f"""
                CREATE TABLE tab ({declared(NAMES)});
                CREATE VIEW kept AS SELECT {listed(NAMES)} FROM tab;
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
