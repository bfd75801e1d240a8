"""How time moves: lateness, several time lines, INSERT, idle streams, the end of input."""

from __future__ import annotations

from everview.algebra.schema import Schema
from everview.algebra.types import TIMESTAMP
from everview.catalog import Lateness, Source, StreamEntry
from everview.ingest.bounds import LAST, advance_bounds, record_arrivals
from everview.operators.columnar.frame import BEFORE_ALL
from everview.storage.arrivals import Arrived
from everview.storage.manifest import Manifest

COLUMNS = Schema.of(("ts", TIMESTAMP), ("other", TIMESTAMP), timeline="ts")


def stream(name: str, lateness: int = 0, source: bool = True, idle: int | None = None) -> StreamEntry:
    lines = (Lateness("ts", lateness), Lateness("other", 2 * lateness))
    return StreamEntry(name, COLUMNS, lines, (), idle, Source("csv", name) if source else None)


def came(ts: int, other: int = 0, rows: int = 1) -> Arrived:
    return Arrived(rows, newest={"ts": ts, "other": other}, oldest=ts)


def test_the_bound_is_the_least_of_all_streams_and_never_falls() -> None:
    streams = [stream("a", 5), stream("b")]
    first = advance_bounds(streams, Manifest(), {"a": came(20, 100), "b": Arrived()})
    assert first.bounds["a"] == {"ts": 14, "other": 89}
    assert (first.bound, first.present, first.start) == (BEFORE_ALL, 20, 20), "nothing is known of b"
    second = advance_bounds(streams, first, {"b": came(12)})
    assert (second.bound, second.present, second.start) == (11, 20, 12)
    third = advance_bounds(streams, second, {"a": came(3), "b": came(4)})
    assert (third.bound, third.present, third.bounds) == (11, 20, second.bounds)
    assert third.start == 12, "the clock starts where the first slice did"
    assert third.counts == {"a": (2, 0, 0), "b": (2, 0, 0)}


def test_inserted_rows_are_all_there_with_their_instant() -> None:
    """Rows of a source with the newest timestamp may still come; after a run, those of an INSERT may not."""
    entry = stream("a", 5, source=False)
    known = record_arrivals(Manifest(), {"a": came(20, 30)}, now=0)
    assert known.bounds == {}, "time moves in a run only"
    assert advance_bounds([entry], known).bounds["a"] == {"ts": 15, "other": 20}


def test_the_end_of_input_is_the_end_of_time() -> None:
    after = advance_bounds([stream("a"), stream("b")], Manifest(), {"a": came(7)}, finish=True)
    assert (after.bound, after.present, after.finished) == (LAST, 7, True)
    assert advance_bounds([], Manifest(), finish=True).bound == LAST


def test_an_idle_stream_does_not_stop_time() -> None:
    streams = [stream("a", idle=30), stream("b")]
    first = advance_bounds(streams, Manifest(), {"a": came(10), "b": came(10)}, now=100)
    assert first.bound == 9
    waiting = advance_bounds(streams, first, {"b": came(50)}, now=129)
    assert waiting.bound == 9
    on = advance_bounds(streams, waiting, {"b": came(60)}, now=130)
    assert on.bound == 59
    assert on.bounds["a"]["ts"] == 59, "what it now sends for a time that has passed is late"
    back = advance_bounds(streams, on, {"a": came(61), "b": came(90)}, now=140)
    assert back.bound == 60, "it is heard again, and holds the bound again"


def test_time_goes_on_by_the_clock_while_all_streams_are_idle() -> None:
    """It goes on from where the furthest of them is, without a jump, and the present goes with it."""
    alone = [stream("a", idle=30), stream("b", idle=30)]
    first = advance_bounds(alone, Manifest(), {"a": came(10), "b": came(40)}, now=0)
    assert advance_bounds(alone, first, now=29).bound == 9
    begun = advance_bounds(alone, first, now=30)
    assert (begun.bound, begun.present) == (39, 40)
    later = advance_bounds(alone, begun, now=130)
    assert (later.bound, later.present) == (139, 139)
    assert later.bounds == {"a": {"ts": 139, "other": 139}, "b": {"ts": 139, "other": 139}}, (
        "on all time lines"
    )
    assert advance_bounds(alone, later, now=125).bound == 139, "a clock that is set back changes nothing"
    back = advance_bounds(alone, later, {"a": came(150)}, now=140)
    assert (back.bound, back.present) == (149, 150)
    late = [stream("a", lateness=7, idle=30)]
    first = advance_bounds(late, Manifest(), {"a": came(10)}, now=0)
    assert advance_bounds(late, first, now=100).bound == 10 + 100 - 30 - 7 - 1
    assert advance_bounds(late, Manifest(), now=100).bound == BEFORE_ALL, "nothing came: nothing goes on"
    assert advance_bounds([stream("a")], first, now=100).bound == 9, "without IDLE AFTER it holds time"
