"""A view that only Spark can judge, made before there was a session to ask: refused at the first run."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import everview
from everview.errors import EverviewError

pytestmark = pytest.mark.spark

STREAM = "CREATE STREAM s (k STRING, ts TIMESTAMP, TIMELINE ts);"
INSERT = "INSERT INTO s VALUES ('a', TIMESTAMP '2026-01-01 00:00:01');"
REFUSED = r"""
  line 2, column 17
      WHERE k RLIKE '\\p{Foo}'
                    ^^^^^^^^^^
  next: a backslash, written \\, before a character makes it stand for itself; """
VIEWS = """
    CREATE VIEW bp AS SELECT k FROM s
  WHERE k RLIKE '{}'; CREATE VIEW over AS SELECT k FROM bp;"""


@pytest.mark.parametrize("background", [False, True])
def test_a_pattern_that_only_java_can_judge(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, background: bool
) -> None:
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        with monkeypatch.context() as patch:
            patch.setattr(db._pipeline, "_given", None)  # as from the command line
            db.execute(STREAM + INSERT + VIEWS.format(r"\\p{Foo}"))
        with pytest.raises(EverviewError) as refused:
            db.start() if background else db.run()
        assert str(refused.value) == (
            "'\\\\p{Foo}' in the view 'bp' is no regular expression: "
            f"Unknown character property name {{Foo}} near index 6{REFUSED}"
            "then make the view again: it is not in the store"
        )
        assert [e.name for e in db.catalog] == ["s"]
    with everview.connect(str(tmp_path / "store"), spark) as db:
        db.execute(STREAM + VIEWS.format(r"\\p{L}"))
        db.run(finish=True)
        assert [tuple(r) for r in db.query("SELECT k FROM over").collect()] == [("a",)]
