"""What is printed in paper 5 and does not hold, each with its smallest counterexample.

A docstring says what is printed, what is true, and what Everview does; docs/findings.md tells the same in
prose. The papers were read as text made from the printed pages: a lost hat or indentation may be the copy's
fault, and is called so. Streams are little tables `k v ts`.
"""

from __future__ import annotations

from everview.algebra import nodes as N
from everview.algebra.expressions import TRUE, Arithmetic, Comparison, Expression, Literal, conjunction
from everview.algebra.schema import Schema
from everview.algebra.time import Grid
from everview.algebra.types import INT, INTERVAL, STRING, TIMESTAMP
from everview.reference.meaning import meaning
from tests.rules.findings import K_EQUAL, count, seen, streams
from tests.streams import DOMAIN, R, S, arrivals_of, at, keep, rows, same

# Paper 5, synchronization


def test_parking_lot_query_compares_the_times_of_entry_and_exit() -> None:
    """Printed: P1 is SELECT VID, VType FROM ℜ(S1) − ℜ(S2), and the schema of ℜ(S) ends with TS (4.1).
    True: a vehicle leaves later than it came, so no record of S1 is one of S2, and nobody ever leaves.
    Everview: EXCEPT compares the columns of its two SELECTs; the timestamp is one only if asked for.
    """
    given = streams("7 1 0", "7 1 3")
    printed = keep(N.Difference(S, R), "k", "v")
    meant = N.Difference(keep(S, "k", "v"), keep(R, "k", "v"))
    assert seen(printed, given, 3) == {(7, 1): 1}
    assert seen(meant, given, 2) == {(7, 1): 1}
    assert seen(meant, given, 3) == {}


def test_window_join_predicate_leaves_out_what_is_exactly_5_apart() -> None:
    """Printed: "joined only if they are at most 5 time units apart": S_i.TS - 5 < S_j.TS < S_i.TS + 5 (4.4).
    True: the predicate means less than 5 apart.
    Everview: does what the condition says; "at most" is written with <=.
    """
    s_ts, r_ts = S.column("ts"), R.column("ts")

    def within_5(less: str) -> Expression:
        five = Literal(5, INTERVAL)
        return conjunction(
            [
                Comparison(less, Arithmetic("-", s_ts, five), r_ts),
                Comparison(less, r_ts, Arithmetic("+", s_ts, five)),
            ]
        )

    given = streams("1 1 0", "1 2 5")
    assert seen(N.Join(S, R, within_5("<")), given, 5) == {}
    assert seen(N.Join(S, R, within_5("<=")), given, 5) == {(1, 1, 0, 1, 2, 5): 1}


def sync(node: N.Node, step: int, origin: int = 0) -> N.Node:
    return N.Synchronize(node, Grid(step, origin))


def test_theorem_1_is_stated_with_the_wrong_synchronization_outside() -> None:
    """Printed: ℜ_Sync_i(S) can be derived from ℜ_Sync_j(ξ(ℜ_Sync_j(S))); the proof ends with Sync_i outside.
    True: with Sync_j outside it is ℜ_Sync_j(S) again; Sync_i must be applied, as the proof does.
    Everview: the proof's form.
    """
    given = streams("1 1 0\n2 2 2")
    assert same(sync(sync(S, 2), 2), sync(S, 2), given)
    assert seen(sync(sync(S, 2), 2), given, 2) == {(1, 1, 0): 1, (2, 2, 2): 1}
    assert seen(sync(S, 4), given, 2) == {(1, 1, 0): 1}
    assert same(sync(sync(S, 2), 4), sync(S, 4), given)


def test_theorem_2_needs_a_first_point() -> None:
    """Printed: for any unary operator, Θ(ℜ_Sync(S)) and ℜ_Sync(ξ(Θ(ℜ(S)))) agree; T̃ = max(t ∈ Sync, t < T).
    True: before the first point T̃ does not exist. If the relation is empty there, a count without groups is 0
    on the left, and not yet there on the right.
    Everview: a relation is empty before its first point; SYNC may not move through an aggregate without keys.
    """
    given = streams("1 1 0")
    assert seen(count(sync(S, 2, origin=1)), given, 0) == {(0,): 1}
    assert seen(sync(count(S), 2, origin=1), given, 0) == {}
    assert seen(count(sync(S, 2, origin=1)), given, 1) == seen(sync(count(S), 2, origin=1), given, 1)


