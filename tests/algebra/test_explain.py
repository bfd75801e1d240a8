"""EXPLAIN text: one line a node, indented below the node that reads it, the same from run to run."""

from __future__ import annotations

import inspect

from everview.algebra import nodes as N
from everview.algebra.aggregates import AggregateCall
from everview.algebra.explain import explain
from everview.algebra.expressions import And, Arithmetic, Comparison, Expression, IsNull, Literal, Not
from everview.algebra.schema import Field, Schema
from everview.algebra.time import HOUR, MINUTE, SECOND, Grid
from everview.algebra.types import BIGINT, INT, STRING, TIMESTAMP
from everview.algebra.windows import Range, Rows


def ids(node: N.Node) -> N.Project:
    return N.Project(node, (("id", node.column("id")),))


def same_id(left: N.Node, right: N.Node) -> Expression:
    return Comparison("=", left.column("id"), right.column("id"))


READINGS = N.Stream("r", Schema.of(("id", INT), ("op", STRING), ("ts", TIMESTAMP), timeline="ts"))
ROOMS = N.Table("rooms", Schema.of(("id", INT), ("name", STRING)), key=("id",))
FLOORS = N.Table("floors", Schema.of(("id", INT), ("floor", BIGINT)), retroactive=False)
IS_D = Comparison("=", READINGS.column("op"), Literal("D", STRING))


def plan() -> N.Node:
    """A plan with every kind of node in it."""
    recent = N.Window(READINGS, Range(15 * MINUTE, MINUTE, SECOND))
    some = N.Filter(
        recent,
        And(Comparison(">", recent.column("id"), Literal(3, INT)), Not(IsNull(recent.column("op")))),
    )
    inserted = N.IStream(N.Distinct(N.GroupMember(some, READINGS.column("id"), 5)))

    latest = N.Coalesce(N.Tagged(READINGS, ("id",), IS_D), limit=HOUR)
    last_rows = N.RStream(N.Window(READINGS, Rows(3, ("id",))), Grid(HOUR))
    points = N.Project(last_rows, (("point", last_rows.column("ts")),))
    deleted = N.DStream(N.SynchronizeOn(N.Synchronize(latest, Grid(MINUTE, origin=SECOND)), points))

    dated = N.TableJoin(READINGS, FLOORS, same_id(READINGS, FLOORS), retroactive=False)
    count = AggregateCall("count")
    kinds = AggregateCall("count", dated.column("op"), distinct=True, where=IS_D)
    counted = N.Aggregate(dated, (("id", READINGS.column("id")),), (("n", count), ("kinds", kinds)))
    busy = N.View("busy", ids(counted))

    values = N.Alias(N.Values(Schema.of(("id", INT)), ((1,), (2,))), "v")
    rooms = N.SemiJoin(ROOMS, values, same_id(ROOMS, values))
    empty = N.Split(N.AntiJoin(FLOORS, values, same_id(FLOORS, values)), SECOND)
    full = N.OuterJoin(rooms, empty, same_id(ROOMS, FLOORS), "FULL")
    named = N.TableJoin(values, ROOMS, same_id(values, ROOMS), outer=True)
    pairs = N.Join(
        N.Project(ROOMS, (("a", ROOMS.column("id")),)), N.Project(FLOORS, (("b", FLOORS.column("id")),))
    )

    changed = N.Intersection(N.Union(ids(inserted), ids(deleted)), busy)
    unnamed = N.StrictDifference(
        N.Project(full, (("id", ROOMS.column("id")),)), N.Project(named, (("id", values.column("id")),))
    )
    return N.Difference(N.MaxUnion(changed, unnamed), N.Project(pairs, (("id", pairs.column("a")),)))


GOLDEN = """
Difference
  MaxUnion
    Intersection
      Union
        Project r.id
          IStream
            Distinct
              GroupMember r.id = 5
                Filter r.id > 3 AND r.op IS NOT NULL
                  Window [RANGE 15 MINUTES SLIDE 1 MINUTE LAG 1 SECOND]
                    Stream r (id INT, op STRING, ts TIMESTAMP TIMELINE)
        Project r.id
          DStream
            SynchronizeOn
              Synchronize EVERY 1 MINUTE ORIGIN TIMESTAMP '1970-01-01 00:00:01'
                Coalesce up to 1 HOUR
                  Tagged KEY (id) DELETE WHEN r.op = 'D'
                    Stream r (id INT, op STRING, ts TIMESTAMP TIMELINE)
              Project r.ts AS point
                RStream EVERY 1 HOUR
                  Window [PARTITION BY id ROWS 3]
                    Stream r (id INT, op STRING, ts TIMESTAMP TIMELINE)
      View busy
        Project id
          Aggregate count(*) AS n, count(DISTINCT r.op) FILTER (WHERE r.op = 'D') AS kinds BY r.id
            NonRetroactiveJoin ON r.id = floors.id
              Stream r (id INT, op STRING, ts TIMESTAMP TIMELINE)
              NonRetroactiveTable floors (id INT, floor BIGINT)
    StrictDifference
      Project rooms.id
        FullOuterJoin ON rooms.id = floors.id
          SemiJoin ON rooms.id = v.id
            Table rooms (id INT, name STRING) KEY (id)
            Alias v
              Values 2 (id INT)
          Split every 1 SECOND
            AntiJoin ON floors.id = v.id
              NonRetroactiveTable floors (id INT, floor BIGINT)
              Alias v
                Values 2 (id INT)
      Project v.id
        RetroactiveLeftJoin ON v.id = rooms.id
          Alias v
            Values 2 (id INT)
          Table rooms (id INT, name STRING) KEY (id)
  Project a AS id
    Product
      Project rooms.id AS a
        Table rooms (id INT, name STRING) KEY (id)
      Project floors.id AS b
        NonRetroactiveTable floors (id INT, floor BIGINT)
"""


def test_a_plan_with_every_node() -> None:
    assert explain(plan()) == GOLDEN.strip("\n")


def test_what_is_computed_shows_the_name_it_gets() -> None:
    number = READINGS.column("id")
    project = N.Project(READINGS, (("id", Arithmetic("+", Literal(1, INT), number)), ("order", number)))
    assert explain(project).splitlines()[0] == "Project 1 + r.id AS id, r.id AS `order`"


def test_names_are_quoted_where_they_must_be() -> None:
    times = (Field("order", TIMESTAMP, timeline=0), Field("sent", TIMESTAMP, timeline=1))
    stream = N.Stream("a b", Schema(times), sequence=("order",))
    assert explain(N.Window(stream, Rows(3, ("order",)))) == (
        "Window [PARTITION BY `order` ROWS 3]\n"
        "  Stream `a b` (`order` TIMESTAMP TIMELINE, sent TIMESTAMP TIMELINE 2) SEQUENCE BY (`order`)"
    )


def test_a_note_stands_behind_its_node() -> None:
    text = explain(ids(ROOMS), note=lambda node: "from the store" if isinstance(node, N.Table) else "")
    assert text == "Project rooms.id\n  Table rooms (id INT, name STRING) KEY (id)  from the store"


def test_it_has_every_node() -> None:
    kinds = {kind for _, kind in inspect.getmembers(N, inspect.isclass) if issubclass(kind, N.Node)}
    assert {type(node) for node in plan().walk()} == kinds - {N.Node}


def test_the_same_plan_has_the_same_text() -> None:
    assert plan() == plan()
    assert explain(plan()) == explain(plan())
