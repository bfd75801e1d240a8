"""Windows: closed forms against scope functions (paper 4, section 3; paper 1, equations 9 and 10)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.algebra import nodes as N
from everview.algebra.assignment import assign_windows
from everview.algebra.changes import ChangeRow, Logical, Record, to_logical
from everview.algebra.expressions import Column
from everview.algebra.schema import Schema
from everview.algebra.time import DAY, HOUR, INFINITY, MINUTE, SECOND
from everview.algebra.types import STRING, TIMESTAMP
from everview.algebra.windows import NOW, Band, Fixed, Range, Rows, TimeWindow, tumble
from everview.errors import AlgebraError
from everview.reference.meaning import meaning
from everview.reference.scope import assigned_windows, scope, sliding, whole_window
from tests.streams import COLUMNS, DOMAIN, LAST_ARRIVAL, S, arrivals, arrivals_of, at, values

SMALL = st.integers(-6, 18)
RANGES = st.builds(Range, st.integers(1, 7), st.integers(1, 5), st.integers(0, 5), st.integers(-3, 9))
TUMBLES = st.builds(tumble, st.integers(1, 6), st.integers(0, 4), st.integers(-3, 9))
FIXED = st.builds(Fixed, st.integers(1, 7), st.integers(-3, 9))
BETWEEN = st.builds(lambda low, length: Band(low, low + length), SMALL, st.integers(0, 9))
BANDS = st.one_of(
    st.just(Band()), SMALL.map(lambda t: Band(lower=t)), SMALL.map(lambda t: Band(upper=t)), BETWEEN
)
TIME_WINDOWS = st.one_of(RANGES, TUMBLES, FIXED, st.just(NOW), BANDS)


def closed_contents(window: TimeWindow, stamps: Sequence[int], t: int) -> list[int]:
    return [ts for ts in stamps if (i := window.interval(ts)) is not None and t in i]


def scoped_contents(window: TimeWindow, stamps: Sequence[int], t: int, tau0: int) -> list[int]:
    """W(S(τ)) = {s ∈ S(τ) : s.Aτ ∈ scope(τ)} with S(τ) = {s ∈ S : s.Aτ ≤ τ}."""
    covered = scope(window, t, tau0)
    return [ts for ts in stamps if ts <= t and covered is not None and covered[0] <= ts <= covered[1]]


# Closed forms


@given(TIME_WINDOWS, st.integers(-5, 5), st.lists(st.integers(0, 14), max_size=8))
def test_the_closed_form_is_the_scope_function(window: TimeWindow, tau0: int, ages: list[int]) -> None:
    stamps = [tau0 + age for age in ages]
    for t in range(tau0, tau0 + 30):
        assert closed_contents(window, stamps, t) == scoped_contents(window, stamps, t, tau0)


@given(st.one_of(RANGES, TUMBLES), st.integers(-2, 2), st.lists(st.integers(-12, 12), max_size=9))
def test_a_half_filled_window_has_only_rows_since_it_was_applied(
    window: Range, k: int, ages: list[int]
) -> None:
    """Applied at τ0 in the middle of the data; the paper's grid begins there."""
    tau0 = window.origin + k * window.slide
    stamps = [tau0 + age for age in ages]
    since = [ts for ts in stamps if ts >= tau0]
    for t in range(tau0, tau0 + 30):
        assert scoped_contents(window, stamps, t, tau0) == closed_contents(window, since, t)
        assert (scope(window, t, tau0) is None) == (t < window.grid.ceil(tau0 + window.lag))


@given(TIME_WINDOWS, arrivals())
def test_the_reference_agrees_with_the_closed_form(window: TimeWindow, stream: list[ChangeRow]) -> None:
    assert meaning(N.Window(S, window), {"s": stream}, DOMAIN) == to_logical(windowed(window, stream), DOMAIN)


def windowed(window: TimeWindow, stream: Sequence[ChangeRow]) -> list[ChangeRow]:
    intervals = [(row.record, window.interval(row.from_)) for row in stream]
    return [ChangeRow(record, i.from_, i.until) for record, i in intervals if i is not None]


