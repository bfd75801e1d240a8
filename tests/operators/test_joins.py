"""Joins on keys of every type and on bands equal the reference."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import polars as pl
import pytest

from everview.algebra import nodes as N
from everview.algebra import types as T
from everview.algebra.changes import Record
from everview.algebra.expressions import Comparison, Expression, conjunction
from everview.algebra.schema import Schema
from everview.algebra.values import NAN
from everview.operators.band_join import JoinBand, band_join
from everview.operators.columnar.frame import HASH, Frame, Increment, Slice, make_frame
from everview.operators.join import join_pairs
from tests.operators.harness import Input, check, each_seed

INF = float("inf")


@dataclass(frozen=True)
class Kind:
    """A type: in the algebra, in a record of the tests, in a frame, and some of its values."""

    type: T.DataType
    kept: pl.DataType | type[pl.DataType]
    given: pl.DataType | type[pl.DataType]
    values: Sequence[object]


KINDS = {
    "integer": Kind(T.BIGINT, pl.Int64, pl.Int64, [-(2**63), -3, 0, 4, 2**63 - 1]),
    "small": Kind(T.SMALLINT, pl.Int16, pl.Int16, [-3, 0, 4]),
    "double": Kind(T.DOUBLE, pl.Float64, pl.Float64, [NAN, -INF, -1.5, -0.0, 0.0, 2.5, INF]),
    "float": Kind(T.FLOAT, pl.Float32, pl.Float32, [NAN, -1.5, -0.0, 0.0, 2.5]),
    "timestamp": Kind(T.TIMESTAMP, pl.Int64, pl.Datetime("us", "UTC"), [-5, 0, 7, 10**15]),
    "date": Kind(T.DATE, pl.Int32, pl.Date, [-5, 0, 7, 20_000]),
    "string": Kind(T.STRING, pl.String, pl.String, ["", "a", "a\0", "long and longer", "long and longest"]),
    "decimal": Kind(T.DataType("DECIMAL", 9, 2), pl.Decimal(9, 2), pl.Decimal(9, 2),
                    [Decimal("-1.50"), Decimal("0.00"), Decimal("3.25")]),
    "wide decimal": Kind(T.DataType("DECIMAL", 38, 0), pl.Decimal(38, 0), pl.Decimal(38, 0),
                         [Decimal(-(10**37)), Decimal(0), Decimal(2**64), Decimal(2**64 + 1)]),
    "boolean": Kind(T.BOOLEAN, pl.Boolean, pl.Boolean, [False, True]),
}  # fmt: skip

Step = Callable[[Sequence[Frame], dict[str, Frame], Slice], Increment]


def records(kind: Kind, columns: int) -> Callable[[random.Random], Record]:
    def make(rng: random.Random) -> Record:
        return tuple(rng.choice([None, *kind.values]) for _ in range(columns))

    return make


def typed(kind: Kind, run: Callable[[tuple[Frame, Frame], dict[str, Frame]], Increment]) -> Step:
    """A step whose frames have the types that a task has; what is emitted is turned back."""

    def step(new: Sequence[Frame], state: dict[str, Frame], _: Slice) -> Increment:
        left, right = (_cast(f, kind.given) for f in new)
        result = run((left, right), state)
        return Increment(_cast(result.output, kind.kept), result.added)

    return step


def _cast(frame: Frame, type_: pl.DataType | type[pl.DataType]) -> Frame:
    columns = [c for c in frame.columns if not c.startswith("_")]
    return frame.with_columns(pl.col(columns).cast(type_)) if columns else frame


def both(kind: Kind) -> Callable[[Sequence[Frame]], dict[str, Frame]]:
    def empty(new: Sequence[Frame]) -> dict[str, Frame]:
        return {"left": _cast(new[0], kind.given), "right": _cast(new[1], kind.given)}

    return empty


@each_seed(2 * len(KINDS))
@pytest.mark.parametrize("nulls_equal", [False, True])
@pytest.mark.parametrize("name", KINDS)
def test_join_on_two_keys_of_every_type(seeds: range, name: str, nulls_equal: bool) -> None:
    kind = KINDS[name]
    s = N.Stream("s", Schema.of(("a", kind.type), ("b", kind.type)))
    r = N.Stream("r", Schema.of(("c", kind.type), ("d", kind.type)))
    operator = "<=>" if nulls_equal else "="
    condition = conjunction(
        [Comparison(operator, s.column(here), r.column(there)) for here, there in (("a", "c"), ("b", "d"))]
    )
    inputs = {
        "s": Input(dict.fromkeys("ab", kind.kept), records(kind, 2), signed=True),
        "r": Input(dict.fromkeys("cd", kind.kept), records(kind, 2), signed=True),
    }
    step = typed(kind, lambda new, state: join_pairs(new, state, ["a", "b"], ["c", "d"], nulls_equal))
    for seed in seeds:
        check(seed, inputs, step, both(kind), N.Join(s, r, condition))


@each_seed(1)
def test_join_on_a_column_that_equals_two(seeds: range) -> None:
    kind = KINDS["string"]
    s = N.Stream("s", Schema.of(("a", kind.type), ("b", kind.type)))
    r = N.Stream("r", Schema.of(("c", kind.type), ("d", kind.type)))
    parts = [Comparison("=", s.column("a"), r.column(there)) for there in ("c", "d")]
    inputs = {
        "s": Input(dict.fromkeys("ab", kind.kept), records(kind, 2)),
        "r": Input(dict.fromkeys("cd", kind.kept), records(kind, 2)),
    }
    step = typed(kind, lambda new, state: join_pairs(new, state, ["a", "a"], ["c", "d"]))
    for seed in seeds:
        check(seed, inputs, step, both(kind), N.Join(s, r, conjunction(list(parts))))


BANDS = {
    "both": (JoinBand("x", "lo", "hi"), ("<=", "<=")),
    "both, strict": (JoinBand("x", "lo", "hi", True, True), ("<", "<")),
    "half open": (JoinBand("x", "lo", "hi", False, True), ("<=", "<")),
    "from below": (JoinBand("x", "lo"), ("<=", None)),
    "from below, strict": (JoinBand("x", "lo", lower_strict=True), ("<", None)),
    "from above": (JoinBand("x", upper="hi"), (None, "<=")),
    "from above, strict": (JoinBand("x", upper="hi", upper_strict=True), (None, "<")),
    "one value": (JoinBand("x", "lo", "lo"), ("<=", "= lo")),
}


def condition(s: N.Stream, r: N.Stream, operators: tuple[str | None, str | None]) -> Expression:
    lower, upper = operators
    parts: list[Expression] = []
    if lower is not None:
        parts.append(Comparison(lower, s.column("lo"), r.column("x")))
    if upper is not None:
        name = "lo" if upper == "= lo" else "hi"
        parts.append(Comparison("<=" if upper == "= lo" else upper, r.column("x"), s.column(name)))
    return conjunction(parts)


@each_seed(len(BANDS))
@pytest.mark.parametrize("band", BANDS)
def test_band_join(seeds: range, band: str) -> None:
    """Rows that are taken back, NULLs, equal instants, empty slices, chunks of a few pairs."""
    for seed in seeds:
        rng = random.Random(seed)
        kind = KINDS[rng.choice(list(KINDS))]
        s = N.Stream("s", Schema.of(("lo", kind.type), ("hi", kind.type)))
        r = N.Stream("r", Schema.of(("x", kind.type)))
        signed = rng.random() < 0.5
        inputs = {
            "s": Input(dict.fromkeys(("lo", "hi"), kind.kept), records(kind, 2), signed),
            "r": Input({"x": kind.kept}, records(kind, 1), signed),
        }
        chunk = rng.choice([1, 3, 1 << 20])
        plan = N.Join(s, r, condition(s, r, BANDS[band][1]))
        step = typed(kind, lambda new, state, chunk=chunk: band_join(new, state, BANDS[band][0], chunk))
        check(seed, inputs, step, both(kind), plan)


@each_seed(1)
def test_join_on_time_alone(seeds: range) -> None:
    kind = KINDS["integer"]
    s = N.Stream("s", Schema.of(("lo", kind.type), ("hi", kind.type)))
    r = N.Stream("r", Schema.of(("x", kind.type)))
    for seed in seeds:
        signed, chunk = seed % 2 == 0, [1, 2, 1 << 20][seed % 3]
        inputs = {
            "s": Input(dict.fromkeys(("lo", "hi"), kind.kept), records(kind, 2), signed),
            "r": Input({"x": kind.kept}, records(kind, 1), signed),
        }
        step = typed(kind, lambda new, state, chunk=chunk: band_join(new, state, chunk=chunk))
        check(seed, inputs, step, both(kind), N.Join(s, r))


def many(rng: np.random.Generator, size: int, lasting: int) -> dict[str, np.ndarray]:
    begins = rng.integers(0, 1000, size)
    return {"_from": begins, "_until": begins + rng.integers(1, lasting, size), "_n": np.ones(size, np.int64)}


@pytest.mark.slow
@pytest.mark.parametrize("widest", [2, 500])
@pytest.mark.parametrize("lasting", [3, 900])
def test_many_rows_in_several_steps(widest: int, lasting: int) -> None:
    """Narrow and wide bands, short and long rows: whichever way the pairs are found, they are the same."""
    rng = np.random.default_rng(widest * lasting)
    lows = rng.integers(0, 1000, 600)
    left = pl.DataFrame({"lo": lows, "hi": lows + rng.integers(-1, widest, 600), **many(rng, 600, lasting)})
    right = pl.DataFrame({"x": rng.integers(0, 1000, 600), **many(rng, 600, lasting)})
    for band, both_at_once in (
        (
            JoinBand("x", "lo", "hi", upper_strict=True),
            (pl.col("lo") <= pl.col("x")) & (pl.col("x") < pl.col("hi")),
        ),
        (JoinBand("x", "lo"), pl.col("lo") <= pl.col("x")),
        (None, pl.lit(True)),
    ):
        state = {"left": left.clear(), "right": right.clear()}
        found = []
        for part in range(4):
            new = left[part * 150 : part * 150 + 150], right[part * 150 : part * 150 + 150]
            step = band_join(new, state, band, chunk=5000)
            found.append(step.output)
            state = {k: pl.concat([v, step.added[k]], how="diagonal") for k, v in state.items()}
        pairs = left.join(right, how="cross", suffix="_r").filter(both_at_once)
        pairs = pairs.select(
            "lo", "hi", "x", pl.max_horizontal("_from", "_from_r").alias("_from"),
            pl.min_horizontal("_until", "_until_r").alias("_until"), "_n",
        ).filter(pl.col("_from") < pl.col("_until"))  # fmt: skip
        assert pl.concat(found).sort(pl.all()).equals(pairs.sort(pl.all()))


def test_a_band_needs_a_bound_and_one_type() -> None:
    with pytest.raises(TypeError, match="a band has a bound"):
        JoinBand("x")
    left, right = make_frame({"lo": [1.0]}, [(0, 9, 1)]), make_frame({"x": [1]}, [(0, 9, 1)])
    with pytest.raises(TypeError, match="different types have no order"):
        band_join((left, right), {"left": left.clear(), "right": right.clear()}, JoinBand("x", "lo"))


def test_the_state_of_a_band_is_sorted_by_it() -> None:
    left, right = make_frame({"lo": [9, 2]}, [(0, 9, 1)] * 2), make_frame({"x": [5, 1, 7]}, [(0, 9, 1)] * 3)
    added = band_join(
        (left, right), {"left": left.clear(), "right": right.clear()}, JoinBand("x", "lo")
    ).added
    assert added["left"][HASH].to_list() == [2, 9]
    assert added["right"][HASH].to_list() == [1, 5, 7]
