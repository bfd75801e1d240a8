"""Every kernel equals the reference: random rows, random slices, random order (DESIGN section 8)."""

from __future__ import annotations

import random
from collections.abc import Sequence
from decimal import Decimal

import polars as pl
import pytest

from everview.algebra import nodes as N
from everview.algebra.aggregates import AggregateCall
from everview.algebra.changes import Record
from everview.algebra.expressions import TRUE, Comparison, Literal
from everview.algebra.schema import Schema
from everview.algebra.time import Grid
from everview.algebra.types import BIGINT, BOOLEAN, DOUBLE, INTERVAL, STRING, TIMESTAMP, DataType
from everview.algebra.windows import Rows
from everview.operators import (
    CopyCountsOperator,
    InsertionsOperator,
    RelationStreamOperator,
    SummedSyncOperator,
    SyncOnOperator,
)
from everview.operators.aggregate import Sweep, compact_sweep, empty_sweep, sweep
from everview.operators.aggregates.accumulators import AggregateColumn
from everview.operators.aggregates.counts import empty_counts, step_counts
from everview.operators.aggregates.events import compact_events
from everview.operators.columnar.frame import Frame, Increment, Slice
from everview.operators.columnar.latest import latest_per_key, latest_rows
from everview.operators.columnar.profile import distinct_rows, distinct_unsigned, profile_difference
from everview.operators.join import join_pairs
from everview.operators.version_join import compact_versions, join_version
from tests.operators.harness import Input, check, check_operator, each_seed, scan


def pair(rng: random.Random) -> Record:
    return rng.choice([None, 0, 1]), rng.choice([None, 0, 1, 2])


LEFT, RIGHT = {"k": pl.Int64, "v": pl.Int64}, {"j": pl.Int64, "w": pl.Int64}
S = N.Stream("s", Schema.of(("k", BIGINT), ("v", BIGINT)))
R = N.Stream("r", Schema.of(("j", BIGINT), ("w", BIGINT)))


def two_sides(new: Sequence[Frame]) -> dict[str, Frame]:
    return {"left": new[0].clear(), "right": new[1].clear()}


@each_seed(4)
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("nulls_equal", [False, True])
def test_equi_join(seeds: range, signed: bool, nulls_equal: bool) -> None:
    plan = N.Join(S, R, Comparison("<=>" if nulls_equal else "=", S.column("k"), R.column("j")))
    inputs = {"s": Input(LEFT, pair, signed), "r": Input(RIGHT, pair, signed)}

    def step(new: Sequence[Frame], state: dict[str, Frame], _: Slice) -> Increment:
        return join_pairs((new[0], new[1]), state, ["k"], ["j"], nulls_equal)

    for seed in seeds:
        check(seed, inputs, step, two_sides, plan)


@each_seed(2)
@pytest.mark.parametrize("signed", [False, True])
def test_join_without_keys(seeds: range, signed: bool) -> None:
    inputs = {"s": Input(LEFT, pair, signed), "r": Input(RIGHT, pair, signed)}

    def step(new: Sequence[Frame], state: dict[str, Frame], _: Slice) -> Increment:
        return join_pairs((new[0], new[1]), state, [], [])

    for seed in seeds:
        check(seed, inputs, step, two_sides, N.Join(S, R))


PROFILES = {"difference": N.Difference, "intersection": N.Intersection, "max_union": N.MaxUnion}


@each_seed(6)
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("function", PROFILES)
def test_profile(seeds: range, signed: bool, function: str) -> None:
    r = N.Stream("r", S.columns)
    plan = PROFILES[function](S, r)
    inputs = {"s": Input(LEFT, pair, signed), "r": Input(LEFT, pair, signed)}

    def step(new: Sequence[Frame], state: dict[str, Frame], _: Slice) -> Increment:
        return profile_difference((new[0], new[1]), state, function)

    for seed in seeds:
        check(seed, inputs, step, two_sides, plan)


@each_seed(2)
@pytest.mark.parametrize("signed", [False, True])
def test_distinct(seeds: range, signed: bool) -> None:
    def step(new: Sequence[Frame], state: dict[str, Frame], _: Slice) -> Increment:
        return distinct_rows(new[0], state)

    for seed in seeds:
        check(
            seed, {"s": Input(LEFT, pair, signed)}, step, lambda new: {"rows": new[0].clear()}, N.Distinct(S)
        )


