"""What is kept of the changes of a view: bounded, and exact from the instant on at which its history begins.

The reference are all changes that the view has ever had. Limits are those of the view (`history` and
`least_changes`) and of the policy by which runs are merged: small ones here.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from everview.algebra.time import INFINITY
from everview.catalog import Catalog, EventStreamEntry, QueryEntry, ViewEntry
from everview.execute.housekeeping import forget, merge
from everview.operators.columnar.frame import BEFORE_ALL, make_frame
from everview.storage.compaction import Policy
from everview.storage.files import Files
from everview.storage.history import horizons
from everview.storage.manifest import Manifest, Replacement
from everview.storage.runs import REPLACED, Run, TraceId
from everview.storage.trace import Trace

VIEW = TraceId("view", "v")
POLICY = Policy(cancelling=False, small=6, fan=2, large=40)

Change = tuple[int, int, int, int]  # value, from, until, n


@dataclass
class Kept:
    """The changes of one view, as steps and housekeeping leave them; `seen` are all it ever had."""

    entry: QueryEntry
    files: Files
    policy: Policy = POLICY
    manifest: Manifest = field(default_factory=lambda: Manifest(0, BEFORE_ALL))
    seen: list[Change] = field(default_factory=list)
    rewritten: int = 0

    @property
    def catalog(self) -> Catalog:
        found = Catalog()
        found.add(self.entry)
        return found

    def step(self, bound: int, *runs: Sequence[Change]) -> None:
        """Add the changes of a step, as one run or several, and clean up."""
        step, added = self.manifest.step + 1, []
        for i, changes in enumerate(runs):
            if changes:
                rows = make_frame({"v": [c[0] for c in changes]}, [c[1:] for c in changes])
                path, size = self.files.save_frame(VIEW.path(step, i), rows)
                added.append(Run.of(path, rows, size, step, i))
                self.seen += changes
        bounds = {"v": {"at": bound}}
        before = replace(self.manifest, step=step, bound=bound, present=bound, event_bounds=bounds)
        before = before.with_traces({VIEW: (*self.manifest.runs(VIEW), *added)})
        after = forget(before, self.catalog, ())
        there = {run.path for run in after.runs(VIEW)}
        self.manifest = merge(cast(SparkSession, None), self.files, after, self.catalog, self.policy)
        self.rewritten += sum(run.rows for run in self.manifest.runs(VIEW) if run.path not in there)

    @property
    def rows(self) -> list[Change]:
        found = Trace(VIEW, self.manifest.runs(VIEW), self.files).read()
        return cast(list[Change], found.rows())

    @property
    def horizon(self) -> int:
        return horizons(self.manifest, self.catalog).get(VIEW, BEFORE_ALL)

    def changes_after(self, instant: int) -> int:
        """Return how many of all rows change something after an instant."""
        return sum(max(b, e if e < INFINITY else b) > instant for _, b, e, _ in self.seen)


def holding(rows: Iterable[Change], instant: int) -> dict[int, int]:
    """Return how often each value occurs at an instant."""
    found: Counter[int] = Counter()
    for value, begin, end, n in rows:
        if begin <= instant < end:
            found[value] += n
    return {value: n for value, n in found.items() if n}


def random_changes(rng: random.Random, kept: Kept, b0: int, b1: int) -> list[Change]:
    """Return changes that begin after b0: rows with and without known ends, and retractions of open ones."""
    found: list[Change] = []
    for _ in range(rng.randrange(6)):
        begin = rng.randint(b0 + 1, b1 + 3)
        open_rows = [c for c in kept.seen[-40:] if c[2] > begin >= c[1]]
        if open_rows and rng.random() < 0.5:
            value, _, end, n = rng.choice(open_rows)
            found.append((value, begin, end, -n))
        else:
            end = rng.choice([INFINITY, INFINITY, begin + rng.randint(1, 30)])
            found.append((rng.randrange(4), begin, end, 1))
    return found


@pytest.mark.slow
@given(st.integers(0, 2**32), st.sampled_from([0, 5, 20]), st.sampled_from([0, 1, 10, 40]))
def test_answers_inside_the_history_are_exact(seed: int, history: int, least: int) -> None:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        entry = ViewEntry("v", "SELECT 1", history=history, least_changes=least)
        kept, bound = Kept(entry, Files(folder, durable=False)), 0
        for _ in range(40):
            before, b0, bound = kept.horizon, bound, bound + rng.randrange(5)
            kept.step(bound, *(random_changes(rng, kept, b0, bound) for _ in range(rng.randint(1, 2))))
            assert before <= kept.horizon <= max(bound - history, before)
            assert kept.horizon == BEFORE_ALL or kept.changes_after(kept.horizon) >= least
            for instant in {max(kept.horizon, 0), rng.randint(max(kept.horizon, 0), bound), bound, bound + 9}:
                assert holding(kept.rows, instant) == holding(kept.seen, instant)


def replacements(step: int, groups: int) -> list[Change]:
    """Return the changes of an aggregate whose groups all have another value in each step."""
    new = [(1000 * step + g, step, INFINITY, 1) for g in range(groups)]
    old = [(1000 * (step - 1) + g, step, INFINITY, -1) for g in range(groups)]
    return new + old if step > 1 else new


@pytest.mark.slow
@pytest.mark.parametrize(
    ("history", "least", "policy", "groups"),
    [
        (20, 0, POLICY, 3),  # a length of time alone
        (20, 300, POLICY, 3),  # the number reaches further back
        (20, 30, POLICY, 3),  # the length of time does
        (0, 100, POLICY, 3),
        (
            20,
            300,
            Policy(cancelling=False, small=6, fan=2, large=8),
            10,
        ),  # runs are large at once
        (20, 300, Policy(cancelling=False, fan=8), 3),  # all runs are small
    ],
)
def test_what_never_ends_is_kept_as_far_as_the_history_reaches(
    tmp_path: Path, history: int, least: int, policy: Policy, groups: int
) -> None:
    """What is kept does not grow with the steps, is close to what must be, and is not rewritten each time."""
    entry = ViewEntry("v", "SELECT 1", history=history, least_changes=least)
    kept, steps, sizes = Kept(entry, Files(str(tmp_path), durable=False), policy), 400, []
    for step in range(1, steps + 1):
        kept.step(step, replacements(step, groups))
        sizes.append(len(kept.rows))
        if step % 40 == 0:
            for instant in {max(kept.horizon, 1), max(kept.horizon, step - 7), step}:
                assert holding(kept.rows, instant) == holding(kept.seen, instant)
    a_step = 2 * groups
    needed = max(history * a_step, least) + groups
    assert max(sizes[steps // 2 :]) <= max(sizes[: steps // 2]), "it does not grow"
    assert max(sizes) <= 1.5 * needed + 30 * a_step
    assert kept.horizon >= steps - needed / a_step * 1.3 - 12, (
        "the history is not much longer than it must be"
    )
    assert kept.rewritten <= 8 * len(kept.seen), "a row is rewritten a few times, not in each step"
    assert kept.changes_after(kept.horizon) >= least
    assert kept.horizon <= steps - history


def test_rows_that_are_only_added_are_all_kept(tmp_path: Path) -> None:
    """They are the answer: nothing would be saved, and AS OF any instant can be answered."""
    kept = Kept(ViewEntry("v", "SELECT 1", history=5, least_changes=10), Files(str(tmp_path), durable=False))
    for step in range(1, 60):
        kept.step(step, [(step, step, INFINITY, 1)])
    assert (kept.horizon, len(kept.rows)) == (BEFORE_ALL, 59)


@pytest.mark.slow
def test_rows_of_event_streams_are_forgotten_by_their_time(tmp_path: Path) -> None:
    entry = EventStreamEntry("v", "SELECT 1", ("at",), history=5, least_changes=30)
    kept = Kept(entry, Files(str(tmp_path), durable=False))
    for step in range(1, 300):
        kept.step(step, [(step, step, INFINITY, 1)])
        assert kept.horizon == BEFORE_ALL or kept.changes_after(kept.horizon) >= 30
        assert {c for c in kept.rows if c[1] > kept.horizon} == {c for c in kept.seen if c[1] > kept.horizon}
    assert len(kept.rows) < 150


def test_changes_of_a_definition_that_does_not_show_do_not_count(tmp_path: Path) -> None:
    """The rows before an instant are those of the earlier definition, also where the new one has some."""
    kept = Kept(ViewEntry("v", "SELECT 1", history=1, least_changes=10), Files(str(tmp_path), durable=False))
    kept.manifest = replace(kept.manifest, replaced={"v": Replacement(1, 50)})
    for step in range(1, 49):
        kept.step(step, replacements(step, 1))
    assert kept.horizon == BEFORE_ALL
    for step in range(49, 70):
        kept.step(step, replacements(step, 1))
    assert 50 <= kept.horizon <= 64


def test_an_earlier_definition_is_forgotten_with_the_history(tmp_path: Path) -> None:
    kept = Kept(ViewEntry("v", "SELECT 1", history=1, least_changes=10), Files(str(tmp_path), durable=False))
    old = TraceId("view", "v", REPLACED)
    runs = (Run("old", 3, 10, 50, 1, 49, 0, negative=1),)
    kept.manifest = replace(kept.manifest.with_traces({old: runs}), replaced={"v": Replacement(1, 50)})
    for step in range(49, 80):
        kept.step(step, replacements(step, 1))
    assert not kept.manifest.runs(old)
