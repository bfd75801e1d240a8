"""How time moves: lateness, several time lines, INSERT, idle streams, the end of input."""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from everview.algebra.schema import Schema
from everview.algebra.types import TIMESTAMP
from everview.catalog import Lateness, Source, StreamEntry, stream_columns
from everview.ingest.bounds import LAST, advance_bounds, arrival_time, record_arrivals, slowest_part
from everview.ingest.clauses import stamped_rows
from everview.ingest.late import split_late
from everview.ingest.reading import PART, PUNCTUATES
from everview.ingest.rows import frame_of
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


def arriving(name: str, *stamped: str, idle: int | None = None) -> StreamEntry:
    """Return a stream with two time lines, some of which are stamped on ARRIVAL."""
    entry = stream(name, idle=idle)
    lines = tuple(replace(line, arrival=line.column in stamped) for line in entry.timelines)
    return replace(entry, timelines=lines)


def test_a_line_that_is_stamped_on_arrival_goes_by_the_clock() -> None:
    """Up to one chronon before it, also when no rows come; a clock that is set back changes nothing."""
    entry = arriving("a", "other")
    first = advance_bounds([entry], Manifest(), {"a": came(20, 1000)}, now=1000)
    assert first.bounds["a"] == {"ts": 19, "other": 999}
    assert advance_bounds([entry], first, now=1007).bounds["a"] == {"ts": 19, "other": 1006}
    assert advance_bounds([entry], first, now=990).bounds == first.bounds
    assert arrival_time(entry, "other", first, 990) == 1000, "after the bound"
    assert arrival_time(entry, "other", first, 1000) == 1000
    ended = advance_bounds([entry], first, finish=True, now=1001)
    assert arrival_time(entry, "other", ended, 1002) <= ended.bounds["a"]["other"], "late"


def test_an_idle_stream_does_not_move_a_line_that_goes_by_the_clock() -> None:
    streams = [arriving("a", "other", idle=30), stream("b")]
    first = advance_bounds(streams, Manifest(), {"a": came(10), "b": came(5000, 5000)}, now=100)
    on = advance_bounds(streams, first, {"b": came(6000, 6000)}, now=200)
    assert on.bound == 5999
    assert on.bounds["a"] == {"ts": 5999, "other": 199}, "b is ahead of the clock"


def test_an_idle_stream_goes_on_by_the_second_lines_of_the_others() -> None:
    """Else it would hold back event queries by these lines: the bound of the store goes by the first ones."""
    lines = (Lateness("ts", 100), Lateness("other"))
    streams = [replace(stream("a", idle=30), timelines=lines), replace(stream("b"), timelines=lines)]
    both = {"a": came(1000, 1000), "b": came(1000, 1000)}
    first = advance_bounds(streams, Manifest(), both, now=0)
    assert first.bounds["a"] == {"ts": 899, "other": 999}
    on = advance_bounds(streams, first, {"b": came(1500, 1600)}, now=30)
    assert (on.bound, on.bounds["a"]) == (1399, {"ts": 1399, "other": 1599})
    behind = advance_bounds(streams, first, {"b": came(1500, 1200)}, now=30)
    assert behind.bounds["a"] == {"ts": 1399, "other": 1399}, "and never less than the bound of the store"
    stamped = [streams[0], arriving("b", "other")]
    by_clock = advance_bounds(stamped, first, {"b": came(1500, 9000)}, now=9000)
    assert by_clock.bounds["a"]["other"] == by_clock.bound, "the clock may be far from the times in rows"


def test_a_stream_of_arrivals_is_never_passed_by() -> None:
    """Its rows would be late else. Its other time lines go with the bound when it is idle."""
    streams = [arriving("a", "ts", idle=30), stream("b")]
    first = advance_bounds(streams, Manifest(), {"a": came(100), "b": came(5000)}, now=100)
    assert first.bound == 99
    on = advance_bounds(streams, first, now=200)
    assert (on.bound, on.bounds["a"]) == (199, {"ts": 199, "other": 199})


def test_a_punctuation_says_that_all_is_known_up_to_it() -> None:
    """Neither lateness nor the last chronon counts; INSERT remembers it until the next run."""
    for entry, newest in ((stream("a", 5), 14), (stream("a", 5, source=False), 15)):
        beyond = replace(came(20, 30), punctuated={"ts": 12, "other": 28})
        after = advance_bounds([entry], Manifest(), {"a": beyond})
        assert after.bounds["a"] == {"ts": newest, "other": 28}
        known = record_arrivals(after, {"a": replace(came(20), punctuated={"ts": 18, "other": 3})}, now=0)
        assert known.bounds == after.bounds
        assert advance_bounds([entry], known).bounds["a"] == {"ts": 18, "other": 28}, "it never falls"


@dataclass(frozen=True)
class Came:
    """Rows of a step, as (ts, other, whether it is a punctuation), and what the clock says."""

    rows: list[tuple[int, int, bool]]
    now: int


INSTANTS = st.integers(0, 60)
STEPS = st.lists(
    st.builds(Came, st.lists(st.tuples(INSTANTS, INSTANTS, st.booleans()), max_size=4), INSTANTS), max_size=6
)


