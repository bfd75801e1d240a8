"""Snapshot-reducibility (paper 1, definition 5.2), for every node.

The snapshot at t of a temporal operator's result is the result of its non-temporal counterpart over the
snapshots of its inputs at t. The counterparts here are plain functions on lists of rows, as SQL has them.
Operators that by nature look beyond t are given whole inputs, and say what they reduce to instead.
"""

from __future__ import annotations

import inspect
import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.algebra import nodes as N
from everview.algebra.aggregates import AggregateCall
from everview.algebra.changes import ChangeRow
from everview.algebra.explain import explain
from everview.algebra.expressions import TRUE, Arithmetic, Cast, Comparison, Literal
from everview.algebra.time import Grid
from everview.algebra.types import DOUBLE, INT
from everview.algebra.windows import NOW, Band, Fixed, Range, Rows, tumble
from everview.reference.meaning import meaning
from tests.streams import DOMAIN, NRR, R, S, T, arrivals, changes, table_rows

Row = tuple[Any, ...]
Bag = list[Row]
History = Callable[[int], Bag]
"""An input: the rows that it holds at any instant."""


class Case(NamedTuple):
    """A plan, and what its snapshot at t must be, from t and its inputs."""

    plan: N.Node
    expected: Callable[..., Bag]


def reducible(plan: N.Node, counterpart: Callable[..., Bag]) -> Case:
    """The counterpart sees the snapshots at t and nothing else."""
    return Case(plan, lambda t, *inputs: counterpart(*(snapshot(t) for snapshot in inputs)))


# Streams and tables are (k, v, ts) and (id, name)

K, V = S.column("k"), S.column("v")
SAME_K = Comparison("=", K, R.column("k"))
LESS_V = Comparison("<", V, R.column("v"))
IN_TABLE = Comparison("=", K, T.column("id"))
IN_NRR = Comparison("=", K, NRR.column("id"))


def equal(a: Any, b: Any) -> bool:
    return a is not None and b is not None and bool(a == b)


def less(a: Any, b: Any) -> bool:
    return a is not None and b is not None and bool(a < b)


def same_k(a: Row, b: Row) -> bool:
    return equal(a[0], b[0])


def less_v(a: Row, b: Row) -> bool:
    return less(a[1], b[1])


# Row by row, and grouping


def group_by_k(rows: Bag) -> Bag:
    keys = {e[0] for e in rows}
    return [(k, *totals([e for e in rows if e[0] == k])) for k in keys]


def totals(rows: Bag) -> Row:
    found = [e[1] for e in rows if e[1] is not None]
    return (
        len(rows),
        len(found),
        len(set(found)),
        sum(found) if found else None,
        sum(found) / len(found) if found else None,
        min(found, default=None),
        max(found, default=None),
        math.sqrt(statistics.variance(found)) if len(found) > 1 else None,
        len([e for e in rows if less(0, e[1])]),
        statistics.pvariance(found) if found else None,
        statistics.median(found) if found else None,
        len([v for v in found if v > 0]),
        all(v > 0 for v in found) if found else None,
        any(v > 0 for v in found) if found else None,
        min(found, default=None),
    )


POSITIVE = Comparison("<", Literal(0, INT), V)
CALLS = (
    ("rows", AggregateCall("count")),
    ("found", AggregateCall("count", V)),
    ("kinds", AggregateCall("count", V, distinct=True)),
    ("total", AggregateCall("sum", V)),
    ("mean", AggregateCall("avg", V)),
    ("least", AggregateCall("min", V)),
    ("most", AggregateCall("max", V)),
    ("spread", AggregateCall("stddev", V)),
    ("positive", AggregateCall("count", where=POSITIVE)),
    ("variance", AggregateCall("var_pop", V)),
    ("middle", AggregateCall("median", Cast(V, DOUBLE), fraction=0.5)),
    ("counted", AggregateCall("count_if", POSITIVE)),
    ("all_positive", AggregateCall("every", POSITIVE)),
    ("some_positive", AggregateCall("any", POSITIVE)),
    ("any_v", AggregateCall("any_value", V)),
)
CONSTANT: tuple[Row, ...] = ((1, "x"), (1, "x"), (None, "y"))

