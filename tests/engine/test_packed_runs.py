"""Stores with packed runs: those written before there were any, and how few files many steps leave."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import everview
from everview.maintenance import check_at
from everview.storage.addresses import file_of
from everview.storage.manifest import Manifest

pytestmark = pytest.mark.spark

VIEWS = {
    "totals": [(1, 7, 22), (2, 7, 210)],
    "recent": [(1, 7), (2, 60)],
    "named": [("chair", 7, 210), ("lamp", 7, 22)],
}


def runs_of(manifest: Manifest) -> list[str]:
    return [run.path for runs in manifest.traces.values() for run in runs]


def test_a_store_in_which_every_run_is_a_file(spark: SparkSession, tmp_path: Path) -> None:
    """Its manifest has format 3. It goes on with its runs, and new ones are packed."""
    path = str(tmp_path / "store")
    with tarfile.open(Path(__file__).parent.parent / "stores" / "manifest-3.tar.gz") as archive:
        archive.extractall(path, filter="data")
    assert check_at(path)[1]
    with everview.connect(path, spark) as db:
        assert not any("#" in run for run in runs_of(db.manifest()))
        db.execute("""INSERT INTO bids VALUES
            (1, 7, TIMESTAMP '2026-01-01 00:00:06'), (2, 60, TIMESTAMP '2026-01-01 00:00:06')""")
        db.run()
        packed = [run for run in runs_of(db.manifest()) if "#" in run]
        assert {run.split("/")[0] for run in packed} >= {"runs", "views"}
        assert any("#" not in run for run in runs_of(db.manifest())), "older runs stay as they are"
        for view, expected in VIEWS.items():
            assert sorted(map(tuple, db.query(f"SELECT * FROM {view}").collect())) == expected
        db.backup(str(tmp_path / "backup"))
    assert check_at(path)[1]
    everview.restore(str(tmp_path / "backup"), str(tmp_path / "again"))
    with everview.connect(str(tmp_path / "again"), spark) as db:
        assert sorted(map(tuple, db.query("SELECT * FROM totals").collect())) == VIEWS["totals"]


def test_files_do_not_grow_with_views_and_steps(spark: SparkSession, tmp_path: Path) -> None:
    """60 steps of 20 views: files and bytes are level once the first packed files are gone."""
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute("CREATE STREAM s (k INT, v INT, ts TIMESTAMP, TIMELINE ts)")
        for i in range(20):
            window = f"s [RANGE {5 + i} SECONDS]"
            query = [f"SELECT k, SUM(v) AS v FROM {window} GROUP BY k", f"SELECT DISTINCT k FROM {window}"]
            db.execute(f"CREATE VIEW v{i} WITH (history => INTERVAL '5' SECONDS) AS {query[i % 2]}")
        sizes = []
        for step in range(60):
            at = f"2026-01-01 00:{step // 60:02}:{step % 60:02}"
            db.insert("s", [{"k": i % 3, "v": i, "ts": at} for i in range(6)])
            db.run()
            if step in (39, 59):
                there = [f for f in (tmp_path / "store").rglob("*") if f.is_file()]
                rows = [f for f in there if f.suffix == ".arrow"]
                sizes.append((len(rows), sum(f.stat().st_size for f in rows)))
        files = {file_of(run) for run in runs_of(db.manifest())}
        assert len(runs_of(db.manifest())) > 2 * len(files), "most files hold several runs"
    (files_before, bytes_before), (files_after, bytes_after) = sizes
    assert files_after <= 1.2 * files_before, sizes
    assert bytes_after <= 1.3 * bytes_before, sizes