@each_seed(8)
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("function", [*PROFILES, "distinct"])
def test_count_copies(seeds: range, signed: bool, function: str) -> None:
    r = N.Stream("r", S.columns)
    plan = N.Distinct(S) if function == "distinct" else PROFILES[function](S, r)
    inputs = {"s": Input(LEFT, pair, signed), "r": Input(LEFT, pair, signed)}

    def step(new: Sequence[Frame], state: dict[str, Frame], slice_: Slice) -> Increment:
        right = new[1].clear() if function == "distinct" else new[1]
        return step_counts((new[0], right), state, function, slice_)

    for seed in seeds:
        check(
            seed,
            inputs,
            step,
            lambda new: empty_counts(new[0]),
            plan,
            lambda name, rows, _: compact_events(rows, ["k", "v"], by_time=name == "queue"),
        )


@each_seed(1)
def test_distinct_unsigned(seeds: range) -> None:
    def step(new: Sequence[Frame], state: dict[str, Frame], _: Slice) -> Increment:
        return distinct_unsigned(new[0], state)

    for seed in seeds:
        check(seed, {"s": Input(LEFT, pair)}, step, lambda new: {"covered": new[0].clear()}, N.Distinct(S))


WIDE = {"k": pl.Int64, "i": pl.Int64, "x": pl.Float64, "t": pl.String, "b": pl.Boolean}
FLOATS = [None, 0.1, 0.2, 1e16, -1e16, 3.5, float("inf"), float("nan"), 1e-300]


def wide(rng: random.Random) -> Record:
    floats = FLOATS if rng.random() < 0.3 else FLOATS[:6]
    return (
        rng.choice([None, 0, 1]),
        rng.choice([None, -5, 2, 2**62]),
        rng.choice(floats),
        rng.choice([None, "a", "b", "c"]),
        rng.choice([None, True, False]),
    )


W = N.Stream("w", Schema.of(("k", BIGINT), ("i", BIGINT), ("x", DOUBLE), ("t", STRING), ("b", BOOLEAN)))
CALLS = (
    AggregateColumn("count", None, "n"),
    AggregateColumn("count", "x", "nx"),
    AggregateColumn("sum", "i", "si"),
    AggregateColumn("avg", "i", "ai"),
    AggregateColumn("sum", "x", "sx"),
    AggregateColumn("avg", "x", "ax"),
    AggregateColumn("stddev", "x", "dx"),
    AggregateColumn("stddev", "i", "di"),
    AggregateColumn("stddev_pop", "x", "px"),
    AggregateColumn("var_samp", "x", "vx"),
    AggregateColumn("var_pop", "i", "vi"),
    AggregateColumn("count_if", "b", "cb"),
    AggregateColumn("bool_and", "b", "eb"),
    AggregateColumn("bool_or", "b", "ob"),
    AggregateColumn("percentile", "x", "mx", fraction=0.5),
    AggregateColumn("percentile", "x", "qx", fraction=0.9),
    AggregateColumn("percentile", "x", "dqx", distinct=True, fraction=0.3),
    AggregateColumn("any_value", "t", "yt"),
    AggregateColumn("bool_and", "b", "deb", distinct=True),
    AggregateColumn("min", "x", "lx"),
    AggregateColumn("max", "x", "gx"),
    AggregateColumn("min", "t", "lt"),
    AggregateColumn("max", "i", "gi"),
    AggregateColumn("max_by", "t", "bt", by="x"),
    AggregateColumn("min_by", "x", "bx", by="i"),
    AggregateColumn("count", "t", "dt", distinct=True),
    AggregateColumn("sum", "i", "dsi", distinct=True),
    AggregateColumn("avg", "x", "dax", distinct=True),
)


@each_seed(4)
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("keys", [(), ("k",)])
def test_sweep(seeds: range, signed: bool, keys: tuple[str, ...]) -> None:
    for seed in seeds:
        sweep_of(seed, tuple(random.Random(seed).sample(CALLS, 5)), signed, keys)


@each_seed(4)
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("keys", [(), ("k",)])
def test_extremes_where_rows_end_as_others_begin(seeds: range, signed: bool, keys: tuple[str, ...]) -> None:
    """As in a tumbling window: how many rows there are stays the same, the greatest of them does not."""
    extremes = [call for call in CALLS if call.reads_rows]
    for seed in seeds:
        sweep_of(seed, (random.Random(seed).choice(extremes),), signed, keys, grid=4)


def sweep_of(
    seed: int, chosen: tuple[AggregateColumn, ...], signed: bool, keys: tuple[str, ...], grid: int = 1
) -> None:
    """One random case of an aggregation."""
    swept = Sweep(keys, chosen, signed)

    def step(new: Sequence[Frame], state: dict[str, Frame], slice_: Slice, swept: Sweep = swept) -> Increment:
        return sweep(swept, new[0], state, slice_)

    def empty(new: Sequence[Frame], swept: Sweep = swept) -> dict[str, Frame]:
        return empty_sweep(swept, new[0])

    def compact(name: str, rows: Frame, bound: int, swept: Sweep = swept) -> Frame:
        return compact_sweep(swept, name, rows, bound)

    given = {"w": Input(WIDE, wide, signed, grid=grid)}
    check(seed, given, step, empty, aggregate(keys, chosen), compact)


