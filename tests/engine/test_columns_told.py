"""Columns that files have and nobody declared, or the other way round, are told once for a store."""

from __future__ import annotations

import warnings
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from pyspark.sql import SparkSession

import everview
from tests.engine.reading import dated, put

pytestmark = pytest.mark.spark


def _told(spark: SparkSession, tmp_path: Path, script: str) -> list[str]:
    """What a run of a script says of columns of files."""
    with (
        everview.connect(str(tmp_path / "store"), spark, partitions=1) as db,
        warnings.catch_warnings(record=True) as found,
    ):
        warnings.simplefilter("always")
        db.execute(script)
        db.run()
        return [str(w.message) for w in found if "file" in str(w.message)]


def test_columns_of_every_file_are_told_once(spark: SparkSession, tmp_path: Path) -> None:
    put(tmp_path / "c", "1.csv", "k,v\n1,a\n")
    (tmp_path / "p").mkdir()
    pq.write_table(pa.table({"k": [1], "v": ["a"]}), tmp_path / "p" / "1.parquet")
    make = f"""
        CREATE TABLE c (k INT, v STRING) FROM csv('{tmp_path}/c', header => true);
        CREATE TABLE p (k INT, v STRING) FROM parquet('{tmp_path}/p');
    """

    def told() -> list[str]:
        return _told(spark, tmp_path, make)

    assert told() == []
    put(tmp_path / "c", "2.csv", "extra,k,vv\nx,2,b\n")
    pq.write_table(pa.table({"k": [2], "more": ["b"]}), tmp_path / "p" / "2.parquet")
    dated(tmp_path / "p" / "2.parquet")
    assert told() == [
        "'c' leaves out columns of its files: extra, vv; to take one, ALTER TABLE c ADD COLUMN extra …",
        "'p' leaves out columns of its files: more; to take one, ALTER TABLE p ADD COLUMN more …",
        "a file of 'c' has no column 'v'; did you mean 'vv'?",
        "a file of 'p' has no column 'v'",
    ]
    put(tmp_path / "c", "3.csv", "extra,k,v,new\nx,3,c,y\n")
    assert told() == ["'c' leaves out columns of its files: new; to take one, ALTER TABLE c ADD COLUMN new …"]
    put(tmp_path / "c", "4.csv", "extra,k,vv\nx,2,b\n")
    assert told() == []


def test_keys_of_json_objects_are_told_once(spark: SparkSession, tmp_path: Path) -> None:
    """Of every line; not those of objects inside others, nor those of lines that are refused."""
    lines = ['{"K": 1, "v": "a", "in": {"deep": 1}}', '{"k": 2, "deep": 3}', '["no"]', '{"k": "x", "bad": 1}']
    put(tmp_path / "j", "1.json", "\n".join([*lines, '{"k": 3, "v": "x\\", \\"w\\": 1"}']))
    put(tmp_path / "whole", "1.json", '[{"k": 1}, {"k": 2, "late": [{"deep": 1}]}]')
    make = f"""
        CREATE TABLE j (k INT, v STRING) FROM json('{tmp_path}/j');
        CREATE TABLE whole (k INT) FROM json('{tmp_path}/whole', multiLine => true);
    """
    assert _told(spark, tmp_path, make) == [
        "'j' leaves out columns of its files: deep, in; to take one, ALTER TABLE j ADD COLUMN deep …",
        "'whole' leaves out columns of its files: late; to take one, ALTER TABLE whole ADD COLUMN late …",
    ]
    put(tmp_path / "j", "2.json", '{"k": 4, "in": 1, "deep": 2, "v": "b"}')
    assert _told(spark, tmp_path, make) == []
    put(tmp_path / "j", "3.json", "\n".join(f'{{"k": {i}, "data{i}": {{}}}}' for i in range(2_000)))
    (message,) = _told(spark, tmp_path, make)
    assert message.startswith("'j' leaves out columns of its files: data")
    assert "… (98 in all); to take one, ALTER TABLE j ADD COLUMN data" in message
    put(tmp_path / "j", "4.json", '{"k": 5, "more": 1}')
    assert _told(spark, tmp_path, make) == []
