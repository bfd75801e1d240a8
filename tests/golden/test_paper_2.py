"""Paper 2's figures: duplicate elimination over a window (figure 2), the partitioned buffer (figure 7)."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.algebra import nodes as N
from everview.algebra.changes import ChangeRow, are_equivalent, from_logical, to_tags
from everview.algebra.schema import Schema
from everview.algebra.types import STRING, TIMESTAMP
from everview.algebra.windows import Range
from everview.errors import TemporalError
from everview.operators.columnar.frame import UNTIL
from everview.reference.meaning import meaning
from everview.storage.compaction import Policy
from everview.temporal.expiry import ExpiryBuckets
from tests.streams import arrivals_of, rows

# Figure 2: x comes, then y, then x again, before the first x leaves the window

LETTERS = N.Stream("letters", Schema.of(("value", STRING), ("ts", TIMESTAMP), timeline="ts"))
ARRIVALS = arrivals_of(rows("""
    x 1
    y 2
    x 4
"""))  # fmt: skip
WINDOW = N.Window(LETTERS, Range(5))


def figure_2() -> list[ChangeRow]:
    distinct = N.Distinct(N.Project(WINDOW, (("value", WINDOW.column("value")),)))
    return from_logical(meaning(distinct, {"letters": ARRIVALS}, range(15)))


def test_an_expired_x_is_replaced_by_the_newer_x() -> None:
    """The output stream: x, then y, and when x expires the newer x is appended behind y."""
    appended = [ChangeRow(("x",), 1, 6), ChangeRow(("y",), 2, 7), ChangeRow(("x",), 6, 9)]
    assert are_equivalent(figure_2(), appended)


def test_the_replacement_is_no_change_of_the_answer() -> None:
    assert [(tag.tag, tag.record[0], tag.at) for tag in to_tags(figure_2())] == [
        ("+", "x", 1),
        ("+", "y", 2),
        ("-", "y", 7),
        ("-", "x", 9),
    ]


def test_results_expire_in_another_order_than_they_are_produced() -> None:
    """Why duplicate elimination is WK and not WKS (3.1): y came after x and goes before it."""
    begins = {row.record: row.from_ for row in figure_2()}
    ends = {row.record: row.until for row in figure_2()}
    assert begins["x",] < begins["y",]
    assert ends["y",] < ends["x",]


# Figure 7: time 50, window 50, five partitions

FIGURE_7 = ExpiryBuckets(window=50, count=5)


def partitions(ends: Iterable[int], now: int, buckets: ExpiryBuckets = FIGURE_7) -> list[list[int]]:
    """The rows of a state by their ends, as they are laid out in files at an instant."""
    rows = pl.DataFrame({UNTIL: list(ends)}, schema={UNTIL: pl.Int64})
    return [part[UNTIL].to_list() for part in Policy(buckets, small=0).split(rows, now)]


def test_the_five_partitions_at_time_50() -> None:
    assert partitions(range(51, 101), now=50) == [
        [*range(51, 61)],
        [*range(61, 71)],
        [*range(71, 81)],
        [*range(81, 91)],
        [*range(91, 101)],
    ]


def test_at_time_60_one_partition_has_101_to_110_and_the_others_stay() -> None:
    at_60 = partitions(range(61, 111), now=60)
    assert at_60[-1] == [*range(101, 111)]
    assert at_60[:-1] == partitions(range(51, 101), now=50)[1:]


def test_between_the_two_rows_of_two_turns_lie_apart() -> None:
    """The paper does not show it: at time 55 a row may already expire at 105."""
    assert partitions([56, 60, 101, 105], now=55) == [[56, 60], [101, 105]]


@given(st.integers(1, 40), st.integers(1, 8), st.integers(-60, 60))
def test_partitions_hold_every_coming_expiration_once(window: int, count: int, now: int) -> None:
    buckets = ExpiryBuckets(max(window, count), count)
    coming = range(now + 1, now + buckets.window + 1)
    held = partitions(coming, now, buckets)
    assert [end for part in held for end in part] == [*coming]
    assert all(part[-1] - part[0] < buckets.width for part in held)
    assert len(held) <= count + 1


@pytest.mark.parametrize(("window", "count"), [(50, 0), (0, 5), (4, 5), (-5, -5)])
def test_a_window_that_cannot_be_cut(window: int, count: int) -> None:
    with pytest.raises(TemporalError) as refused:
        ExpiryBuckets(window, count)
    assert str(refused.value) == f"a window of {window} cannot be cut into {count} buckets"
