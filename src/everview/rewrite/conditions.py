"""Conditions as rules move them: what they read, and where they may go."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from everview.algebra import nodes as N
from everview.algebra.expressions import (
    Call,
    Cast,
    Column,
    Expression,
    Literal,
    TryCast,
    conjunction,
    substitute,
)
from everview.algebra.schema import Schema

_LARGEST = 500  # parts of a condition; a computed column that is read twice doubles it at each level


def reads_only(condition: Expression, schema: Schema) -> bool:
    """Return whether a condition reads columns of a schema, and no others."""
    known = {(f.relation, f.name) for f in schema}
    columns = condition.columns()
    return bool(columns) and all((c.relation, c.name) in known for c in columns)


def filter_plan(plan: N.Node, conditions: list[Expression]) -> N.Node:
    """Return the plan with a filter of some conditions, if there are any."""
    return N.Filter(plan, conjunction(conditions)) if conditions else plan


def tells_equal_rows_apart(condition: Expression) -> bool:
    """Return whether a condition may differ for values that are equal: 0.0 and -0.0 are, and all NaNs.

    A comparison and arithmetic see no difference between them, a function or the text of a value may.
    """
    return any(
        isinstance(part, (Call, Cast, TryCast)) and any(column.type.is_float for column in part.columns())
        for part in condition.walk()
    )


def reads_key(condition: Expression, key: Collection[Expression]) -> bool:
    """Return whether a condition reads columns of a key only, and is the same for equal keys."""
    columns = condition.columns()
    return bool(columns) and all(c in key for c in columns) and not tells_equal_rows_apart(condition)


def open_tagged_stream(node: N.Filter) -> tuple[N.Tagged, Expression, str | None] | None:
    """Return the tagged stream below a filter, the condition on its columns, and the name that it goes by.

    The name of a tagged stream is no border, as that of a view is: its rows are kept for its readers alone.
    """
    match node.input:
        case N.Tagged() as tagged:
            return tagged, node.condition, None
        case N.View(name, N.Tagged() as tagged):
            names: dict[Expression, Expression] = {
                Column.to(above): Column.to(below)
                for above, below in zip(node.schema, tagged.schema, strict=True)
            }
            return tagged, substitute(node.condition, names), name
    return None


def substitute_computed(
    condition: Expression, computed: Mapping[Expression, Expression]
) -> Expression | None:
    """Return a condition on computed columns as one on what they are computed from; None if it grows large.

    An integer literal beside a decimal has the type of its digits: a CAST keeps it a value of its column.
    """
    values = {
        column: Cast(e, e.type) if isinstance(e, Literal) and e.type.is_integer else e
        for column, e in computed.items()
    }
    result = substitute(condition, values)
    return result if _size(result) <= max(_LARGEST, _size(condition)) else None


def _size(expression: Expression) -> int:
    return sum(1 for _ in expression.walk())
