"""Expressions over the columns of operators, which go by position."""

from __future__ import annotations

from everview import operators as P
from everview.algebra.expressions import Column, Expression, substitute
from everview.algebra.schema import Schema


def bind_positions(expression: Expression, schema: Schema) -> Expression:
    """Return the expression with its columns by position."""
    by_position: dict[Expression, Expression] = {
        Column.to(f): Column(P.column(i), f.type) for i, f in enumerate(schema)
    }
    return substitute(expression, by_position)
