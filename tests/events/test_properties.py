"""Properties 1 to 7, 11 and 12 of event queries over random SQL, and the mutants that they must find.

Here the analysis is tested, and the plain model of what is emitted; `test_operators.py` tests the operators.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everview.algebra.changes import Record
from everview.reference import events as model
from everview.reference.events import EventInputs, event_meaning, visible_rows
from everview.temporal import output_bounds, terms, timing
from everview.temporal.cases import TimeCase
from everview.temporal.clocks import StreamLine
from everview.temporal.distances import ZERO
from everview.temporal.formulas import AllOf, AnyOf, Atom
from tests.events.properties import Accepted, accept, check_feed, check_seeds
from tests.events.random_queries import (
    COLUMNS,
    LINES,
    RandomQuery,
    all_lines,
    random_conjunctive_query,
    random_feed,
)
from tests.lanes import seed_lanes

lanes = seed_lanes("seeds", 12, 100, 200)


@lanes
def test_accepted_queries_keep_their_promises(seeds: range) -> None:
    assert check_seeds(seeds) == len(seeds)


@pytest.mark.slow
@given(st.integers(0, 2**40))
def test_fresh_queries_keep_their_promises(seed: int) -> None:
    """The same on seeds that hypothesis chooses: in `make fuzz` 2,000 new queries with 6 feeds each."""
    many = settings.default is not None and settings.default.max_examples >= 1000
    check_seeds([seed, 2**41 + seed] if many else [seed], feeds=6 if many else 2)


# Tightness


def _breaking_row(accepted: Accepted, bounds: dict[StreamLine, int]) -> bool:
    """Return whether a row may still come with which there is a result one chronon above the bound.

    A solution of the query's own atoms is taken, in which the rows of one relation are not late.
    """
    relations = {alias: stream for stream, alias in re.findall(r"\b([pqw]) (x\d+)\b", accepted.query.sql)}
    line = accepted.positions[0]
    bound = accepted.timing.bounds(bounds)[accepted.query.lines[0]]
    for case in accepted.timing.timing.cases:
        times = {a.name: a for a in case.distances.rows}
        time = case.columns[line]
        assert time is not None
        for alias, stream in relations.items():
            atoms = [
                Atom(time, ZERO, bound + 1),
                *(Atom(a, ZERO, 1000) for a in times.values() if a is not ZERO),
            ]
            for column in LINES[stream]:
                atoms.append(Atom(ZERO, times[f"{alias}.{column}"], -bounds[StreamLine(stream, column)] - 1))
            for solved in case.restrict(AllOf(tuple(atoms))):
                rows: dict[str, list[Record]] = {name: [] for name in COLUMNS}
                for each, name in relations.items():
                    values = [solved.distances.dist(ZERO, times[f"{each}.{c}"]) for c in LINES[name]]
                    row = dict(zip(LINES[name], values, strict=True))
                    rows[name].append(tuple(row.get(c, 1) for c in COLUMNS[name]))
                found = event_meaning(accepted.plan, EventInputs(rows, {"t": []}))
                if visible_rows(found, [line], [bound + 1]):
                    return True
    return False


@lanes
def test_bounds_of_conjunctive_queries_are_tight(seeds: range) -> None:
    """Property 7: with a bound that is one chronon higher the promise would be broken."""
    tried = 0
    for seed in seeds:
        rng = random.Random(seed)
        query = random_conjunctive_query(rng)
        accepted = accept(query) if ".due" not in query.sql else None
        if accepted is not None and not accepted.timing.is_empty:
            tried += 1
            bounds = {line: rng.randrange(20) for line in all_lines()}
            assert _breaking_row(accepted, bounds), f"{query} {bounds}"
    assert tried >= len(seeds) // 4


# Metamorphic


def test_the_order_of_a_join_changes_nothing() -> None:
    """Property 12: both sides of a join swapped, a filter pushed by hand, or one query split in two."""
    join = "p x0 JOIN q x1 ON x1.ts BETWEEN x0.ts AND x0.ts + INTERVAL '4' MICROSECOND"
    swapped = "q x1 JOIN p x0 ON x1.ts BETWEEN x0.ts AND x0.ts + INTERVAL '4' MICROSECOND"
    select = "SELECT x0.k, x1.ts AS t0, x0.ts AS t1 FROM"
    queries = [
        f"{select} {join} WHERE x0.k = 1 AND x1.ts > x0.ts",
        f"{select} {swapped} WHERE x0.k = 1 AND NOT x1.ts <= x0.ts",
        f"{select} {join} AND x0.k = 1 AND x1.ts > x0.ts",
        f"{select} (SELECT * FROM p WHERE k = 1) x0, q x1 WHERE x1.ts BETWEEN x0.ts AND x0.ts + "
        "INTERVAL '4' MICROSECOND AND x1.ts - x0.ts > INTERVAL '0' MICROSECOND",
    ]
    made = [accept(RandomQuery(sql, ("t0", "t1"))) for sql in queries]
    clocks = [None if m is None else {n: str(c) for n, c in sorted(m.timing.clocks.items())} for m in made]
    for seed in range(10):
        feed = random_feed(random.Random(seed))
        inputs = EventInputs(feed.rows(), feed.tables)
        answers = [event_meaning(m.plan, inputs) for m in made if m is not None]
        assert len(answers) == 4
        assert all(answer == answers[0] for answer in answers)
    assert clocks[0] == {"t0": "min(p.ts + 1 µs, q.ts)", "t1": "min(p.ts, q.ts − 4 µs)"}
    assert {frozenset(str(c)[4:-1].split(", ")) for clock in clocks if clock for c in clock.values()} == {
        frozenset({"p.ts + 1 µs", "q.ts"}),
        frozenset({"p.ts", "q.ts − 4 µs"}),
    }


# Mutants

Mutant = Callable[[pytest.MonkeyPatch], None]


def _strict_is_two(patch: pytest.MonkeyPatch) -> None:
    at_most = terms._at_most
    patch.setattr(terms, "_at_most", lambda one, other, slack: at_most(one, other, 2 * slack))


def _ready_one_early(patch: pytest.MonkeyPatch) -> None:
    def is_over(wait, row, inputs):  # type: ignore[no-untyped-def]
        if wait.clock is None or wait.column is None:
            return wait.clock is not None
        return row[wait.column] <= wait.clock.value(inputs.bounds) + 1

    patch.setattr(model, "_is_over", is_over)


def _bound_one_too_far(patch: pytest.MonkeyPatch) -> None:
    bounds = output_bounds.EventTiming.bounds
    patch.setattr(
        output_bounds.EventTiming,
        "bounds",
        lambda self, known: {k: v + 1 for k, v in bounds(self, known).items()},
    )


def _first_case_only(patch: pytest.MonkeyPatch) -> None:
    restrict = TimeCase.restrict

    def first(self, formula):  # type: ignore[no-untyped-def]
        return restrict(
            self, replace(formula, parts=formula.parts[:1]) if isinstance(formula, AnyOf) else formula
        )

    patch.setattr(TimeCase, "restrict", first)


def _negation_holds_nothing_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(timing, "_after_wait", lambda case, offset, wait, origins, back: case)


def _neg4_as_printed(patch: pytest.MonkeyPatch) -> None:
    printed = {"=": "<>", "<>": "=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
    patch.setattr(terms, "_OPPOSITES", printed)


MUTANTS: Sequence[Mutant] = (
    _strict_is_two,
    _ready_one_early,
    _bound_one_too_far,
    _first_case_only,
    _negation_holds_nothing_back,
)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.__name__.strip("_"))
def test_random_queries_find_the_mutant(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    with pytest.raises(AssertionError, match=r"prefix|complete|never|literal|whole"):
        check_seeds(range(250))


NEG4 = RandomQuery(
    "SELECT x0.k, x0.ts AS t0 FROM p x0 WHERE NOT EXISTS (SELECT 1 FROM q x1 WHERE NOT (x1.ts > x0.ts))",
    ("t0",),
)


def _check_neg4() -> None:
    accepted = accept(NEG4)
    assert accepted is not None
    rng = random.Random(1)
    for _ in range(300):
        check_feed(accepted, random_feed(rng))


def test_neg4_as_printed_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sixth mutant has its own test: the query of finding 1."""
    _neg4_as_printed(monkeypatch)
    with pytest.raises(AssertionError, match=r"prefix|never"):
        _check_neg4()


@pytest.mark.slow
def test_neg4_as_meant_is_right() -> None:
    _check_neg4()
