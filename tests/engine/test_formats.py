"""FORMAT json, csv and debezium: columns of records of Kafka, their metadata, and what does not decode."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import everview
from everview.catalog import Catalog, StreamEntry
from everview.ingest.read_decoded import decode_records
from everview.ingest.reading import ORIGINAL
from everview.sql import bind_script, declare
from tests.kafka import Broker, Record, running_broker

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def broker(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(spark, tmp_path_factory.mktemp("kafka")) as running:
        yield running


def rows(answer: DataFrame) -> Counter[tuple[object, ...]]:
    return Counter(tuple(r) for r in answer.collect())


def decoded(
    spark: SparkSession, columns: str, format_: str, values: list[object]
) -> list[tuple[object, ...]]:
    """Return the columns and the reason for each value of a source of lines, in their order."""
    catalog = Catalog()
    sql = f"CREATE STREAM s ({columns}, TIMELINE ts) FROM socket('h', 1) FORMAT {format_}"
    for statement in bind_script(sql, catalog):
        declare(statement, catalog)
    entry = catalog.get("s")
    assert isinstance(entry, StreamEntry)
    assert entry.source is not None
    frame = spark.createDataFrame([(v,) for v in values], "value BINARY").coalesce(1)
    found = decode_records(frame, entry, entry.source)
    assert found.columns[-1] == ORIGINAL
    return [tuple(r) for r in found.drop(ORIGINAL).collect()]


def values(*texts: str | None) -> list[object]:
    return [None if text is None else bytearray(text, "utf-8") for text in texts]


TS = "2026-01-01 00:00:01"
DECLARED = "k INT, v STRING, ts TIMESTAMP"


def test_json(spark: SparkSession) -> None:
    good = f'{{"k": 1, "V": "a", "ts": "{TS}", "more": [1]}}'
    texts = values(good, '{"k": "x"}', "[1]", "nonsense", None, "", f'{{"k": 2, "ts": "{TS}"}} x', '{"k": 3}')
    found = decoded(spark, DECLARED, "json", texts)
    assert [(r[0], r[1]) for r in found[:1]] == [(1, "a")]
    assert [r[3] for r in found] == [
        None,
        "k: x is no INT",
        "it is an array and no JSON object",
        "it is no JSON object",
        "there is no value",
        "it is no JSON object",
        "there is more in the line than one JSON object",
        "ts: there is no timestamp",
    ]


def test_bytes_that_are_no_text(spark: SparkSession) -> None:
    broken = [bytearray(b'{"k": 1, "v": "\xff", "ts": "2026-01-01"}')]
    [row] = decoded(spark, DECLARED, "json", list(broken))
    assert "U+FFFD" in str(row[3])


def test_csv(spark: SparkSession) -> None:
    texts = values(f'1,"a,b",{TS}', f"2,,{TS}", f'3,"",{TS}', f"x,a,{TS}", "1,a", f"1,a,{TS},9", None)
    found = decoded(spark, DECLARED, "csv", texts)
    assert [(r[0], r[1]) for r in found[:3]] == [(1, "a,b"), (2, None), (3, "")]
    assert [r[3] for r in found] == [
        None, None, None,
        "k: x is no INT", "it has 2 columns, not 3", "it has 4 columns, not 3", "there is no value",
    ]  # fmt: skip
    assert decoded(spark, DECLARED, "csv(sep => '|')", values(f"7|a|{TS}"))[0][:2] == (7, "a")


def event(op: str, before: object = None, after: object = None, ms: int = 1) -> str:
    return json.dumps({"op": op, "before": before, "after": after, "ts_ms": ms, "source": {"lsn": 7}})


def test_debezium(spark: SparkSession) -> None:
    columns = "k INT, v STRING, op STRING METADATA, lsn BIGINT METADATA FROM 'source.lsn'"
    columns += ", ts TIMESTAMP METADATA FROM 'ts_ms'"
    one = {"k": 1, "v": "a"}
    texts = values(
        event("c", after=one), event("r", after=one), event("u", one, {"k": 1, "v": "b"}, 2),
        event("d", one), None, event("t"), event("d"), "{}",
        json.dumps({"payload": json.loads(event("c", after=one))}), event("c", after={"k": "x"}),
    )  # fmt: skip
    found = decoded(spark, columns, "debezium", texts)
    assert [(r[0], r[1], r[2], r[3]) for r in found[:4]] == [
        (1, "a", "c", 7), (1, "a", "r", 7), (1, "b", "u", 7), (1, "a", "d", 7),
    ]  # fmt: skip
    assert [r[5] for r in found] == [
        None, None, None, None, "op: t is none of c, u, d and r", "the event has no row before the change",
        "it is no change event: it has no op", None, "k: x is no INT",
    ]  # fmt: skip


def test_records_of_kafka(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """With metadata, a computed time line, rows that do not decode, a late view, and a restart."""
    topic = broker.create_topic(2)
    script = f"""
        CREATE STREAM s (usr STRING, ms BIGINT, id STRING METADATA FROM 'key',
                         part INT METADATA FROM 'partition', trace STRING METADATA FROM 'headers.trace',
                         ts TIMESTAMP AS (timestamp_millis(ms)), TIMELINE ts)
        FROM kafka(kafka.bootstrap.servers => '{broker.address}', subscribe => '{topic}',
                   startingOffsets => 'earliest') FORMAT json;
        CREATE VIEW v AS SELECT usr, id, part, trace FROM s;
    """

    def record(number: int, partition: int) -> Record:
        return Record(json.dumps({"usr": f"u{number}", "ms": number * 1000}), 0, partition, f"k{number}")

    wanted = Counter({(f"u{n}", f"k{n}", n % 2, None): 1 for n in range(1, 5)})
    path = str(tmp_path / "store")
    with everview.connect(path, spark, partitions=2) as db:
        db.execute(script)
        broker.write(
            topic, *(record(n, n % 2) for n in (1, 2)), Record("{", 0, 0), Record('{"usr": 1}', 0, 1)
        )
        db.run()
    with everview.connect(path, spark, partitions=2) as db:
        broker.write(topic, *(record(n, n % 2) for n in (3, 4)))
        db.run(finish=True)
        assert rows(db.query("SELECT * FROM v")) == wanted
        db.execute("CREATE VIEW late AS SELECT usr, id, part, trace FROM s WHERE usr <> ''")
        assert rows(db.query("SELECT * FROM late")) == wanted
        refused = rows(db.query("SELECT _reason, _original FROM s$rejected"))
        assert refused == {("it is no JSON object", "{"): 1, ("ts: there is no timestamp", '{"usr": 1}'): 1}


def test_changes_of_a_database(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """The change events of Debezium as a tagged stream: the table as it is at each instant."""
    topic = broker.create_topic()
    script = f"""
        CREATE STREAM changed (id INT, total INT, op STRING METADATA, pos BIGINT METADATA FROM 'offset',
                               ts TIMESTAMP METADATA FROM 'ts_ms', TIMELINE ts SEQUENCE BY (pos))
        FROM kafka(kafka.bootstrap.servers => '{broker.address}', subscribe => '{topic}',
                   startingOffsets => 'earliest') FORMAT debezium;
        CREATE TAGGED STREAM orders OVER changed KEY (id) DELETE WHEN op = 'd';
        CREATE VIEW totals AS SELECT COUNT(*) AS n, SUM(total) AS total FROM orders;
    """
    one, two = {"id": 1, "total": 5}, {"id": 2, "total": 7}
    events = [
        event("r", after=one, ms=1000), event("c", after=two, ms=2000),
        event("u", one, {"id": 1, "total": 6}, 3000), event("u", None, {"id": 1, "total": 9}, 3000),
        event("d", two, ms=4000),
    ]  # fmt: skip
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute(script)
        broker.write(topic, *(Record(text) for text in events))
        db.run(finish=True)
        at = {
            s: rows(db.query("SELECT n, total FROM totals", as_of=f"1970-01-01 00:00:0{s}"))
            for s in (1, 2, 3, 4)
        }
        assert at == {1: {(1, 5): 1}, 2: {(2, 12): 1}, 3: {(2, 16): 1}, 4: {(1, 9): 1}}