def sliding_by_equation_9(stream: Logical, w: int) -> Logical:
    """n = n̂ − ñ if (e, t − w, ñ) ∈ S, else n̂."""
    found = {(e, t): n - stream[e, t - w] if (e, t - w) in stream else n for (e, t), n in stream.items()}
    return {key: n for key, n in found.items() if n}


def fixed_by_equation_10(stream: Logical, w: int) -> Logical:
    """The same with ñ at (i·w) − 1, where i·w ≤ t and every c > i has c·w > t."""
    found: Logical = {}
    for (e, t), n in stream.items():
        (i,) = [i for i in range(t + 1) if i * w <= t and all(c * w > t for c in range(i + 1, t + 2))]
        before = i * w - 1
        found[e, t] = n - stream[e, before] if (e, before) in stream else n
    return {key: n for key, n in found.items() if n}


NAMELESS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, LAST_ARRIVAL)), max_size=8).map(
    lambda found: [ChangeRow((name,), ts, INFINITY) for name, ts in found]
)
"""Records without their timestamps, so that the multiplicity of one grows."""


@given(NAMELESS, st.integers(1, 9))
def test_range_is_equation_9(stream: list[ChangeRow], w: int) -> None:
    expected = sliding_by_equation_9(to_logical(stream, DOMAIN), w)
    assert to_logical(windowed(Range(w), stream), DOMAIN) == expected


@given(NAMELESS, st.integers(1, 9))
def test_fixed_is_equation_10(stream: list[ChangeRow], w: int) -> None:
    expected = fixed_by_equation_10(to_logical(stream, DOMAIN), w)
    assert to_logical(windowed(Fixed(w), stream), DOMAIN) == expected


def test_near_the_end_of_time_a_window_never_closes() -> None:
    late = INFINITY - 3
    assert Range(5).interval(late).until == Fixed(10).interval(late).until == INFINITY
    assert tumble(10).interval(late) is None


# Windows as columns


@given(arrivals(), st.integers(1, 9), st.integers(1, 5), st.integers(-3, 9))
def test_windows_as_columns_are_assigned_and_shown_when_they_are_over(
    stream: list[ChangeRow], size: int, slide: int, origin: int
) -> None:
    """TUMBLE and HOP: a row in each window that holds it, while that is the last whole one."""
    slide = min(slide, size)
    expected: Counter[tuple[Record, int]] = Counter()
    for t in DOMAIN:
        covered = whole_window(t, size, slide, origin)
        assert covered is not None
        for row in stream:
            for start, end in assigned_windows(row.from_, size, slide, origin):
                if (start, end - 1) == covered and row.from_ <= t:
                    assert covered[0] <= row.from_ <= covered[1]
                    expected[(*row.record, start, end), t] += 1
    assert meaning(assign_windows(S, size, slide, origin), {"s": stream}, DOMAIN) == expected


@given(arrivals(), st.integers(1, 9), st.integers(1, 5), st.integers(-3, 9))
def test_windows_as_columns_hold_the_rows_of_a_sliding_window(
    stream: list[ChangeRow], size: int, slide: int, origin: int
) -> None:
    """Without their columns, they are [RANGE size SLIDE slide LAG 1 µs]."""
    slide = min(slide, size)
    assigned = assign_windows(S, size, slide, origin)
    rows = N.Project(assigned, tuple((f.name, Column.to(f)) for f in assigned.schema.fields[:3]))
    sliding_window = N.Window(S, Range(size, slide, lag=1, origin=origin + size))
    inputs = {"s": stream}
    assert meaning(rows, inputs, DOMAIN) == meaning(sliding_window, inputs, DOMAIN)


# Windows of rows


def most_recent(members: Sequence[Record], t: int, count: int) -> list[Record]:
    """W_n: from the τ1 ≤ τ on with at most N tuples, where every τ2 < τ1 has more (paper 4, 3.2).

    The printed formula forgets s.Aτ ≥ τ1, and joins by ∧ what ∀τ2 < τ1 implies.
    """
    present = [e for e in members if e[-1] <= t]

    def since(tau: int) -> list[Record]:
        return [e for e in present if tau <= e[-1] <= t]

    (tau1,) = [
        tau1
        for tau1 in range(DOMAIN.start, t + 1)
        if len(since(tau1)) <= count and all(len(since(tau2)) > count for tau2 in range(DOMAIN.start, tau1))
    ]
    return since(tau1)


