"""A sink into Kafka, with a real broker: upserts, changes and change events; killed, down for 20 steps."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import everview
from everview.errors import EverviewError, StoreError
from tests.kafka import Broker, connector_jars, running_broker
from tests.sinks.stores import HandmadeStore

pytestmark = [pytest.mark.spark, pytest.mark.world]
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def broker(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(spark, tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture
def made(spark: SparkSession, tmp_path: Path) -> Iterator[HandmadeStore]:
    store = HandmadeStore(tmp_path / "store", spark=spark)
    yield store
    store.close()


def into(broker: Broker, topic: str, more: str = "") -> str:
    return f"INTO kafka(kafka.bootstrap.servers => '{broker.address}', topic => '{topic}'{more})"


def upserted(broker: Broker, topic: str) -> dict[int, str]:
    """Return what somebody has who reads the topic as a table."""
    found: dict[int, str] = {}
    for record in broker.read(topic):
        k = json.loads(record["key"])["k"]
        found.pop(k, None)
        if record["value"] is not None:
            found[k] = json.loads(record["value"])["v"]
    return found


def distinct(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the records as one has them who drops those whose header he has seen."""
    return list({record["header"]: record for record in records}.values())


def replayed(records: list[dict[str, Any]]) -> dict[int, str]:
    """Return what somebody has who takes the changes in, each once."""
    found: dict[int, str] = {}
    for record in distinct(records):
        change = json.loads(record["value"])
        assert json.loads(record["key"]) == {"k": change["k"]}
        assert (change["k"] in found) == (change["tag"] in "-u")
        assert change["tag"] == "+" or change["tag"] == "-" or change["old"]["v"] == found[change["k"]]
        found.pop(change["k"], None)
        if change["tag"] != "-":
            found[change["k"]] = change["v"]
    return found


def test_upserts_are_keys_and_tombstones(made: HandmadeStore, broker: Broker) -> None:
    topic = broker.create_topic(2, cleanup_policy="compact")
    made.step({1: "a", 2: 'it\'s, "odd"\n\\ü'})
    sink = made.sink(f"CREATE SINK u FROM latest {into(broker, topic)} MODE upsert")
    assert upserted(broker, topic) == made.table
    made.step({1: "", 3: "NULL", 2: None})
    assert upserted(broker, topic) == made.table == {1: "", 3: "NULL"}
    written = broker.read(topic)
    assert len(written) == 5
    assert [r["value"] for r in written if r["key"] == '{"k":2}'][-1] is None
    assert all(r["header"].startswith(f"{sink.id}-") for r in written)
    assert len({r["header"] for r in written}) == 5


def test_changes_and_rows(made: HandmadeStore, broker: Broker) -> None:
    log, lines = broker.create_topic(3), broker.create_topic()
    made.sink(f"CREATE SINK c FROM latest {into(broker, log)}")
    made.sink(f"CREATE SINK a FROM pairs {into(broker, lines)} MODE append")
    made.step({1: "a", 2: "x"})
    made.step({1: "b", 2: None})
    assert replayed(broker.read(log)) == made.table
    of_one = [json.loads(r["value"]) for r in broker.read(log) if r["key"] == '{"k":1}']
    assert of_one == [
        {"tag": "+", "at": "2026-01-01T00:00:01.000000Z", "k": 1, "v": "a", "old": None},
        {"tag": "u", "at": "2026-01-01T00:00:02.000000Z", "k": 1, "v": "b", "old": {"k": 1, "v": "a"}},
    ]
    assert [(r["key"], json.loads(r["value"])) for r in broker.read(lines)] == [
        (None, {"k": 1, "v": "a"}), (None, {"k": 2, "v": "x"}), (None, {"k": 1, "v": "b"}),
    ]  # fmt: skip


