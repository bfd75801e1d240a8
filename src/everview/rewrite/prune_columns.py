"""μ_f(S1 ⋈ S2) reads some columns of S1 and S2: only these cross the exchange and are kept (paper 4, 4.2).

Projections are pushed down to the inputs of joins. A row that is kept without a column is the same row; rows
that differ in that column alone become equal, and are counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from everview.algebra import nodes as N
from everview.algebra.expressions import Column, Expression
from everview.algebra.over import Over, Rank
from everview.algebra.schema import Field
from everview.algebra.session import Session
from everview.algebra.types import INT

_Columns = frozenset[Column]


def prune_columns(node: N.Node) -> N.Node | None:
    """Let the inputs of joins below a node have only the columns that are read."""
    match node:
        case N.Project() | N.Aggregate():
            return N.with_inputs(node, [_narrow(node.input, read_columns(_expressions(node)))])
        case N.SemiJoin() | N.AntiJoin():
            right = cut_columns(node.right, read_columns([node.condition]))
            return N.with_inputs(node, [node.left, right])
    return None


def _expressions(node: N.Project | N.Aggregate) -> list[Expression]:
    if isinstance(node, N.Project):
        return [expression for _, expression in node.columns]
    return [e for _, e in node.keys] + [e for _, call in node.calls for e in call.expressions]


def read_columns(expressions: Iterable[Expression]) -> _Columns:
    """Return the columns that some expressions read."""
    return frozenset(column for expression in expressions for column in expression.columns())


def _narrow(node: N.Node, read: _Columns) -> N.Node:
    """Return a node with at least the columns that are read of it, over inputs with as few as possible."""
    match node:
        case N.Filter(below, condition):
            return N.with_inputs(node, [_narrow(below, read | condition.columns())])
        case N.Synchronize(below):
            return N.with_inputs(node, [_narrow(below, read)])
        case N.SynchronizeOn(below, points):
            return N.with_inputs(node, [cut_columns(below, read), points])
        case N.Join() | N.OuterJoin():
            needed = read | node.condition.columns()
            return N.with_inputs(node, [cut_columns(side, needed) for side in node.inputs])
        case N.SemiJoin() | N.AntiJoin():
            return N.with_inputs(node, [cut_columns(node.left, read | node.condition.columns()), node.right])
        case N.TableJoin():
            needed = read | node.condition.columns()
            if not node.retroactive:
                needed |= {Column.to(node.version_line)}
            return N.with_inputs(node, [cut_columns(node.left, needed), node.right])
        case N.Project(_, columns):
            shown = [pair for f, pair in zip(node.schema, columns, strict=True) if Column.to(f) in read]
            shown = shown or [columns[node.schema.index(_narrowest(node))]]
            return replace(node, columns=tuple(shown))
        case Rank():
            return _narrow_ranking(node, read)
        case Over():
            return _narrow_over(node, read)
        case Session(with_end=True) if Column.to(node.schema.fields[-1]) not in read:
            return replace(node, with_end=False)
        case N.Alias(below):
            pairs = list(zip(node.schema, below.schema, strict=True))
            return N.with_inputs(
                node, [_narrow(below, frozenset(Column.to(b) for a, b in pairs if Column.to(a) in read))]
            )
    return node


def _narrow_ranking(node: Rank, read: _Columns) -> N.Node:
    """Return a ranking with the ranks that are read. ROW_NUMBER orders by all columns: all of them stay."""
    ranks = tuple((name, function) for name, function in node.ranks if Column(name, INT) in read)
    functions = {function for _, function in ranks}
    if node.limit is not None:
        functions.add(node.limit.function)
    below = node.input
    if "row_number" not in functions:
        order = read_columns([*node.partition, *(key.expression for key in node.order)])
        below = _narrow(below, read | order if functions else read)
    return replace(node, input=below, ranks=ranks) if functions else below


def _narrow_over(node: Over, read: _Columns) -> N.Node:
    """Return the functions that are read. Where the order of peers matters, they order by all columns."""
    calls = tuple((name, call) for name, call in node.calls if Column(name, call.type) in read)
    if not calls:
        return _narrow(node.input, read)
    below = node.input
    if not any(call.needs_total_order for _, call in calls):
        used = [*node.partition, *(key.expression for key in node.order)]
        used += [e for _, call in calls for e in call.expressions]
        below = _narrow(below, read | read_columns(used))
    return replace(node, input=below, calls=calls)


def cut_columns(side: N.Node, read: _Columns) -> N.Node:
    """Return the input of a join with only the columns that are read of it, at least one."""
    side = _narrow(side, read)
    kept = [f for f in side.schema if Column.to(f) in read] or [_narrowest(side)]
    if len(kept) == len(side.schema):
        return side
    if isinstance(side, N.Project) and side.qualified:
        side = side.input
    return N.Project(side, tuple((f.name, Column.to(f)) for f in kept), qualified=True)


def _narrowest(node: N.Node) -> Field:
    """Return a column of a node that takes little room: for rows that are only counted."""
    return min(node.schema, key=lambda field: field.type.name in ("STRING", "BINARY", "DECIMAL"))
