"""Streams from Kafka: late views and ad hoc questions read records again, or say which are gone."""

from __future__ import annotations

import random
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import everview
from everview.catalog import StreamEntry
from everview.errors import StoreError
from everview.ingest.replay import Replay
from everview.pipeline.repair import open_repair
from everview.storage.addresses import file_of
from tests.kafka import Broker, Record, running_broker

pytestmark = pytest.mark.spark

VIEWS = {
    "counts": "SELECT value, COUNT(*) AS n FROM s [RANGE 15 SECONDS] GROUP BY value",
    "latest": "SELECT value, offset FROM s [PARTITION BY value ROWS 2]",
    "ever": "SELECT COUNT(*) AS n, MAX(value) AS high FROM s",
}
EVER = f"CREATE VIEW ever AS {VIEWS['ever']}"


@pytest.fixture(scope="module")
def broker(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker for all tests of this module; each test makes topics of its own."""
    with running_broker(spark, tmp_path_factory.mktemp("kafka")) as running:
        yield running


Open = Callable[..., everview.Database]


@pytest.fixture
def open_store(spark: SparkSession, broker: Broker, tmp_path: Path) -> Iterator[Open]:
    """Makes a store with a stream `s` from Kafka, with further options of the source."""
    opened: list[everview.Database] = []

    def make(name: str = "store", **options: str) -> everview.Database:
        given = {"kafka.bootstrap.servers": broker.address, "startingOffsets": "earliest", **options}
        listed = ", ".join(f"{key} => '{value}'" for key, value in given.items())
        db = everview.connect(str(tmp_path / name), spark, partitions=2)
        opened.append(db)
        db.execute(f"""
            CREATE STREAM s (value STRING, topic STRING, offset BIGINT, timestamp TIMESTAMP,
                             TIMELINE timestamp LATENESS INTERVAL '2' SECOND) FROM kafka({listed});
            SET answer_from_views = off; -- questions about the stream read Kafka again
        """)
        return db

    yield make
    for db in opened:
        db.close()


@contextmanager
def without_notes() -> Iterator[None]:
    """No note may be given: every view is complete."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        yield


def rows(answer: DataFrame) -> Counter[tuple[object, ...]]:
    return Counter(tuple(r) for r in answer.collect())


def count(db: everview.Database) -> int:
    """Ask for the number of rows of the stream, ad hoc: all are read again."""
    [[n]] = db.query("SELECT COUNT(*) AS n FROM s").collect()
    return int(n)


def is_whole(db: everview.Database, wanted: int) -> bool:
    """Return whether all rows of the stream can be read again."""
    try:
        return count(db) == wanted
    except StoreError:
        return False


def numbers(*values: int, at: float = 0, partition: int = 0) -> list[Record]:
    """Return one record a second."""
    return [Record(f"v{v}", at + i, partition) for i, v in enumerate(values)]


def test_late_views_agree_with_early_ones(broker: Broker, open_store: Open) -> None:
    """With late rows, several topics, and more partitions and topics than at first."""
    rng = random.Random(7)
    topic = broker.create_topic(2)
    partitions = {topic: 2}
    early, late = (
        open_store(name, subscribePattern=f"{topic}.*", maxOffsetsPerTrigger="18")
        for name in ("early", "late")
    )
    for name, sql in VIEWS.items():
        early.execute(f"CREATE VIEW {name} AS {sql}")
    with without_notes():
        for number, name in enumerate(VIEWS):
            if number == 1:
                broker.add_partitions(topic, 3)
                partitions[topic] = 3
                partitions[broker.create_topic(name=f"{topic}-later")] = 1
            for written, total in partitions.items():
                times = [10 * number + rng.randrange(10) for _ in range(8)]
                times += [rng.randrange(10 * number + 1) for _ in range(3)]  # late, as a rule
                many = [Record(f"v{rng.randrange(3)}", t, rng.randrange(total)) for t in times]
                broker.write(written, *many)
            early.run()
            late.run()
            late.execute(f"CREATE VIEW {name} AS {VIEWS[name]}")
        assert early.manifest().counts == late.manifest().counts
        assert early.manifest().counts["s"][1], "rows were late"
        for name in VIEWS:
            assert rows(late.changes(name)) == rows(early.changes(name)), name
        asked = rows(late.query(VIEWS["counts"], as_of="2026-01-01 00:00:15"))
        assert asked == rows(early.query("SELECT * FROM counts", as_of="2026-01-01 00:00:15")) != {}
        assert "complete since: the beginning of time" in str(late.execute("DESCRIBE counts"))


def test_a_view_is_added_while_steps_go_on(broker: Broker, open_store: Open) -> None:
    topic = broker.create_topic(2)
    broker.write(topic, *numbers(1, 2, 3), *numbers(4, 5, partition=1))
    db = open_store(subscribe=topic)
    db.execute("CREATE VIEW early AS SELECT value FROM s [RANGE 5 SECONDS]")
    db.start("100 milliseconds")
    with without_notes():
        broker.write(topic, *numbers(6, 7, at=8))
        db.execute("CREATE VIEW late AS SELECT value FROM s [RANGE 5 SECONDS] WHERE value <> ''")
    broker.write(topic, *numbers(8, at=20, partition=1))
    deadline = time.monotonic() + 120
    while db.manifest().counts.get("s", (0,))[0] < 8 and time.monotonic() < deadline:
        time.sleep(0.2)
    db.stop()
    assert rows(db.changes("late")) == rows(db.changes("early")) != {}


def test_records_that_kafka_has_removed_are_told(broker: Broker, open_store: Open) -> None:
    """The view begins at the bound and goes on; a question about the stream is refused."""
    topic = broker.create_topic(2)
    broker.write(topic, *numbers(1, 2, 3, 4), *numbers(5, 6, at=2, partition=1))
    db = open_store(subscribe=topic)
    db.run()
    broker.delete_records(topic, 2)
    removed = (
        f"Kafka has removed records that 's' has read: partition 0 of the topic '{topic}' begins at offset "
        "2, and was read from 0 on"
    )
    with pytest.warns(
        UserWarning, match=f"the view 'ever' is complete from 2026-01-01T00:00:0.* on: {removed}"
    ):
        db.execute(EVER)
    assert "complete since: 2026-01-01T00:00:0" in str(db.execute("DESCRIBE ever"))
    with pytest.raises(StoreError, match=removed):
        count(db)
    broker.write(topic, *numbers(7, 8, at=30))
    db.run(finish=True)
    assert rows(db.query("SELECT * FROM ever")) == {(7, "v8"): 1}  # all but those before the bound


def test_where_a_stream_began(broker: Broker, open_store: Open) -> None:
    """Records from before the offset at which the stream began are not read now, either, nor missed."""
    topic = broker.create_topic()
    broker.write(topic, *numbers(1, 2, 3))
    options = {"startingOffsets": f'{{"{topic}": {{"0": 1}}}}', "kafka.client.id": "everview"}
    db = open_store(subscribe=topic, **options)
    db.run()
    broker.write(topic, *numbers(4, 5, at=20))
    db.run(finish=True)
    broker.delete_records(topic, 1)
    with without_notes():
        db.execute(EVER)
        assert rows(db.query("SELECT * FROM ever")) == {(4, "v5"): 1}
        assert count(db) == 4


def test_a_topic_that_is_created_anew_or_gone(broker: Broker, open_store: Open) -> None:
    """Also if the new one has other records at the same offsets."""
    topic, rest = broker.create_topic(), broker.create_topic()
    for written in (topic, rest):
        broker.write(written, *numbers(1, 2, 3, 4))
    db = open_store(subscribe=f"{topic},{rest}")
    db.run()
    assert count(db) == 2
    broker.delete_topic(topic)
    with pytest.raises(StoreError, match=f"'s' has read the topic '{topic}', which is gone"):
        count(db)
    broker.create_topic(name=topic)
    broker.write(topic, *numbers(7, 7, 7, 7, 7))
    anew = f"'s' has read the topic '{topic}', which was created anew since"
    with pytest.raises(StoreError, match=anew):
        count(db)
    with pytest.warns(UserWarning, match=f"the topic '{topic}' of 's' was deleted and created anew"):
        db.run()
    with pytest.raises(StoreError, match=anew):
        count(db)


def test_transactions_leave_gaps(broker: Broker, open_store: Open) -> None:
    topic = broker.create_topic()
    broker.write_transaction(topic, *numbers(1, 2))
    broker.write_transaction(topic, *numbers(3), commit=False)
    broker.write_transaction(topic, *numbers(4, at=10))
    db = open_store(subscribe=topic, **{"kafka.isolation.level": "read_committed"})
    db.run(finish=True)
    assert db.manifest().counts["s"] == (3, 0, 0)
    with without_notes():
        db.execute(EVER)
    assert rows(db.query("SELECT * FROM ever")) == {(3, "v4"): 1}


def test_a_compacted_topic(broker: Broker, open_store: Open) -> None:
    """As long as all records are there, they are read again; compaction is noticed by their number."""
    topic = broker.create_topic(cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    broker.write(topic, *(Record("old", n, key="k") for n in range(5)))
    db = open_store(subscribe=topic)
    db.run(finish=True)
    gone = "'s' has read 5 records, and between its offsets there are . now: Kafka has compacted a topic"
    with without_notes():
        db.execute(EVER)
        assert rows(db.query("SELECT n FROM ever")) == {(5,): 1}
    broker.change_topic(topic, segment_ms="100")
    deadline = time.monotonic() + 120
    while is_whole(db, 5) and time.monotonic() < deadline:
        broker.write(topic, Record("new", 5, key="k"))  # closes the segment before it
    with pytest.raises(StoreError, match=gone):
        count(db)


def test_repair_reads_records_again(
    spark: SparkSession, broker: Broker, open_store: Open, tmp_path: Path
) -> None:
    """Views whose files are damaged are computed anew, and rows that wait for the bound are read again."""
    topic = broker.create_topic()
    broker.write(topic, *numbers(1, 2, 3, 4))
    db = open_store(subscribe=topic)
    db.execute(EVER)
    db.run()
    before = rows(db.changes("ever"))
    traces = db.manifest().traces.items()
    paths = {file_of(run.path) for trace, runs in traces for run in runs if trace.kind != "port"}
    db.close()
    for path in paths:
        (tmp_path / "store" / path).unlink()
    with open_repair(str(tmp_path / "store"), spark, lambda _: None) as repair:
        repair.carry_out()
        assert not repair.notes.losses
    with everview.connect(str(tmp_path / "store"), spark) as mended:
        assert rows(mended.changes("ever")) == before
        mended.run(finish=True)
        assert rows(mended.query("SELECT * FROM ever")) == {(4, "v4"): 1}


def test_a_store_is_taken_back(broker: Broker, open_store: Open) -> None:
    """Records far ahead had made others late: afterwards the store is as one that never read them."""
    good, bad = (broker.create_topic(2) for _ in range(2))
    for topic in (good, bad):
        broker.write(topic, *numbers(1, 2, 3, 4), *numbers(1, 2, partition=1))
    stores = {name: open_store(name, subscribe=name) for name in (good, bad)}
    for db in stores.values():
        for name, sql in VIEWS.items():
            db.execute(f"CREATE VIEW {name} AS {sql.replace(', offset', '')}")
        db.run()
    broker.write(bad, Record("far", 1000, 0), Record("far", 1000, 1))
    stores[bad].run()
    for topic in (good, bad):
        broker.write(topic, *numbers(5, 6, 7, at=4), *numbers(8, 9, 1, at=5, partition=1))
    broker.write(bad, *numbers(3, at=1))  # it is late afterwards, too
    stores[bad].run()
    assert stores[bad].manifest().counts["s"] == (8, 7, 0), "all that came since are late"
    report = str(stores[bad].rewind("2026-01-01 00:00:02", reject_after="2026-01-01 00:10:00"))
    assert "lost" not in report
    assert "the rows of 's' after 2026-01-01T00:10:00.000000 are rejected" in report
    for topic in (good, bad):
        broker.write(topic, *numbers(7, 7, at=30))
    for db in stores.values():
        db.run(finish=True)
    assert stores[bad].manifest().counts["s"] == (14, 1, 2)
    assert stores[good].manifest().counts["s"] == (14, 0, 0)
    for name in VIEWS:
        assert rows(stores[bad].changes(name)) == rows(stores[good].changes(name)), name


def test_a_store_is_not_taken_back_where_records_are_gone(broker: Broker, open_store: Open) -> None:
    topic = broker.create_topic()
    broker.write(topic, *numbers(1, 2, 3, 4, 5, 6, 7))
    db = open_store(subscribe=topic)
    db.execute(EVER)
    db.run()
    before, answer = db.manifest(), rows(db.query("SELECT * FROM ever"))
    broker.delete_records(topic, 2)
    report = str(db.rewind("2026-01-01 00:00:01"))
    assert "Kafka has removed records that 's' has read: partition 0" in report
    assert "nothing was done" in report
    assert (db.manifest(), rows(db.query("SELECT * FROM ever"))) == (before, answer)


def test_a_broker_that_does_not_answer(broker: Broker, open_store: Open) -> None:
    """A view does not begin at the bound because Kafka is away for a while."""
    topic = broker.create_topic()
    broker.write(topic, *numbers(1, 2))
    db = open_store(subscribe=topic)
    db.run()
    entry = db.catalog.get("s")
    assert isinstance(entry, StreamEntry)
    assert entry.source is not None
    away = {"kafka.bootstrap.servers": "127.0.0.1:9"}
    short = {"kafka.default.api.timeout.ms": "300", "kafka.request.timeout.ms": "200"}
    options = tuple({**dict(entry.source.options), **away, **short}.items())
    unreachable = replace(entry, source=replace(entry.source, options=options))
    with pytest.raises(StoreError, match="Kafka does not answer for 's': "):
        Replay.of(broker.spark, db._pipeline.store.files, unreachable, db.manifest())


def test_partitions_in_order_have_no_late_rows(broker: Broker, open_store: Open) -> None:
    """Two partitions of which one is far behind: the answer does not depend on how much a step reads."""
    topic = broker.create_topic(3)  # the third has no records, and nobody waits for it
    broker.write(topic, *(Record(f"v{n % 5}", n, partition=0) for n in range(180)))
    broker.write(topic, *(Record(f"v{n % 5}", n, partition=1) for n in range(180)))
    answers = []
    for name, options in (("whole", {}), ("parts", {"maxOffsetsPerTrigger": "60"})):
        db = open_store(name, subscribe=topic, **options)
        for view, sql in VIEWS.items():
            db.execute(f"CREATE VIEW {view} AS {sql}")
        db.run()
        assert db.manifest().counts["s"] == (360, 0, 0)
        answers.append([rows(db.query(f"SELECT * FROM {view}")) for view in VIEWS])
    assert answers[0] == answers[1]
    broker.write(topic, *(Record("later", n, partition=0) for n in range(180, 300)))
    db.run()
    broker.write(topic, *(Record("slow", n, partition=1) for n in range(180, 300)))
    db.run(finish=True)
    assert db.manifest().counts["s"] == (600, 0, 0)
    assert rows(db.query("SELECT n FROM ever")) == {(600,): 1}
