"""CHECK, PUNCTUATE WHEN and TIMELINE … ARRIVAL of streams, through the engine: sources and INSERT."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import everview
from everview.algebra import types as T
from everview.algebra.schema import Field, Schema
from everview.catalog import Lateness, StreamEntry
from everview.errors import EverviewError
from everview.ingest.clauses import judged_records, judged_table
from everview.ingest.reading import PUNCTUATES, REASON
from everview.ingest.rows import frame_of
from tests.engine.feeding import START, at, put

pytestmark = pytest.mark.spark


def rows(answer: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(r) for r in answer.collect())


def test_rows_that_fail_a_check_are_rejected(spark: SparkSession, tmp_path: Path) -> None:
    """In files of three formats, after columns were added and a new name; a view made late agrees."""
    store, inputs = str(tmp_path / "store"), {f: tmp_path / f for f in ("csv", "json", "parquet")}
    put(inputs["csv"] / "1.csv", f'a,1,{at(1)}\n"",2,{at(2)}\nb,-3,{at(3)}\n"",-4,{at(4)}\nc,,{at(5)}\n', 1)
    put(
        inputs["json"] / "1.json",
        f'{{"usr": "a", "v": 1, "ts": "{at(1)}"}}\n{{"usr": "", "ts": "{at(2)}"}}',
        1,
    )
    inputs["parquet"].mkdir()
    table = pa.table({"usr": ["a", ""], "v": [1, 2], "ts": pd.to_datetime([at(1), at(2)], utc=True)})
    pq.write_table(table, inputs["parquet"] / "1.parquet")
    with everview.connect(store, spark, partitions=2) as db:
        for name, folder in inputs.items():
            db.execute(
                f"CREATE STREAM {name}_in (usr STRING, v INT, ts TIMESTAMP, TIMELINE ts, "
                f"CHECK ({name}_in.usr  <> ''), CHECK (v > 0)) FROM {name}('{folder}')"
            )
        db.run()
        why = "CHECK ({}_in.usr <> '') does not hold"
        found = rows(db.query("SELECT _reason, _original FROM csv_in$rejected"))
        assert found == [
            (why.format("csv"), f'"",-4,{at(4)}'),
            (why.format("csv"), f'"",2,{at(2)}'),
            ("CHECK (v > 0) does not hold", f"b,-3,{at(3)}"),
        ]
        assert rows(db.query("SELECT _reason, _original FROM json_in$rejected")) == [
            (why.format("json"), f'{{"usr": "", "ts": "{at(2)}"}}')
        ]
        ((reason, text),) = rows(db.query("SELECT _reason, _original FROM parquet_in$rejected"))
        assert reason == why.format("parquet")
        assert text.startswith('{"usr":"","v":2,"ts":"2026-01-01T00:00:02')
        assert db.manifest().counts["csv_in"] == (2, 0, 3)
        db.execute("ALTER STREAM csv_in RENAME TO clicks; ALTER STREAM clicks ADD COLUMN w INT")
    put(inputs["csv"] / "2.csv", f'd,5,{at(6)},1\n"",6,{at(7)},2\n', 2)
    with everview.connect(store, spark) as db:
        db.run()
        assert db.manifest().counts["clicks"] == (3, 0, 4)
        ((reason,),) = rows(db.query("SELECT _reason FROM clicks$rejected WHERE _original LIKE '%,2'"))
        assert reason == "CHECK (clicks.usr <> '') does not hold"
        db.execute("CREATE VIEW late AS SELECT usr, w FROM clicks [UNBOUNDED]")
        db.run(finish=True)
        assert sorted(rows(db.query("SELECT * FROM late")), key=str) == [("a", None), ("c", None), ("d", 1)]


def test_inserted_rows_that_fail_a_check_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing of such an INSERT is taken, whatever form the rows have."""
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute("CREATE STREAM s (usr STRING, ts TIMESTAMP, TIMELINE ts, CHECK (usr <> ''))")
        for good in (
            [{"usr": "a", "ts": at(1)}, {"ts": at(2)}],
            [("b", at(3))],
            pl.DataFrame({"usr": ["c"], "ts": [at(4)]}),
            pd.DataFrame({"usr": ["d"], "ts": [at(5)]}),
            pa.table({"usr": ["e"], "ts": [at(6)]}),
            pl.DataFrame({"usr": [], "ts": []}, schema={"usr": pl.String, "ts": pl.String}),
            spark.sql(f"SELECT 'f' AS usr, TIMESTAMP '{at(7)}' AS ts"),
        ):
            db.insert("s", good)
        db.execute(f"INSERT INTO s VALUES ('g', '{at(8)}'); INSERT INTO s SELECT 'h', TIMESTAMP '{at(9)}'")
        one = "row 2 for 's' cannot be taken: CHECK (usr <> '') does not hold\n"
        one += "  next: leave such rows out, or mend them"
        several = one.replace("row 2", "1 row")
        for wrong, said in (
            ([{"usr": "a", "ts": at(1)}, {"usr": "", "ts": at(2)}], one),
            ([("b", at(3)), ("", at(3))], one),
            (pl.DataFrame({"usr": ["c", ""], "ts": [at(4)] * 2}), one),
            (pa.table({"usr": ["c", ""], "ts": [at(4)] * 2}), one),
            (spark.sql(f"SELECT '' AS usr, TIMESTAMP '{at(7)}' AS ts"), several),
            (f"INSERT INTO s SELECT '', TIMESTAMP '{at(7)}'", several),
        ):
            with pytest.raises(EverviewError) as error:
                db.execute(wrong) if isinstance(wrong, str) else db.insert("s", wrong)
            assert str(error.value) == said
        db.run(finish=True)
        found = rows(db.query("SELECT coalesce(usr, 'none') FROM s"))
        assert found == [(x,) for x in [*"abcdefgh", "none"]]