ONE_INPUT = [
    reducible(N.Values(T.columns, CONSTANT), lambda: list(CONSTANT)),
    reducible(N.View("view", S), lambda s: s),
    reducible(N.Alias(S, "other"), lambda s: s),
    reducible(N.Coalesce(S, 3), lambda s: s),
    reducible(N.Split(S, 2), lambda s: s),
    reducible(N.Filter(S, Comparison("<", K, V)), lambda s: [e for e in s if less(e[0], e[1])]),
    reducible(
        N.Project(S, (("next", Arithmetic("+", V, Literal(1, INT))), ("k", K))),
        lambda s: [(None if e[1] is None else e[1] + 1, e[0]) for e in s],
    ),
    reducible(N.GroupMember(S, K, 1), lambda s: [e for e in s if e[0] == 1]),
    reducible(N.GroupMember(S, K, None), lambda s: [e for e in s if e[0] is None]),
    reducible(N.Distinct(N.Project(S, (("k", K),))), lambda s: [*set(s)]),
    reducible(N.Aggregate(S, (("k", K),), CALLS), group_by_k),
    reducible(N.Aggregate(S, (), CALLS), lambda s: [totals(s)]),
    reducible(N.Aggregate(S, (("k", K),), ()), lambda s: [(k,) for k in {e[0] for e in s}]),
]


# Joins


def pairs(left: Bag, right: Bag, match: Callable[[Row, Row], bool]) -> Bag:
    return [a + b for a in left for b in right if match(a, b)]


def partnered(left: Bag, right: Bag, match: Callable[[Row, Row], bool], wanted: bool = True) -> Bag:
    return [a for a in left if any(match(a, b) for b in right) == wanted]


def left_join(left: Bag, right: Bag, match: Callable[[Row, Row], bool], width: int = 3) -> Bag:
    return pairs(left, right, match) + [a + (None,) * width for a in partnered(left, right, match, False)]


def right_join(left: Bag, right: Bag) -> Bag:
    return [row[3:] + row[:3] for row in left_join(right, left, same_k)]


def full_join(left: Bag, right: Bag) -> Bag:
    return left_join(left, right, same_k) + [(None,) * 3 + b for b in partnered(right, left, same_k, False)]


JOINS = [
    reducible(N.Join(S, R, SAME_K), lambda s, r: pairs(s, r, same_k)),
    reducible(N.Join(S, R, LESS_V), lambda s, r: pairs(s, r, less_v)),
    reducible(N.Join(S, R, TRUE), lambda s, r: pairs(s, r, lambda a, b: True)),
    reducible(N.SemiJoin(S, R, SAME_K), lambda s, r: partnered(s, r, same_k)),
    reducible(N.SemiJoin(S, R, LESS_V), lambda s, r: partnered(s, r, less_v)),
    reducible(N.AntiJoin(S, R, SAME_K), lambda s, r: partnered(s, r, same_k, False)),
    reducible(N.AntiJoin(S, R, LESS_V), lambda s, r: partnered(s, r, less_v, False)),
    reducible(N.OuterJoin(S, R, SAME_K, "LEFT"), lambda s, r: left_join(s, r, same_k)),
    reducible(N.OuterJoin(S, R, SAME_K, "RIGHT"), right_join),
    reducible(N.OuterJoin(S, R, SAME_K, "FULL"), full_join),
    reducible(N.TableJoin(S, T, IN_TABLE), lambda s, table: pairs(s, table, same_k)),
    reducible(N.TableJoin(S, T, IN_TABLE, outer=True), lambda s, table: left_join(s, table, same_k, 2)),
]


# Set operations, over (k, v) so that rows meet

LEFT, RIGHT = (N.Project(x, (("k", x.column("k")), ("v", x.column("v")))) for x in (S, R))


