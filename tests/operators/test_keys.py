"""Keys by their numbers: equal keys have equal numbers, and different keys of one number are told apart."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal

import numpy as np
import polars as pl
import pytest

from everview.algebra import nodes as N
from everview.algebra.expressions import Comparison
from everview.algebra.windows import Rows
from everview.operators.aggregate import Sweep, compact_sweep, empty_sweep, sweep
from everview.operators.aggregates.accumulators import AggregateColumn
from everview.operators.aggregates.counts import empty_counts, step_counts
from everview.operators.aggregates.events import compact_events
from everview.operators.columnar import hashing
from everview.operators.columnar.frame import (
    HASH,
    UNTIL,
    Frame,
    Increment,
    Slice,
    consolidate_frame,
    make_frame,
)
from everview.operators.columnar.hashing import hash_keys, to_ordered_codes
from everview.operators.columnar.keys import group_rows, match_keys, sort_by_key
from everview.operators.columnar.latest import latest_rows
from everview.operators.columnar.profile import distinct_unsigned, profile_difference
from everview.operators.join import join_pairs
from tests.operators import test_kernels as kernels
from tests.operators.harness import Input, check
from tests.seeds import seeds


def column(*values: object, dtype: pl.DataType | type[pl.DataType] | None = None) -> list[int]:
    return hash_keys(pl.DataFrame({"v": pl.Series(values, dtype=dtype)}), ["v"]).tolist()


def test_equal_values_have_equal_numbers() -> None:
    nan, other_nan = np.nan, -np.nan
    for dtype in (pl.Float64, pl.Float32):
        first, second, zero, minus_zero, null = column(nan, other_nan, 0.0, -0.0, None, dtype=dtype)
        assert (first, zero) == (second, minus_zero)
        assert len({first, zero, null}) == 3
    assert column(None, None, dtype=pl.String)[0] == column(None, "a", dtype=pl.String)[0]


def test_the_number_of_a_value_does_not_depend_on_its_neighbours() -> None:
    words = ["", "a", "b" * 8, "c" * 9, "d" * 63, "e" * 64, "f" * 65, "g" * 500, "ü", None]
    for dtype in (pl.String, pl.Binary):
        together = pl.Series(words).cast(dtype)
        for i, word in enumerate(words):
            assert column(*together)[i] == column(together[i], dtype=dtype)[0], word
        assert hash_keys(pl.DataFrame({"v": together})[3:7], ["v"]).tolist() == column(*together)[3:7]
    prices = pl.Series(["1.50", None, "-7.25"]).cast(pl.Decimal(38, 2))
    assert (
        hash_keys(pl.DataFrame({"v": prices})[2:], ["v"]).tolist() == column(*prices, dtype=prices.dtype)[2:]
    )


def test_numbers_are_kept_in_files_and_must_never_change() -> None:
    frame = pl.DataFrame({
        "i": pl.Series([7], dtype=pl.Int32), "x": [1.5], "t": ["a word, and some more of them"],
        "d": pl.Series([Decimal("1.50")], dtype=pl.Decimal(38, 2)),
        "at": pl.Series([datetime(2024, 1, 1, tzinfo=UTC)], dtype=pl.Datetime("us", "UTC")),
        "b": [True], "none": pl.Series([None], dtype=pl.Int64),
    })  # fmt: skip
    assert {c: hash_keys(frame, [c]).item() for c in frame.columns} == {
        "i": 7, "x": 4609434218613702656, "t": -3842461929631298598, "d": 150,
        "at": 1704067200000000, "b": 1, "none": 6364136223846793005,
    }  # fmt: skip
    assert hash_keys(frame, frame.columns).item() == -5078657848228752552


def test_different_keys_nearly_always_differ() -> None:
    numbers = range(60_000)
    for frame in (
        pl.DataFrame({"a": [f"user {i}" for i in numbers]}),
        pl.DataFrame({"a": [i // 250 for i in numbers], "b": [i % 250 for i in numbers]}),
        pl.DataFrame({"a": [i // 250 for i in numbers], "b": [float(i % 250) for i in numbers]}),
        pl.DataFrame({"a": [f"{'x' * 100}{i}" for i in numbers]}),
        pl.DataFrame({"a": pl.Series(list(numbers)).cast(pl.Decimal(38, 4))}),
    ):
        assert len(np.unique(hash_keys(frame, frame.columns))) == len(numbers)


def test_groups_and_matches() -> None:
    rows = pl.DataFrame({"k": ["b", None, "a", "b", None], "v": range(5)})
    groups = group_rows(rows, ["k"], hash_keys(rows, ["k"]))
    keys = rows["k"].gather(groups.firsts).to_list()
    assert [keys[i] for i in groups.ids] == rows["k"].to_list()
    state = pl.concat([sort_by_key(rows[:3], ["k"]), sort_by_key(rows[3:], ["k"])], rechunk=False)
    wanted = pl.DataFrame({"j": ["b", None, "z"]})
    for known in (state, state.rechunk(), state.drop(HASH), state.reverse(), state.clear()):
        places, which = match_keys(known, ["k"], wanted, ["j"], hash_keys(wanted, ["j"]))
        found = sorted(zip(known["v"].gather(places), which.tolist(), strict=True))
        assert found == ([] if known.is_empty() else [(0, 0), (1, 1), (3, 0), (4, 1)])


def test_many_stretches_are_searched_as_one() -> None:
    rng = np.random.default_rng(1)
    state = pl.DataFrame({"k": rng.integers(0, 500, 5000)})
    state = state.with_columns(pl.col("k").alias(HASH))
    places, which = match_keys(state, ["k"], wanted := pl.DataFrame({"k": [3, 77]}), ["k"], np.array([3, 77]))
    assert len(places) == state["k"].is_in([3, 77]).sum()
    assert (state["k"].gather(places) == wanted["k"].gather(which)).all()


def test_the_order_of_values() -> None:
    for values in (
        pl.Series([float("nan"), 2.5, -0.5, float("-inf"), float("inf"), 0.0]),
        pl.Series(["b", "", "ab", "a", "ä"]),
        pl.Series(["1.5", "-2.25", "0"]).cast(pl.Decimal(9, 2)),
        pl.Series(["1.5", "-2.25", "0"]).cast(pl.Decimal(38, 2)),
        pl.Series([3, -4, 0], dtype=pl.Int16),
        pl.Series([3, -4, 0]).cast(pl.Date),
    ):
        first, second = to_ordered_codes([values, values.reverse()])
        assert np.argsort(first).tolist() == values.arg_sort().to_list()
        assert first.tolist() == second[::-1].tolist()
    zeros, nans = (
        to_ordered_codes([pl.Series([0.0, -0.0])])[0],
        to_ordered_codes([pl.Series([np.nan, -np.nan])])[0],
    )
    assert zeros[0] == zeros[1]
    assert nans[0] == nans[1]


@pytest.fixture
def alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """All keys have one of two numbers, so that kernels must look at the keys themselves."""
    numbers = hashing._hash_values
    monkeypatch.setattr(hashing, "_hash_values", lambda values: numbers(values) & 1)
    monkeypatch.setattr(hashing, "_mix", lambda values: values & 1)
    monkeypatch.setattr(hashing, "_NULL", np.int64(0))
    monkeypatch.setattr(hashing, "_is_plain", lambda type_: False)


SEEDS = seeds(30, 60)


@pytest.mark.slow
def test_joins_tell_keys_apart(alike: None) -> None:
    plan = N.Join(kernels.S, kernels.R, Comparison("=", kernels.S.column("k"), kernels.R.column("j")))
    inputs = {"s": Input(kernels.LEFT, kernels.pair, True), "r": Input(kernels.RIGHT, kernels.pair, True)}

    def step(new: Sequence[Frame], state: dict[str, Frame], _: Slice) -> Increment:
        return join_pairs((new[0], new[1]), state, ["k"], ["j"])

    for seed in SEEDS:
        check(seed, inputs, step, kernels.two_sides, plan)


@pytest.mark.slow
def test_counts_tell_records_apart(alike: None) -> None:
    plan = N.Difference(kernels.S, N.Stream("r", kernels.S.columns))
    inputs = {"s": Input(kernels.LEFT, kernels.pair, True), "r": Input(kernels.LEFT, kernels.pair, True)}

    def eager(new: Sequence[Frame], state: dict[str, Frame], _: Slice) -> Increment:
        return profile_difference((new[0], new[1]), state, "difference")

    def lazy(new: Sequence[Frame], state: dict[str, Frame], slice_: Slice) -> Increment:
        return step_counts((new[0], new[1]), state, "difference", slice_)

    for seed in SEEDS:
        check(seed, inputs, eager, kernels.two_sides, plan)
        check(
            seed,
            inputs,
            lazy,
            lambda new: empty_counts(new[0]),
            plan,
            lambda name, rows, bound: compact_events(rows, ["k", "v"], by_time=name == "queue"),
        )


@pytest.mark.slow
def test_distinct_tells_records_apart(alike: None) -> None:
    inputs = {"s": Input(kernels.LEFT, kernels.pair)}
    for seed in SEEDS:
        check(seed, inputs, lambda new, state, _: distinct_unsigned(new[0], state),
              lambda new: {"covered": new[0].clear()}, N.Distinct(kernels.S))  # fmt: skip


@pytest.mark.slow
def test_sweeps_tell_groups_apart(alike: None) -> None:
    for seed in SEEDS:
        plan = Sweep(("k",), tuple(random.Random(seed).sample(kernels.CALLS, 4)), signed=seed % 2 == 0)

        def step(
            new: Sequence[Frame], state: dict[str, Frame], slice_: Slice, plan: Sweep = plan
        ) -> Increment:
            return sweep(plan, new[0], state, slice_)

        check(
            seed, {"w": Input(kernels.WIDE, kernels.wide, plan.signed)}, step,
            lambda new, plan=plan: empty_sweep(plan, new[0]),  # type: ignore[misc]
            kernels.aggregate(plan.keys, plan.aggregates),
            lambda name, rows, bound, plan=plan: compact_sweep(plan, name, rows, bound),  # type: ignore[misc]
        )  # fmt: skip


@pytest.mark.slow
def test_windows_of_rows_tell_partitions_apart(alike: None) -> None:
    def step(new: Sequence[Frame], state: dict[str, Frame], slice_: Slice) -> Increment:
        return latest_rows(new[0], state, slice_, 2, ["k"], ["ts", "k", "v"])

    for seed in SEEDS:
        kernels.arrivals_check(
            seed, step, lambda new: {"open": new[0].clear()}, N.Window(kernels.TS, Rows(2, ("k",)))
        )


def test_a_state_is_coalesced_and_stays_sorted() -> None:
    rows = make_frame({"v": [1, 1, 1, 2, 2, 3]},
                   [(0, 5, 1), (5, 9, 1), (9, 12, 1), (0, 9, 2), (9, 12, 1), (20, 30, 1)])  # fmt: skip
    small = consolidate_frame(sort_by_key(rows, ["v"]).reverse(), 3)
    assert small[HASH].is_sorted()
    assert sorted(small.drop(HASH).rows()) == [(1, 3, 12, 1), (2, 3, 9, 2), (2, 9, 12, 1), (3, 20, 30, 1)]
    without_bound = consolidate_frame(sort_by_key(rows, ["v"]))
    assert without_bound.drop(HASH).sort(pl.all()).equals(rows.sort(pl.all()))


def test_a_sum_over_more_rows_than_a_limb_has_room_for() -> None:
    """A narrow limb is at most 2^32 in size, and stays so however often a state is made small."""
    plan = Sweep(("k",), (AggregateColumn("sum", "v", "total"), AggregateColumn("avg", "v", "mean")))
    rows = make_frame(
        {"k": [1] * 3, "v": [2**62, -(2**62), 2**61]}, [(0, 99, 2**40), (0, 99, 2**39), (0, 99, 1)]
    )
    step = sweep(plan, rows, empty_sweep(plan, rows), Slice(-1, 5))
    total = 2**62 * 2**40 - 2**62 * 2**39 + 2**61
    count = 2**40 + 2**39 + 1
    wrapped = (total + 2**63) % 2**64 - 2**63
    assert step.output.select("total", "mean").row(0) == (wrapped, total / count)
    for part in ("sums", "queue"):
        small = compact_sweep(plan, part, pl.concat([step.added[part]] * 2), 5)
        limbs = [c for c in small.columns if ":" in c]
        assert all((small[c].abs() <= 2**32).all() for c in limbs)
        assert small[UNTIL].len() == 1