@st.composite
def without_ties(draw: st.DrawFn) -> list[Record]:
    stamps = draw(st.lists(st.integers(0, LAST_ARRIVAL), max_size=8, unique=True))
    return [(draw(values()), draw(values()), ts) for ts in stamps]


@given(without_ties(), st.integers(1, 4))
def test_rows_is_w_n(records: list[Record], count: int) -> None:
    stream = meaning(N.Window(S, Rows(count)), {"s": arrivals_of(records)}, DOMAIN)
    for t in DOMAIN:
        assert at(stream, t) == Counter(most_recent(records, t, count))


@given(without_ties(), st.integers(1, 3), st.sampled_from([("k",), ("k", "v")]))
def test_partition_by_rows_is_w_p(records: list[Record], count: int, by: tuple[str, ...]) -> None:
    """W_p: W_n of every partition; rows with NULL are a partition, as SQL groups them."""
    stream = meaning(N.Window(S, Rows(count, by)), {"s": arrivals_of(records)}, DOMAIN)
    partitions = {e[: len(by)] for e in records}
    for t in DOMAIN:
        kept = [
            e
            for partition in partitions
            for e in most_recent([e for e in records if e[: len(by)] == partition], t, count)
        ]
        assert at(stream, t) == Counter(kept)


NULL_FIRST = -1
SEQUENCED = N.Stream("s", COLUMNS, sequence=("v",))


def order_by(*positions: int) -> Callable[[Record], tuple[object, ...]]:
    return lambda e: tuple(NULL_FIRST if e[p] is None else e[p] for p in positions)


@pytest.mark.parametrize(
    ("stream", "order"),
    [
        pytest.param(S, order_by(2, 0, 1), id="by all columns"),
        pytest.param(SEQUENCED, order_by(2, 1, 0), id="by the sequence first"),
        pytest.param(N.Alias(SEQUENCED, "other"), order_by(2, 1, 0), id="under another name"),
    ],
)
@given(given_rows=arrivals(9), count=st.integers(1, 4), data=st.data())
def test_ties_are_broken_in_a_fixed_order(
    stream: N.Node,
    order: Callable[[Record], tuple[object, ...]],
    given_rows: list[ChangeRow],
    count: int,
    data: st.DataObject,
) -> None:
    window = N.Window(stream, Rows(count))
    shuffled = data.draw(st.permutations(given_rows))
    found = meaning(window, {"s": shuffled}, DOMAIN)
    for t in DOMAIN:
        present = sorted((row.record for row in given_rows if row.from_ <= t), key=order)
        assert at(found, t) == Counter(present[-count:])


# Paper 4, figure 1: three consecutive states τk = 10, τk + 1, τk + 2; rows of one instant in a line

FIGURE_1 = arrivals_of(
    [
        (name, ts)
        for ts, names in [(8, "a"), (9, "bc"), (10, "def"), (11, "gh"), (12, "ijk")]
        for name in names
    ]
)
LETTERS = N.Stream("letters", Schema.of(("name", STRING), ("ts", TIMESTAMP), timeline="ts"))


@pytest.mark.parametrize(
    ("window", "states"),
    [
        pytest.param(Rows(6), ["abcdef", "cdefgh", "fghijk"], id="(a) count-based, N = 6"),
        pytest.param(Band(lower=10), ["def", "defgh", "defghijk"], id="(b) landmark at τk"),
        pytest.param(Range(2, slide=1), ["bcdef", "defgh", "ghijk"], id="(c) sliding, ω = 2, β = 1"),
        pytest.param(Range(2, slide=2), ["bcdef", "bcdef", "ghijk"], id="(d) tumbling, ω = 2, β = 2"),
    ],
)
def test_figure_1(window: TimeWindow | Rows, states: list[str]) -> None:
    stream = meaning(N.Window(LETTERS, window), {"letters": FIGURE_1}, range(13))
    assert ["".join(sorted(str(e[0]) for e in at(stream, t))) for t in (10, 11, 12)] == states


# Text and refusals


