"""Intervals, grids, and time as text (paper 1, 2.4 and 4.3.2; paper 5, proposition 1)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from everview.algebra.time import (
    DAY,
    HOUR,
    INFINITY,
    LEAST,
    MICROSECOND,
    MILLISECOND,
    MINUTE,
    SECOND,
    UNDATED,
    UNITS,
    WEEK,
    Grid,
    Interval,
    add_duration,
    duration_text,
    format_timestamp,
    instant_words,
    interval_sql,
    parse_timestamp,
    timestamp_sql,
    unit_of,
)
from everview.errors import AlgebraError

INTERVALS = st.builds(lambda at, length: Interval(at, at + length), st.integers(-9, 9), st.integers(1, 8))
GRIDS = st.builds(Grid, st.integers(1, 7), st.integers(-20, 20))
SHORT = st.integers(-30, 30)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FIRST = (datetime(1, 1, 1, tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
LAST = (datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC) - EPOCH) // timedelta(microseconds=1)
CHRONONS = st.one_of(st.integers(FIRST, LAST), st.integers(FIRST // DAY, LAST // DAY).map(lambda d: d * DAY))
DURATIONS = st.builds(lambda n, unit: n * unit, st.integers(-5000, 5000), st.sampled_from([*UNITS.values()]))


def instants(*intervals: Interval | None) -> set[int]:
    return {t for i in intervals if i is not None for t in range(i.from_, i.until)}


def points_of(grid: Grid) -> set[int]:
    """The grid's points around 0, spelled out."""
    return {grid.origin + k * grid.step for k in range(-200, 200)}


# Intervals


@pytest.mark.parametrize(("from_", "until"), [(3, 3), (4, 3), (INFINITY, INFINITY)])
def test_an_interval_holds_at_least_one_instant(from_: int, until: int) -> None:
    with pytest.raises(AlgebraError) as refused:
        Interval(from_, until)
    assert str(refused.value) == f"an interval must end after it begins: [{from_}, {until})"


def test_infinity_is_no_instant_of_an_interval_that_never_ends() -> None:
    forever = Interval(0, INFINITY)
    assert INFINITY - 1 in forever
    assert INFINITY not in forever
    assert -1 not in forever


@given(INTERVALS, SHORT)
def test_an_interval_contains_its_instants(i: Interval, t: int) -> None:
    assert (t in i) == (t in instants(i))


@given(INTERVALS, INTERVALS)
def test_overlaps_asks_for_a_common_instant(i: Interval, other: Interval) -> None:
    assert i.overlaps(other) == bool(instants(i) & instants(other)) == other.overlaps(i)


@given(INTERVALS, INTERVALS)
def test_intersect_yields_the_common_instants(i: Interval, other: Interval) -> None:
    assert instants(i.intersect(other)) == instants(i) & instants(other)
    assert i.intersect(other) == other.intersect(i)


@given(INTERVALS, INTERVALS)
def test_subtract_yields_the_other_instants_in_maximal_parts(i: Interval, other: Interval) -> None:
    parts = i.subtract(other)
    assert instants(*parts) == instants(i) - instants(other)
    assert all(a.until < b.from_ for a, b in pairwise(parts))


def printed_inverse(i: Interval, other: Interval) -> set[Interval]:
    """intersect⁻¹ as paper 1, 4.3.2 prints it."""
    s, e, other_s, other_e = i.from_, i.until, other.from_, other.until
    if not i.overlaps(other) or (other_s <= s and other_e >= e):
        return set()
    if other_s <= s and other_e < e:
        return {Interval(other_e, e)}
    if other_s > s and e <= other_e:
        return {Interval(s, other_s)}
    return {Interval(s, other_s), Interval(other_e, e)}


