"""Paper 1's running example with the paper's numbers: the highway of sections 2.3 to 2.6 and 4.3.2.8.

In the reference a chronon is a second after 05:00:00 here, so that its domain stays small.
"""

from __future__ import annotations

from decimal import ROUND_DOWN, Decimal

from everview.algebra import nodes as N
from everview.algebra.aggregates import AggregateCall
from everview.algebra.changes import Record, from_logical, from_raw, to_physical
from everview.algebra.numbers import round_to_single, single_text
from everview.algebra.schema import Schema
from everview.algebra.time import INFINITY, MINUTE, SECOND, format_timestamp, parse_timestamp
from everview.algebra.types import FLOAT, SMALLINT, TIMESTAMP
from everview.algebra.windows import Range
from everview.reference.meaning import meaning

HIGHWAY = N.Stream(
    "highway",
    Schema.of(
        ("lane", SMALLINT),
        ("speed", FLOAT),
        ("length", FLOAT),
        ("timestamp", TIMESTAMP),
        timeline="timestamp",
    ),
)


def instant(clock: str) -> int:
    moment = parse_timestamp(f"1993-11-03 {clock}")
    assert moment is not None
    return moment


FIVE = instant("05:00:00")
DOMAIN = range(18 * 60)


def seconds(clock: str) -> int:
    return (instant(clock) - FIVE) // SECOND


def clock(t: int) -> str:
    return "∞" if t == INFINITY else format_timestamp(FIVE + t * SECOND)[11:19]


def text(value: object) -> object:
    """A 32-bit float as it is printed."""
    return single_text(value) if isinstance(value, float) else value


RAW: list[Record] = [
    (5, round_to_single(18.28), round_to_single(5.27), seconds("05:00:08")),
    (2, round_to_single(21.33), round_to_single(4.62), seconds("05:01:32")),
    (4, round_to_single(19.69), round_to_single(9.97), seconds("05:02:16")),
]
STREAM = from_raw(RAW, lambda e: int(str(e[3])))
WINDOW = N.Window(HIGHWAY, Range(15 * MINUTE // SECOND))


def results(plan: N.Node) -> list[tuple[Record, str, str]]:
    """The physical stream that a plan yields, with its intervals as clock times."""
    physical = to_physical(from_logical(meaning(plan, {"highway": STREAM}, DOMAIN)))
    return [(record, clock(i.from_), clock(i.until)) for record, i in physical]


def test_the_raw_stream_becomes_physical() -> None:
    """2.5: every record is valid for ever from its timestamp on."""
    found = [(*map(text, e[:3]), clock(i.from_), clock(i.until)) for e, i in to_physical(STREAM)]
    assert found == [
        (5, "18.28", "5.27", "05:00:08", "∞"),
        (2, "21.33", "4.62", "05:01:32", "∞"),
        (4, "19.69", "9.97", "05:02:16", "∞"),
    ]


def test_a_sliding_window_of_15_minutes() -> None:
    """2.6: the end is set to the start plus 15 minutes."""
    assert [(*map(text, e[:3]), begin, end) for e, begin, end in results(WINDOW)] == [
        (5, "18.28", "5.27", "05:00:08", "05:15:08"),
        (2, "21.33", "4.62", "05:01:32", "05:16:32"),
        (4, "19.69", "9.97", "05:02:16", "05:17:16"),
    ]


def test_the_window_on_real_timestamps() -> None:
    """2.6 again, on microseconds."""
    interval = Range(15 * MINUTE).interval(instant("05:01:32"))
    assert interval is not None
    assert format_timestamp(interval.until) == "1993-11-03T05:16:32.000000"


def cut(value: object) -> str | None:
    """Three decimals as the paper prints them: cut, not rounded (59.30 / 3 = 19.7666… is 19.766 there)."""
    return None if value is None else str(Decimal(str(value)).quantize(Decimal("0.001"), rounding=ROUND_DOWN))


def test_the_average_speeds() -> None:
    """4.3.2.8: the listing of the aggregation's state. Without rows SQL's average is NULL."""
    average = N.Aggregate(WINDOW, (), (("speed", AggregateCall("avg", WINDOW.column("speed"))),))
    assert [(cut(e[0]), begin, end) for e, begin, end in results(average)] == [
        (None, "05:00:00", "05:00:08"),
        ("18.280", "05:00:08", "05:01:32"),
        ("19.805", "05:01:32", "05:02:16"),
        ("19.766", "05:02:16", "05:15:08"),
        ("20.510", "05:15:08", "05:16:32"),
        ("19.690", "05:16:32", "05:17:16"),
        (None, "05:17:16", "05:18:00"),
    ]
