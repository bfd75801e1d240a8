"""Random Parquet files with types of their own, by the task that reads them: every row has its outcome."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from everview.algebra import types as T
from everview.algebra.schema import Schema
from everview.ingest.read_parquet import ParquetTask
from everview.ingest.reading import BLOCK, FILE, ORIGINAL, REASON, TIME
from tests.engine.random_files import COLUMNS, parquet_file

SCHEMA = Schema.of(*((name, T.SIMPLE_TYPES[type_]) for name, type_ in COLUMNS.items()))
REQUIRED = {"v": "NULL, and the column is NOT NULL", "ts": "there is no timestamp"}


@pytest.mark.parametrize("seed", range(60))
def test_random_files(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    records = parquet_file(random, tmp_path, "a b.parquet", random.randint(0, 4))
    place = {FILE: f"file:{tmp_path}/a b.parquet", TIME: 7, BLOCK: 0}
    task = ParquetTask(SCHEMA, REQUIRED, (FILE, TIME))
    found = [row for batch in task([pa.RecordBatch.from_pylist([place])]) for row in batch.to_pylist()]
    assert all((row[FILE], row[TIME]) == (place[FILE], 7) for row in found)
    assert [row[REASON] for row in found] == [record.reason for record in records]
    texts = [row[ORIGINAL] for row in found]
    assert [text is None for text in texts] == [record.reason is None for record in records]
    whole = {name for text in texts if text is not None for name in json.loads(text)}
    assert not whole or whole == set(pq.read_schema(tmp_path / "a b.parquet").names)
    taken = [tuple(row[f"c{i}"] for i in range(len(COLUMNS))) for row in found if row[REASON] is None]
    assert taken == [tuple(map(_zoned, r.row)) for r in records if r.row is not None]


def _zoned(value: object) -> object:
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value
