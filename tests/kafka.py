"""A Kafka broker on this machine for tests: one node, its topics in a temporary folder.

Kafka's own client, in Spark's Java process, creates topics and writes records; so the tests need no other
one. `make .kafka/.ready` brings the jars of the broker and of Spark's connector.
"""

from __future__ import annotations

import base64
import socket
import subprocess
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_JARS = Path(__file__).parents[1] / ".kafka"
_SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
log.dirs={folder}/data
log.retention.ms=-1
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
log.cleaner.backoff.ms=100
log.cleaner.dedupe.buffer.size=2000000
"""
_JAVA = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{_JARS}/server/*"]
_SECONDS = 120  # until the broker must answer, on a machine that is busy


def connector_jars() -> str:
    """Return the class path of Spark's connector; empty if it is not there."""
    return ":".join(map(str, sorted((_JARS / "client").glob("*.jar"))))


@dataclass(frozen=True)
class Record:
    """A record to be written: its value, its timestamp in seconds since BEGIN, its partition and its key."""

    value: str
    at: float = 0
    partition: int = 0
    key: str | None = None


class BrokerProcess:
    """The process of a broker, which can be ended and started again with the topics that it has."""

    def __init__(self, settings: Path, port: int, log: Path) -> None:
        self._settings, self._port, self._log = settings, port, log
        self.start()

    def start(self) -> None:
        """Start the broker, and wait until it answers."""
        with self._log.open("ab") as output:
            command = [*_JAVA, "kafka.Kafka", str(self._settings)]
            self._process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
        _wait_for(self._process, self._port, self._log)

    def kill(self) -> None:
        """End the broker at once."""
        self._process.kill()
        self._process.wait()


