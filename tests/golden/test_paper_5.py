"""Paper 5's examples with the paper's numbers: the rooms of examples 1, 5, 7 and 8, the join of example 9,
the sequences of 10.3.2."""

from __future__ import annotations

import pytest

from everview.algebra import nodes as N
from everview.algebra.changes import Record, from_logical, to_tags
from everview.algebra.expressions import Comparison, Literal
from everview.algebra.schema import Schema
from everview.algebra.time import Grid
from everview.algebra.types import INT, STRING, TIMESTAMP
from everview.reference.meaning import meaning
from tests.streams import arrivals_of, at, rows

SOURCE = N.Stream(
    "temperature", Schema.of(("room", STRING), ("temperature", INT), ("ts", TIMESTAMP), timeline="ts")
)
ROOMS = N.Tagged(SOURCE, ("room",))
READINGS = rows("""
    a 99 1
    b 75 2
    c 80 3
    a 95 4
""")
DOMAIN = range(8)
SYNC_2 = Grid(2)


def states(plan: N.Node, readings: list[Record] = READINGS) -> list[list[Record]]:
    """The relation at every instant of the domain."""
    logical = meaning(plan, {"temperature": arrivals_of(readings)}, DOMAIN)
    return [sorted(at(logical, t)) for t in DOMAIN]


def tags(plan: N.Node, readings: list[Record] = READINGS) -> list[str]:
    """ξ(plan) with the room as key, as the paper writes it: Tag<Attributes>Timestamp."""
    changed = from_logical(meaning(plan, {"temperature": arrivals_of(readings)}, DOMAIN))
    found = to_tags(changed, key=[0], until=DOMAIN.stop)
    return [f"{tag.tag}<{','.join(map(str, tag.record))}>{tag.at}" for tag in found]


def hot(plan: N.Node, limit: int = 80) -> N.Node:
    return N.Filter(plan, Comparison(">", plan.column("temperature"), Literal(limit, INT)))


def test_example_1_the_relation_that_varies_with_time() -> None:
    """Figure 1: +<a,99>1, +<b,75>2, +<c,80>3, u<a,95>4; TS is an attribute of the relation."""
    a, b, c, new_a = ("a", 99, 1), ("b", 75, 2), ("c", 80, 3), ("a", 95, 4)
    assert states(ROOMS)[:5] == [[], [a], [a, b], [a, b, c], [new_a, b, c]]
    assert tags(ROOMS) == ["+<a,99,1>1", "+<b,75,2>2", "+<c,80,3>3", "u<a,95,4>4"]


def test_example_5_the_synchronized_relation() -> None:
    """Figure 2: Sync2 = 0, 2, 4, …; at time 1 the relation is empty, c is not inserted until 4."""
    a, b, c, new_a = ("a", 99, 1), ("b", 75, 2), ("c", 80, 3), ("a", 95, 4)
    assert states(N.Synchronize(ROOMS, SYNC_2))[:5] == [[], [], [a, b], [a, b], [new_a, b, c]]


def test_example_5_the_view_hot_rooms_2() -> None:
    """Refreshed at synchronization points only, and by rooms above 80: never by c."""
    assert tags(hot(N.Synchronize(ROOMS, SYNC_2))) == ["+<a,99,1>2", "u<a,95,4>4"]


def test_example_7_event_based_synchronization() -> None:
    """Points when a certain event comes: here a room above 90, as the police car of the example."""
    points = N.Project(hot(SOURCE, 90), (("point", SOURCE.column("ts")),))
    a, b, c, new_a = ("a", 99, 1), ("b", 75, 2), ("c", 80, 3), ("a", 95, 4)
    assert states(N.SynchronizeOn(ROOMS, points))[:5] == [[], [a], [a], [a], [new_a, b, c]]


def test_example_8_the_relation_to_stream_operator() -> None:
    """Figure 3: at time 4 ξ produces +<c,80,3>4 and u<a,95,4>4."""
    found = tags(N.Synchronize(ROOMS, SYNC_2))
    assert sorted(found[:2]) == ["+<a,99,1>2", "+<b,75,2>2"]
    assert sorted(found[2:]) == ["+<c,80,3>4", "u<a,95,4>4"]


def test_a_chain_of_updates_between_two_points_is_one_update() -> None:
    """6.2.2: one update tuple for each key, that represents the latest temperature."""
    chain = rows("a 90 2\na 91 3\na 92 3\na 93 4\nb 70 3")
    assert sorted(tags(N.Synchronize(ROOMS, SYNC_2), chain)) == ["+<a,90,2>2", "+<b,70,3>4", "u<a,93,4>4"]


@pytest.mark.parametrize(
    ("readings", "sequence"),
    [
        pytest.param([89, 87, 79, 78], ["+", "u", "-"], id="89, 87, 79, 78"),
        pytest.param([89, 79, 87, 78], ["+", "-", "+", "-"], id="89, 79, 87, 78"),
    ],
)
def test_10_3_2_the_order_of_readings_decides_the_tags(readings: list[int], sequence: list[str]) -> None:
    room = [("r", temperature, at) for at, temperature in enumerate(readings, 1)]
    assert [tag[0] for tag in tags(hot(ROOMS), room)] == sequence


# Example 9: a join of ℜ_Sync2(S2) with ℜ_Sync3(S3)

S2, S3 = (N.Stream(name, Schema.of(("id", INT), ("ts", TIMESTAMP), timeline="ts")) for name in ("s2", "s3"))
SYNC_3 = Grid(3)
EVERY_INSTANT = {"s2": arrivals_of([(1, t) for t in range(7)]), "s3": arrivals_of([(1, t) for t in range(7)])}
"""A row of either stream at every instant, so that every point changes the answer."""


def joined() -> N.Node:
    left, right = N.Synchronize(S2, SYNC_2), N.Synchronize(S3, SYNC_3)
    return N.Join(left, right, Comparison("=", left.column("id"), right.column("id")))


def test_example_9_the_output_is_refreshed_at_2_3_4_and_6() -> None:
    logical = meaning(joined(), EVERY_INSTANT, range(7))
    refreshed = [t for t in range(1, 7) if at(logical, t) != at(logical, t - 1)]
    assert refreshed == [2, 3, 4, 6]
    assert refreshed == [t for t in range(1, 7) if t in SYNC_2 or t in SYNC_3]


@pytest.mark.parametrize(
    ("point", "up_to"),
    [
        pytest.param(2, (2, 0), id="2 is partial: it reflects S3 only up to 0"),
        pytest.param(3, (2, 3), id="3 is partial: it reflects S2 only up to 2"),
        pytest.param(4, (4, 3), id="4 is partial: it reflects S3 only up to 3"),
        pytest.param(5, (4, 3), id="5 is no point: nothing is modified"),
        pytest.param(6, (6, 6), id="6 is full: it reflects all input up to 6"),
    ],
)
def test_example_9_full_and_partial_points(point: int, up_to: tuple[int, int]) -> None:
    """The output at 2 is R[S2(2)] ⋈ R[S3(0)], and so on (definition 2)."""
    found = at(meaning(joined(), EVERY_INSTANT, range(7)), point)
    latest_left, latest_right = up_to
    assert found == {
        (1, left, 1, right): 1 for left in range(latest_left + 1) for right in range(latest_right + 1)
    }
    both = SYNC_2.common(SYNC_3)
    assert both is not None
    assert (point in both) == (up_to == (point, point))
