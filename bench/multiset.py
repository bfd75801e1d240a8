"""EXCEPT ALL by its two techniques, side by side: the profile, and counting copies."""

import shutil
import time

import numpy as np
import polars as pl

from bench.kernels import KEY, Make, New, Operator, make_rows, partition_rows
from everview.algebra.time import INFINITY
from everview.algebra.types import BIGINT
from everview.operators import CopyCountsOperator, MultisetOperator, ScanOperator, StatefulOperator
from everview.operators.columnar.frame import FROM, UNTIL, N, Slice, name_by_position

WINDOW, STEP, RUNS = 100_000, 1_000, 7


def bench_except_all_techniques() -> None:
    """EXCEPT ALL, windows of 100,000 rows, steps of 1,000 a side: the profile beside counting copies."""
    for keys in (1_000, 5_000, 10_000, 50_000):
        _compare(f"{WINDOW // keys} rows of a record a side", _windows(keys))
    _compare(
        "a timestamp in each record", lambda count, at: [_dated(rows) for rows in _windows(50_000)(count, at)]
    )
    _compare(
        "rows that never end, 5,000 records",
        lambda count, at: [_endless(r) for r in _windows(5_000)(count, at)],
    )


def _windows(keys: int) -> Make:
    return lambda count, at: [make_rows(count, at, seed, WINDOW, keys=keys)[KEY] for seed in (1, 2)]


def _dated(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select("k", pl.col(FROM).alias("ts"), FROM, UNTIL, N)


def _endless(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(pl.lit(INFINITY).alias(UNTIL))


def _compare(name: str, make: Make) -> None:
    """Print for each technique the CPU time of a step, the rows that it emits, and the rows of its state."""
    size = len(make(1, 0)[0].columns) - len(KEY) + 1
    scans = [ScanOperator(name, (BIGINT,) * size) for name in "sr"]
    made = [kind(*scans, "difference") for kind in (MultisetOperator, CopyCountsOperator)]
    kernels = {operator.method: _in_files(operator) for operator in made}
    seconds: dict[str, list[float]] = {method: [] for method in kernels}
    emitted: dict[str, list[int]] = {method: [] for method in kernels}
    at = 0
    for count in [WINDOW // 10] * 10 + [STEP] * (RUNS + 3):
        new = partition_rows([name_by_position(rows) for rows in make(count, at)])
        slice_ = Slice(at - 1, at + count - 1, first=at == 0)
        for method, kernel in kernels.items():
            begin = time.process_time()
            output = kernel.step(new, slice_)
            seconds[method].append(time.process_time() - begin)
            emitted[method].append(sum(frame.height for frame in output))
        at += count
    for method, kernel in kernels.items():
        kept = sum(run.rows for runs in kernel.runs.values() for run in runs)
        print(
            f"{name}: {method}: {1000 * np.median(seconds[method][-RUNS:]):.1f} ms of a processor, "
            f"{np.median(emitted[method][-RUNS:]):,.0f} rows emitted, {kept:,} rows of state",
            flush=True,
        )
        shutil.rmtree(kernel.folder)


def _in_files(operator: StatefulOperator) -> Operator:
    def empty(new: New) -> dict[str, pl.DataFrame]:
        return operator.empty_state(new)

    cancelling = tuple(part.name for part in operator.state if part.may_cancel)
    return Operator(operator.increment, empty, operator.compact, cancelling)
