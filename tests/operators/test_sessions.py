"""[SESSION …]: random rows, slices and orders against the reference; the state ends with the sessions."""

from __future__ import annotations

import random

import polars as pl
import pytest

from everview.algebra import nodes as N
from everview.algebra.changes import Record
from everview.algebra.schema import Schema
from everview.algebra.session import Session
from everview.algebra.time import INFINITY
from everview.algebra.types import BIGINT, TIMESTAMP
from everview.errors import TemporalError
from everview.operators import SessionOperator
from everview.operators.columnar.frame import Slice, consolidate_frame, drop_ended, make_frame, stack_frames
from everview.plan.lower import lower
from everview.rewrite import rewrite
from everview.sql import plan_of
from everview.storage.plans import decode_plan, encode_plan
from everview.temporal.runnable import require_runnable
from tests.operators.harness import Input, check_operator, each_seed, scan
from tests.sql.oracle import known

COLUMNS = {"k": pl.Int64, "v": pl.Int64, "ts": pl.Int64}
S = N.Stream("s", Schema.of(("k", BIGINT), ("v", BIGINT), ("ts", TIMESTAMP), timeline="ts"))


def record(rng: random.Random) -> Record:
    return rng.choice([None, 0, 1]), rng.choice([None, 0, 1])


def physical(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with instants as integers."""
    return frame.with_columns(pl.col(pl.Datetime).to_physical())


@each_seed(4)
@pytest.mark.parametrize("with_end", [False, True])
@pytest.mark.parametrize("partition", [(), (0,)])
def test_sessions(
    seeds: range, partition: tuple[int, ...], with_end: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = SessionOperator._shown
    monkeypatch.setattr(SessionOperator, "_shown", lambda self, *rows: physical(shown(self, *rows)))
    given = Input(COLUMNS, record, arrivals=True)
    for seed in seeds:
        gap = random.Random(seed).randrange(1, 6)
        operator = SessionOperator(scan(given), gap, partition, with_end)
        names = tuple("k" for _ in partition)
        check_operator(seed, {"s": given}, operator, Session(S, gap, names, with_end))
        assert decode_plan(encode_plan(operator)) == operator


def test_the_state_of_a_session_ends_with_it() -> None:
    operator = SessionOperator(scan(Input(COLUMNS, record)), 5, (), with_end=False)
    rows = make_frame({"c0": [0], "c1": [0], "c2": [0]}, [(0, INFINITY, 1)])
    state = operator.empty_state([rows])["open"]
    for t in (*range(20), 30, 40):
        new = make_frame({"c0": [0], "c1": [t], "c2": [t]}, [(t, INFINITY, 1)])
        added = operator.increment([new], {"open": state}, Slice(t - 1, t)).added["open"]
        state = drop_ended(consolidate_frame(stack_frames([state, added.select(state.columns)])), t)
        assert state.height == (t + 1 if t < 20 else 1)
    assert drop_ended(state, 45).is_empty()


def test_an_end_that_is_not_read_replaces_no_row() -> None:
    wanted = "SELECT k, session_start FROM s [SESSION 3 SECONDS PARTITION BY k]"
    for end, sql in ((False, wanted), (True, wanted.replace("session_start", "session_end"))):
        plan = lower(rewrite(plan_of(sql, known())).plan)
        (found,) = [n for n in (plan, *plan.inputs) if isinstance(n, SessionOperator)]
        assert found.with_end is end


def test_sessions_of_rows_that_end_are_refused() -> None:
    with pytest.raises(TemporalError, match="SESSION 2 SECONDS] needs rows that never end"):
        require_runnable(plan_of("SELECT k FROM s [RANGE 5 SECONDS] [SESSION 2 SECONDS]", known()))