def test_example_10_calls_equal_what_agrees_at_full_points_only() -> None:
    """Printed: σ(ℜ_Sync1(S1) ⋈ ℜ_Sync2(S2)) = ℜ_Sync1∩Sync2(ξ(σ(ℜ(S1) ⋈ ℜ(S2)))).
    True: at full points. Between them the sides differ, and where Sync1 and Sync2 have no point in common the
    peeled form is empty for ever.
    Everview: two synchronizations may be peeled only if they are equal.
    """
    given = streams("1 1 0", "1 2 1")
    apart = N.Filter(N.Join(sync(S, 2), sync(R, 2, origin=1), K_EQUAL), TRUE)
    assert seen(apart, given, 1) == {(1, 1, 0, 1, 2, 1): 1}
    assert Grid(2).common(Grid(2, origin=1)) is None
    empty = N.Stream("empty", Schema.of(("point", TIMESTAMP), timeline="point"))
    peeled = N.SynchronizeOn(N.Join(S, R, K_EQUAL), empty)
    assert meaning(peeled, {**given, "empty": []}, DOMAIN) == {}


def test_example_9_leaves_out_the_point_0() -> None:
    """Printed: with ticks every 2 and every 3 the output "is refreshed at time points 2, 3, 4, and 6".
    True: 0 is a point of both (example 5 begins Sync_2 with it, and the output at 2 reads R[S3(0)]): up to 6
    there are five points, and 0 is a full one like 6.
    Everview: a grid has all its points.
    """
    points = [t for t in range(7) if t in Grid(2) or t in Grid(3)]
    assert points == [0, 2, 3, 4, 6]
    given = {name: arrivals_of([(1, t, t) for t in range(7)]) for name in "sr"}
    output = meaning(N.Join(sync(S, 2), sync(R, 3), K_EQUAL), given, DOMAIN)
    assert [t for t in range(7) if at(output, t) != at(output, t - 1)] == points
    finest = meaning(N.Join(S, R, K_EQUAL), given, DOMAIN)
    assert [t for t in range(6) if at(output, t) == at(finest, t)] == [0]


def test_full_points_are_defined_in_two_ways() -> None:
    """Printed: T is full iff the relation reflects all tuples up to T; "basically" these are Sync's (6.1).
    Definition 1 calls all other T partial, definition 2 says they are no synchronization points at all.
    True: where nothing came since the last point, the relation is up to date although T ∉ Sync.
    Everview: full points are the points.
    """
    given = streams("1 1 0")
    assert 1 not in Grid(2)
    assert seen(sync(S, 2), given, 1) == seen(S, given, 1)


def test_example_11_applies_the_mappings_in_the_wrong_order() -> None:
    """Printed: T4 = σ_Temp>100(ξ(ℜ(HotRooms2))), then ℜ_Sync4(ξ(…)) around it.
    True: HotRooms2 is a relation, ξ maps a relation to a stream and ℜ a stream to a relation, and σ needs a
    relation: it must be σ(ℜ(ξ(HotRooms2))). A stream has tags, which no σ over temperatures reads.
    Everview: a view is read as a relation, without either mapping.
    """
    columns = Schema.of(("room", STRING), ("v", INT), ("ts", TIMESTAMP), timeline="ts")
    rooms = N.Stream("rooms", columns)
    given = {"rooms": arrivals_of(rows("a 99 1\na 120 2\na 90 3"))}
    relation = N.Tagged(rooms, ("room",))

    def hot(node: N.Node, least: int) -> N.Node:
        return N.Filter(node, Comparison(">", node.column("v"), Literal(least, INT)))

    view = hot(sync(relation, 2), 80)
    assert seen(sync(hot(view, 100), 4), given, 4) == seen(hot(sync(relation, 4), 100), given, 4) == {}
    assert seen(hot(view, 100), given, 2) == {("a", 120, 2): 1}


def test_percentages_that_do_not_follow_from_the_costs() -> None:
    """Printed: sharing has 40 % less NS and 10 % less NG, with 2,000 groups 1.8 % more NG (10.6.2).
    True: by the printed costs 34 % and 3 % less, and 87 % more: 1.87 times as many.
    Everview: compares the plans, not the percentages.
    """
    alone, shared, many_groups = (2_798_000, 198_000), (1_841_300, 191_800), (2_069_000, 370_000)
    assert [round(100 * (1 - b / a)) for a, b in zip(alone, shared, strict=True)] == [34, 3]
    assert round(100 * (1 - many_groups[0] / alone[0])) == 26  # printed: 25
    assert round(100 * (many_groups[1] / alone[1] - 1)) == 87
