"""Event queries through the engine: the worked queries, in runs, created late, after restarts, from files."""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import everview
from everview.errors import EverviewError, StoreError
from everview.temporal.clocks import ENDED
from tests.events.harness import EventScript, worked_queries
from tests.events.test_steps import FINISH, TABLES

pytestmark = pytest.mark.spark

QUERIES = {query.title.split()[0]: query for query in worked_queries()}
PLAIN = [name for name, query in QUERIES.items() if query.answers and "UPDATE" not in query.sql]


def shown(answer: DataFrame) -> list[tuple[str, ...]]:
    """Return the rows of an answer as the worked queries write them."""
    return sorted(tuple(_text(value) for value in row) for row in answer.collect())


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return value.strftime("%H:%M:%S.%f").removesuffix(".000000")
    return str(value)


def parts(sql: str) -> tuple[str, list[str], str]:
    """Return the statements of a worked query: declarations, INSERTs of single rows, queries."""
    statements = [s.strip() for s in re.sub(r"--.*", "", sql).split(";") if s.strip()]
    inserts = []
    for statement in statements:
        if found := re.match(r"INSERT INTO (\w+) VALUES\s+(.*)", statement, re.S):
            rows = re.findall(r"\((?:[^()]|\([^()]*\))*\)", found[2])
            inserts += [f"INSERT INTO {found[1]} VALUES {row};" for row in rows]
    made = [s for s in statements if not s.startswith("INSERT")]
    declared = [s for s in made if not re.search(r"TIMELINE [\w, ]+\s+AS\b", s) and "VIEW" not in s]
    queries = [s for s in made if s not in declared]
    return ";".join(declared) + ";", inserts, ";".join(queries) + ";"


def check_answers(db: everview.Database, name: str) -> None:
    for stream, rows in QUERIES[name].answers.items():
        assert shown(db.query(f"SELECT * FROM {stream}")) == sorted(rows), stream
        assert shown(changed(db, stream)) == sorted(rows), stream


def changed(db: everview.Database, stream: str, since: int | None = None) -> DataFrame:
    """Return the rows of an event stream that steps have made known, without what `changes` says of them."""
    found = db.changes(stream, since=since)
    return found.select(*(f"`{name}`" for name in found.columns[2:-1]))


def left_state(db: everview.Database) -> int:
    """Return how many rows of state there are, but for versions of tables."""
    state = db.manifest().of("state")
    return sum(r.rows for t, runs in state.items() if not t.owner.startswith("version") for r in runs)


@pytest.mark.parametrize("name", PLAIN)
def test_worked_queries(name: str, spark: SparkSession, tmp_path: Path) -> None:
    """INSERT before and after CREATE STREAM, in one run: the same answer, and no state is left."""
    declared, inserts, queries = parts(QUERIES[name].sql)
    half = len(inserts) // 2
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute(declared + "".join(inserts[:half]) + queries + "".join(inserts[half:]))
        db.run(finish=True)
        check_answers(db, name)
        assert left_state(db) == 0


@pytest.mark.parametrize("name", ["E1", "E3", "E9", "E12"])
def test_created_late_on_a_store_that_has_run(name: str, spark: SparkSession, tmp_path: Path) -> None:
    """The rows came in runs before and after CREATE STREAM; a restart lies between."""
    declared, inserts, queries = parts(QUERIES[name].sql)
    in_order = sorted(inserts, key=lambda insert: re.findall(r"'(2026[^']*)'", insert)[-1])
    cut = 2 * len(in_order) // 3
    path = str(tmp_path / "store")
    with everview.connect(path, spark, partitions=2) as db:
        db.execute(declared + "".join(in_order[:cut]))
        db.run()
        db.execute(queries)
    with everview.connect(path, spark) as db:
        db.execute("".join(in_order[cut:]))
        db.run()
    with everview.connect(path, spark) as db:
        db.run(finish=True)
        check_answers(db, name)
        assert left_state(db) == 0


