"""A kernel's step against working out the answer anew from the window, in the same run on the same rows.

Both use Polars in this process: what is compared is the work, not the machinery around it.
"""

import numpy as np
import polars as pl

from bench.harness import compare
from everview.kernels.accumulate import Aggregate
from everview.kernels.frame import FROM, UNTIL, Frame, N, Slice, alive
from everview.kernels.join import join
from everview.kernels.profile import distinct_unsigned, profile
from everview.kernels.sweep import Sweep, compact_state, empty_state, sweep

WINDOW, STEP, KEYS = 1_000_000, 10_000, 50_000


def _rows(count: int, start: int, seed: int) -> Frame:
    """Rows of a stream with a row an instant, in a window of WINDOW instants."""
    rng = np.random.default_rng(seed)
    ts = np.arange(start, start + count)
    columns = {"k": rng.integers(0, KEYS, count), "v": rng.integers(0, 1000, count)}
    return pl.DataFrame({**columns, FROM: ts, UNTIL: ts + WINDOW, N: np.ones(count, dtype=np.int64)})


WINDOWED, NEW = _rows(WINDOW, 0, 1), _rows(STEP, WINDOW, 2)
SLICE = Slice(WINDOW - 1, WINDOW + STEP - 1)


def _now() -> Frame:
    return alive(pl.concat([WINDOWED, NEW]), SLICE.b1)


def bench_distinct() -> None:
    """DISTINCT: a step of 10,000 rows over a window of 1,000,000, against the window's distinct rows anew."""
    key = ["k", FROM, UNTIL, N]
    covered = distinct_unsigned(WINDOWED.select(key), {"covered": WINDOWED.select(key).clear()}).output
    new = NEW.select(key)
    compare(
        "distinct", lambda: distinct_unsigned(new, {"covered": covered}), lambda: _now().select("k").unique()
    )


def bench_difference() -> None:
    """EXCEPT ALL: a step of 10,000 rows a side over windows of 1,000,000, against the counts anew."""
    key = ["k", FROM, UNTIL, N]
    other, other_new = _rows(WINDOW, 0, 3).select(key), _rows(STEP, WINDOW, 4).select(key)
    state = {"left": WINDOWED.select(key), "right": other}

    def anew() -> Frame:
        counts = [
            f.group_by("k").agg(pl.col(N).sum())
            for f in (_now(), alive(pl.concat([other, other_new]), SLICE.b1))
        ]
        return (
            counts[0]
            .join(counts[1], on="k", how="left")
            .filter(pl.col(N) > pl.col(f"{N}_right").fill_null(0))
        )

    compare("difference", lambda: profile((NEW.select(key), other_new), state, "difference"), anew)


def bench_average() -> None:
    """AVG per key at every arrival: a step of 10,000 rows over 1,000,000, against the averages anew, once."""
    plan = Sweep(("k",), (Aggregate("avg", "v", "mean"),))
    first = sweep(plan, WINDOWED, empty_state(plan, WINDOWED), Slice(-1, WINDOW - 1, first=True))
    state = {part: compact_state(plan, part, rows, WINDOW - 1) for part, rows in first.added.items()}
    state["queue"] = state["queue"].filter(pl.col(UNTIL) <= SLICE.b1)  # a trace reads what is due only
    compare(
        "average",
        lambda: sweep(plan, NEW, state, SLICE),
        lambda: _now().group_by("k").agg(pl.col("v").mean()),
    )


def bench_join() -> None:
    """Window join on a key: a step of 10,000 rows a side over windows of 1,000,000, against the join anew."""
    right = _rows(WINDOW, 0, 5).rename({"k": "j", "v": "w"})
    right_new = _rows(STEP, WINDOW, 6).rename({"k": "j", "v": "w"})
    state = {"left": WINDOWED, "right": right}

    def anew() -> Frame:
        there = alive(pl.concat([right, right_new]), SLICE.b1)
        return _now().select("k", "v").join(there.select("j", "w"), left_on="k", right_on="j")

    compare("join", lambda: join((NEW, right_new), state, ["k"], ["j"]), anew, runs=3, warm_ups=1)
