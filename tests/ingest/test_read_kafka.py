"""Which records of Kafka a stream has read, by Spark's log; what Kafka says of them is in test_kafka.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from everview.algebra.schema import Schema
from everview.algebra.types import TIMESTAMP
from everview.catalog import Source, StreamEntry
from everview.ingest.read_kafka import OffsetRange, ranges_after, ranges_read
from everview.ingest.reading import source_name
from everview.storage.files import Files
from everview.storage.source_log import first_offsets, partition_offsets, source_offsets

STREAM = StreamEntry("s", Schema.of(("ts", TIMESTAMP), timeline="ts"), (), Source("kafka"))
NO_SESSION: Any = None  # Kafka is not asked


@pytest.fixture
def checkpoint(tmp_path: Path) -> Files:
    """The log of a stream of Kafka beside one of files."""
    log(tmp_path, 3, {"a": {"0": 9, "1": 4}, "logOffset": {"0": 2}})
    begun(tmp_path, {"a": {"0": 5}})
    return Files(str(tmp_path))


def log(folder: Path, batch: int, offsets: Any) -> None:
    (folder / "offsets").mkdir(exist_ok=True)
    lines = [
        "v2",
        "{}",
        's_66:{"logOffset":7}',
        f"{source_name(STREAM)}:{json.dumps(offsets)}",
        "heartbeat:1",
    ]
    (folder / "offsets" / str(batch)).write_text("\n".join(lines))


def begun(folder: Path, offsets: Any) -> None:
    (folder / "sources" / source_name(STREAM)).mkdir(parents=True)
    # Spark writes a zero byte before the version.
    (folder / "sources" / source_name(STREAM) / "0").write_text(f"\0v1\n{json.dumps(offsets)}")


def test_the_log_of_a_batch(checkpoint: Files) -> None:
    """A topic may be named as files are counted."""
    assert source_offsets(checkpoint, 3) == {"s_66": 7}
    assert partition_offsets(checkpoint, 3) == {source_name(STREAM): {"a": {0: 9, 1: 4}, "logOffset": {0: 2}}}
    assert first_offsets(checkpoint, source_name(STREAM)) == {"a": {0: 5}}
    assert partition_offsets(checkpoint, 4) == {}


def test_a_log_that_is_gone(checkpoint: Files, tmp_path: Path) -> None:
    assert ranges_read(NO_SESSION, checkpoint, STREAM, 4, 0) == ()
    assert ranges_read(NO_SESSION, checkpoint, STREAM, 4, 2) == (
        "which records 's' has read is not known any more"
    )
    (tmp_path / "sources" / source_name(STREAM) / "0").unlink()
    assert ranges_read(NO_SESSION, checkpoint, STREAM, 3, 2) == (
        "at which offsets 's' began is not known any more"
    )


def test_nothing_was_read(tmp_path: Path) -> None:
    """A topic of which nothing was read need not be there."""
    log(tmp_path, 1, {"a": {"0": 5}})
    begun(tmp_path, {"a": {"0": 5}})
    assert ranges_read(NO_SESSION, Files(str(tmp_path)), STREAM, 1, 0) == ()


def test_only_later_records_are_read_then() -> None:
    first = OffsetRange("a", 0, 2, 5)
    assert ranges_after([OffsetRange("a", 0, 2, 5)], [first]) == ()
    both = [first, OffsetRange("a", 0, 5, 7)]
    assert ranges_after([OffsetRange("a", 0, 2, 9)], both) == (OffsetRange("a", 0, 7, 9),)
