"""Nodes refuse bad input when they are built, in words for whoever wrote the query; and time lines go up."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from everview.algebra import nodes as N
from everview.algebra.aggregates import AGGREGATES, AggregateCall
from everview.algebra.expressions import (
    TRUE,
    And,
    Arithmetic,
    Call,
    Case,
    Cast,
    Column,
    Comparison,
    InList,
    Literal,
    Negate,
    Not,
)
from everview.algebra.schema import Field, Schema
from everview.algebra.time import SECOND, Grid
from everview.algebra.types import BOOLEAN, DOUBLE, INT, INTERVAL, STRING, TIMESTAMP
from everview.algebra.windows import Band, Range, Rows
from everview.errors import AlgebraError
from tests.streams import NRR, R, S, T

K, V, TS = S.column("k"), S.column("v"), S.column("ts")
ONE, X = Literal(1, INT), Literal("x", STRING)
K_IS_ID = Comparison("=", K, T.column("id"))
TIMELESS = N.Project(S, (("k", K), ("v", V)))
NOT_A_CONDITION = "needs a condition, not an INT\n  next: compare the value with something"
NO_VV = "there is no column 'vv'\n  did you mean 'v'?\n  choices: k, v, ts"
NO_S_VV = "there is no column 's.vv'\n  did you mean 's.v'?\n  choices: s.k, s.v, s.ts"

Build = Callable[[], object]


def refusal(build: Build) -> str:
    with pytest.raises(AlgebraError) as refused:
        build()
    return str(refused.value)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        pytest.param(lambda: S.column("vv"), NO_VV, id="a name alone"),
        pytest.param(lambda: S.column("vv", "s"), NO_S_VV, id="with its relation"),
        pytest.param(
            lambda: N.Join(S, R).column("vv"),
            "there is no column 'vv'\n  did you mean 's.v'?\n  choices: s.k, s.v, s.ts, r.k, r.v, r.ts",
            id="where names alone are ambiguous",
        ),
        pytest.param(lambda: N.Filter(S, Comparison("=", Column("vv", INT, "s"), ONE)), NO_S_VV, id="Filter"),
        pytest.param(lambda: N.Project(S, (("x", Column("vv", INT, "s")),)), NO_S_VV, id="Project"),
        pytest.param(lambda: N.GroupMember(S, Column("vv", INT, "s"), 1), NO_S_VV, id="GroupMember"),
        pytest.param(
            lambda: N.Aggregate(S, (("x", Column("vv", INT, "s")),), ()), NO_S_VV, id="a key of an Aggregate"
        ),
        pytest.param(
            lambda: N.Aggregate(S, (), (("x", AggregateCall("sum", Column("vv", INT, "s"))),)),
            NO_S_VV,
            id="an argument of an Aggregate",
        ),
        pytest.param(
            lambda: N.SemiJoin(S, T, Comparison("=", K, Column("idd", INT, "t"))),
            "there is no column 't.idd'\n  did you mean 't.id'?\n  choices: s.k, s.v, s.ts, t.id, t.name",
            id="SemiJoin",
        ),
        pytest.param(
            lambda: N.Stream("s", S.columns, sequence=("seq",)),
            "there is no column 'seq'\n  choices: k, v, ts",
            id="SEQUENCE BY",
        ),
        pytest.param(
            lambda: N.Table("t", T.columns, key=("idd",)),
            "there is no column 'idd'\n  did you mean 'id'?\n  choices: id, name",
            id="PRIMARY KEY",
        ),
        pytest.param(lambda: N.Window(S, Rows(1, ("vv",))), NO_VV, id="PARTITION BY"),
        pytest.param(
            lambda: N.Filter(S, Comparison("=", Column("v", STRING, "s"), X)),
            "the column 's.v' is INT, not STRING",
            id="of another type",
        ),
    ],
)
def test_a_column_that_is_not_there(build: Build, message: str) -> None:
    assert refusal(build) == message


@pytest.mark.parametrize(
    ("build", "message"),
    [
        pytest.param(
            lambda: N.Join(S, R).column("k"),
            "the column 'k' is ambiguous\n  choices: s.k, r.k\n  next: write the relation before the column",
            id="ambiguous",
        ),
        pytest.param(
            lambda: N.Join(S, S),
            "two columns are called 's.k'\n  next: give one of them another name with AS",
            id="a relation with itself",
        ),
        pytest.param(
            lambda: N.Project(S, (("x", K), ("X", V))),
            "two columns are called 'X'\n  next: give one of them another name with AS",
            id="Project",
        ),
        pytest.param(
            lambda: N.Aggregate(S, (("n", K),), (("n", AggregateCall("count")),)),
            "two columns are called 'n'\n  next: give one of them another name with AS",
            id="Aggregate",
        ),
        pytest.param(
            lambda: Schema.of(("ts", INT), timeline="ts"),
            "the time line 'ts' is an INT\n  next: declare it as a TIMESTAMP",
            id="a time line that tells no time",
        ),
        pytest.param(
            lambda: N.Values(T.columns, ((1, "a"), (2,))), "a row of 1 values for 2 columns", id="Values"
        ),
    ],
)
def test_a_schema_that_cannot_be(build: Build, message: str) -> None:
    assert refusal(build) == message


def fits(what: str) -> str:
    return f"{what}\n  next: CAST one side to the other's type"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Comparison("=", V, X), fits("INT = STRING cannot be compared")),
        (lambda: Comparison("<", TS, ONE), fits("TIMESTAMP < INT cannot be compared")),
        (lambda: InList(V, (ONE, X)), fits("INT = STRING cannot be compared")),
        (
            lambda: Arithmetic("+", V, X),
            "INT + STRING has no meaning\n  next: CAST an operand to a type that fits",
        ),
        (
            lambda: Arithmetic("+", TS, TS),
            "TIMESTAMP + TIMESTAMP has no meaning\n  next: CAST an operand to a type that fits",
        ),
        (lambda: Negate(X), "-STRING has no meaning"),
        (
            lambda: And(TRUE, V),
            "AND needs a condition, not an INT\n  next: compare the value with something",
        ),
        (lambda: Not(X), "NOT needs a condition, not a STRING\n  next: compare the value with something"),
        (
            lambda: Case(((TRUE, V),), X),
            "CASE mixes INT and STRING\n  next: CAST one of them",
        ),
        (lambda: Cast(TS, BOOLEAN), "a TIMESTAMP cannot be cast to BOOLEAN"),
    ],
)
def test_types_that_do_not_fit(build: Build, message: str) -> None:
    assert refusal(build) == message


def test_a_function_that_is_not_there() -> None:
    assert refusal(lambda: Call("uper", (X,))).splitlines()[1] == "  did you mean 'upper'?"


@pytest.mark.parametrize(
    ("what", "build"),
    [
        ("WHERE", lambda: N.Filter(S, V)),
        ("ON", lambda: N.Join(S, T, V)),
        ("ON", lambda: N.SemiJoin(S, T, V)),
        ("ON", lambda: N.AntiJoin(S, T, V)),
        ("ON", lambda: N.OuterJoin(S, T, V, "LEFT")),
        ("ON", lambda: N.TableJoin(S, T, V)),
        ("DELETE WHEN", lambda: N.Tagged(S, ("k",), V)),
    ],
)
def test_a_condition_that_is_none(what: str, build: Build) -> None:
    assert refusal(build) == f"{what} {NOT_A_CONDITION}"


@pytest.mark.parametrize(
    ("operation", "word"),
    [
        (N.Union, "UNION"),
        (N.Difference, "EXCEPT"),
        (N.StrictDifference, "EXCEPT"),
        (N.Intersection, "INTERSECT"),
        (N.MaxUnion, "MAX UNION"),
    ],
)
def test_schemas_of_a_set_operation_that_do_not_match(operation: Callable[..., N.Node], word: str) -> None:
    assert refusal(lambda: operation(S, T)) == (
        f"{word} needs as many columns on both sides: 3 on the left, 2 on the right"
    )
    assert refusal(lambda: operation(TIMELESS, T)) == (
        f"{word} cannot unite column 2: 'v' is INT, 'name' is STRING\n  next: CAST one of them"
    )


NO_LINE = "needs rows that carry a time line, and these have none\n  next: project the time line column"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        pytest.param(
            lambda: N.Window(TIMELESS, Range(SECOND)),
            f"[RANGE 1 SECOND] {NO_LINE} of the stream below",
            id="a window without a time line",
        ),
        pytest.param(
            lambda: N.Window(T, Rows(3)),
            f"[ROWS 3] {NO_LINE} of the stream below",
            id="rows without an order",
        ),
        pytest.param(lambda: N.Tagged(S, ()), "a tagged stream needs a KEY", id="tagged without a key"),
        pytest.param(
            lambda: N.Tagged(S, ("kk",)),
            "there is no column 'kk'\n  did you mean 'k'?\n  choices: k, v, ts",
            id="tagged with an unknown key",
        ),
        pytest.param(
            lambda: N.Tagged(T, ("id",)),
            "a tagged stream is made over a stream, not over a view or a table",
            id="a tagged table",
        ),
        pytest.param(
            lambda: N.Split(S, 0), "an interval cannot be split into pieces of 0", id="split into nothing"
        ),
        pytest.param(
            lambda: N.Synchronize(S, Grid(0)),
            "a grid needs a step of at least one microsecond, not 0",
            id="SYNC EVERY 0",
        ),
        pytest.param(
            lambda: N.SynchronizeOn(S, R),
            "a synchronization stream has one TIMESTAMP column, not (r.k INT, r.v INT, r.ts TIMESTAMP)",
            id="SYNC ON with too many columns",
        ),
        pytest.param(
            lambda: N.SynchronizeOn(S, N.Project(R, (("k", R.column("k")),))),
            "a synchronization stream has one TIMESTAMP column, not (k INT)",
            id="SYNC ON with another type",
        ),
        pytest.param(
            lambda: N.TableJoin(S, R, Comparison("=", K, R.column("k")), retroactive=False),
            "only a table can be joined as of the time of a row",
            id="NRR join with a stream",
        ),
        pytest.param(
            lambda: N.TableJoin(TIMELESS, NRR, TRUE, retroactive=False),
            "a table is joined as of the time line of the row, and these rows have none\n"
            "  next: project the time line column of the stream below",
            id="NRR join without a time line",
        ),
        pytest.param(
            lambda: N.OuterJoin(S, T, K_IS_ID, "left"),
            "there is no left outer join\n  choices: LEFT, RIGHT, FULL",
            id="an outer join of no kind",
        ),
    ],
)
def test_operators_over_the_wrong_input(build: Build, message: str) -> None:
    assert refusal(build) == message


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: AggregateCall("suum", V),
            f"there is no aggregate 'suum'\n  did you mean 'sum'?\n  choices: {', '.join(AGGREGATES)}",
        ),
        (lambda: AggregateCall("sum", X), "SUM of STRING has no meaning"),
        (lambda: AggregateCall("avg", TS), "AVG of TIMESTAMP has no meaning"),
        (lambda: AggregateCall("stddev", Literal(5, INTERVAL)), "STDDEV of INTERVAL has no meaning"),
        (lambda: AggregateCall("count", distinct=True), "COUNT needs an argument"),
        (lambda: AggregateCall("max"), "MAX needs an argument"),
        (lambda: AggregateCall("count", where=V), "FILTER needs a condition, not an INT"),
    ],
)
def test_aggregates_without_a_meaning(build: Build, message: str) -> None:
    assert refusal(build) == message


# Time lines


def timeline(node: N.Node) -> str | None:
    line = node.schema.timeline
    return None if line is None else line.qualified


TWO_LINES = N.Stream(
    "two",
    Schema((Field("sent", TIMESTAMP, timeline=1), Field("seen", TIMESTAMP, timeline=0), Field("v", INT))),
)


@pytest.mark.parametrize(
    ("node", "line"),
    [
        pytest.param(S, "s.ts", id="Stream"),
        pytest.param(T, None, id="Table"),
        pytest.param(TWO_LINES, "two.seen", id="the first of two"),
        pytest.param(
            N.Project(TWO_LINES, (("sent", TWO_LINES.column("sent")),)), "sent", id="the second alone"
        ),
        pytest.param(N.Alias(S, "x"), "x.ts", id="Alias"),
        pytest.param(N.View("x", S), "x.ts", id="View"),
        pytest.param(N.Filter(S, TRUE), "s.ts", id="Filter"),
        pytest.param(N.Window(S, Range(1)), "s.ts", id="Window"),
        pytest.param(N.Window(TIMELESS, Band()), None, id="UNBOUNDED over no time line"),
        pytest.param(N.Project(S, (("at", TS), ("v", V))), "at", id="Project renames it"),
        pytest.param(TIMELESS, None, id="Project drops it"),
        pytest.param(
            N.Project(S, (("ts", Arithmetic("+", TS, Literal(1, INTERVAL))),)),
            None,
            id="what is computed is none",
        ),
        pytest.param(N.Tagged(S, ("k",)), "s.ts", id="Tagged"),
        pytest.param(N.Aggregate(S, (("at", TS),), (("n", AggregateCall("count")),)), "at", id="a key"),
        pytest.param(
            N.Aggregate(S, (("k", K),), (("at", AggregateCall("max", TS)),)), None, id="an aggregate"
        ),
        pytest.param(N.Join(S, R), "s.ts", id="Join: the left one"),
        pytest.param(N.Join(T, R), "r.ts", id="Join: the only one"),
        pytest.param(N.SemiJoin(T, S, K_IS_ID), None, id="SemiJoin: none of the right"),
        pytest.param(N.AntiJoin(S, T, K_IS_ID), "s.ts", id="AntiJoin"),
        pytest.param(N.OuterJoin(S, R, TRUE, "LEFT"), "s.ts", id="LEFT keeps the left"),
        pytest.param(N.OuterJoin(S, R, TRUE, "RIGHT"), "r.ts", id="RIGHT keeps the right"),
        pytest.param(N.OuterJoin(S, R, TRUE, "FULL"), None, id="FULL may pad both"),
        pytest.param(N.TableJoin(S, NRR, TRUE, retroactive=False, outer=True), "s.ts", id="TableJoin"),
        pytest.param(N.Union(S, R), "s.ts", id="Union of two"),
        pytest.param(
            N.Union(N.Project(S, (("ts", TS),)), N.Values(Schema.of(("ts", TIMESTAMP)), ())),
            None,
            id="Union with what has none",
        ),
    ],
)
def test_the_time_line_of_a_plan(node: N.Node, line: str | None) -> None:
    assert timeline(node) == line


def test_widening_keeps_the_left_names() -> None:
    wide = N.Union(N.Project(S, (("n", V),)), N.Project(S, (("x", Cast(V, DOUBLE)),)))
    assert [(f.name, f.type) for f in wide.schema] == [("n", DOUBLE)]