PRECISE = {"k": pl.Int64, "d": pl.Decimal(10, 2), "w": pl.Decimal(38, 1), "l": pl.Duration("us")}
P = N.Stream("p", Schema.of(
    ("k", BIGINT), ("d", DataType("DECIMAL", 10, 2)), ("w", DataType("DECIMAL", 38, 1)), ("l", INTERVAL),
))  # fmt: skip


def precise(rng: random.Random) -> Record:
    cents, most = Decimal("0.01"), "9" * 37 + ".9"
    return (
        rng.choice([0, 1]),
        rng.choice([None, cents * rng.randrange(-(10**10) + 1, 10**10), -cents, cents]),
        rng.choice([None, Decimal(most), Decimal(f"-{most}"), Decimal("0.1"), Decimal(f"-8{most[1:]}")]),
        rng.choice([None, -7, 5, 2**61]),
    )


@each_seed(2)
@pytest.mark.parametrize("keys", [(), ("k",)])
def test_sweep_of_decimals_and_lengths(seeds: range, keys: tuple[str, ...]) -> None:
    """Exact, rounded half up once, NULL where a sum has too many digits; lengths of time are rounded down."""
    calls = {
        f"{f} {c}": AggregateCall(f, P.column(c)) for f in ("sum", "avg", "stddev", "var_pop") for c in "dw"
    }
    calls["avg l"] = AggregateCall("avg", P.column("l"))
    chosen = tuple(
        AggregateColumn(call.function, name[-1], name, False, call.type.precision, call.type.scale)
        for name, call in calls.items()
    )
    swept = Sweep(keys, chosen, signed=True)
    plan = N.Aggregate(P, tuple((k, P.column(k)) for k in keys), tuple(calls.items()))
    for seed in seeds:
        check(
            seed, {"p": Input(PRECISE, precise, signed=True)},
            lambda new, state, slice_: sweep(swept, new[0], state, slice_),
            lambda new: empty_sweep(swept, new[0]), plan,
            lambda name, rows, bound: compact_sweep(swept, name, rows, bound),
        )  # fmt: skip


def aggregate(keys: Sequence[str], chosen: Sequence[AggregateColumn]) -> N.Aggregate:
    """The same aggregation in the algebra."""
    calls = []
    for a in chosen:
        argument = None if a.argument is None else W.column(a.argument)
        by = None if a.by is None else W.column(a.by)
        calls.append((a.output, AggregateCall(a.function, argument, a.distinct, by=by, fraction=a.fraction)))
    return N.Aggregate(W, tuple((k, W.column(k)) for k in keys), tuple(calls))


TIMED = {"k": pl.Int64, "v": pl.Int64, "ts": pl.Int64}
TS = N.Stream("s", Schema.of(("k", BIGINT), ("v", BIGINT), ("ts", TIMESTAMP), timeline="ts"))


def arrivals_check(seed: int, step, empty, plan: N.Node, columns=TIMED, record=pair) -> None:  # type: ignore[no-untyped-def]
    check(seed, {"s": Input(columns, record, arrivals=True)}, step, empty, plan)


@each_seed(6)
@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("partition", [(), ("k",)])
def test_rows_window(seeds: range, count: int, partition: tuple[str, ...]) -> None:
    plan = N.Window(TS, Rows(count, partition))

    def step(new: Sequence[Frame], state: dict[str, Frame], slice_: Slice) -> Increment:
        return latest_rows(new[0], state, slice_, count, partition, ["ts", "k", "v"])

    for seed in seeds:
        arrivals_check(seed, step, lambda new: {"open": new[0].clear()}, plan)


@each_seed(8)
@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("partition", [(), ("k",)])
def test_rows_window_over_rows_that_come_in_any_order(
    seeds: range, count: int, partition: tuple[str, ...]
) -> None:
    """They never end. When they begin, and when they come, has nothing to do with their timestamps."""
    plan = N.Window(TS, Rows(count, partition))

    def record(rng: random.Random) -> tuple[object, ...]:
        return (*pair(rng), rng.randrange(6))

    def step(new: Sequence[Frame], state: dict[str, Frame], slice_: Slice) -> Increment:
        return latest_rows(new[0], state, slice_, count, partition, ["ts", "k", "v"])

    for seed in seeds:
        given = {"s": Input(TIMED, record, endless=True)}
        check(seed, given, step, lambda new: {"open": new[0].clear()}, plan)