@pytest.mark.parametrize("name", TABLES)
def test_steps(name: str, spark: SparkSession, tmp_path: Path) -> None:
    """What becomes visible in each run, and up to where the time lines are known (EVENTS 5.1)."""
    script = EventScript.of(QUERIES[name].sql)
    declared, inserts, queries = parts(QUERIES[name].sql)
    by_stream = {s: [i for i in inserts if i.startswith(f"INSERT INTO {s} ")] for s in script.rows}
    path, seen = str(tmp_path / "store"), 0
    with everview.connect(path, spark, partitions=2) as db:
        db.execute(declared + queries)
    for number, run in enumerate(TABLES[name], 1):
        with everview.connect(path, spark) as db:
            db.execute("".join(by_stream[s][i] for s, rows in run.inserted.items() for i in rows))
            db.run(finish=run.inserted is FINISH)
            bounds = db.manifest().event_bounds
            for line, clock in run.bounds.items():
                stream, _, column = line.partition(".")
                assert bounds[stream][column] == instant(clock), f"run {number}: {line}"
            if run.store is not None:
                assert db.manifest().bound == instant(run.store), f"run {number}: b1"
            for stream, rows in run.late.items():
                assert db.query(f"SELECT * FROM {stream}$late").count() == len(rows), f"run {number}"
            for query in script.queries:
                new = changed(db, query.name, seen)
                assert shown(new) == sorted(run.new.get(query.name, [])), f"run {number}: {query.name}"
            seen = db.manifest().step


