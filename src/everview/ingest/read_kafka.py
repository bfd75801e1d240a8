"""Records of Kafka, read again: the offsets that a stream has read, and whether the topics still have them.

Kafka removes records: by their age or the size of the topic, then a partition begins at a later offset; by
compaction, then there are fewer records between two offsets. A topic may be deleted, and created anew with
other records at the same offsets, under another id. All of it is noticed before records are read again, by
asking Kafka itself, and Spark fails if a record is removed between that and the reading.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from py4j.java_gateway import JavaPackage  # type: ignore[import-untyped]
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession

from everview.catalog import FedEntry, Source
from everview.errors import StoreError, format_count
from everview.ingest.reading import explain_read_error, options_of, source_name
from everview.storage.files import Files
from everview.storage.source_log import first_offsets, partition_offsets, topic_ids, write_topic_ids

_PREFIX = "kafka."  # of options that are Kafka's own
# What a stream reads, and how much of it in a batch: ranges of offsets stand for all of these.
_OF_STREAMS = frozenset(
    (
        "subscribe", "subscribepattern", "assign", "startingoffsets", "startingoffsetsbytimestamp",
        "startingoffsetsbytimestampstrategy", "startingtimestamp", "failondataloss", "maxoffsetspertrigger",
        "minoffsetspertrigger", "maxtriggerdelay",
    )
)  # fmt: skip
_TIMEOUTS = {"request.timeout.ms": "10000", "default.api.timeout.ms": "20000"}


@dataclass(frozen=True)
class OffsetRange:
    """Records of one partition of a topic: from one offset up to but not including another."""

    topic: str
    partition: int
    begin: int
    end: int


def reads_kafka(entry: FedEntry) -> bool:
    """Return whether the rows of a stream or table come from Kafka."""
    return entry.source is not None and entry.source.format == "kafka"


def ranges_read(
    session: SparkSession, checkpoint: Files, entry: FedEntry, batch: int, rows: int
) -> tuple[OffsetRange, ...] | str:
    """Return the records that a stream has read up to a batch; or why they cannot be read again.

    `rows` is how many it has read.
    """
    name = source_name(entry)
    ends, begins = partition_offsets(checkpoint, batch).get(name, {}), first_offsets(checkpoint, name)
    if not ends:
        return f"which records '{entry.name}' has read is not known any more" if rows else ()
    if begins is None:
        return f"at which offsets '{entry.name}' began is not known any more"
    ranges = tuple(
        OffsetRange(topic, partition, begins.get(topic, {}).get(partition, 0), end)
        for topic, partitions in sorted(ends.items())
        for partition, end in sorted(partitions.items())
        if begins.get(topic, {}).get(partition, 0) != end
    )
    if not ranges:
        return ()
    with _admin_client(session, entry) as kafka:
        problem = kafka.find_loss(ranges, topic_ids(checkpoint, name))
        if problem is not None:
            return problem
        counted = kafka.is_compacted({r.topic for r in ranges})
    # A stream that goes on after a loss of data has not read all that lies between its offsets.
    if counted or options_of(_source(entry)).get("failondataloss", "").casefold() == "false":
        found = open_ranges(session, entry, ranges).count()
        if found != rows:
            return (
                f"'{entry.name}' has read {format_count(rows, 'record')}, and between its offsets there "
                f"are {found:,} now: Kafka has compacted a topic, or records were gone before they were read"
            )
    return ranges


def ranges_after(
    ranges: Iterable[OffsetRange], known: Iterable[OffsetRange | str]
) -> tuple[OffsetRange, ...]:
    """Return the parts of ranges that lie after those that are known.

    >>> ranges_after([OffsetRange("a", 0, 2, 9), OffsetRange("a", 1, 0, 3)], [OffsetRange("a", 0, 2, 5)])
    (OffsetRange(topic='a', partition=0, begin=5, end=9), OffsetRange(topic='a', partition=1, begin=0, end=3))
    """
    ends: dict[tuple[str, int], int] = {}
    for r in known:
        if isinstance(r, OffsetRange):
            place = (r.topic, r.partition)
            ends[place] = max(ends.get(place, 0), r.end)
    later = (
        OffsetRange(r.topic, r.partition, max(r.begin, ends.get((r.topic, r.partition), 0)), r.end)
        for r in ranges
    )
    return tuple(r for r in later if r.begin < r.end)


def open_ranges(session: SparkSession, entry: FedEntry, ranges: Sequence[OffsetRange]) -> DataFrame:
    """Return the records of ranges of offsets, as Spark's source of Kafka gives them.

    Reading fails if one of the offsets is not there any more.
    """
    source = _source(entry)
    options = {name: value for name, value in source.options if name.casefold() not in _OF_STREAMS}
    assigned: dict[str, list[int]] = {}
    begins: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for r in ranges:
        assigned.setdefault(r.topic, []).append(r.partition)
        begins.setdefault(r.topic, {})[str(r.partition)] = r.begin
        ends.setdefault(r.topic, {})[str(r.partition)] = r.end
    texts = {"assign": assigned, "startingOffsets": begins, "endingOffsets": ends}
    chosen = {name: json.dumps(value) for name, value in texts.items()}
    return session.read.format("kafka").options(**options, **chosen, failOnDataLoss="true").load()


def note_topics(session: SparkSession, checkpoint: Files, entries: Iterable[FedEntry]) -> Iterator[str]:
    """Store the ids of the topics of Kafka sources before they are read; yield messages about them."""
    for entry in entries:
        if not reads_kafka(entry):
            continue
        name = source_name(entry)
        known = topic_ids(checkpoint, name)
        with _admin_client(session, entry) as kafka:
            found = kafka.find_ids(kafka.subscribed_topics())
        for topic, id_ in found.items():
            if topic in known and id_ not in known[topic]:
                yield (
                    f"the topic '{topic}' of '{entry.name}' was deleted and created anew; it is read on from "
                    "the offsets up to which the topic before it had been read"
                )
        after = {t: list(dict.fromkeys((*known.get(t, ()), id_))) for t, id_ in found.items()}
        if any(known.get(topic) != ids for topic, ids in after.items()):
            write_topic_ids(checkpoint, name, {**known, **after})


@contextmanager
def _admin_client(session: SparkSession, entry: FedEntry) -> Iterator[_AdminClient]:
    """Connect to the brokers of a source; raise an error that a person can read if they do not answer."""
    if not has_kafka(session):
        raise explain_read_error(entry, LookupError("DATA_SOURCE_NOT_FOUND"), {"spark": session.version})
    with open_kafka(session, entry.name, _source(entry).options) as admin:
        yield _AdminClient(session._jvm, admin, entry)


def has_kafka(session: SparkSession) -> bool:
    """Return whether Spark's Java process has Kafka's client."""
    jvm: Any = session._jvm
    return not isinstance(jvm.org.apache.kafka.clients.admin.Admin, JavaPackage)


@contextmanager
def open_kafka(session: SparkSession, name: str, options: Iterable[tuple[str, str]]) -> Iterator[Any]:
    """Connect to the brokers of a source or sink by Kafka's own client; say so if they do not answer."""
    jvm: Any = session._jvm
    client = jvm.org.apache.kafka.clients.admin.Admin
    own = {n[len(_PREFIX) :]: v for n, v in options if n.casefold().startswith(_PREFIX)}
    settings = jvm.java.util.HashMap()
    for setting, value in (own if any(t in own for t in _TIMEOUTS) else {**_TIMEOUTS, **own}).items():
        settings.put(setting, value)
    try:
        admin = client.create(settings)
        try:
            yield admin
        finally:
            admin.close(jvm.java.time.Duration.ZERO)
    except Py4JJavaError as error:
        raise StoreError(
            f"Kafka does not answer for '{name}': {_kafka_error(error)[1]}",
            next_step=f"check {_PREFIX}bootstrap.servers and that a broker runs there, then try again",
        ) from error


