"""Clocks at the ends of time, and the bounds of a store that they are computed from."""

from __future__ import annotations

from everview.algebra.time import HOUR
from everview.compile_store import compile_store
from everview.execute.event_bounds import clock_bound, line_bounds
from everview.sql import bind_script, declare
from everview.storage.manifest import Manifest
from everview.temporal.clocks import ENDED, NOT_BEGUN, STORE_BOUND, Clock, Moment, StreamLine
from tests.events.properties import random_catalog

LINE, OTHER = StreamLine("s", "ts"), StreamLine("r", "ts")


def test_clocks_saturate_at_both_ends() -> None:
    """Trap 21: a stream that has ended, or not begun, is so for every clock, whatever the distance."""
    for minus in (-HOUR, 0, HOUR):
        assert Moment(LINE, minus).value({LINE: ENDED}) == ENDED
        assert Moment(LINE, minus).value({LINE: NOT_BEGUN}) == Moment(LINE, minus).value({}) == NOT_BEGUN
    assert Moment(LINE, -HOUR).value({LINE: ENDED - 5}) == ENDED
    assert Moment(LINE, HOUR).value({LINE: NOT_BEGUN + 5}) == NOT_BEGUN
    assert Moment(LINE, reaches=ENDED - 1).value({LINE: ENDED}) == ENDED


def test_a_clock_waits_for_all_parts_and_for_one_line_of_each() -> None:
    """Definition 24: the least over all requirements of the greatest over their alternatives."""
    clock = Clock.earliest([(Moment(LINE, 5), Moment(OTHER)), (Moment(OTHER, -2),)])
    assert clock.value({LINE: 100, OTHER: 3}) == 5
    assert clock.value({LINE: 100, OTHER: 200}) == 200
    assert clock.value({LINE: 100}) == NOT_BEGUN
    assert clock.holding({LINE: 100, OTHER: 3}) == (OTHER,)
    assert Clock().value({}) == ENDED


def test_the_clock_of_a_store_ticks_up_to_its_bound_and_its_newest_row() -> None:
    """Trap 27: the stream of the clock has no rows of its own that could arrive."""
    ticks = StreamLine("clock", "time_point")
    assert clock_bound(Manifest(bound=7, present=9)) == {ticks: 7}
    assert clock_bound(Manifest(bound=9, present=7)) == {ticks: 7}
    assert clock_bound(Manifest(bound=ENDED, present=7, finished=True)) == {ticks: ENDED}


def test_bounds_of_event_streams_are_those_of_their_inputs_and_not_of_the_store() -> None:
    """Traps 15 and 22: a function of the manifest. A deadline may be known further than the store is."""
    catalog = random_catalog()
    script = """
        CREATE STREAM due TIMELINE until AS
          SELECT k, ts + INTERVAL '15' MICROSECOND AS until FROM p;
        CREATE STREAM again TIMELINE until AS SELECT k, until FROM due;
        CREATE VIEW counted AS SELECT COUNT(*) AS n FROM due [RANGE 5 MICROSECONDS];
    """
    for statement in bind_script(script, catalog):
        declare(statement, catalog)
    store = compile_store(catalog)
    bounds = {"p": {"ts": 20}, "q": {"ts": 8}, "w": {"a": 9, "b": 9}}
    found = line_bounds(Manifest(bound=8, bounds=bounds, present=25), store)
    assert found[STORE_BOUND] == 8
    assert found[StreamLine("due", "until")] == found[StreamLine("again", "until")] == 35
    clock = store.views["counted"].clock
    assert clock is not None
    assert clock.value(found) == 8, "a view takes the lesser one"
