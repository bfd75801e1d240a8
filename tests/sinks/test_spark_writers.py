"""Sinks that Spark's batch writers write: folders of ORC files by step, and tables by JDBC (Derby)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from everview.errors import EverviewError, SqlError, StoreError
from everview.sinks.position import SinkPositions
from everview.sinks.report import describe_sink
from tests.sinks.stores import HandmadeStore

pytestmark = pytest.mark.spark


@pytest.fixture
def made(spark: SparkSession, tmp_path: Path) -> Iterator[HandmadeStore]:
    store = HandmadeStore(tmp_path / "store", spark=spark)
    yield store
    store.close()


def read_orc(spark: SparkSession, out: Path) -> Counter[tuple[object, ...]]:
    found = spark.read.orc(str(out)).select("step", "tag", "k", "v")
    return Counter(tuple(row) for row in found.collect())


def test_a_folder_for_each_step(
    made: HandmadeStore, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step that was written before a crash is not written again; one of which half is there is."""
    out = tmp_path / "out"
    made.step({1: "a", 2: "b"})
    sink = made.sink(f"CREATE SINK o FROM latest INTO orc('{out}', compression => 'zlib')")
    with monkeypatch.context() as patch:

        def killed(*_: object) -> None:
            raise KeyboardInterrupt

        patch.setattr(SinkPositions, "write", killed)
        with pytest.raises(KeyboardInterrupt):
            made.step({1: "c"})
    first = sorted(path.name for path in (out / "step=00000002").glob("*.zlib.orc"))
    half = out / "step=00000003" / "_temporary"
    half.mkdir(parents=True)
    made.step({2: None})
    assert sorted(path.name for path in (out / "step=00000002").glob("*.zlib.orc")) == first != []
    assert not half.exists()
    assert read_orc(spark, out) == {
        (1, "+", 1, "a"): 1, (1, "+", 2, "b"): 1, (2, "u", 1, "c"): 1, (3, "-", 2, "b"): 1,
    }  # fmt: skip
    shown = str(describe_sink(sink, made.catalog, made.store.files, made.manifest))
    assert "written: each step once, by the name of its folder" in shown


def test_a_folder_that_begins_anew(made: HandmadeStore, spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    sink = made.sink(f"CREATE SINK o FROM latest INTO orc('{out}')")
    made.step({1: "a"})
    made.runner.positions.clear()
    with pytest.warns(UserWarning, match="how far it has come is not known"):
        made.step({1: "b"})
    made.runner.resume(sink, made.views)
    assert read_orc(spark, out) == {(2, "+", 1, "b"): 1}


def test_rows_are_appended_by_jdbc(
    made: HandmadeStore, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"jdbc:derby:{tmp_path}/derby;create=true"
    monkeypatch.setenv("DERBY", url)
    sink = made.sink(
        "CREATE SINK j FROM pairs INTO jdbc(url => secret('DERBY'), dbtable => 'log') MODE append"
    )
    made.step({1: "a"})
    made.step({1: "b", 2: "c"})
    rows = spark.read.jdbc(url, "log").collect()
    assert sorted((row.k, row.v) for row in rows) == [(1, "a"), (1, "b"), (2, "c")]
    shown = str(describe_sink(sink, made.catalog, made.store.files, made.manifest))
    assert "into: jdbc(url => secret('DERBY'), dbtable => 'log')" in shown
    assert "written: each step at least once, appended by Spark" in shown
    made.runner.positions.clear()
    with pytest.warns(UserWarning, match="how far it has come is not known"):
        made.step({3: "d"})
    with pytest.raises(StoreError, match="what jdbc was given cannot be taken back"):
        made.runner.resume(sink, made.views)


def test_any_writer_by_its_name(made: HandmadeStore) -> None:
    made.sink("CREATE SINK n FROM latest INTO noop()")
    made.step({1: "a"})
    assert made.runner.positions.read(next(iter(made.catalog.sinks.values())).id).step == 1  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("into", "what"),
    [
        ("parqet('x')", "did you mean 'parquet'"),
        ("fantasy(a => 1)", "this Spark has no batch writer 'fantasy'"),
        ("orc()", "orc needs a path"),
        ("jdbc(url => 'jdbc:derby:x')", "jdbc needs the option dbtable"),
        ("noop() MODE upsert", "noop cannot be written in MODE upsert"),
    ],
)
def test_mistakes_are_told(made: HandmadeStore, into: str, what: str) -> None:
    with pytest.raises(EverviewError, match=what) as refused:
        made.sink(f"CREATE SINK f FROM latest INTO {into}")
    assert isinstance(refused.value, SqlError) == ("this Spark" not in what)
    assert not made.catalog.sinks
