"""Rows in = rows taken + late + refused, each with its true reason and whole text, for random files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

import everview
from tests.engine.random_files import DECLARED, Outcome, csv_file, json_file, parquet_file
from tests.engine.reading import late, rejected, taken
from tests.seeds import seeds

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SOURCES = {
    "named": "csv('{}/named', header => true, maxFilesPerTrigger => 1)",
    "placed": "csv('{}/placed', maxFilesPerTrigger => 1)",
    "objects": "json('{}/objects', maxFilesPerTrigger => 1)",
    "typed": "parquet('{}/typed', maxFilesPerTrigger => 1)",
}


def write(random: Random, root: Path, steps: range, outcomes: dict[str, Outcome]) -> None:
    for step in steps:
        outcomes["named"].step(csv_file(random, root / "named", f"{step}.csv", step, header=True))
        outcomes["placed"].step(csv_file(random, root / "placed", f"{step}.csv", step, header=False))
        outcomes["objects"].step(json_file(random, root / "objects", f"{step}.json", step))
        outcomes["typed"].step(parquet_file(random, root / "typed", f"{step}.parquet", step))


@pytest.mark.parametrize(("seed", "partitions"), [(1, 1), (2, 3), (3, 2), (4, 2)][: len(seeds(2, 4))])
def test_every_record_has_its_outcome(
    spark: SparkSession, tmp_path: Path, seed: int, partitions: int
) -> None:
    """Half of the files, then the store is opened again, then the rest: nothing is lost or comes twice."""
    random = Random(seed)
    outcomes = {name: Outcome() for name in SOURCES}
    write(random, tmp_path, range(5), outcomes)
    with everview.connect(str(tmp_path / "store"), spark, partitions=partitions) as db:
        for name, source in SOURCES.items():
            db.execute(f"""
                CREATE STREAM {name} ({DECLARED}) FROM {source.format(tmp_path)};
                CREATE VIEW all_of_{name} AS SELECT k, v, x, ok, ts FROM {name};
            """)
        db.run()
    write(random, tmp_path, range(5, 10), outcomes)
    with everview.connect(str(tmp_path / "store"), spark) as db:
        db.run(finish=True)
        for name, outcome in outcomes.items():
            assert taken(db, name) == Counter(outcome.taken), name
            if name == "typed":  # rows without a text: only the reasons are known
                reasons = Counter(reason for reason, _ in rejected(db, name).elements())
                assert reasons == Counter(reason for reason, _ in outcome.rejected)
                assert late(db, name).total() == len(outcome.late)
            else:
                assert rejected(db, name) == Counter(outcome.rejected), name
                assert late(db, name) == Counter(outcome.late), name
    assert all(outcome.taken and outcome.rejected for outcome in outcomes.values())
