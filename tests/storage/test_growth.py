"""A store stays small by itself, however many steps it has had and however many rows were inserted."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import cast

import polars as pl
import pytest
from pyspark.sql import SparkSession

import everview
from everview.algebra.time import INFINITY, WEEK
from everview.catalog import Catalog, ViewEntry
from everview.database import Database
from everview.execute.housekeeping import POLICY, forget, merge
from everview.operators.columnar.frame import make_frame, sum_begun
from everview.storage.files import Files
from everview.storage.history import horizons
from everview.storage.manifest import Manifest
from everview.storage.runs import Run, TraceId
from everview.storage.trace import Trace

ENTRY = ViewEntry("v", "SELECT 1", history=10, least_changes=100)
VIEW = TraceId("view", "v")


def kept(catalog: Catalog, *runs: tuple[int, int], bound: int = 50, before: int | None = None) -> Manifest:
    """Forget what can be of runs of a view, each of some rows that end at an instant."""
    made = tuple(Run(f"{i}", rows, until, until, 0, until - 1, 9) for i, (rows, until) in enumerate(runs))
    past = {} if before is None else {"v": before}
    return forget(Manifest(9, bound, present=bound, traces={VIEW: made}, forgotten=past), catalog, ())


def catalog_of(entry: ViewEntry) -> Catalog:
    found = Catalog()
    found.add(entry)
    return found


@pytest.mark.parametrize(
    ("runs", "left", "forgotten"),
    [
        ([(60, 10), (60, 20)], ["0", "1"], None),  # too few would be left
        ([(60, 10), (60, 20), (60, 30)], ["1", "2"], 19),  # all that ends at 20 or later
        ([(60, 30), (60, 10), (60, 20)], ["0", "2"], 19),
        ([(60, 41), (60, 42), (60, 43)], ["0", "1", "2"], None),  # none is old enough
        ([(60, 10), (60, 20), (60, 45), (60, 46)], ["2", "3"], 40),
        # What never ends may have begun at 0: it does not count as a change of now.
        ([(60, 10), (60, 20), (60, 45), (60, INFINITY)], ["1", "2", "3"], 19),
    ],
)
def test_the_last_changes_are_kept_however_old(
    runs: list[tuple[int, int]], left: list[str], forgotten: int | None
) -> None:
    catalog = catalog_of(ENTRY)
    after = kept(catalog, *runs)
    assert [run.path for run in after.runs(VIEW)] == left
    assert after.forgotten.get("v") == forgotten
    assert horizons(after, catalog).get(VIEW) == forgotten


def test_what_is_forgotten_stays_so() -> None:
    """Also when no change came since, and when the view has few changes again."""
    catalog = catalog_of(ENTRY)
    assert kept(catalog, (5, 40), before=20).forgotten == {"v": 20}
    assert kept(Catalog(), (5, 40), before=20).forgotten == {}, "the view was dropped"


@pytest.mark.parametrize("history", [0, 10, INFINITY])
def test_a_length_that_was_given_is_kept_to(history: int) -> None:
    catalog = catalog_of(ViewEntry("v", "SELECT 1", history=history))
    after = kept(catalog, (1, 45), (1, 30))
    assert [run.path for run in after.runs(VIEW)] == {0: [], 10: ["0"], INFINITY: ["0", "1"]}[history]
    assert horizons(after, catalog).get(VIEW) == (None if history == INFINITY else 50 - history)


@pytest.mark.slow
def test_retracted_values_are_forgotten_with_the_history(tmp_path: Path) -> None:
    """A count that changes in every step, and never ends: what is kept does not grow with the steps."""
    catalog, files = catalog_of(ViewEntry("v", "SELECT 1", history=20)), Files(str(tmp_path), durable=False)
    manifest, sizes, all_rows = Manifest(0, 0), [], []
    for step in range(1, 301):
        changes = [(step, INFINITY, 1), (step, INFINITY, -1)][: 2 if step > 1 else 1]
        rows = make_frame({"n": [step, step - 1][: len(changes)]}, changes)
        path, size = files.save_frame(VIEW.path(step, 0), rows)
        runs = (*manifest.runs(VIEW), Run.of(path, rows, size, step))
        manifest = replace(manifest, step=step, bound=step, present=step).with_traces({VIEW: runs})
        manifest = merge(cast(SparkSession, None), files, forget(manifest, catalog, ()), catalog)
        kept_rows = Trace(VIEW, manifest.runs(VIEW), files).read()
        sizes.append(kept_rows.height)
        all_rows.append(rows)
        if step % 50 == 0:
            for instant in (step - 20, step - 7, step):
                assert holding(kept_rows, instant) == holding(pl.concat(all_rows), instant) == {(instant,): 1}
    assert max(sizes) <= 2 * (20 + 4 * POLICY.fan)
    assert max(sizes[200:]) <= max(sizes[:100])


def holding(rows: pl.DataFrame, instant: int) -> dict[tuple[object, ...], int]:
    """Return how often each record occurs at an instant."""
    found: Counter[tuple[object, ...]] = Counter()
    for *record, begin, end, n in rows.rows():
        if begin <= instant < end:
            found[tuple(record)] += n
    return {record: n for record, n in found.items() if n}


@pytest.mark.parametrize("seed", range(40))
def test_rows_that_have_begun_are_summed(seed: int) -> None:
    rng = random.Random(seed)
    times = [(b := rng.randrange(9), b + rng.choice([1, 3, 99]), rng.choice([1, 1, -1])) for _ in range(12)]
    values = [rng.choice([None, 0.0, -0.0, math.nan, 1.5]) for _ in times]
    rows, bound = make_frame({"v": values}, times), rng.randrange(10)
    small = sum_begun(rows, bound)
    assert small.height <= rows.height
    for instant in range(bound, 14):
        assert repr(sorted(plain(small, instant))) == repr(sorted(plain(rows, instant)))


def plain(rows: pl.DataFrame, instant: int) -> list[tuple[str, int]]:
    """Return how often each value occurs; 0.0 and -0.0 are one, as are NaNs."""
    found: Counter[str] = Counter()
    for (value,), n in holding(rows, instant).items():
        found[str(value + 0.0 if isinstance(value, float) else value)] += n
    return [(value, n) for value, n in found.items() if n]


STREAM = "CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts);"


def files_of(path: Path) -> Counter[str]:
    return Counter(f.relative_to(path).parts[0] for f in path.rglob("*") if f.is_file())


def inserted(db: Database, kind: str = "inbox") -> list[int]:
    store, trace = db._pipeline.store, TraceId(kind, "s")
    return sorted(Trace(trace, db.manifest().runs(trace), store.files).read().to_series(0).to_list())


@pytest.mark.slow
def test_single_rows_that_are_inserted_leave_few_files(tmp_path: Path) -> None:
    with everview.connect(str(tmp_path / "s")) as db:
        db.execute(f"{STREAM} CREATE VIEW v AS SELECT COUNT(*) AS n FROM s [RANGE 10 SECONDS]")
        seen = []
        for i in range(90):
            db.insert("s", [{"k": i, "ts": f"2026-01-01 00:{i // 60:02}:{i % 60:02}"}])
            if i % 30 == 29:
                seen.append(files_of(tmp_path / "s").total())
        assert inserted(db) == list(range(90))
        assert max(seen) < 70
        assert seen[2] <= seen[1] + 5, "the number of files does not grow"
        assert len(db.manifest().runs(TraceId("inbox", "s"))) < 9


def test_what_create_says_of_the_changes_that_are_kept(tmp_path: Path) -> None:
    with everview.connect(str(tmp_path / "s")) as db:
        db.execute(f"{STREAM} CREATE VIEW v AS SELECT k FROM s")
        db.execute("CREATE VIEW w WITH (history => 'none') AS SELECT k FROM s")
        db.execute("CREATE VIEW x WITH (history => 'forever') AS SELECT k FROM s")
        assert "history: 1 WEEK, and the last 1,000,000 changes" in str(db.execute("DESCRIBE v"))
        assert "history: none, only the present answer" in str(db.execute("DESCRIBE w"))
        assert "history: for ever" in str(db.execute("DESCRIBE x"))
        for name, said in (
            ("v", ""),
            ("w", " WITH (history => 'none')"),
            ("x", " WITH (history => 'forever')"),
        ):
            made = str(db.execute(f"SHOW CREATE VIEW {name}"))
            assert made.startswith(f"CREATE VIEW {name}{said} AS")
            db.execute(made)  # the same view again is no change
        assert db.catalog.get("v") == ViewEntry(
            "v", "SELECT k FROM s", history=WEEK, depends_on=("s",), least_changes=1_000_000
        )


def test_a_view_of_a_store_made_before_keeps_all(tmp_path: Path) -> None:
    catalog = Catalog.from_json(catalog_of(ViewEntry("v", "SELECT 1 AS one", history=INFINITY)).to_json())
    entry = catalog.get("v")
    assert isinstance(entry, ViewEntry)
    assert (entry.history, entry.least_changes) == (INFINITY, 0)
    with everview.connect(str(tmp_path / "s")) as db:
        db.execute("CREATE VIEW v WITH (history => 'forever') AS SELECT 1 AS one")
        db.execute("CREATE VIEW v AS SELECT 1 AS one")
        found = db.catalog.get("v")
        assert isinstance(found, ViewEntry)
        assert found.history == INFINITY
