"""VALUES (…), (…): constant rows, which hold at every instant."""

from __future__ import annotations

from sqlglot import exp

from everview.algebra import nodes as N
from everview.algebra.evaluate import convert, evaluate
from everview.algebra.expressions import Expression, Literal, common_type
from everview.algebra.schema import Field, Schema
from everview.algebra.text import string_sql
from everview.errors import format_count
from everview.sql.context import BoundQuery, Context
from everview.sql.scope import Scope


def bind_values(values: exp.Values, context: Context) -> BoundQuery:
    """Return the constant rows of VALUES; the columns are called col1, col2, … as in Spark."""
    rows = [[_constant(item, context) for item in row.expressions] for row in values.expressions]
    width = len(rows[0])
    for row, syntax in zip(rows, values.expressions, strict=True):
        if len(row) != width:
            raise context.script.error(
                f"a row of {format_count(len(row), 'value')}, and the first one has {width}", syntax
            )
    types = []
    for position in range(width):
        with context.script.blame(values):
            types.append(common_type(f"column {position + 1} of VALUES", [row[position] for row in rows]))
    fields = tuple(Field(f"col{i}", t) for i, t in enumerate(types, 1))
    records = tuple(
        tuple(convert(v.value, v.type, t) for v, t in zip(row, types, strict=True)) for row in rows
    )
    return BoundQuery.of(N.Values(Schema(fields), records))


def _constant(node: exp.Expr, context: Context) -> Literal:
    name = node.find(exp.Column)
    if isinstance(node, exp.Var) and node.name.upper() == "DEFAULT":
        raise context.script.error(
            "DEFAULT may only stand in the VALUES of INSERT",
            node if context.script.place(node) else node.parent or node,
            next_step="write the value",
        )
    if name is not None:
        raise context.script.error(
            f"VALUES holds constants, and {name.name} is a name",
            name,
            next_step=f"put text into quotes: {string_sql(name.name)}",
        )
    bound: Expression = context.binder(Scope(), "VALUES").bind(node)
    with context.script.blame(node):
        return Literal(evaluate(bound, Schema(()), ()), bound.type)
