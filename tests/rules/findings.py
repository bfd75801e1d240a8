"""What the tests of findings share."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import settings

from everview.algebra import nodes as N
from everview.algebra.aggregates import AggregateCall
from everview.algebra.changes import ChangeRow, Logical, Record, to_logical
from everview.algebra.expressions import Comparison, Expression, Literal
from everview.algebra.types import INT
from everview.reference.meaning import meaning
from tests.rules import paper1_algorithms as A
from tests.rules.paper1_algorithms import Element
from tests.streams import DOMAIN, R, S, arrivals_of, at, rows

Inputs = dict[str, list[ChangeRow]]
HALF = settings(max_examples=settings.default.max_examples // 2)

a, b, c = ("a",), ("b",), ("c",)
K_EQUAL = Comparison("=", S.column("k"), R.column("k"))


def streams(s: str, r: str = "") -> Inputs:
    return {"s": arrivals_of(rows(s)), "r": arrivals_of(rows(r))}


def seen(plan: N.Node, given: Inputs, t: int) -> dict[Record, int]:
    """The snapshot of a plan at t."""
    return at(meaning(plan, given, DOMAIN), t)


def v_is(value: int, node: N.Node) -> Expression:
    return Comparison("=", node.column("v"), Literal(value, INT))


def logical(stream: Iterable[Element]) -> Logical:
    return to_logical(A.as_rows(stream), DOMAIN)


def count(node: N.Node, *keys: str) -> N.Node:
    return N.Aggregate(node, tuple((k, node.column(k)) for k in keys), (("n", AggregateCall("count")),))