@pytest.mark.parametrize(
    ("window", "text"),
    [
        (Range(15 * MINUTE), "RANGE 15 MINUTES"),
        (Range(15 * MINUTE, MINUTE, 30 * SECOND), "RANGE 15 MINUTES SLIDE 1 MINUTE LAG 30 SECONDS"),
        (
            Range(HOUR, MINUTE, origin=SECOND),
            "RANGE 1 HOUR SLIDE 1 MINUTE ORIGIN TIMESTAMP '1970-01-01 00:00:01'",
        ),
        (Range(HOUR, MINUTE, origin=HOUR), "RANGE 1 HOUR SLIDE 1 MINUTE"),
        (Range(1, lag=SECOND), "RANGE 1 MICROSECOND LAG 1 SECOND"),
        (NOW, "NOW"),
        (tumble(10 * MINUTE), "TUMBLE 10 MINUTES"),
        (tumble(DAY, SECOND, HOUR), "TUMBLE 1 DAY LAG 1 SECOND ORIGIN TIMESTAMP '1970-01-01 01:00:00'"),
        (Fixed(DAY), "FIXED 1 DAY"),
        (Fixed(DAY, origin=HOUR), "FIXED 1 DAY ORIGIN TIMESTAMP '1970-01-01 01:00:00'"),
        (Band(), "UNBOUNDED"),
        (Band(lower=0), "SINCE TIMESTAMP '1970-01-01 00:00:00'"),
        (Band(upper=SECOND // 2), "UNTIL TIMESTAMP '1970-01-01 00:00:00.5'"),
        (Band(0, DAY), "BETWEEN TIMESTAMP '1970-01-01 00:00:00' AND TIMESTAMP '1970-01-02 00:00:00'"),
        (Rows(3), "ROWS 3"),
        (Rows(3, ("vid", "lane")), "PARTITION BY vid, lane ROWS 3"),
    ],
)
def test_a_window_as_text(window: TimeWindow | Rows, text: str) -> None:
    assert str(window) == text


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: Range(0),
            "a window of RANGE 0 SECONDS holds nothing\n  next: give a range of at least one microsecond",
        ),
        (
            lambda: Range(-MINUTE),
            "a window of RANGE -1 MINUTES holds nothing\n  next: give a range of at least one microsecond",
        ),
        (
            lambda: Range(5, slide=0),
            "SLIDE 0 SECONDS never moves on\n"
            "  next: give a slide of at least one microsecond, or leave it out",
        ),
        (lambda: Range(5, lag=-SECOND), "LAG -1 SECONDS would show rows before they come"),
        (
            lambda: tumble(0),
            "a window of RANGE 0 SECONDS holds nothing\n  next: give a range of at least one microsecond",
        ),
        (
            lambda: Fixed(0),
            "a window of FIXED 0 SECONDS holds nothing\n  next: give an extent of at least one microsecond",
        ),
        (
            lambda: Band(DAY, 0),
            "no row lies BETWEEN TIMESTAMP '1970-01-02 00:00:00' AND TIMESTAMP '1970-01-01 00:00:00'\n"
            "  next: write the earlier instant first",
        ),
        (lambda: Rows(0), "a window of ROWS 0 holds nothing\n  next: ask for at least one row"),
        (lambda: Rows(-2), "a window of ROWS -2 holds nothing\n  next: ask for at least one row"),
    ],
)
def test_a_window_that_holds_nothing_is_refused(build: Callable[[], object], message: str) -> None:
    with pytest.raises(AlgebraError) as refused:
        build()
    assert str(refused.value) == message


def recursive_scope(tau: int, tau_0: int, extent: int, step: int, lag: int) -> tuple[int, int] | None:
    """scope_s(τ) branch by branch as it is printed (paper 4, 3.3)."""
    if tau_0 <= tau < tau_0 + lag:
        return None
    if (tau - tau_0) % step != 0:
        return recursive_scope(tau - 1, tau_0, extent, step, lag)
    if tau_0 <= tau - lag < tau_0 + extent:
        return tau_0, tau - lag
    return tau - lag - extent + 1, tau - lag


@given(st.integers(0, 40), st.integers(0, 5), st.integers(1, 12), st.integers(1, 9), st.integers(0, 7))
def test_the_recursion_of_the_scope_function_done_at_once(
    after: int, tau_0: int, extent: int, step: int, lag: int
) -> None:
    tau = tau_0 + after
    assert sliding(tau, tau_0, extent, step, lag) == recursive_scope(tau, tau_0, extent, step, lag)
