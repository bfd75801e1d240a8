"""Random event queries through Spark: in runs, with partitions and restarts, created early or late.

The answer is E(R) of the reference over all rows, and of a view over the event stream the reference's over
those rows. That no row is ever wrong or late, and all the rest of EVENTS 3.7, is shown without a JVM
(tests/events).
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import everview
from everview.algebra.changes import ChangeRow, Record
from everview.algebra.time import INFINITY, LEAST, format_timestamp
from everview.reference.events import EventInputs, event_meaning
from tests.events.properties import Accepted, random_accepted
from tests.events.random_queries import COLUMNS, SCHEMA, random_feed
from tests.seeds import seeds

pytestmark = pytest.mark.spark

LATE = "LATENESS INTERVAL '100' MILLISECOND"  # so long that no row is late before the end


def declared() -> str:
    script = SCHEMA
    for line in ("ts", "a", "b"):
        script = script.replace(f"TIMELINE {line}", f"TIMELINE {line} {LATE}")
    return script


def micros(answer: DataFrame) -> Counter[Record]:
    """Return the rows of an answer, instants as numbers."""
    columns = [
        f"unix_micros(`{f.name}`)" if f.dataType.typeName() == "timestamp" else f"`{f.name}`"
        for f in answer.schema
    ]
    return Counter(tuple(row) for row in answer.selectExpr(*columns).collect())


def insert(db: everview.Database, name: str, records: list[Record]) -> None:
    times, columns = {"ts", "due", "a", "b"}, {**COLUMNS, "t": ("k", "name")}[name]
    rows = [
        {
            column: format_timestamp(value) if column in times and isinstance(value, int) else value
            for column, value in zip(columns, record, strict=True)
        }
        for record in records
    ]
    if rows:
        db.insert(name, rows)


def random_query_with_rows(
    rng: random.Random, views: bool
) -> tuple[Accepted, Counter[Record], dict[str, list[Record]]]:
    """Return a random query, its answer, which is not empty, and the rows of its streams and its table.

    With `views`, ISTREAM of views is among the relations that it reads.
    """
    while True:
        accepted = random_accepted(rng, views)
        feed = random_feed(rng, accepted.query.scale)
        table = [row.record for row in feed.tables["t"] if row.n > 0]
        held = {"t": [ChangeRow(record, LEAST, INFINITY) for record in table]}
        instants = accepted.query.instants
        answer = event_meaning(accepted.plan, EventInputs(feed.rows(), held, instants=instants))
        if answer and ("ISTREAM" in accepted.query.sql) is views:
            return accepted, answer, {**feed.rows(), "t": table}


@pytest.mark.parametrize("seed", seeds(3, 6))
def test_random_event_queries(seed: int, spark: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(seed + 70_000)
    accepted, answer, rows = random_query_with_rows(rng, views=seed % 3 == 2)
    query = accepted.query
    made = f"CREATE STREAM o TIMELINE {', '.join(query.lines)} AS {query.sql};"
    made += f"CREATE VIEW v AS SELECT COUNT(*) AS n, MIN({query.lines[0]}) AS first FROM o;"
    path, late, runs = str(tmp_path / "store"), rng.random() < 0.5, rng.randrange(1, 4)
    partitions = rng.choice([1, 3])
    shares: list[dict[str, list[Record]]] = [{name: [] for name in rows} for _ in range(runs)]
    for name, records in rows.items():
        for record in records:  # those of a table hold always if they come before the first step
            (shares[0] if name == "t" else rng.choice(shares))[name].append(record)
    for number, share in enumerate(shares):
        with everview.connect(path, spark, partitions=partitions) as db:
            if number == 0:
                db.execute(declared() + ("" if late and runs > 1 else made))
            for name, records in share.items():
                insert(db, name, records)
            db.run()
            if number == 0 and late and runs > 1:
                db.execute(made)
    with everview.connect(path, spark) as db:
        db.run(finish=True)
        first = accepted.positions[0]
        assert micros(db.query("SELECT * FROM o")) == answer, query
        least = min(int(str(row[first])) for row in answer)
        assert micros(db.query("SELECT * FROM v")) == Counter({(answer.total(), least): 1}), query
        state = db.manifest().of("state").items()
        left = [
            t.owner for t, found in state if found and t.owner.split("-")[0] in ("match", "unmet", "collect")
        ]
        assert not left, f"state is left: {left}"
