"""The strategy of a store: kept with it, switched while it has run, the same answers (paper 2)."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import everview
from everview.operators.base import stateful_operators
from tests.engine.test_changed_plans import answers, create, notes, write

pytestmark = pytest.mark.spark


def kinds(db: everview.Database) -> set[str]:
    return {o.kind for o in stateful_operators([db._views().plans["pairs"]])}


def test_a_store_that_is_switched_keeps_its_answers(spark: SparkSession, tmp_path: Path) -> None:
    folder, path = tmp_path / "in", str(tmp_path / "store")
    write(folder, *range(9))
    with create(tmp_path / "store", spark, folder) as db:
        db.run()
        assert kinds(db) == {"Join"}
    with everview.connect(path, spark, strategy="nt") as db:
        assert "strategy NT" in str(db.explain("SELECT * FROM pairs"))
        write(folder, *range(9, 12))
        db.run()
        assert notes(db)["pairs"].startswith("a new plan takes over at")
        write(folder, *range(12, 30))
        db.run()
    with everview.connect(path, spark) as db:  # it is kept
        assert notes(db)["pairs"] == ""
        assert kinds(db) == {"Join", "NegativeTuples"}
        after = answers(db)
        with create(tmp_path / "always", spark, folder) as other:
            other.run()
            assert after == answers(other)
            write(folder, *range(30, 50))
            db.run()
            other.run()
            assert answers(db) == answers(other)
    with everview.connect(path, spark, strategy="direct") as db:
        for seconds in (range(50, 55), range(55, 80)):
            write(folder, *seconds)
            db.run()
        assert (kinds(db), notes(db)["pairs"]) == ({"Join"}, "")
        after = answers(db)
    with everview.connect(str(tmp_path / "always"), spark) as other:
        other.run()
        assert after == answers(other)
