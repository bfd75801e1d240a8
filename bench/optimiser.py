"""What the rules of the optimiser save: the same views compiled with and without them, on the same files."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from pyspark.sql import functions as F

import everview
import everview.compile
from bench.engine import PARTITIONS, SECOND, START, run_steps, session, temporary_folder
from everview.algebra.nodes import Node
from everview.rewrite import EVENT_RULES, RULES, RewrittenPlan, Rule, rewrite

WIDE = 20  # columns of text beside the key and the time


@contextmanager
def _use_rules(rules: tuple[Rule, ...]) -> Iterator[None]:
    """Compile views by some of the rules."""

    def with_rules(plan: Node, _: tuple[Rule, ...] = ()) -> RewrittenPlan:
        return rewrite(plan, rules)

    with patch.object(everview.compile, "rewrite", with_rules):
        yield


def _write_wide(path: Path, name: str, first: int, count: int, seed: int) -> None:
    """Write a file of rows (k, c0, …, ts), 5,000 a second from row `first` on."""
    rows = session().range(first, first + count, 1, 1)
    micros = F.lit(START * SECOND) + (F.col("id") * F.lit(SECOND // 5_000)).cast("long")
    columns = [(F.rand(seed + first) * 20_000).cast("int").alias("k")]
    columns += [F.concat(F.lit(f"text {i} of row "), "id").alias(f"c{i}") for i in range(WIDE)]
    columns.append(F.timestamp_micros(micros).alias("ts"))
    rows.select(*columns).write.mode("append").parquet(str(path / name))


def bench_wide_join() -> None:
    """A join of streams with 22 columns of which 3 are read, against the rules that push filters only."""
    size, steps = 50_000, 8
    with temporary_folder() as path:
        for step in range(steps):
            for seed, name in enumerate(("a", "b")):
                _write_wide(path, name, step * size, size, 10 * seed)
        found = {}
        for title, rules in (("pruned", RULES), ("as before", EVENT_RULES)):
            with _use_rules(rules), everview.connect(str(path / title), session(), PARTITIONS) as db:
                texts = ", ".join(f"c{i} STRING" for i in range(WIDE))
                for name in ("a", "b"):
                    db.execute(
                        f"CREATE STREAM {name} (k INT, {texts}, ts TIMESTAMP, TIMELINE ts) "
                        f"FROM parquet('{path / name}', maxFilesPerTrigger => 1)"
                    )
                db.execute(
                    "CREATE VIEW pairs AS SELECT a.k, a.c7 FROM a [RANGE 20 SECONDS] "
                    "JOIN b [RANGE 20 SECONDS] ON a.k = b.k"
                )
                seconds = run_steps(db, skip=3).typical
                state = sum(run.bytes for runs in db.manifest().of("state").values() for run in runs)
                found[title] = seconds, state
    (fast, small), (slow, large) = found["pruned"], found["as before"]
    print(
        f"{fast:.3f} s a step, without pruning {slow:.3f} s: {slow / fast:.2f} times (at least 2); "
        f"state {small / 1e6:.1f} MB, without {large / 1e6:.1f} MB: {large / small:.1f} times (at least 5)"
    )
