"""LAG, LEAD, values and aggregates over frames: random rows, slices and frames against the reference."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from everview.algebra import nodes as N
from everview.algebra.changes import Record
from everview.algebra.expressions import SortKey
from everview.algebra.over import FRAME_VALUES, OVER_AGGREGATES, SHIFT_FUNCTIONS, Over, OverCall, OverFrame
from everview.algebra.schema import Schema
from everview.algebra.time import INFINITY
from everview.algebra.types import BIGINT, DOUBLE, STRING, DataType, decimal
from everview.operators import OverColumn, OverOperator, ScanOperator
from everview.operators.columnar import standings
from everview.operators.columnar.frame import Slice, make_frame
from everview.operators.columnar.standings import SortColumn
from tests.operators.harness import Input, check_operator, each_seed

COLUMNS = {"k": pl.Int64, "x": pl.Float64, "t": pl.String}
TYPES = (BIGINT, DOUBLE, STRING)
S = N.Stream("s", Schema.of(*zip(COLUMNS, TYPES, strict=True)))
EXTREME = (-(2**63), 2**63 - 1)


def record(rng: random.Random) -> Record:
    return (
        rng.choice([None, 0, 1, 2, 5]) if rng.random() < 0.9 else rng.choice(EXTREME),
        rng.choice([None, 0.0, -0.0, 1.5, float("nan"), -2.0, 1e16, 0.1]),
        rng.choice([None, "a", "b"]),
    )


def random_frame(rng: random.Random, order: tuple[SortColumn, ...]) -> OverFrame:
    """A frame that this order can have."""
    by_distance = len(order) == 1 and order[0].position == 0
    unit = rng.choice(["ROWS", "RANGE"])
    choices: list[int | None] = [None, 0]
    if unit == "ROWS" or by_distance:
        choices += [-2, -1, 1, 3] if rng.random() < 0.9 else [1 - 2**63, -(2**62), 2**62, 2**63 - 1]
    start, end = rng.choice(choices), rng.choice(choices)
    if start is not None and end is not None and start > end:
        start, end = end, start
    return OverFrame(unit, start, end)


def random_over(rng: random.Random) -> tuple[OverOperator, Over]:
    """Functions over partitions, as an operator and as a node."""
    partition = rng.choice([(), (2,), (2,), (1,)])
    by = [0] if rng.random() < 0.5 else rng.sample(range(3), rng.randrange(0, 3))
    order = tuple(SortColumn(i, rng.random() < 0.5, rng.random() < 0.5) for i in by)
    columns = [S.column(name) for name in COLUMNS]
    calls, operators, results = [], [], list[DataType]()
    for number in range(rng.randrange(1, 4)):
        function = rng.choice([*SHIFT_FUNCTIONS, *FRAME_VALUES, *OVER_AGGREGATES])
        sums = function in ("sum", "avg", "stddev")
        argument = None if function == "count" and rng.random() < 0.5 else rng.randrange(0, 2 if sums else 3)
        frame = None if function in SHIFT_FUNCTIONS else random_frame(rng, order)
        offset, default, skips = 1, None, False
        if function in SHIFT_FUNCTIONS:
            offset = rng.choice([1, 1, 2, 0, -1, 100])
            default = argument if rng.random() < 0.3 else None
        if function == "nth_value":
            offset = rng.randrange(1, 4)
        if function not in OVER_AGGREGATES:
            skips = rng.random() < 0.3
        given = None if argument is None else columns[argument]
        call = OverCall(
            function, given, frame, offset, None if default is None else columns[default], skips_nulls=skips
        )
        calls.append((f"f{number}", call))
        operators.append(OverColumn(function, argument, frame, offset, default, skips))
        results.append(call.type)
    keys = tuple(SortKey(columns[o.position], o.descending, o.nulls_first) for o in order)
    node = Over(S, tuple(columns[i] for i in partition), keys, tuple(calls))
    scan = ScanOperator("s", TYPES)
    return OverOperator(scan, 3, partition, order, tuple(operators), tuple(results)), node


@each_seed(1)
@pytest.mark.parametrize("signed", [False, True])
def test_over(seeds: range, signed: bool) -> None:
    for seed in seeds:
        operator, node = random_over(random.Random(seed))
        given = Input(COLUMNS, record, signed, grid=random.Random(seed).choice([1, 1, 4]))
        check_operator(seed, {"s": given}, operator, node)


@each_seed(2)
@pytest.mark.parametrize("signed", [False, True])
def test_over_a_few_leaves_at_a_time(seeds: range, signed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too large to be worked out at once is divided; that changes no result."""
    monkeypatch.setattr(standings, "_MOST", 3)
    monkeypatch.setattr(standings, "_MOST_NEAR", 3)
    monkeypatch.setattr(standings, "_FEW_LEAVES", 3)
    for seed in seeds:
        operator, node = random_over(random.Random(seed))
        check_operator(seed, {"s": Input(COLUMNS, record, signed)}, operator, node)