def per_row(count: Callable[[int, int], int]) -> Callable[[Bag, Bag], Bag]:
    """Every row as often as `count` says of its copies on both sides."""
    return lambda left, right: [
        e for e in {*left, *right} for _ in range(count(left.count(e), right.count(e)))
    ]


SET_OPERATIONS = [
    reducible(N.Union(LEFT, RIGHT), lambda left, right: left + right),
    reducible(N.Difference(LEFT, RIGHT), per_row(lambda n, m: n - m)),
    reducible(N.StrictDifference(LEFT, RIGHT), lambda left, right: [e for e in left if e not in right]),
    reducible(N.Intersection(LEFT, RIGHT), per_row(min)),
    reducible(N.MaxUnion(LEFT, RIGHT), per_row(max)),
]


# Windows reduce to: the snapshot of the input at t, restricted to the window's scope at t


def restricted(window: N.AnyWindow, inside: Callable[[int, int], bool]) -> Case:
    return Case(N.Window(S, window), lambda t, s: [e for e in s(t) if inside(e[2], t)])


def since(t: int, step: int, origin: int = 0) -> int:
    """The last point of a grid up to t."""
    return next(p for p in range(t, t - step, -1) if (p - origin) % step == 0)


def in_order(rows: Bag) -> Bag:
    """By timestamp, then by all columns, NULLs first."""
    return sorted(rows, key=lambda e: (e[2], *((v is not None, v or 0) for v in e)))


def last_per_k(rows: Bag, count: int) -> Bag:
    return [e for k in {e[0] for e in rows} for e in in_order([x for x in rows if x[0] == k])[-count:]]


WINDOWS = [
    restricted(NOW, lambda ts, t: ts == t),
    restricted(Range(5), lambda ts, t: t - 5 < ts <= t),
    restricted(
        Range(4, slide=3, lag=2, origin=1), lambda ts, t: since(t, 3, 1) - 6 < ts <= since(t, 3, 1) - 2
    ),
    restricted(tumble(4), lambda ts, t: since(t, 4) - 4 < ts <= since(t, 4)),
    restricted(Fixed(5, origin=2), lambda ts, t: ts >= since(t, 5, 2)),
    restricted(Band(), lambda ts, t: True),
    restricted(Band(lower=4), lambda ts, t: ts >= 4),
    restricted(Band(upper=9), lambda ts, t: ts <= 9),
    restricted(Band(4, 9), lambda ts, t: 4 <= ts <= 9),
    Case(N.Window(S, Rows(2)), lambda t, s: in_order(s(t))[-2:]),
    Case(N.Window(S, Rows(2, ("k",))), lambda t, s: last_per_k(s(t), 2)),
]


# What looks at other instants than t


def held(t: int, s: History, points: Iterable[int]) -> Bag:
    """The input's snapshot at the last point up to t."""
    last = max((p for p in points if p <= t), default=None)
    return [] if last is None else s(last)


def more(after: Bag, before: Bag) -> Bag:
    return [*(Counter(after) - Counter(before)).elements()]


def points_of(ticks: History) -> list[int]:
    """The instants at which a row with just that instant is inserted."""
    return [t for t in DOMAIN if (t,) in more(ticks(t), ticks(t - 1))]


def so_far(t: int, at_each: Callable[[int], Bag]) -> Bag:
    return [e for past in DOMAIN if past <= t for e in at_each(past)]


def dated(rows: Bag, at: int) -> Bag:
    return [(*e, at) for e in rows]


def as_of(rows: Bag, table: History, outer: bool) -> Bag:
    """Each row with the table as it was at the row's own timestamp."""
    join = (lambda a, b: left_join(a, b, same_k, 2)) if outer else (lambda a, b: pairs(a, b, same_k))
    return [pair for e in rows for pair in join([e], table(e[2]))]


