"""SYNC EVERY over a tagged stream: equal to the reference for any steps, and no work between two points."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everview import operators as P
from everview.algebra.changes import ChangeRow, to_logical
from everview.compile import compile_view
from everview.operators.base import stateful_operators
from everview.operators.columnar.frame import BEFORE_ALL, Slice
from everview.reference.meaning import meaning
from everview.sql import plan_of
from everview.storage.files import Files
from everview.storage.plans import decode_plan, encode_plan
from tests.operators.test_summed_sync import made, updates
from tests.pipeline import StagedPipeline
from tests.sql.oracle import DOMAIN, catalog, random_inputs

CATALOG = catalog()
SYNC = "SYNC EVERY INTERVAL '{}' MICROSECOND"
QUERIES = (
    f"SELECT k, v FROM latest {SYNC}",
    f"SELECT k, v FROM rooms {SYNC} WHERE v > 0",
    f"SELECT v, COUNT(*) AS n FROM rooms {SYNC} GROUP BY v",
    f"SELECT a.k, b.v FROM latest {SYNC} AS a JOIN rooms {SYNC} AS b ON a.k = b.k",
    f"SELECT k FROM latest EXCEPT SELECT k FROM rooms {SYNC}",
    f"SELECT DISTINCT v FROM (SELECT k, v FROM latest {SYNC}) AS q",
)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1_000_000), st.sampled_from(QUERIES))
def test_any_steps_answer_as_the_reference(seed: int, query: str) -> None:
    rng = random.Random(seed)
    sql = query.format(*[rng.choice([2, 3, 5, 7])] * query.count("{}"))
    inputs = random_inputs(rng)
    plan = compile_view(sql, CATALOG).physical
    assert any(isinstance(o, P.SyncedLatestOperator) for o in stateful_operators([plan]))
    pipeline = StagedPipeline({"v": decode_plan(encode_plan(plan))}, rng, rng.randrange(1, 4))
    emitted: list[ChangeRow] = []
    b0 = BEFORE_ALL
    for b1 in (*sorted(rng.sample(range(-2, DOMAIN.stop), rng.randrange(1, 9))), DOMAIN.stop + 50):
        new = {name: [r for r in rows if b0 < r.from_ <= b1] for name, rows in inputs.items()}
        found = pipeline.step(new, Slice(b0, b1, first=b0 == BEFORE_ALL))["v"]
        assert all(row.from_ > b0 for row in found)
        emitted += found
        b0 = b1
    assert to_logical(emitted, DOMAIN) == meaning(plan_of(sql, CATALOG), inputs, DOMAIN)


def test_steps_between_two_points_read_no_latest_row_and_emit_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The rows that wait are written, and merged by few; what was latest at the last point is not touched."""
    every, length = 100, 20
    sql = f"SELECT v % 7 AS d, COUNT(*) AS n FROM rooms {SYNC.format(every)} GROUP BY v % 7"
    pipeline = StagedPipeline({"v": compile_view(sql, made()).physical}, random.Random(1), partitions=1)
    read: list[str] = []
    plain = Files.read_frame

    def counted(self: Files, path: str, *args: object, **named: object) -> object:
        read.append(path)
        return plain(self, path, *args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Files, "read_frame", counted)
    b0, rows, between = BEFORE_ALL, updates(), 0
    for b1 in range(length, 1_000, length):
        read.clear()
        others = {
            run.path for trace, runs in pipeline.traces.items() if trace.part != "waiting" for run in runs
        }
        new = {"s": [r for r in rows if b0 < r.from_ <= b1]}
        emitted = pipeline.step(new, Slice(b0, b1, first=b0 == BEFORE_ALL))["v"]
        if b0 // every == b1 // every and b0 > 0:
            between += 1
            assert not emitted
            assert others.isdisjoint(read), "only what waits is merged"
        b0 = b1
    assert between == 39
