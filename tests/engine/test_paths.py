"""Paths of files and folders: a name that is there is meant literally, whatever signs it has."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from pyspark.sql import SparkSession

import everview
from everview.algebra.text import string_sql
from everview.catalog import Source
from everview.ingest.reading import path_pattern
from tests.engine.reading import put

pytestmark = pytest.mark.spark

SIGNS = [c for c in map(chr, range(1, 127)) if c not in "/:" and not c.isalnum()]


def test_the_pattern_of_a_path_fits_just_what_is_there(spark: SparkSession, tmp_path: Path) -> None:
    """Every sign that a name may have, as Hadoop finds it. Of a colon, Hadoop can make nothing."""
    hadoop: Any = spark._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]
    files = hadoop.FileSystem.getLocal(spark._jsc.hadoopConfiguration())
    wrong = []
    for sign in SIGNS:
        name = f"x{sign}y"
        folder = tmp_path / "folders" / name
        put(folder, f"{name}.csv", "")
        put(folder, name, "")
        put(tmp_path / "files", f"{name}{sign}", "")
        paths = [folder, folder / f"{name}.csv", folder / name, tmp_path / "files" / f"{name}{sign}"]
        for path in paths:
            pattern = path_pattern(Source("csv", str(path)))
            if set(pattern) & set("[]{}*?\\"):
                found = [
                    str(s.getPath().toUri().getPath()) for s in files.globStatus(hadoop.Path(pattern)) or ()
                ]
            else:
                found = [pattern]
            if found != [str(path)]:
                wrong.append((str(path), pattern, found))
    assert wrong == []


NAMES = ("y[1]", "z{a}", "in [1]", "a*b", "a?b", "a\\b", "a,b", "a%20b", "#", "it's", "é", "plain")


def test_files_and_folders_with_odd_names(spark: SparkSession, tmp_path: Path) -> None:
    """Beside each of them lies what a pattern would take instead."""
    for name in ("y1", "za", "in 1", "axb", "ab"):
        put(tmp_path / "files", f"{name}.csv", "0\n")
        put(tmp_path / name, "x.csv", "0\n")
    expected: dict[str, tuple[int, int, int]] = {}
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        for number, name in enumerate(NAMES):
            put(tmp_path / "files", f"{name}.csv", "1\n")
            put(tmp_path / name, "x.csv", "1\n2\n")
            put(tmp_path / name, "y.csv", "3\n")
            paths = {"file": f"files/{name}.csv", "folder": name}
            if number < 3:
                paths |= {"pattern": f"{name}/*.csv", "inside": f"{name}/x.csv"}
            for kind, path in paths.items():
                full = string_sql(str(tmp_path / path))
                db.execute(f"CREATE TABLE {kind}{number} (k INT) FROM csv({full})")
                expected[f"{kind}{number}"] = {"file": 1, "inside": 2}.get(kind, 3), 0, 0
        for name in ("a[1].csv", "b{2}.csv", "c.csv"):
            put(tmp_path / "usual", name, "1\n")
        db.execute(f"CREATE TABLE usual (k INT) FROM csv('{tmp_path}/usual')")
        expected["usual"] = 3, 0, 0
        db.run()
        assert {name: tuple(counts) for name, counts in db.manifest().counts.items()} == expected


ODD = ("x[1]", "x1", "x{2,3}", "x2", "x3", "*", "x?", "x\\y", "x y", "it's", "a%5Bb")


def test_files_with_wildcards_that_come_while_steps_go_on(spark: SparkSession, tmp_path: Path) -> None:
    """Every row is there once, whatever the names in a batch would fit as patterns."""
    made = {
        "csv": ("csv", ", header => true", lambda k: f"v,k\n0,{k}\n".encode()),
        "json": ("json", "", lambda k: f'{{"k": {k}}}\n'.encode()),
        "parquet": ("parquet", "", _parquet),
        "orders": ("csv", "", lambda k: f"{k}\n".encode()),
    }
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        for name, (format_, options, _) in made.items():
            (tmp_path / name).mkdir()
            db.execute(
                f"CREATE TABLE {name} (k INT{', PRIMARY KEY (k)' if name == 'orders' else ''})"
                f" FROM {format_}('{tmp_path}/{name}'{options});"
                f" CREATE VIEW of_{name} AS SELECT k, COUNT(*) AS n FROM {name} GROUP BY k"
            )
        db.start()
        for batch in range(2):
            for name, (format_, _, content) in made.items():
                (tmp_path / "aside").mkdir(exist_ok=True)
                for number, odd in enumerate(ODD):
                    path = tmp_path / "aside" / f"{odd}{batch}.{format_}"
                    path.write_bytes(content(100 * batch + number))
                    path.rename(tmp_path / name / path.name)
            expected = {(100 * b + number, 1) for b in range(batch + 1) for number in range(len(ODD))}
            deadline = time.monotonic() + 60
            while sum(rows for rows, *_ in db.manifest().counts.values()) < len(expected) * len(made):
                assert time.monotonic() < deadline, db.manifest().counts
                time.sleep(0.2)
        db.stop()
        for name in made:
            assert {tuple(r) for r in db.query(f"SELECT * FROM of_{name}").collect()} == expected, name
        assert {n: tuple(c) for n, c in db.manifest().counts.items()} == dict.fromkeys(
            made, (2 * len(ODD), 0, 0)
        )


def _parquet(key: int) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"k": [key]}), sink)
    return bytes(sink.getvalue())
