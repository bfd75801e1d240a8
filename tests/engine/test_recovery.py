"""Kill -9 at any moment, start again: the same changes, none twice, none missing (DESIGN section 8, 6)."""

from __future__ import annotations

import random
import re
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import everview
from everview.database import Database
from everview.storage import manifest as manifests
from everview.storage.runs import FOLDERS, PLANS
from tests.engine.crash import IN_DRIVER, IN_TASKS, MOMENTS, Kill, run_victim
from tests.engine.feeding import Feed, Rows, everything
from tests.seeds import seeds

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PLACES = (*IN_TASKS, *IN_DRIVER)
KILLS = 2 * len(PLACES) - 1
# In `make test` the first victim is killed once in each place, in the middle of it, and the second twice,
# after and before: each place meets each moment. In `make fuzz` both are killed twice.
COUNTS = (len(seeds(len(PLACES), KILLS)), KILLS)
ROUNDS = KILLS + 2


def kills(seed: int) -> list[Kill]:
    """Each place twice, at different moments; there is little to clean or to merge at first."""
    rng = random.Random(seed)
    early = list(PLACES)
    rng.shuffle(early)
    early.sort(key=lambda place: place in ("clean", "merge", "compact"))
    later = [place for place in PLACES if place != "time"]
    rng.shuffle(later)
    places = [*early, *later]
    moments = [MOMENTS[(seed + places[:i].count(place)) % len(MOMENTS)] for i, place in enumerate(places)]
    return [Kill.chosen(rng, *both) for both in zip(places, moments, strict=True)]


def killed_again_and_again(folder: Path, seed: int, count: int, here: int) -> list[str]:
    """One victim after the other on one store; what they said. The last one is let live.

    `here` is up to how many rows the driver works on itself, without a job.
    """
    folder.mkdir()
    for i, kill in enumerate(kills(seed)[:count]):
        done = run_victim(folder, ROUNDS, i + 2, kill, here=here)
        assert done.returncode == -signal.SIGKILL, done.stderr
    done = run_victim(folder, ROUNDS, ROUNDS, here=here)
    assert done.returncode == 0, done.stderr
    return (folder / "log").read_text().splitlines()


def test_killed_at_random_moments(spark: SparkSession, tmp_path: Path) -> None:
    feed = Feed(tmp_path / "in", ROUNDS)
    with everview.connect(str(tmp_path / "undisturbed"), spark, partitions=2) as db:
        db.execute(feed.script)
        feed.work(db, ROUNDS)
        db.run(finish=True)
        expected = everything(db)
    assert all(expected.values()), "the test is of use only where there is something to lose"
    with ThreadPoolExecutor(2) as pool:
        folders = [tmp_path / "a", tmp_path / "b"]
        logs = list(pool.map(killed_again_and_again, folders, [1, 2], COUNTS, [0, 10_000]))
    for folder in (tmp_path / "a", tmp_path / "b"):
        with everview.connect(str(folder / "store"), spark) as db:
            found = everything(db)
            assert {n: _difference(found[n], expected[n]) for n in found if found[n] != expected[n]} == {}
            db._pipeline.store.lock().clean()
            _require_clean(db)
    _require_real_kills([line for log in logs for line in log])


def _difference(found: Rows, expected: Rows) -> dict[str, object]:
    return {"too many": dict(found - expected), "missing": dict(expected - found)}


def _require_clean(db: Database) -> None:
    """Nothing is left of all the steps that were cut off."""
    files = db._pipeline.store.files
    named = set().union(*(manifests.read(files, step).paths() for step in manifests.list_steps(files)))
    there = {f.path for folder in (*FOLDERS.values(), PLANS) for f in files.list_files(folder)}
    assert there == named


def _require_real_kills(log: list[str]) -> None:
    """They died where they were told to, in all places, and there was something to compact and to merge."""
    deaths = Counter(re.sub(r" \d+ ", " ", line) for line in log if line.startswith("killed"))
    assert deaths.total() == sum(COUNTS)
    missed = deaths["killed at rest"]
    assert missed <= 4, deaths
    assert {death.split()[1] for death in deaths} >= set(PLACES), deaths
    assert {"killed manifest before", "killed manifest after", "killed run half"} <= set(deaths), deaths
    assert log.count("compacted") > len(PLACES)
    assert log.count("merged") > len(PLACES)