@pytest.mark.parametrize(
    "call",
    [
        OverColumn("lag", 1, None),
        OverColumn("sum", 1, OverFrame("ROWS", -4, 0)),
        OverColumn("max", 1, OverFrame("RANGE", -4, 1)),
        OverColumn("count", None, OverFrame("RANGE", 0, 0)),
    ],
    ids=lambda call: call.function,
)
def test_work_follows_the_reach_of_frames(call: OverColumn, monkeypatch: pytest.MonkeyPatch) -> None:
    """The places that a step looks at depend on its rows and the frames, not on the size of the partition."""
    order = (SortColumn(0, descending=False, nulls_first=True),)
    operator = OverOperator(ScanOperator("s", (BIGINT, BIGINT)), 2, (), order, (call,), (BIGINT,))
    looked_at: list[int] = []
    place = standings._place

    def count(*given: Any) -> standings.Standings:
        found = place(*given)
        looked_at.append(len(found.numbers))
        return found

    monkeypatch.setattr(standings, "_place", count)

    def append(kept: int) -> int:
        """Return how many places a step of ten rows behind so many looks at."""
        rows = make_frame(
            {"c0": list(range(kept)), "c1": list(range(kept))}, [(i + 1, INFINITY, 1) for i in range(kept)]
        )
        state = {**operator.empty_state([rows]), "rows": rows}
        new = make_frame(
            {"c0": [kept + i for i in range(10)], "c1": [0] * 10},
            [(kept + 1 + i, INFINITY, 1) for i in range(10)],
        )
        looked_at.clear()
        assert operator.increment([new], state, Slice(kept, kept + 10)).output.height >= 10
        return sum(looked_at)

    assert append(1000) == append(20) <= 20 * 11


@pytest.mark.parametrize("function", ["sum", "avg", "min", "max", "stddev", "last_value"])
def test_decimals(function: str) -> None:
    """Sums and means of decimals have more digits than their argument."""
    type_ = decimal(5, 2)
    stream = N.Stream("s", Schema.of(("k", BIGINT), ("x", type_)))
    frame = OverFrame("ROWS", -1, 0)
    call = OverCall(function, stream.column("x"), frame)
    node = Over(stream, (), (SortKey(stream.column("k"), False, True),), (("f", call),))
    order = (SortColumn(0, descending=False, nulls_first=True),)
    scan = ScanOperator("s", (BIGINT, type_))
    operator = OverOperator(scan, 2, (), order, (OverColumn(function, 1, frame),), (call.type,))

    def pick(rng: random.Random) -> Record:
        return rng.randrange(3), Decimal(rng.randrange(-9999, 9999)).scaleb(-2)

    given = Input({"k": pl.Int64, "x": pl.Decimal(5, 2)}, pick, True)
    for seed in range(5):
        check_operator(seed, {"s": given}, operator, node)