@given(
    st.integers(0, 9),
    st.booleans(),
    st.sampled_from([(), ("ts",), ("other",), ("ts", "other")]),
    st.none() | st.integers(1, 30),
    STEPS,
)
def test_rows_are_late_by_the_bounds_of_the_steps_before(
    lateness: int, source: bool, stamped: tuple[str, ...], idle: int | None, steps: list[Came]
) -> None:
    """Each row and each bound, by their definitions."""
    lines = tuple(
        Lateness(name, 0 if name in stamped else late, name in stamped)
        for name, late in (("ts", lateness), ("other", 2 * lateness))
    )
    columns = stream_columns(COLUMNS.fields, ["ts", "other"])
    entry = StreamEntry("a", columns, lines, (), idle, Source("csv", "a") if source else None)
    manifest = Manifest()
    taken: list[tuple[dict[str, int], bool]] = []
    for number, step in enumerate(steps, 1):
        before = {line.column: manifest.bounds.get("a", {}).get(line.column, BEFORE_ALL) for line in lines}
        times = [
            {
                name: max(step.now, before[name] + 1) if name in stamped else t
                for name, t in (("ts", ts), ("other", other))
            }
            for ts, other, _ in step.rows
        ]
        good = [all(t > before[name] for name, t in row.items()) for row in times]
        frame = frame_of([row[:2] for row in step.rows], columns.types, [row[0] for row in step.rows])
        frame = frame.with_columns(pl.Series(PUNCTUATES, [row[2] for row in step.rows], pl.Boolean))
        found, late, arrived = split_late(
            stamped_rows(frame, entry, manifest, step.now), entry, manifest, number
        )
        assert (arrived.rows, arrived.late) == (sum(good), len(good) - sum(good))
        assert (0 if late is None else late.height) == arrived.late
        kept = [row for row, is_good in zip(times, good, strict=True) if is_good]
        assert found.select(pl.col("c0", "c1").cast(pl.Int64)).rows() == [(r["ts"], r["other"]) for r in kept]
        marks = [row[2] for row, is_good in zip(step.rows, good, strict=True) if is_good]
        taken += zip(kept, marks, strict=True)
        heard = step.now if kept or "a" not in manifest.heard else manifest.heard["a"]
        manifest = advance_bounds([entry], manifest, {"a": arrived}, now=step.now)
        is_silent = idle is not None and step.now - heard >= idle
        for line in lines:
            name = line.column
            reached = [before[name], *(row[name] for row, mark in taken if mark)]
            reached += [step.now - 1] if line.arrival else []
            if not line.arrival:
                reached += [row[name] - line.lateness - (1 if source else 0) for row, _ in taken]
                reached += [manifest.bound] if is_silent else []
            assert manifest.bounds["a"][name] == max(reached)


ROWS_OF_PARTS = st.lists(st.tuples(INSTANTS, st.sampled_from("abc"), st.booleans()), max_size=5)


@given(st.integers(0, 9), st.none() | st.integers(1, 30), st.lists(ROWS_OF_PARTS, max_size=6))
def test_the_least_of_the_parts_counts(
    lateness: int, idle: int | None, steps: list[list[tuple[int, str, bool]]]
) -> None:
    """A part that had rows is waited for until it is idle; a row is late by the bound of the stream only."""
    columns = Schema.of(("ts", TIMESTAMP), timeline="ts")
    entry = StreamEntry("a", columns, (Lateness("ts", lateness),), (), idle, Source("kafka"))
    manifest = Manifest()
    newest: dict[str, int] = {}
    marked: dict[str, int] = {}
    heard: dict[str, int] = {}
    for number, rows in enumerate(steps, 1):
        now = 10 * number
        before = manifest.bounds.get("a", {}).get("ts", BEFORE_ALL)
        frame = frame_of([(ts,) for ts, _, _ in rows], columns.types, [ts for ts, _, _ in rows])
        frame = frame.with_columns(
            pl.Series(PART, [part for _, part, _ in rows], pl.String),
            pl.Series(PUNCTUATES, [mark for _, _, mark in rows], pl.Boolean),
        )
        _, _, arrived = split_late(frame, entry, manifest, number)
        assert arrived.late == sum(ts <= before for ts, _, _ in rows)
        for ts, part, mark in rows:
            newest[part] = max(ts, newest.get(part, 0))
            marked[part] = max(ts if mark else BEFORE_ALL, marked.get(part, BEFORE_ALL))
            heard[part] = now
        manifest = advance_bounds([entry], manifest, {"a": arrived}, now=now)
        live = [part for part in heard if idle is None or now - heard[part] < idle]
        reached = [max(newest[part] - lateness - 1, marked[part]) for part in live]
        if live:
            slow = slowest_part(entry, manifest, now)
            assert slow == (min(zip(reached, live, strict=True))[1] if len(live) > 1 else None)
            assert manifest.bounds["a"]["ts"] == max(before, min(reached))
        else:
            assert manifest.bounds["a"]["ts"] >= before


@given(
    st.permutations([("a", t) for t in range(0, 40, 2)] + [("b", t) for t in range(1, 41, 2)]),
    st.integers(1, 9),
)
def test_parts_in_order_have_no_late_row(rows: list[tuple[str, int]], size: int) -> None:
    """However parts are read beside each other: each is in order, and the first step has a row of each."""
    columns = Schema.of(("ts", TIMESTAMP), timeline="ts")
    entry = StreamEntry("s", columns, (Lateness("ts"),), source=Source("kafka"))
    ordered = {part: iter(sorted(t for p, t in rows if p == part)) for part in "ab"}
    feed = [(part, next(ordered[part])) for part in ("a", "b", *(p for p, t in rows if t > 1))]
    steps = [feed[:2], *(feed[i : i + size] for i in range(2, len(feed), size))]
    manifest = Manifest()
    for number, step in enumerate(steps, 1):
        frame = frame_of([(t,) for _, t in step], columns.types, [t for _, t in step])
        frame = frame.with_columns(pl.Series(PART, [part for part, _ in step], pl.String))
        _, late, arrived = split_late(frame, entry, manifest, number)
        assert late is None
        manifest = advance_bounds([entry], manifest, {"s": arrived})
    assert manifest.bound == 37, "the newest of part a, less a chronon"