def instant(clock: str) -> int:
    full = {5: f"{clock}:00.000000", 8: f"{clock}.000000"}.get(len(clock), clock)
    moment = datetime.strptime(f"2026-01-01 {full}", "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=UTC)
    return int(moment.timestamp()) * 1_000_000 + moment.microsecond


def test_tables_as_of(spark: SparkSession, tmp_path: Path) -> None:
    """E22: two tables AS OF a time line, one of which changes."""
    first, _, second = QUERIES["E22"].sql.partition("-- run; then\n")
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute(first)
        db.run()
        db.execute(second.partition("-- run --finish")[0])
        db.run(finish=True)
        found = shown(db.query("SELECT * FROM blocked"))
        assert found == [("7", "north", "10:00:20"), ("7", "south", "10:05:00")]


def test_an_event_stream_feeds_a_view(spark: SparkSession, tmp_path: Path) -> None:
    """E23, with a view that was there from the start, one that came late, and one over both."""
    declared, inserts, queries = parts(QUERIES["E23"].sql)
    path = str(tmp_path / "store")
    with everview.connect(path, spark, partitions=2) as db:
        db.execute(declared + queries)
        db.execute("CREATE VIEW twice AS SELECT n + n AS n FROM open_timeouts")
        later = [i for i in inserts if "INTO paid VALUES (2" in i or "INTO paid VALUES (3" in i]
        db.execute("".join(i for i in inserts if i not in later))
        db.run()
        assert db.manifest().event_bounds["unpaid"]["deadline"] == instant("09:05")
        with pytest.raises(StoreError, match="lies after the bound of 'unpaid': 2026-01-01T09:02:50"):
            db.query("SELECT * FROM open_timeouts AS OF TIMESTAMP '2026-01-01 09:04:00'")
        db.execute("CREATE VIEW later AS SELECT COUNT(*) AS n FROM unpaid [RANGE 1 HOUR]")
        db.execute("".join(later))
        db.run()
        db.run(finish=True)
        wanted = [
            ("09:17:00", "09:18:00", "1", "1"),
            ("09:18:00", "10:17:00", "1", "2"),
            ("10:17:00", "10:18:00", "1", "1"),
            ("10:18:00", "None", "1", "0"),
        ]
        for view in ("open_timeouts", "later"):
            found = shown(db.changes(view, encoding="intervals"))
            assert [row for row in found if row[0] >= "09:17" and row[0] != "None"] == wanted, view
        doubled = shown(db.query("SELECT * FROM twice AS OF TIMESTAMP '2026-01-01 09:30:00'"))
        assert doubled == [("4",)]


def write_csv(folder: Path, name: str, number: int, rows: Iterable[Sequence[object]]) -> None:
    (folder / name).mkdir(parents=True, exist_ok=True)
    text = "".join(",".join(map(str, row)) + "\n" for row in rows)
    (folder / name / f"{number}.csv").write_text(text)


@pytest.mark.parametrize("seed", range(2))
def test_from_files(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    """E1 and E2 from files that grow, with partitions, restarts and a query that comes late."""
    rng = random.Random(seed)
    _, inserts, queries = parts(QUERIES["E1"].sql)
    late_query = parts(QUERIES["E2"].sql)[2]
    columns = {"fire": "station INT, ts TIMESTAMP", "brigade": "station INT, ts TIMESTAMP",
               "exits": "station INT, person INT, ts TIMESTAMP"}  # fmt: skip
    declared = "".join(
        f"CREATE STREAM {name} ({text}, TIMELINE ts LATENESS INTERVAL '3' HOUR)"
        f" FROM csv('{tmp_path}/{name}');"
        for name, text in columns.items()
    )
    rows = []
    for insert in inserts:
        found = re.match(r"INSERT INTO (\w+) VALUES \((.*), TIMESTAMP '(.*)'\)", insert)
        assert found is not None
        rows.append((found[1], [*re.split(r",\s*", found[2]), found[3]]))
    rng.shuffle(rows)
    path = str(tmp_path / "store")
    for number, part in enumerate((rows[:3], rows[3:7], rows[7:])):
        for name in columns:
            write_csv(tmp_path, name, number, [row for stream, row in part if stream == name])
        with everview.connect(path, spark, partitions=3) as db:
            db.execute(declared + queries + (late_query if number else ""))
            db.run()
    with everview.connect(path, spark) as db:
        db.run(finish=True)
        check_answers(db, "E1")
        check_answers(db, "E2")
        assert left_state(db) == 0
        assert not db.manifest().of("port")


def test_a_source_that_cannot_be_read_again(spark: SparkSession, tmp_path: Path) -> None:
    """A query made late is complete from where its look-back is covered; without an end it is refused."""
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute(
            "CREATE STREAM beats (timestamp TIMESTAMP, value BIGINT, TIMELINE timestamp)"
            " FROM rate(rowsPerSecond => 5)"
        )
        db.execute("CREATE VIEW n AS SELECT COUNT(*) AS n FROM beats")
        db.start("200 milliseconds")
        wait_for_rows(db, "beats")
        db.stop()
        quiet = (
            "SELECT b.timestamp AS at_ FROM beats b WHERE NOT EXISTS (SELECT 1 FROM beats p "
            "WHERE p.timestamp < b.timestamp {lower})"
        )
        with pytest.raises(EverviewError, match="'ever' could never be complete"):
            db.execute(f"CREATE STREAM ever TIMELINE at_ AS {quiet.format(lower='')}")
        assert "ever" not in [entry.name for entry in db.catalog]
        lower = "AND p.timestamp >= b.timestamp - INTERVAL '1' SECOND"
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            db.execute(f"CREATE STREAM quiet TIMELINE at_ AS {quiet.format(lower=lower)}")
        assert any("the event stream 'quiet' is complete from" in str(w.message) for w in said)
        db.start("200 milliseconds")
        wait_for_rows(db, "beats")
        db.stop()
        assert db.query("SELECT * FROM quiet").count() == 0  # there was no gap; none is made up


def wait_for_rows(db: everview.Database, stream: str) -> None:
    import time

    before = db.manifest().counts.get(stream, (0,))[0]
    deadline = time.monotonic() + 120
    while db.manifest().counts.get(stream, (0,))[0] < before + 8:
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_bounds_at_the_end(spark: SparkSession, tmp_path: Path) -> None:
    declared, inserts, queries = parts(QUERIES["E6"].sql)
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute(declared + "".join(inserts) + queries)
        db.run(finish=True)
        assert db.manifest().event_bounds == {"unpaid": {"deadline": ENDED}}
        db.execute("DROP STREAM unpaid")
        assert not db.manifest().of("view")
        assert db.manifest().event_bounds == {}


@pytest.mark.parametrize("from_files", [True, False])
def test_taken_back_in_time(from_files: bool, spark: SparkSession, tmp_path: Path) -> None:
    """After the end a store is taken back, and goes on: the same answer as if it had run once."""
    declared, inserts, queries = parts(QUERIES["E1"].sql)
    queries += parts(QUERIES["E2"].sql)[2]
    if from_files:
        columns = {"fire": "station INT, ts TIMESTAMP", "brigade": "station INT, ts TIMESTAMP",
                   "exits": "station INT, person INT, ts TIMESTAMP"}  # fmt: skip
        declared = "".join(
            f"CREATE STREAM {name} ({text}, TIMELINE ts) FROM csv('{tmp_path}/{name}');"
            for name, text in columns.items()
        )
        for number, insert in enumerate(inserts):
            found = re.match(r"INSERT INTO (\w+) VALUES \((.*), TIMESTAMP '(.*)'\)", insert)
            assert found is not None
            write_csv(tmp_path, found[1], number, [[*re.split(r",\s*", found[2]), found[3]]])
        inserts = []
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute(declared + queries + "".join(inserts))
        db.run(finish=True)
        db.rewind(datetime(2026, 1, 1, 10, 15))
        assert max(db.manifest().event_bounds["evacuated"].values()) <= instant("10:15")
        assert shown(db.query("SELECT * FROM evacuated")) == []
        db.run(finish=True)
        check_answers(db, "E1")
        check_answers(db, "E2")
        assert left_state(db) == 0


def test_event_streams_over_one_that_keeps_no_history(spark: SparkSession, tmp_path: Path) -> None:
    """Its rows are forgotten at once: what reads it, or has the same query, is computed without them."""
    query = "SELECT id, ts FROM paid"
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute("CREATE STREAM paid (id INT, ts TIMESTAMP, TIMELINE ts)")
        db.insert("paid", [{"id": i, "ts": f"2026-01-01 09:0{i}:00"} for i in range(3)])
        db.run()
        db.execute(f"CREATE STREAM brief TIMELINE ts WITH (history => 'none') AS {query}")
        db.execute(f"CREATE STREAM whole TIMELINE ts AS {query}")
        db.execute("CREATE STREAM above TIMELINE ts AS SELECT id, ts FROM brief")
        db.execute("CREATE VIEW counted AS SELECT COUNT(*) AS n FROM brief")
        assert db.query("SELECT * FROM brief").count() == 0
        wanted = [(str(i), f"09:0{i}:00") for i in range(3)]
        assert shown(db.query("SELECT * FROM whole")) == wanted
        assert shown(db.query("SELECT * FROM above")) == wanted
        assert shown(db.query("SELECT * FROM counted")) == [("3",)]
        described = str(db.execute("DESCRIBE whole"))
        assert "waits: ts is known to 2026-01-01T09:02:00.000000: paid is known to 2026-01" in described


def test_streams_of_event_queries_get_other_names(spark: SparkSession, tmp_path: Path) -> None:
    """A stream, an event stream over it, and those that read it go on with their state."""
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute("""
            CREATE STREAM a (k INT, ts TIMESTAMP, TIMELINE ts);
            CREATE STREAM b (k INT, ts TIMESTAMP, TIMELINE ts);
            CREATE STREAM alone TIMELINE ts AS SELECT a.k, a.ts FROM a WHERE NOT EXISTS (
              SELECT 1 FROM b WHERE b.k = a.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '5' SECOND);
            CREATE STREAM again TIMELINE ts AS SELECT k, ts FROM alone;
            CREATE STREAM ticks TIMELINE time_point AS SELECT time_point FROM clock;
            CREATE VIEW n AS SELECT COUNT(*) AS n FROM alone [RANGE 1 HOUR];
            INSERT INTO a VALUES (1, TIMESTAMP '2026-01-01 09:00:01'), (2, TIMESTAMP '2026-01-01 09:00:03');
            INSERT INTO b VALUES (1, TIMESTAMP '2026-01-01 09:00:04');
        """)
        db.run()
        db.execute("ALTER STREAM a RENAME TO c; ALTER STREAM alone RENAME TO single")
        described = str(db.execute("DESCRIBE single"))
        assert "bound: ts: min(c.ts, b.ts − 5 s)" in described
        db.execute("INSERT INTO b VALUES (3, TIMESTAMP '2026-01-01 09:00:09')")
        db.execute("INSERT INTO c VALUES (3, TIMESTAMP '2026-01-01 09:00:09')")
        db.run(finish=True)
        assert shown(db.query("SELECT * FROM again")) == [("2", "09:00:03")]
        assert shown(db.query("SELECT * FROM n")) == [("1",)]
        assert "ticks" not in "".join(db.status().waits)


def test_a_timeout_after_the_newest_row_is_seen(spark: SparkSession, tmp_path: Path) -> None:
    """The present of a query over an event stream is its newest row, also after all rows taken in."""
    declared, inserts, queries = parts(QUERIES["E23"].sql)
    placed = [i for i in inserts if "INTO placed" in i]
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute(
            declared + queries + "CREATE VIEW orders AS SELECT COUNT(*) AS n FROM placed [RANGE 5 MINUTES]"
        )
        db.execute("".join(placed))
        db.run(finish=True)
        assert shown(db.query("SELECT deadline FROM unpaid"))[-1] == ("09:18:00",)
        assert shown(db.query("SELECT * FROM open_timeouts")) == [("4",)], "at 09:18"
        assert shown(db.query("SELECT * FROM orders")) == [("4",)], "at 09:03"
        assert {row.tag for row in db.changes("unpaid").collect()} == {"+"}