@pytest.mark.parametrize(
    ("other", "left"),
    [
        pytest.param(Interval(2, 9), (), id="it covers all"),
        pytest.param(Interval(0, 5), (Interval(5, 8),), id="it covers the begin"),
        pytest.param(Interval(5, 9), (Interval(3, 5),), id="it covers the end"),
        pytest.param(Interval(4, 6), (Interval(3, 4), Interval(6, 8)), id="it lies inside"),
    ],
)
def test_the_four_cases_of_the_formula(other: Interval, left: tuple[Interval, ...]) -> None:
    assert Interval(3, 8).subtract(other) == left
    assert set(left) == printed_inverse(Interval(3, 8), other)


@given(INTERVALS, INTERVALS)
def test_subtract_is_the_printed_formula_wherever_the_two_overlap(i: Interval, other: Interval) -> None:
    assume(i.overlaps(other))
    assert set(i.subtract(other)) == printed_inverse(i, other)


def test_where_they_do_not_overlap_the_words_hold_and_the_formula_does_not() -> None:
    """The words: "all subintervals of maximum size … that are not overlapped"; the formula: ∅."""
    assert Interval(0, 3).subtract(Interval(3, 5)) == (Interval(0, 3),)
    assert printed_inverse(Interval(0, 3), Interval(3, 5)) == set()


# Grids


@pytest.mark.parametrize("step", [0, -1])
def test_a_grid_has_a_step(step: int) -> None:
    with pytest.raises(AlgebraError) as refused:
        Grid(step)
    assert str(refused.value) == f"a grid needs a step of at least one microsecond, not {step}"


@given(GRIDS, SHORT)
def test_ceil_after_and_contains_against_the_points(grid: Grid, x: int) -> None:
    points = points_of(grid)
    assert grid.ceil(x) == min(p for p in points if p >= x)
    assert grid.after(x) == min(p for p in points if p > x)
    assert (x in grid) == (x in points)


@given(GRIDS, SHORT, st.integers(0, 30))
def test_points_are_those_from_start_up_to_stop(grid: Grid, start: int, length: int) -> None:
    found = list(grid.points(start, start + length))
    assert found == sorted(p for p in points_of(grid) if start <= p < start + length)


@given(GRIDS, GRIDS)
def test_within_is_containment_of_points(one: Grid, other: Grid) -> None:
    near = {p for p in points_of(one) if -100 <= p <= 100}
    assert one.within(other) == (near <= points_of(other))


@given(GRIDS, GRIDS)
def test_common_has_the_points_of_both(one: Grid, other: Grid) -> None:
    both = points_of(one) & points_of(other)
    common = one.common(other)
    near = range(-100, 101)
    assert [t for t in near if common is not None and t in common] == [t for t in near if t in both]
    assert common is None or (common.within(one) and common.within(other))


@given(GRIDS)
def test_a_grid_saturates_at_infinity(grid: Grid) -> None:
    last = max(t for t in range(INFINITY - 10, INFINITY) if t in grid)
    assert grid.ceil(INFINITY) == grid.after(INFINITY) == INFINITY
    assert grid.ceil(last) == last
    assert grid.after(last) == INFINITY
    assert grid.ceil(LEAST) in grid
    assert LEAST <= grid.ceil(LEAST) < LEAST + grid.step


@given(st.one_of(SHORT, st.integers(LEAST, LEAST + 9), st.integers(INFINITY - 9, INFINITY)), SHORT)
def test_later_stays_on_the_line(t: int, by: int) -> None:
    assert add_duration(t, by) == (INFINITY if t == INFINITY else min(max(t + by, LEAST), INFINITY))


# Time as text

ALL_CHRONONS = st.one_of(
    st.integers(LEAST - 1, INFINITY),
    st.integers(LEAST - 1, LEAST + 9),
    st.integers(UNDATED - 9, UNDATED + 9),
    st.integers(LAST - 9, LAST + 9),
    st.integers(INFINITY - 9, INFINITY),
)


@given(ALL_CHRONONS)
def test_every_instant_has_a_date_or_a_word(t: int) -> None:
    for text in (format_timestamp(t), instant_words(t)):
        assert re.fullmatch(
            r"-?∞|the (end|beginning) of time|[+-]?\d{4,6}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}", text
        )
    if UNDATED <= t < INFINITY:
        assert parse_timestamp(format_timestamp(t)) == t


