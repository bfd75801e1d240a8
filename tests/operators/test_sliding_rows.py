"""[ROWS n SLIDE m]: random rows, slices and orders against the reference; the state follows n + m."""

from __future__ import annotations

import random

import polars as pl
import pytest

from everview.algebra import nodes as N
from everview.algebra.changes import Record
from everview.algebra.schema import Schema
from everview.algebra.time import INFINITY
from everview.algebra.types import BIGINT, TIMESTAMP
from everview.algebra.windows import Rows
from everview.errors import TemporalError
from everview.operators import SlidingRowWindowOperator
from everview.operators.columnar.frame import Slice, consolidate_frame, make_frame, stack_frames
from everview.sql import plan_of
from everview.storage.plans import decode_plan, encode_plan
from everview.temporal.runnable import require_runnable
from tests.operators.harness import Input, check_operator, each_seed, scan
from tests.sql.oracle import known

COLUMNS = {"k": pl.Int64, "v": pl.Int64, "ts": pl.Int64}
S = N.Stream("s", Schema.of(("k", BIGINT), ("v", BIGINT), ("ts", TIMESTAMP), timeline="ts"))


def record(rng: random.Random) -> Record:
    return rng.choice([None, 0, 1]), rng.choice([None, 0, 1])


@each_seed(2)
@pytest.mark.parametrize("partition", [(), (0,)])
def test_sliding_rows(seeds: range, partition: tuple[int, ...]) -> None:
    given = Input(COLUMNS, record, arrivals=True)
    for seed in seeds:
        rng = random.Random(seed)
        count, slide = rng.randrange(1, 5), rng.randrange(2, 5)
        operator = SlidingRowWindowOperator(scan(given), count, slide, partition, (2, 0, 1))
        names = tuple("k" for _ in partition)
        check_operator(seed, {"s": given}, operator, N.Window(S, Rows(count, names, slide)))
        assert decode_plan(encode_plan(operator)) == operator


def test_the_state_has_fewer_rows_than_count_and_slide() -> None:
    operator = SlidingRowWindowOperator(scan(Input(COLUMNS, record)), 3, 4, (), (2,))
    rows = make_frame({"c0": [0], "c1": [0], "c2": [0]}, [(0, INFINITY, 1)])
    state = operator.empty_state([rows])["open"]
    for t in range(50):
        new = make_frame({"c0": [0], "c1": [t], "c2": [t]}, [(t, INFINITY, 1)])
        added = operator.increment([new], {"open": state}, Slice(t - 1, t)).added["open"]
        state = consolidate_frame(stack_frames([state, added.select(state.columns)]))
        assert state.height < 3 + 4


def test_rows_that_end_are_refused() -> None:
    with pytest.raises(TemporalError, match="SLIDE 2] needs rows that never end"):
        require_runnable(plan_of("SELECT k FROM s [RANGE 5 SECONDS] [ROWS 3 SLIDE 2]", known()))
