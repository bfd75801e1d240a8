"""The traps of event queries that only show in steps: what the operators emit, when, and what they keep."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from everview import operators as P
from everview.algebra.changes import Record
from everview.operators.base import stateful_operators
from everview.plan.lower_events import lower_events
from everview.reference.events import Bag, visible_rows
from everview.temporal.clocks import ENDED, NOT_BEGUN, STORE_BOUND, StreamLine
from tests.events.driver import EventDriver
from tests.events.properties import Accepted, accept, random_accepted
from tests.events.random_queries import RandomQuery, all_lines

Rows = Mapping[str, Sequence[Record]]
Bounds = Mapping[str, int]  # of time lines, as `p.ts`

US = "INTERVAL '{}' MICROSECOND"
LATER = f"x1.ts BETWEEN x0.ts AND x0.ts + {US.format(5)}"


def accepted(sql: str, *lines: str) -> Accepted:
    found = accept(RandomQuery(sql, lines or ("t0",)))
    assert found is not None, f"{sql} was refused"
    return found


def known(bounds: Bounds) -> dict[StreamLine, int]:
    """Return the bounds of some time lines; nothing is known of the others, nor of the store."""
    return {StreamLine(*line.split(".")): bound for line, bound in bounds.items()}


class Steps:
    """An event query over the streams p (k, v, ts), q (k, ts, due) and w (k, a, b), run by its operators."""

    def __init__(self, sql: str, *lines: str) -> None:
        self.accepted = accepted(sql, *lines)
        self.driver = EventDriver(lower_events(self.accepted.timing.timing))

    def step(self, rows: Rows, **bounds: int) -> Bag:
        """Return what a step emits; `p_ts=5` says that p is known up to 5."""
        lines = {name.replace("_", ".", 1): bound for name, bound in bounds.items()}
        return self.driver.step(rows, known(lines), {})

    def finish(self) -> Bag:
        """Return what is emitted when all streams have ended; no state is left."""
        ended = {**dict.fromkeys(all_lines(), ENDED), STORE_BOUND: ENDED}
        found = self.driver.step({}, ended, {})
        assert self.driver.rows() == 0
        return found


NOTHING: Bag = Counter()


@pytest.mark.parametrize(("upper", "ready_at"), [("<=", 8), ("<", 7)])
def test_a_row_is_ready_at_its_clock_and_not_before(upper: str, ready_at: int) -> None:
    """Trap 1: `<` is one chronon less; ready is p ≤ clock, and a row is kept while p > clock."""
    steps = Steps(
        "SELECT x0.k, x0.ts AS t0 FROM p x0 WHERE NOT EXISTS (SELECT 1 FROM q x1 WHERE x1.k = x0.k "
        f"AND x1.ts >= x0.ts AND x1.ts {upper} x0.ts + {US.format(5)})"
    )
    assert steps.step({"p": [(1, None, 3)]}, p_ts=3, q_ts=ready_at - 1) == NOTHING
    assert steps.driver.rows() > 0
    assert steps.step({}, p_ts=3, q_ts=ready_at) == Counter({(1, 3): 1})
    assert steps.driver.rows() == 0
    assert steps.finish() == NOTHING


@pytest.mark.parametrize(("partner", "is_met"), [(2, False), (3, True), (8, True), (9, False)])
def test_both_ends_of_between_count(partner: int, is_met: bool) -> None:
    """Trap 2: a partner at either end is a partner."""
    steps = Steps(f"SELECT x0.k, x0.ts AS t0 FROM p x0 WHERE NOT EXISTS (SELECT 1 FROM q x1 WHERE {LATER})")
    steps.step({"p": [(1, None, 3)], "q": [(1, partner, None)]})
    assert steps.finish() == (NOTHING if is_met else Counter({(1, 3): 1}))


def test_a_query_that_is_always_empty_keeps_nothing() -> None:
    """Trap 5: a negative cycle is no distance of −∞. No row is kept, and the bound is the end of time."""
    steps = Steps("SELECT x0.k, x1.ts AS t0 FROM p x0 JOIN q x1 ON x1.ts > x0.ts AND x1.ts < x0.ts")
    assert steps.step({"p": [(1, None, 3)], "q": [(1, 3, None)]}) == NOTHING
    assert steps.driver.rows() == 0
    assert steps.accepted.timing.bounds({}) == {"t0": ENDED}


def test_a_group_goes_out_once_when_its_key_is_due() -> None:
    """Trap 8: all rows of a group wait by its key, which stands for up to 999 µs of rows."""
    time = "date_trunc('MILLISECOND', x0.ts)"
    steps = Steps(f"SELECT x0.k, {time} AS t0, COUNT(*) AS n FROM p x0 GROUP BY x0.k, {time}")
    assert steps.step({"p": [(1, None, 100), (1, None, 1000)]}, p_ts=998) == NOTHING
    assert steps.step({"p": [(1, None, 999)]}, p_ts=999) == Counter({(1, 0, 2): 1})
    assert steps.finish() == Counter({(1, 1000, 1): 1})


def test_count_of_a_left_join_counts_the_padded_row() -> None:
    """Trap 9: COUNT(*) counts it, COUNT of a column of the padded side does not."""
    steps = Steps(
        "SELECT x0.ts AS t0, COUNT(*) AS n, COUNT(x1.k) AS m FROM p x0 LEFT JOIN q x1 ON x1.ts = x0.ts "
        "GROUP BY x0.ts"
    )
    steps.step({"p": [(1, None, 3), (1, None, 5)], "q": [(1, 5, None), (2, 5, None)]})
    assert steps.finish() == Counter({(3, 1, 0): 1, (5, 2, 2): 1})


def test_exists_does_not_wait_and_not_exists_does() -> None:
    """Trap 10: a row with a partner is out in the step in which both are there, whatever is known."""
    rows: Rows = {"p": [(1, None, 3), (2, None, 3)], "q": [(1, 4, None)]}
    met, unmet = (
        Steps(
            f"SELECT x0.k, x0.ts AS t0 FROM p x0 WHERE {word} (SELECT 1 FROM q x1 "
            f"WHERE x1.k = x0.k AND {LATER})"
        )
        for word in ("EXISTS", "NOT EXISTS")
    )
    assert met.step(rows) == Counter({(1, 3): 1})
    assert unmet.step(rows) == NOTHING
    assert met.step({"q": [(1, 5, None)]}, p_ts=3, q_ts=8) == NOTHING
    assert unmet.step({"q": [(1, 5, None)]}, p_ts=3, q_ts=8) == Counter({(2, 3): 1})
    assert met.finish() == unmet.finish() == NOTHING


def test_not_in_knows_null() -> None:
    """Trap 10: a NULL among the values hides every row, a NULL itself is in no list but not outside one."""
    steps = Steps(
        f"SELECT x0.k, x0.ts AS t0 FROM p x0 WHERE x0.k NOT IN (SELECT x1.k FROM q x1 WHERE {LATER})"
    )
    rows = [(1, None, 10), (2, None, 20), (None, None, 30), (None, None, 40)]
    steps.step({"p": rows, "q": [(None, 11, None), (5, 21, None), (5, 31, None)]})
    assert steps.finish() == Counter({(2, 20): 1, (None, 40): 1})


FIRST = (
    "SELECT x1.k, x1.ts AS t0 FROM p x0 JOIN q x1 ON x1.ts > x0.ts WHERE NOT EXISTS "
    "(SELECT 1 FROM q x2 WHERE x2.ts > x0.ts AND {before})"
)


@pytest.mark.parametrize(
    ("before", "first"),
    [
        ("x2.ts < x1.ts", [(1, 4), (2, 4)]),
        ("(x2.ts < x1.ts OR x2.ts = x1.ts AND x2.k < x1.k)", [(1, 4)]),
    ],
)
def test_two_events_at_the_same_instant_are_both_first(before: str, first: list[Record]) -> None:
    """Trap 11: "none in between" is bounded by the second event; another column decides between both."""
    steps = Steps(FIRST.format(before=before))
    rows: Rows = {"p": [(0, None, 1)], "q": [(2, 4, None), (1, 4, None), (3, 6, None)]}
    assert steps.step(rows, p_ts=1, q_ts=4) == Counter(first)
    assert steps.finish() == NOTHING


def test_state_that_is_kept_for_ever_goes_with_the_end() -> None:
    """Trap 12: a join without an upper end answers, and keeps one side until all streams have ended."""
    steps = Steps("SELECT x0.k, x1.ts AS t0 FROM p x0 JOIN q x1 ON x1.ts > x0.ts")
    assert steps.step({"p": [(1, None, 3)]}, p_ts=1000, q_ts=1000) == NOTHING
    assert steps.driver.rows() == 1
    assert steps.step({"q": [(0, 2000, None)]}, p_ts=2000, q_ts=2000) == Counter({(1, 2000): 1})
    assert steps.driver.rows() == 1
    assert steps.finish() == NOTHING


def test_an_upper_constant_bounds_once_it_is_passed() -> None:
    """Trap 13: then rows of any time are ready at once, also those beyond what is known of the stream."""
    steps = Steps(
        "SELECT x0.k, x0.ts AS t0 FROM p x0 WHERE NOT EXISTS "
        "(SELECT 1 FROM q x1 WHERE x1.ts <= TIMESTAMP '1970-01-01 00:00:00.000009')"
    )
    assert steps.step({"p": [(1, None, 3), (2, None, 90)]}, p_ts=2, q_ts=8) == NOTHING
    assert steps.step({}, p_ts=2, q_ts=9) == Counter({(1, 3): 1, (2, 90): 1})
    assert steps.finish() == NOTHING


def test_a_row_decides_itself_in_the_step_in_which_it_comes() -> None:
    """Trap 14: with a strict look-back into its own stream it waits for what is before it, not for itself."""
    steps = Steps(
        "SELECT x0.k, x0.ts AS t0 FROM p x0 WHERE NOT EXISTS (SELECT 1 FROM p x1 WHERE x1.k = x0.k "
        f"AND x1.ts < x0.ts AND x1.ts >= x0.ts - {US.format(5)})"
    )
    assert steps.step({"p": [(1, None, 3)]}, p_ts=2) == Counter({(1, 3): 1})
    assert steps.step({"p": [(1, None, 8), (1, None, 14)]}, p_ts=13) == Counter({(1, 14): 1})
    assert steps.finish() == NOTHING


def test_rows_are_emitted_before_the_bound_and_shown_when_it_has_come() -> None:
    """Trap 16: event queries take a pair at once; people see it when one of its time lines is known."""
    steps = Steps(f"SELECT x0.ts AS t0, x1.ts AS t1 FROM p x0 JOIN q x1 ON {LATER}", "t0", "t1")
    emitted = steps.step({"p": [(1, None, 3)], "q": [(1, 7, None)]}, p_ts=3, q_ts=2)
    assert emitted == Counter({(3, 7): 1})
    for q, bounds, shown in ((2, [-3, 2], 0), (7, [2, 3], 0), (8, [3, 3], 1)):
        found = list(steps.accepted.timing.bounds(known({"p.ts": 3, "q.ts": q})).values())
        assert found == bounds
        assert visible_rows(emitted, [0, 1], found).total() == shown


def test_a_stream_without_rows_stops_time() -> None:
    """Trap 18: nothing is known of an answer that needs it; a stream that is not needed stops nothing."""
    pair = accepted(f"SELECT x0.ts AS t0 FROM p x0 JOIN q x1 ON {LATER}")
    assert pair.timing.bounds(known({"p.ts": 100, "w.a": 100})) == {"t0": NOT_BEGUN}
    assert pair.timing.bounds(known({"p.ts": 100, "q.ts": 60})) == {"t0": 55}
    assert accepted("SELECT x0.ts AS t0 FROM p x0").timing.bounds(known({"p.ts": 100})) == {"t0": 100}


def test_a_row_counts_when_it_arrives_by_any_of_its_lines() -> None:
    """Trap 19: its first line may be far ahead of what is known; the bound of its second one is used."""
    steps = Steps(
        "SELECT x0.k, x0.b AS t0 FROM w x0 WHERE NOT EXISTS (SELECT 1 FROM p x1 WHERE x1.ts = x0.b)"
    )
    assert steps.step({"w": [(1, 50, 3)]}, w_a=10, w_b=4, p_ts=2) == NOTHING
    assert steps.step({}, w_a=10, w_b=4, p_ts=3) == Counter({(1, 3): 1})
    bounds = steps.accepted.timing.bounds(known({"w.a": 10, "w.b": 4, "p.ts": 3}))
    assert bounds == {"t0": 3}
    assert steps.finish() == NOTHING


def test_a_step_that_runs_again_is_the_same() -> None:
    """Trap 22: what a step emits and keeps depends on rows, state and bounds alone."""
    steps = Steps(f"SELECT x0.k, x0.ts AS t0 FROM p x0 WHERE NOT EXISTS (SELECT 1 FROM q x1 WHERE {LATER})")
    steps.step({"p": [(k, None, k) for k in range(20)], "q": [(0, 9, None)]}, p_ts=12, q_ts=12)
    driver = steps.driver
    again = EventDriver(driver.plan)
    again.state = {name: dict(parts) for name, parts in driver.state.items()}
    again.before = driver.before
    rows, bounds = {"p": [(30, None, 30)], "q": [(0, 13, None)]}, known({"p.ts": 19, "q.ts": 19})
    emitted = driver.step(rows, bounds, {})
    assert emitted
    assert again.step(rows, bounds, {}) == emitted
    for name, parts in driver.state.items():
        assert all(parts[part].equals(frame) for part, frame in again.state[name].items())


@pytest.mark.slow
def test_rows_of_events_go_through_event_operators_only() -> None:
    """Trap 23: an end in a state means that nobody needs the row any more; elsewhere, that it stops counting.

    Only the versions of tables, which have intervals, are kept by another operator.
    """
    rng, seen = random.Random(5), set()
    for _ in range(150):
        plan = lower_events(random_accepted(rng).timing.timing)
        for operator in stateful_operators([plan]):
            seen.add(type(operator))
            versions = (P.VersionJoinOperator, P.VersionAntiJoinOperator)
            assert isinstance(operator, (P.EventOperator, *versions)), operator
    assert {P.MatchOperator, P.MetOperator, P.UnmetOperator, P.CollectOperator, P.OnceOperator} <= seen
    assert {P.CopiesOperator, P.HoldOperator, P.VersionJoinOperator} <= seen


@pytest.mark.parametrize("seed", range(20))
def test_what_holds_a_row_back_is_what_drops_it(seed: int) -> None:
    """Trap 28: there is one rule. An operator that holds rows back drops all its state by the same wait."""
    plan = lower_events(random_accepted(random.Random(seed)).timing.timing)
    for operator in stateful_operators([plan]):
        if isinstance(operator, P.EventOperator) and not isinstance(operator, P.MatchOperator):
            assert {wait.clock for wait in operator.waits.values()} == {operator.clock}