def test_a_condition_that_spark_does_not_accept(spark: SparkSession, tmp_path: Path) -> None:
    sql = "CREATE STREAM s (u STRING, ts TIMESTAMP, TIMELINE ts, CHECK (u RLIKE '\\\\p{Foo}'))"
    store = everview.connect(str(tmp_path / "store"), spark, partitions=2)
    with store as db, pytest.raises(EverviewError, match=r"in the stream 's' is no regular expression"):
        db.execute(sql)


def test_a_punctuation_moves_the_bound_to_its_timestamps(spark: SparkSession, tmp_path: Path) -> None:
    """On every time line, whatever the lateness; rows of its own batch are not late by it."""
    columns = "v INT, ts TIMESTAMP, other TIMESTAMP, TIMELINE ts LATENESS INTERVAL '1' HOUR, TIMELINE other"
    folder, store = tmp_path / "in", str(tmp_path / "store")
    put(folder / "1.csv", f"1,{at(10)},{at(5)}\n0,{at(9)},{at(7)}\n2,{at(8)},{at(3)}\n", 1)
    with everview.connect(store, spark, partitions=2) as db:
        db.execute(f"""
            CREATE STREAM s ({columns}) FROM csv('{folder}') PUNCTUATE WHEN v = 0;
            CREATE STREAM hand ({columns}) PUNCTUATE WHEN hand.v = 0;
            CREATE VIEW v AS SELECT COUNT(*) AS n FROM s [UNBOUNDED];
        """)
        db.insert("hand", pl.DataFrame({"v": [0, 1], "ts": [at(20), at(1)], "other": [at(1), at(30)]}))
        db.insert("hand", [{"v": 0, "ts": at(15), "other": at(2)}])
        db.run()
        seconds = {
            name: {line: (bound - chronon(0)) / 1e6 for line, bound in lines.items()}
            for name, lines in db.manifest().bounds.items()
        }
        assert seconds == {"s": {"ts": 9, "other": 7}, "hand": {"ts": 20, "other": 30}}
        assert db.manifest().counts == {"s": (3, 0, 0), "hand": (3, 0, 0)}
        assert rows(db.query("SELECT n FROM v")) == [(2,)]
    put(folder / "2.csv", f"3,{at(9)},{at(20)}\n4,{at(11)},{at(7)}\n5,{at(9.5)},{at(8)}\n", 2)
    with everview.connect(store, spark) as db:
        db.execute(f"INSERT INTO hand VALUES (0, '{at(20)}', '{at(31)}')")
        db.run()
        assert db.manifest().counts == {"s": (4, 2, 0), "hand": (3, 1, 0)}
        assert rows(db.query("SELECT v FROM s$late")) == [(3,), (4,)]
        db.execute("ALTER STREAM s RENAME TO t")
        db.run(finish=True)
        assert db.manifest().punctuated.keys() == {"t", "hand"}


