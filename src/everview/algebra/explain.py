"""EXPLAIN text of a plan: an indented tree, one line a node, stable from run to run."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch

from everview.algebra import nodes as N
from everview.algebra.expressions import TRUE, Column, Expression
from everview.algebra.over import Over, Rank, over_call_sql
from everview.algebra.schema import Schema
from everview.algebra.session import SESSION_END, Session
from everview.algebra.text import aggregate_sql, expression_sql, name_sql, over_sql
from everview.algebra.time import duration_text, timestamp_sql


def explain(plan: N.Node, note: Callable[[N.Node], str] | None = None) -> str:
    """Return the plan as text; `note` adds a remark to a node's line.

    >>> from everview.algebra.schema import Schema
    >>> from everview.algebra.types import TIMESTAMP
    >>> from everview.algebra.windows import Range
    >>> s = N.Stream("s", Schema.of(("ts", TIMESTAMP), timeline="ts"))
    >>> print(explain(N.Distinct(N.Window(s, Range(1_000_000)))))
    Distinct
      Window [RANGE 1 SECOND]
        Stream s (ts TIMESTAMP TIMELINE)
    """
    lines: list[str] = []
    _draw(plan, 0, note, lines)
    return "\n".join(lines)


def _draw(node: N.Node, depth: int, note: Callable[[N.Node], str] | None, lines: list[str]) -> None:
    remark = note(node) if note is not None else ""
    lines.append("  " * depth + describe_node(node) + (f"  {remark}" if remark else ""))
    for child in node.inputs:
        _draw(child, depth + 1, note, lines)


@singledispatch
def describe_node(node: N.Node) -> str:
    """Return one node on one line."""
    return type(node).__name__


@describe_node.register
def _(node: N.Stream) -> str:
    sequence = f" SEQUENCE BY ({', '.join(map(name_sql, node.sequence))})" if node.sequence else ""
    return f"Stream {name_sql(node.name)} ({_columns(node.columns)}){sequence}"


@describe_node.register
def _(node: N.Table) -> str:
    kind = "Table" if node.retroactive else "NonRetroactiveTable"
    key = f" KEY ({', '.join(map(name_sql, node.key))})" if node.key else ""
    return f"{kind} {name_sql(node.name)} ({_columns(node.columns)}){key}"


@describe_node.register
def _(node: N.View) -> str:
    return f"View {name_sql(node.name)}"


@describe_node.register
def _(node: N.Values) -> str:
    return f"Values {len(node.rows)} ({_columns(node.columns)})"


@describe_node.register
def _(node: N.Alias) -> str:
    return f"Alias {name_sql(node.name)}"


@describe_node.register
def _(node: N.Filter) -> str:
    return f"Filter {expression_sql(node.condition)}"


@describe_node.register
def _(node: N.Project) -> str:
    return f"Project {', '.join(_column(n, e) for n, e in node.columns)}"


@describe_node.register
def _(node: N.GroupMember) -> str:
    return f"GroupMember {expression_sql(node.by)} = {node.value!r}"


@describe_node.register
def _(node: N.Window) -> str:
    return f"Window [{node.window}]"


@describe_node.register
def _(node: N.Coalesce) -> str:
    return "Coalesce" if node.limit is None else f"Coalesce up to {duration_text(node.limit)}"


@describe_node.register
def _(node: N.Split) -> str:
    return f"Split every {duration_text(node.step)}"


@describe_node.register
def _(node: N.Tagged) -> str:
    delete = "" if node.delete_when is None else f" DELETE WHEN {expression_sql(node.delete_when)}"
    return f"Tagged KEY ({', '.join(map(name_sql, node.key))}){delete}"


@describe_node.register
def _(node: N.Synchronize) -> str:
    return f"Synchronize {_grid(node)}"


@describe_node.register(N.IStream)
@describe_node.register(N.DStream)
@describe_node.register(N.RStream)
def _(node: N.IStream | N.DStream | N.RStream) -> str:
    grid = f" {_grid(node)}" if isinstance(node, N.RStream) else ""
    return f"{type(node).__name__}{grid}{f' WITH {N.INSTANT}' if node.stamped else ''}"


def _grid(node: N.Synchronize | N.RStream) -> str:
    origin = f" ORIGIN {timestamp_sql(node.grid.origin)}" if node.grid.origin % node.grid.step else ""
    return f"EVERY {duration_text(node.grid.step)}{origin}"


@describe_node.register
def _(node: N.Aggregate) -> str:
    calls = ", ".join(_named(n, aggregate_sql(c)) for n, c in node.calls)
    keys = ", ".join(_column(n, e) for n, e in node.keys)
    return "Aggregate" + (f" {calls}" if calls else "") + (f" BY {keys}" if keys else "")


@describe_node.register
def _(node: Session) -> str:
    return f"Session [{node.words}]" + ("" if node.with_end else f" without {SESSION_END}")


@describe_node.register
def _(node: Rank) -> str:
    """The ranks and their order; with a limit, the condition on a rank."""
    ranks = ", ".join(_named(name, function) for name, function in node.ranks)
    limit = "" if node.limit is None else f" WHERE {node.limit.function} <= {node.limit.count}"
    return f"Rank{f' {ranks}' if ranks else ''} OVER ({over_sql(node.partition, node.order)}){limit}"


@describe_node.register
def _(node: Over) -> str:
    calls = (_named(name, over_call_sql(call, node.partition, node.order)) for name, call in node.calls)
    return f"Over {', '.join(calls)}"


@describe_node.register
def _(node: N.Join) -> str:
    return "Product" if node.condition == TRUE else f"Join ON {expression_sql(node.condition)}"


@describe_node.register
def _(node: N.SemiJoin) -> str:
    return f"SemiJoin ON {expression_sql(node.condition)}"


@describe_node.register
def _(node: N.AntiJoin) -> str:
    return f"AntiJoin ON {expression_sql(node.condition)}"


@describe_node.register
def _(node: N.OuterJoin) -> str:
    return f"{node.kind.capitalize()}OuterJoin ON {expression_sql(node.condition)}"


@describe_node.register
def _(node: N.TableJoin) -> str:
    kind = "Retroactive" if node.retroactive else "NonRetroactive"
    outer = "Left" if node.outer else ""
    as_of = "" if node.as_of is None else f" AS OF {expression_sql(node.as_of)}"
    return f"{kind}{outer}Join ON {expression_sql(node.condition)}{as_of}"


def _columns(schema: Schema) -> str:
    return ", ".join(f"{name_sql(f.name)} {f.type}{_line(f.timeline)}" for f in schema)


def _line(rank: int | None) -> str:
    return "" if rank is None else " TIMELINE" if rank == 0 else f" TIMELINE {rank + 1}"


def _column(name: str, expression: Expression) -> str:
    keeps_its_name = isinstance(expression, Column) and expression.name == name
    return expression_sql(expression) if keeps_its_name else _named(name, expression_sql(expression))


def _named(name: str, sql: str) -> str:
    return sql if sql == name else f"{sql} AS {name_sql(name)}"