@dataclass(frozen=True)
class _AdminClient:
    """What Kafka says of the topics of a source, by its own client in Spark's Java process."""

    jvm: Any
    admin: Any
    entry: FedEntry

    def subscribed_topics(self) -> list[str]:
        """Return the topics that the source reads and that are there."""
        options = options_of(_source(self.entry))
        if "subscribepattern" in options:
            pattern = self.jvm.java.util.regex.Pattern.compile(options["subscribepattern"])
            names = self.admin.listTopics().names().get()
            return sorted(str(name) for name in names if pattern.matcher(name).matches())
        if "assign" in options:
            return sorted(json.loads(options["assign"]))
        return sorted({name.strip() for name in options.get("subscribe", "").split(",")} - {""})

    def find_ids(self, topics: Sequence[str]) -> dict[str, str]:
        """Return the id of each topic that is there."""
        return topic_ids_of(self.jvm, self.admin, topics)

    def find_loss(self, ranges: Sequence[OffsetRange], known: Mapping[str, Sequence[str]]) -> str | None:
        """Return why some records of these ranges cannot be read any more; None if all are there.

        `known` has the ids that the topics had when they were read, as far as they are known.
        """
        topics = sorted({r.topic for r in ranges})
        there = self.find_ids(topics)
        for topic in topics:
            if topic not in there:
                return f"'{self.entry.name}' has read the topic '{topic}', which is gone"
            if topic in known and list(known[topic]) != [there[topic]]:
                return f"'{self.entry.name}' has read the topic '{topic}', which was created anew since"
        begins, ends = (self._offsets(ranges, which) for which in ("earliest", "latest"))
        for r in ranges:
            place = f"partition {r.partition} of the topic '{r.topic}'"
            begin, end = begins[r], ends[r]
            if begin is None or end is None:
                return f"'{self.entry.name}' has read {place}, which is gone"
            if begin > r.begin:
                return (
                    f"Kafka has removed records that '{self.entry.name}' has read: {place} begins at offset "
                    f"{begin:,}, and was read from {r.begin:,} on"
                )
            if end < r.end or r.end < r.begin:
                return (
                    f"'{self.entry.name}' has read {place} up to offset {max(r.begin, r.end):,}, and it ends "
                    f"at {end:,} now: the topic was created anew"
                )
        return None

    def is_compacted(self, topics: Iterable[str]) -> bool:
        """Return whether one of the topics is compacted, or may be, as this user may not ask."""
        kind = getattr(self.jvm.org.apache.kafka.common.config, "ConfigResource$Type").TOPIC
        named = [self.jvm.org.apache.kafka.common.config.ConfigResource(kind, topic) for topic in topics]
        found = self.admin.describeConfigs(_java_list(self.jvm, named)).values()
        for resource in named:
            about = _get(found[resource], "TopicAuthorizationException")
            if about is None or "compact" in str(about.get("cleanup.policy").value()):
                return True
        return False

    def _offsets(self, ranges: Sequence[OffsetRange], which: str) -> dict[OffsetRange, int | None]:
        """Return the earliest or the latest offset in the partition of each range; None if it is gone."""
        kafka = self.jvm.org.apache.kafka
        partitions = {r: kafka.common.TopicPartition(r.topic, r.partition) for r in ranges}
        asked = self.jvm.java.util.HashMap()
        for place in partitions.values():
            asked.put(place, getattr(kafka.clients.admin.OffsetSpec, which)())
        found = self.admin.listOffsets(asked)
        answers = {
            r: _get(found.partitionResult(place), "UnknownTopicOrPartitionException")
            for r, place in partitions.items()
        }
        return {r: None if answer is None else int(answer.offset()) for r, answer in answers.items()}


def topic_ids_of(jvm: Any, admin: Any, topics: Sequence[str]) -> dict[str, str]:
    """Return the id of each topic that is there."""
    found = admin.describeTopics(_java_list(jvm, topics)).topicNameValues()
    ids = {topic: _get(found[topic], "UnknownTopicOrPartitionException") for topic in topics}
    return {topic: str(about.topicId().toString()) for topic, about in ids.items() if about is not None}


def _get(future: Any, expected: str) -> Any:
    """Wait for an answer; None if it is the expected error."""
    try:
        return future.get()
    except Py4JJavaError as error:
        if _kafka_error(error)[0] == expected:
            return None
        raise


def _source(entry: FedEntry) -> Source:
    assert entry.source is not None
    return entry.source


def _java_list(jvm: Any, values: Iterable[Any]) -> Any:
    found = jvm.java.util.ArrayList()
    for value in values:
        found.add(value)
    return found


def _kafka_error(error: Py4JJavaError) -> tuple[str, str]:
    """Return the class and the message of the innermost cause."""
    cause = error.java_exception
    while cause.getCause() is not None:
        cause = cause.getCause()
    return str(cause.getClass().getSimpleName()), str(cause.getMessage())