@each_seed(1)
def test_tagged(seeds: range) -> None:
    plan = N.Tagged(TS, ("k",), Comparison("=", TS.column("v"), Literal(0, BIGINT)))

    def step(new: Sequence[Frame], state: dict[str, Frame], slice_: Slice) -> Increment:
        marked = (
            new[0]
            .with_columns((pl.col("v") == 0).alias("gone"))
            .select("k", "v", "ts", "gone", *new[0].columns[3:])
        )
        result = latest_per_key(marked, state, slice_, ["k"], ["ts", "k", "v"], "gone")
        return Increment(result.output.drop("gone"), result.added)

    def empty(new: Sequence[Frame]) -> dict[str, Frame]:
        return {"open": step(new, {"open": new[0].with_columns(gone=pl.lit(False)).select(
            "k", "v", "ts", "gone", *new[0].columns[3:])}, Slice(0, 0)).added["open"]}  # fmt: skip

    for seed in seeds:
        arrivals_check(seed, step, empty, plan)


@each_seed(4)
@pytest.mark.parametrize("kind", [N.IStream, N.DStream])
@pytest.mark.parametrize("signed", [False, True])
def test_insertions_and_deletions(
    seeds: range, kind: type[N.IStream] | type[N.DStream], signed: bool
) -> None:
    rows = Input(LEFT, pair, signed)
    operator = InsertionsOperator(scan(rows), deletions=kind is N.DStream)
    for seed in seeds:
        check_operator(seed, {"s": rows}, operator, kind(S))


@each_seed(2)
@pytest.mark.parametrize("signed", [False, True])
def test_relation_at_points(seeds: range, signed: bool) -> None:
    grid, rows = Grid(4, 1), Input(LEFT, pair, signed)
    operator = RelationStreamOperator(scan(rows), grid)
    for seed in seeds:
        check_operator(seed, {"s": rows}, operator, N.RStream(S, grid))


@each_seed(2)
@pytest.mark.parametrize("signed", [False, True])
def test_synchronize_on(seeds: range, signed: bool) -> None:
    p = N.Stream("p", Schema.of(("at", TIMESTAMP), timeline="at"))

    inputs = {"s": Input(LEFT, pair, signed), "p": Input({"at": pl.Int64}, lambda rng: (), arrivals=True)}
    operator = SyncOnOperator(scan(inputs["s"]), scan(inputs["p"], TIMESTAMP))
    for seed in seeds:
        check_operator(seed, inputs, operator, N.SynchronizeOn(S, p))


@each_seed(4)
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("step", [1, 4])
def test_synchronize_with_sums(seeds: range, signed: bool, step: int) -> None:
    grid, rows = Grid(step, step // 2), Input(LEFT, pair, signed)
    operator = SummedSyncOperator(scan(rows), grid)
    for seed in seeds:
        check_operator(seed, {"s": rows}, operator, N.Synchronize(S, grid))


@each_seed(6)
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("function", PROFILES)
def test_count_copies_as_an_operator(seeds: range, signed: bool, function: str) -> None:
    inputs = {"s": Input(LEFT, pair, signed), "r": Input(LEFT, pair, signed)}
    operator = CopyCountsOperator(scan(inputs["s"]), scan(inputs["r"]), function)
    for seed in seeds:
        check_operator(seed, inputs, operator, PROFILES[function](S, N.Stream("r", S.columns)))


@each_seed(2)
@pytest.mark.parametrize("keyed", [True, False])
def test_join_with_a_version(seeds: range, keyed: bool) -> None:
    table = N.Table("t", Schema.of(("id", BIGINT), ("w", BIGINT)), retroactive=False)
    condition = Comparison("=", TS.column("k"), table.column("id")) if keyed else TRUE
    plan = N.TableJoin(TS, table, condition, retroactive=False)
    on = (["k"], ["id"]) if keyed else ([], [])

    def step(new: Sequence[Frame], state: dict[str, Frame], _: Slice) -> Increment:
        return join_version(new[0], new[1], state, "ts", on[0], on[1])

    def compact(name: str, rows: Frame, bound: int) -> Frame:
        return compact_versions(rows, on[1], bound + 1)

    inputs = {
        "s": Input(TIMED, pair, arrivals=True),
        "t": Input({"id": pl.Int64, "w": pl.Int64}, pair, signed=True, on_time=True),
    }
    for seed in seeds:
        check(seed, inputs, step, lambda new: {"versions": new[1].clear()}, plan, compact)