def test_change_events_come_back_as_the_view(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Another store reads the events as a tagged stream, and has the same answer."""
    topic = broker.create_topic(2)
    made = HandmadeStore(tmp_path / "first", spark=spark)
    made.step({1: "a", 2: "b", 4: "ü"})
    target = into(broker, topic, ", format => 'debezium'")
    made.sink(f"CREATE SINK d FROM latest {target}")
    made.step({1: "c", 2: None, 3: "d"})
    made.step({3: None, 2: "again"})
    records = broker.read(topic)
    first = json.loads(next(r["value"] for r in records if r["key"] == '{"k":1}'))
    assert {n: first[n] for n in ("op", "before", "after", "ts_ms")} == {
        "op": "r", "before": None, "after": {"k": 1, "v": "a"}, "ts_ms": 1767225601000,
    }  # fmt: skip
    operations = [None if r["value"] is None else json.loads(r["value"])["op"] for r in records]
    assert sorted(map(str, operations)) == ["None", "None", "c", "c", "d", "d", "r", "r", "r", "u"]
    with everview.connect(str(tmp_path / "second"), spark, partitions=2) as db:
        db.execute(f"""
            CREATE STREAM events (k INT, v STRING, op STRING METADATA, at TIMESTAMP METADATA FROM 'ts_ms',
                                  TIMELINE at)
            FROM kafka(kafka.bootstrap.servers => '{broker.address}', subscribe => '{topic}',
                       startingOffsets => 'earliest') FORMAT debezium;
            CREATE TAGGED STREAM rows OVER events KEY (k) DELETE WHEN op = 'd';
        """)
        db.run(finish=True)
        assert {r.k: r.v for r in db.query("SELECT k, v FROM rows").collect()} == made.table
    made.close()


def test_killed_after_the_records(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """Killed before the position is written: the step is sent again, with the same headers."""
    log, table = broker.create_topic(2), broker.create_topic(2)
    script = f"""
import os, signal
from pathlib import Path
from everview.execute.session import own_session
from everview.settings import SparkSettings
from everview.sinks.position import SinkPositions
from tests.sinks.stores import HandmadeStore

jars = {{"spark.driver.extraClassPath": {connector_jars()!r}}}
made = HandmadeStore(Path({str(tmp_path / "store")!r}), spark=own_session(SparkSettings("local[1]", jars)))
made.sink("CREATE SINK c FROM latest {into(broker, log)}")
made.sink("CREATE SINK u FROM latest {into(broker, table)} MODE upsert")
made.step({{1: "a", 2: "b"}})
made.step({{1: "c", 2: None}}, write=False)
SinkPositions.write = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
made.runner.write_all(made.views)
"""
    around = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=around)
    assert done.returncode == -signal.SIGKILL
    (tmp_path / "store" / "everview.lock").unlink(missing_ok=True)
    made = HandmadeStore(tmp_path / "store", spark=spark)
    made.table = {1: "c"}
    made.step({3: "d"})
    written = broker.read(log)
    assert (len(written), len(distinct(written))) == (7, 5), "the second step was sent twice"
    assert replayed(written) == upserted(broker, table) == made.table
    made.close()


def test_down_for_20_steps(made: HandmadeStore, broker: Broker) -> None:
    log, table = broker.create_topic(2), broker.create_topic()
    quick = (
        ", kafka.max.block.ms => 2000, kafka.request.timeout.ms => 1500, kafka.delivery.timeout.ms => 2000"
    )
    made.sink(f"CREATE SINK c FROM latest {into(broker, log, quick)}")
    made.sink(f"CREATE SINK u FROM latest {into(broker, table, quick)} MODE upsert")
    made.step({1: "a", 9: "z"})
    broker.server.kill()
    try:
        with pytest.warns(UserWarning, match="set aside") as told:
            made.step({1: "b"})
        assert len(told) == 2
        for number in range(19):
            made.step({number % 4: f"{number}", 9: None}, write=number == 9)
    finally:
        broker.server.start()
    made.step({5: "e"}, write=False)
    deadline = time.monotonic() + 60  # Kafka's client connects again after a while
    while behind(made) and time.monotonic() < deadline:
        made.runner.write_all(made.views, at_once=True)
    assert not behind(made)
    assert replayed(broker.read(log)) == upserted(broker, table) == made.table


def behind(made: HandmadeStore) -> bool:
    """Return whether a sink does not have the last step."""
    found = [made.runner.positions.read(sink.id) for sink in made.catalog.sinks.values()]
    return any(position is None or position.step < made.manifest.step for position in found)


def test_an_upsert_that_begins_anew_removes_other_keys(made: HandmadeStore, broker: Broker) -> None:
    from dataclasses import replace

    topic = broker.create_topic(2)
    made.sink(f"CREATE SINK h FROM latest {into(broker, topic)} MODE upsert")
    made.step({1: "a", 2: "b", 4: "x"})
    made.step({4: None})
    made.step({1: None}, write=False)
    made.step({3: "c"}, write=False)
    made.catalog.entries["latest"] = replace(made.catalog.get("latest"), history=1, least_changes=0)
    before = len(broker.read(topic))
    made.runner.write_all(made.views, at_once=True)
    assert upserted(broker, topic) == made.table == {2: "b", 3: "c"}
    assert len(broker.read(topic)) == before + 3, "key 4 is gone already"


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("INTO kafka(kafka.bootstrap.servers => '{at}', topic => 'none')", "Kafka has no topic 'none'"),
        ("INTO kafka(kafka.bootstrap.servers => '{at}')", "kafka needs the option topic"),
        (
            "INTO kafka(kafka.bootstrap.servers => '127.0.0.1:9', topic => 't', "
            "kafka.default.api.timeout.ms => 300, kafka.request.timeout.ms => 200)",
            "Kafka does not answer for 'f'",
        ),
        ("INTO kafka(kafka.bootstrap.servers => '{at}', topic => 't', format => 'avro')", "json or debezium"),
        (
            "INTO kafka(kafka.bootstrap.servers => '{at}', topic => 't', format => 'debezium') MODE upsert",
            "the row before and after, which MODE changes writes",
        ),
        ("INTO kafka(kafka.bootstrap.servers => '{at}', topics => 't')", "has no option 'topics'"),
    ],
)
def test_mistakes_are_told(made: HandmadeStore, broker: Broker, sql: str, what: str) -> None:
    with pytest.raises(EverviewError, match=what):
        made.sink(f"CREATE SINK f FROM latest {sql.format(at=broker.address)}")
    assert not made.catalog.sinks


def test_what_was_sent_stays_sent(made: HandmadeStore, broker: Broker) -> None:
    """A store that was put back does not send changes again into a topic that has them."""
    topic = broker.create_topic()
    sink = made.sink(f"CREATE SINK c FROM latest {into(broker, topic)}")
    made.step({1: "a"})
    made.runner.positions.clear()
    with pytest.warns(UserWarning, match="how far it has come is not known"):
        made.step({1: "b"})
    with pytest.raises(StoreError, match="what kafka was given cannot be taken back"):
        made.runner.resume(sink, made.views)
    assert len(broker.read(topic)) == 1