@dataclass(frozen=True)
class Broker:
    """A broker that runs, and a session that talks with it."""

    address: str
    spark: SparkSession
    admin: Any
    server: BrokerProcess

    @property
    def _jvm(self) -> Any:
        return self.spark._jvm

    def create_topic(self, partitions: int = 1, name: str = "", **configs: str) -> str:
        """Create a topic, with a name that no other test uses; settings are written with _ for the dots."""
        name = name or f"topic-{uuid.uuid4().hex[:8]}"
        settings = self._map({key.replace("_", "."): value for key, value in configs.items()})
        topic = self._jvm.org.apache.kafka.clients.admin.NewTopic(name, partitions, 1).configs(settings)
        self.admin.createTopics(self._list([topic])).all().get()
        return name

    def change_topic(self, name: str, **configs: str) -> None:
        """Change settings of a topic."""
        admin, config = self._jvm.org.apache.kafka.clients.admin, self._jvm.org.apache.kafka.common.config
        set_ = getattr(admin, "AlterConfigOp$OpType").SET
        entries = [admin.ConfigEntry(key.replace("_", "."), value) for key, value in configs.items()]
        changes = self._list([admin.AlterConfigOp(entry, set_) for entry in entries])
        topic = config.ConfigResource(getattr(config, "ConfigResource$Type").TOPIC, name)
        self.admin.incrementalAlterConfigs(self._map({topic: changes})).all().get()

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and wait until it is gone."""
        self.admin.deleteTopics(self._list([name])).all().get()
        deadline = time.monotonic() + _SECONDS
        while name in self.admin.listTopics().names().get() and time.monotonic() < deadline:
            time.sleep(0.1)

    def add_partitions(self, name: str, total: int) -> None:
        """Give a topic more partitions."""
        more = self._jvm.org.apache.kafka.clients.admin.NewPartitions.increaseTo(total)
        self.admin.createPartitions(self._map({name: more})).all().get()

    def delete_records(self, name: str, before: int, partition: int = 0) -> None:
        """Delete the records of a partition before an offset, as retention does."""
        kafka = self._jvm.org.apache.kafka
        place = kafka.common.TopicPartition(name, partition)
        # The class also has a getter of this name, and then py4j does not find the static method.
        java, kind = self._jvm.java.lang, "org.apache.kafka.clients.admin.RecordsToDelete"
        types, values = (self._array(t, v) for t, v in ((java.Class, java.Long.TYPE), (java.Object, before)))
        up_to = java.Class.forName(kind).getMethod("beforeOffset", types).invoke(None, values)
        self.admin.deleteRecords(self._map({place: up_to})).all().get()

    def write(self, topic: str, *records: Record) -> None:
        """Write records in their order."""
        producer = self._producer()
        self._send(producer, topic, records)
        producer.close()

    def write_transaction(self, topic: str, *records: Record, commit: bool = True) -> None:
        """Write records in a transaction; it leaves a marker, which takes an offset in each partition."""
        producer = self._producer(transactional_id=uuid.uuid4().hex)
        producer.initTransactions()
        producer.beginTransaction()
        self._send(producer, topic, records)
        producer.flush()
        if commit:
            producer.commitTransaction()
        else:
            producer.abortTransaction()
        producer.close()

    def read(self, topic: str) -> list[dict[str, Any]]:
        """Return all records of a topic, in the order of their partitions and offsets."""
        options = {"kafka.bootstrap.servers": self.address, "subscribe": topic, "includeHeaders": "true"}
        found = self.spark.read.format("kafka").options(**options).load().orderBy("partition", "offset")
        text = ["CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value"]
        header = "CAST(headers[0].value AS STRING) AS header"
        return [row.asDict() for row in found.selectExpr(*text, header, "partition").collect()]

    def _producer(self, **settings: str) -> Any:
        text = "org.apache.kafka.common.serialization.StringSerializer"
        given = {"bootstrap.servers": self.address, "key.serializer": text, "value.serializer": text}
        given |= {key.replace("_", "."): value for key, value in settings.items()}
        return self._jvm.org.apache.kafka.clients.producer.KafkaProducer(self._map(given))

    def _send(self, producer: Any, topic: str, records: Sequence[Record]) -> None:
        kind, java = self._jvm.org.apache.kafka.clients.producer.ProducerRecord, self._jvm.java.lang
        for r in records:
            millis = java.Long.valueOf(int((BEGIN + timedelta(seconds=r.at)).timestamp() * 1000))
            producer.send(kind(topic, java.Integer.valueOf(r.partition), millis, r.key, r.value))

    def _array(self, kind: Any, value: Any) -> Any:
        gateway: Any = self.spark.sparkContext._gateway
        found = gateway.new_array(kind, 1)
        found[0] = value
        return found

    def _map(self, values: Mapping[Any, Any]) -> Any:
        found = self._jvm.java.util.HashMap()
        for key, value in values.items():
            found.put(key, value)
        return found

    def _list(self, values: Sequence[Any]) -> Any:
        found = self._jvm.java.util.ArrayList()
        for value in values:
            found.add(value)
        return found


@contextmanager
def running_broker(spark: SparkSession, folder: Path) -> Iterator[Broker]:
    """Run a broker on free ports of this machine, with its files in a folder."""
    if not (_JARS / ".ready").exists():
        pytest.fail("there is no Kafka broker: run `make .kafka/.ready`")
    port, controller = _free_ports()
    settings, log = folder / "server.properties", folder / "broker.log"
    settings.write_text(_SETTINGS.format(port=port, controller=controller, folder=folder))
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    formatting = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(settings)]
    subprocess.run([*_JAVA, *formatting], check=True, capture_output=True)
    server = BrokerProcess(settings, port, log)
    try:
        jvm: Any = spark._jvm
        given = jvm.java.util.HashMap()
        given.put("bootstrap.servers", f"127.0.0.1:{port}")
        admin = jvm.org.apache.kafka.clients.admin.Admin.create(given)
        yield Broker(f"127.0.0.1:{port}", spark, admin, server)
        admin.close()
    finally:
        server.kill()


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        for free in (one, other):
            free.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


def _wait_for(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline and server.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail(f"the Kafka broker does not answer: {log.read_text(errors='replace')[-2000:]}")