IS_ZERO = Comparison("=", V, Literal(0, INT))
TICKS = N.Project(R, (("ts", R.column("ts")),))
LATE_TICKS = N.Project(N.Window(R, Range(9, slide=2)), (("ts", R.column("ts")),))
"""Those with an odd timestamp are inserted an instant later, and are no points."""
OTHER_INSTANTS = [
    Case(N.Tagged(S, ("k",)), lambda t, s: last_per_k(s(t), 1)),
    Case(N.Tagged(S, ("k",), IS_ZERO), lambda t, s: [e for e in last_per_k(s(t), 1) if e[1] != 0]),
    Case(N.Synchronize(S, Grid(3, 1)), lambda t, s: held(t, s, range(1, 99, 3))),
    Case(N.SynchronizeOn(S, TICKS), lambda t, s, ticks: held(t, s, points_of(ticks))),
    Case(N.SynchronizeOn(S, LATE_TICKS), lambda t, s, ticks: held(t, s, points_of(ticks))),
    Case(N.IStream(LEFT), lambda t, s: so_far(t, lambda past: more(s(past), s(past - 1)))),
    Case(N.DStream(LEFT), lambda t, s: so_far(t, lambda past: more(s(past - 1), s(past)))),
    Case(N.RStream(LEFT, Grid(4)), lambda t, s: so_far(t, lambda past: s(past) if past % 4 == 0 else [])),
    Case(N.IStream(LEFT, True), lambda t, s: so_far(t, lambda at: dated(more(s(at), s(at - 1)), at))),
    Case(N.DStream(LEFT, True), lambda t, s: so_far(t, lambda at: dated(more(s(at - 1), s(at)), at))),
    Case(
        N.RStream(LEFT, Grid(4), True),
        lambda t, s: so_far(t, lambda at: dated(s(at), at) if at % 4 == 0 else []),
    ),
    Case(N.TableJoin(S, NRR, IN_NRR, False), lambda t, s, nrr: as_of(s(t), nrr, outer=False)),
    Case(N.TableJoin(S, NRR, IN_NRR, False, True), lambda t, s, nrr: as_of(s(t), nrr, outer=True)),
]

GROUPS = {
    "one input": ONE_INPUT,
    "joins": JOINS,
    "set operations": SET_OPERATIONS,
    "windows": WINDOWS,
    "other instants": OTHER_INSTANTS,
}
INPUTS = st.fixed_dictionaries(
    {"s": changes(5), "r": st.one_of(arrivals(4), changes(4)), "t": table_rows(), "nrr": table_rows()}
)


def history(node: N.Node, inputs: dict[str, list[ChangeRow]]) -> History:
    logical = meaning(node, inputs, DOMAIN)
    bags: dict[int, Bag] = {}
    for (e, t), n in logical.items():
        assert n > 0, "no snapshot is negative"
        bags.setdefault(t, []).extend([e] * n)
    return lambda t: bags.get(t, [])


@pytest.mark.parametrize("group", GROUPS)
@given(inputs=INPUTS)
def test_every_snapshot(group: str, inputs: dict[str, list[ChangeRow]]) -> None:
    for plan, expected in GROUPS[group]:
        found = history(plan, inputs)
        below = [history(node, inputs) for node in plan.inputs]
        for t in DOMAIN:
            assert Counter(found(t)) == Counter(expected(t, *below)), f"at {t} of\n{explain(plan)}"


@pytest.mark.parametrize("leaf", [S, T])
@given(given_rows=changes())
def test_the_snapshot_of_a_leaf_is_what_its_rows_add_up_to(leaf: N.Node, given_rows: list[ChangeRow]) -> None:
    found = history(leaf, {"s": given_rows, "t": given_rows})
    for t in DOMAIN:
        total: Counter[Row] = Counter()
        for record, from_, until, n in given_rows:
            total[record] += n if from_ <= t < until else 0
        assert Counter(found(t)) == +total


def test_no_node_is_left_out() -> None:
    kinds = {kind for _, kind in inspect.getmembers(N, inspect.isclass) if issubclass(kind, N.Node)}
    assert kinds - {N.Node} == {type(case.plan) for cases in GROUPS.values() for case in cases} | {
        N.Stream,
        N.Table,
    }