def chronon(seconds: int) -> int:
    """Return the instant so long after the start of the feed."""
    return (int(START.replace(tzinfo=UTC).timestamp()) + seconds) * 1_000_000


SECONDS = "unix_seconds(received) - unix_seconds(TIMESTAMP '2026-01-01')"


class Clock:
    """The clock of a store, which shows what a test says: seconds after the start of the feed."""

    def __init__(self, db: everview.Database, seconds: int) -> None:
        self.seconds = seconds
        db._pipeline.now = lambda: chronon(self.seconds)


def test_rows_of_files_are_stamped_when_they_are_taken_in(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The files have no such column, or it is left out; a step that is run again gives the same stamps."""
    store, folders = str(tmp_path / "store"), {f: tmp_path / f for f in ("csv", "json", "parquet")}
    put(folders["csv"] / "1.csv", f"1,{at(1)}\n2,{at(2)}\n", 1)
    put(folders["json"] / "1.json", f'{{"v": 1, "ts": "{at(1)}", "received": "{at(9)}"}}\n', 1)
    folders["parquet"].mkdir()
    table = pa.table({"ts": pd.to_datetime([at(1)], utc=True), "v": [1]})
    pq.write_table(table, folders["parquet"] / "1.parquet")
    with everview.connect(store, spark, partitions=2) as db:
        clock = Clock(db, 100)
        for name, folder in folders.items():
            db.execute(f"""
                CREATE STREAM {name}_in (received TIMESTAMP, v INT, ts TIMESTAMP,
                                         TIMELINE ts, TIMELINE received ARRIVAL) FROM {name}('{folder}')""")
        db.execute("CREATE VIEW seen AS SELECT v, received FROM csv_in [UNBOUNDED] WHERE received > ts")
        with monkeypatch.context() as patch:
            patch.setattr(db._pipeline, "commit_step", _fail)
            with pytest.raises(OSError, match="the disk is full"):
                db.run()
        clock.seconds = 150
        message = "'json_in' leaves out the column 'received' of its files: the clock stamps it on ARRIVAL"
        with pytest.warns(UserWarning, match=message):
            db.run()
        bounds = db.manifest().bounds
        assert {bounds[f"{name}_in"]["received"] for name in folders} == {chronon(150) - 1}
        assert db.manifest().newest["csv_in"]["received"] == chronon(100), "the step was run again"
    put(folders["csv"] / "2.csv", f"3,{at(3)},7\n4,{at(0)},8\n", 2)
    with everview.connect(store, spark) as db:
        Clock(db, 120)  # it was set back
        db.execute("ALTER STREAM csv_in ADD COLUMN w INT")
        db.run()
        why = "the clock stamps 'received' of 'csv_in' when rows come, which is only once"
        with pytest.warns(UserWarning, match=why):
            db.execute("CREATE VIEW late AS SELECT v, received FROM csv_in [UNBOUNDED]")
        db.run(finish=True)
        assert rows(db.query(f"SELECT v, {SECONDS} FROM seen")) == [(1, 100), (2, 100), (3, 150)]
        assert rows(db.query("SELECT v, w FROM csv_in$late")) == [(4, 8)]


def _fail(*_: object) -> None:
    raise OSError("the disk is full")


def test_inserted_rows_are_stamped_when_they_are_taken_in(spark: SparkSession, tmp_path: Path) -> None:
    """In rows of every form, into a stream whose windows are over the time of arrival."""
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        clock = Clock(db, 200)
        db.execute("""
            CREATE STREAM s (v INT, received TIMESTAMP NOT NULL, TIMELINE received ARRIVAL);
            CREATE VIEW recent AS SELECT COUNT(*) AS n FROM s [RANGE 10 SECONDS];
        """)
        for given in (
            [{"v": 1}, {"v": 2, "received": None}],
            [(3,), (4, None)],
            pl.DataFrame({"v": [5]}),
            pa.table({"v": [6], "received": pa.nulls(1)}),
            spark.sql("SELECT 7 AS v"),
        ):
            db.insert("s", given)
        db.execute("INSERT INTO s VALUES (8)")
        clock.seconds = 195  # it was set back
        db.execute("INSERT INTO s SELECT 9")
        given = "has a value for 'received': the clock stamps it on ARRIVAL"
        with pytest.raises(EverviewError, match=f"row 1 for 's' {given}"):
            db.insert("s", [(1, at(1))])
        with pytest.raises(EverviewError, match="1 row for 's' cannot be taken: received: the clock"):
            db.insert("s", spark.sql("SELECT 1 AS v, now() AS received"))
        clock.seconds = 201
        db.run()
        assert db.manifest().bound == chronon(201) - 1, "the clock moves time"
        assert rows(db.query(f"SELECT v, {SECONDS} FROM s")) == [*((v, 200) for v in range(1, 9)), (9, 195)]
        assert rows(db.query("SELECT n FROM recent")) == [(9,)]
        clock.seconds = 207
        db.run()
        assert db.manifest().bound == chronon(207) - 1, "also if no rows come"
        db.run(finish=True)
        db.insert("s", [(11,)])
        assert db.manifest().counts["s"] == (9, 1, 0), "the store was run to its end"


def test_rows_of_a_source_with_windows_over_the_time_of_arrival(spark: SparkSession, tmp_path: Path) -> None:
    """One run shows them: the clock goes on while they are taken in."""
    put(tmp_path / "in" / "1.csv", "1\n2\nx\n", 1)
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute(f"""
            CREATE STREAM s (received TIMESTAMP, v INT, TIMELINE received ARRIVAL, CHECK (v <> 2))
            FROM csv('{tmp_path}/in');
            CREATE VIEW total AS SELECT SUM(v) AS total FROM s [RANGE 1 DAY];
        """)
        db.run()
        assert rows(db.query("SELECT total FROM total")) == [(1,)]
        assert db.manifest().counts["s"] == (1, 0, 2)
        described = db.execute("DESCRIBE s")
        assert described is not None
        assert "received  TIMESTAMP  TIMELINE ARRIVAL" in described.text
        assert "check: (v <> 2)" in described.text


def test_a_check_lets_an_event_query_answer(spark: SparkSession, tmp_path: Path) -> None:
    """Without the CHECK nothing says how long a call may last, and so which alarms to wait for."""
    streams = """
        CREATE STREAM calls (id INT, b TIMESTAMP, e TIMESTAMP NOT NULL, TIMELINE b{}) FROM csv('{}');
        CREATE STREAM alarms (ts TIMESTAMP, TIMELINE ts);
    """
    query = """
        CREATE STREAM quiet TIMELINE b AS SELECT c.id, c.b FROM calls c
        WHERE NOT EXISTS (SELECT 1 FROM alarms a WHERE a.ts >= c.b AND a.ts <= c.e);
    """
    calls = [(1, 10, 20), (2, 30, 40), (3, 35, 95), (4, 50, 60)]
    put(tmp_path / "in" / "1.csv", "".join(f"{i},{at(b)},{at(e)}\n" for i, b, e in calls), 1)
    with everview.connect(str(tmp_path / "unchecked"), spark, partitions=2) as db:
        db.execute(streams.format("", tmp_path / "in"))
        with pytest.raises(EverviewError, match="'b' bounds no rows of 'alarms'"):
            db.execute(query)
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute(streams.format(", CHECK (e <= b + INTERVAL '30' SECOND)", tmp_path / "in") + query)
        db.insert("alarms", [(at(15),), (at(65),), (at(70),)])
        db.run()
        assert rows(db.query("SELECT id FROM quiet")) == [(2,)], "up to 30 s before the last alarm"
        db.run(finish=True)
        assert rows(db.query("SELECT id FROM quiet")) == [(2,), (4,)]
        assert rows(db.query("SELECT split_part(_original, ',', 1) FROM calls$rejected")) == [("3",)]


def test_a_stream_begins_at_the_bound_on_all_its_lines(tmp_path: Path) -> None:
    """But for those that go by the clock, unless windows use them."""
    with everview.connect(str(tmp_path / "store")) as db:
        db.execute("CREATE STREAM a (ts TIMESTAMP, TIMELINE ts)")
        store = db._pipeline.store
        store.write_manifest(replace(db.manifest(), step=1, bound=50, bounds={"a": {"ts": 50}}))
        db.execute("""
            CREATE STREAM b (ts TIMESTAMP, other TIMESTAMP, received TIMESTAMP,
                             TIMELINE ts, TIMELINE other, TIMELINE received ARRIVAL);
            CREATE STREAM c (v INT, received TIMESTAMP, TIMELINE received ARRIVAL);
        """)
        bounds = db.manifest().bounds
        assert (bounds["b"], bounds["c"]) == ({"ts": 50, "other": 50}, {"received": 50})


def test_rows_of_a_table_are_judged_as_single_ones(spark: SparkSession) -> None:
    """Catalyst and the plain meaning agree, for columns of every type and NULL."""
    types = {
        "b": T.BOOLEAN, "i": T.INT, "d": T.DOUBLE, "n": T.decimal(9, 2), "s": T.STRING, "x": T.BINARY,
        "day": T.DATE, "ts": T.TIMESTAMP, "p": T.INTERVAL,
    }  # fmt: skip
    columns = Schema(tuple(Field(n, t, timeline=0 if n == "ts" else None) for n, t in types.items()))
    checks = (
        "b OR i > 1", "d < 5", "n <> 1.25", "s NOT LIKE 'a%'", "hex(x) <> 'FF'", "day >= DATE '2026-01-01'",
        "p < INTERVAL '1' HOUR",
    )  # fmt: skip
    when = "ts BETWEEN TIMESTAMP '2026-01-01 00:00:01' AND TIMESTAMP '2026-01-01 00:00:02'"
    entry = StreamEntry("s", columns, (Lateness("ts"),), checks=checks, punctuate=when)
    good = (True, 2, 1.5, Decimal("1.24"), "b", b"\x00", 20_500, chronon(1), 5)
    wrong = (False, 1, 5.0, Decimal("1.25"), "ab", b"\xff", 20_000, chronon(3), 3_600_000_000)
    nothing = (*[None] * 7, chronon(2), None)
    records = [good, wrong, nothing]
    records += [
        (*good[:i], other[i], *good[i + 1 :]) for other in (wrong, nothing) for i in range(len(types))
    ]
    frame = frame_of(records, columns.types, [0] * len(records))
    one, other = judged_records(frame, records, entry), judged_table(frame, entry, spark)
    assert one.rows() == other.rows()
    assert one[REASON].drop_nulls().n_unique() == len(checks)
    assert one[PUNCTUATES].to_list() == [record[7] != chronon(3) for record in records]