@given(CHRONONS)
def test_a_timestamp_reads_back_from_its_text(t: int) -> None:
    assert parse_timestamp(format_timestamp(t)) == t
    literal = timestamp_sql(t)
    assert parse_timestamp(literal.removeprefix("TIMESTAMP '").removesuffix("'")) == t


@given(CHRONONS)
def test_the_text_is_iso_8601_with_microseconds(t: int) -> None:
    moment = EPOCH + timedelta(microseconds=t)
    assert format_timestamp(t) == moment.replace(tzinfo=None).isoformat(timespec="microseconds")


@given(CHRONONS, st.integers(-12, 14), st.sampled_from([0, 30, 45]))
def test_a_zone_of_its_own_wins_over_the_offset(t: int, hours: int, minutes: int) -> None:
    text = format_timestamp(t)
    east = (hours * 60 + (minutes if hours >= 0 else -minutes)) * MINUTE
    zone = f"{'-' if hours < 0 else '+'}{abs(hours):02}:{minutes:02}"
    assert parse_timestamp(text, offset=east) == t - east
    assert parse_timestamp(text + zone, offset=7) == t - east
    assert parse_timestamp(text + zone.replace(":", ""), offset=7) == t - east
    assert parse_timestamp(text + "Z", offset=7) == t


@pytest.mark.parametrize(
    ("text", "t"),
    [
        ("1970-01-02", DAY),
        (" 1970-1-1 0:00 ", 0),
        ("1970-01-01T00:00:01", SECOND),
        ("1970-01-01 00:00:00.000001", MICROSECOND),
        ("1970-01-01 00:00:00.0019999", MILLISECOND + 999),
        ("1970-01-01 02:00:00 UTC", 2 * HOUR),
        ("1969-12-31 23:59:59", -SECOND),
    ],
)
def test_ways_to_write_a_timestamp(text: str, t: int) -> None:
    assert parse_timestamp(text) == t


@pytest.mark.parametrize(
    "text", ["", "noon", "1970-02-30", "1970-13-01", "1970-01-01 24:00:00", "1970-01-01 00:61", "70-01-01"]
)
def test_what_is_no_timestamp(text: str) -> None:
    assert parse_timestamp(text) is None


def test_the_ends_of_the_line_as_text() -> None:
    assert (format_timestamp(INFINITY), format_timestamp(LEAST)) == ("∞", "-∞")
    assert format_timestamp(LAST + 1) == "+10000-01-01T00:00:00.000000"
    assert (format_timestamp(UNDATED - 1), format_timestamp(LEAST - 1)) == ("-∞", "-∞")
    assert format_timestamp(UNDATED) == "-290307-01-03T13:24:16.851969"
    assert timestamp_sql(INFINITY) == "TIMESTAMP '∞'"


def read_duration(text: str) -> int:
    count, unit = text.split()
    return int(count) * UNITS[unit.removesuffix("S")]


@given(DURATIONS)
def test_a_duration_reads_back_from_its_text(duration: int) -> None:
    count, unit = unit_of(duration)
    assert count * UNITS[unit] == duration
    assert read_duration(duration_text(duration)) == duration
    assert read_duration(interval_sql(duration).removeprefix("INTERVAL ").replace("'", "")) == duration


@given(DURATIONS.filter(bool))
def test_a_duration_is_told_in_its_largest_unit(duration: int) -> None:
    _, unit = unit_of(duration)
    assert not [u for u, size in UNITS.items() if size > UNITS[unit] and duration % size == 0]


def test_durations_as_text() -> None:
    texts = [duration_text(d) for d in (WEEK, 2 * DAY, 90 * SECOND, MILLISECOND, 7, 0)]
    assert texts == ["1 WEEK", "2 DAYS", "90 SECONDS", "1 MILLISECOND", "7 MICROSECONDS", "0 SECONDS"]
    assert interval_sql(15 * MINUTE) == "INTERVAL '15' MINUTE"
