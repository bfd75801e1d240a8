"""Calls of aggregates: COUNT(*), SUM(DISTINCT x) FILTER (WHERE …), PERCENTILE(x, 0.9) and the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.algebra import types as T
from everview.algebra.aggregates import (
    BY_TIME,
    COMPARED_BY,
    PERCENTILE,
    AggregateCall,
    aggregate_function,
)
from everview.algebra.convert import convert
from everview.algebra.expressions import Expression, Literal
from everview.algebra.functions import FUNCTIONS
from everview.sql.literals import cast
from everview.sql.promotion import one_key

if TYPE_CHECKING:
    from everview.sql.expressions import ExpressionBinder


@dataclass(frozen=True)
class AggregateRef(Expression):
    """An aggregate inside an expression; it becomes a column of the Aggregate node below.

    `written` has its arguments as they stand in SQL, where the call has another one, `spelled` its name.
    """

    call: AggregateCall
    written: tuple[Expression, ...] = field(default=(), compare=False)
    spelled: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        self._typed(self.call.type)

    @property
    def children(self) -> tuple[Expression, ...]:
        return ()


def bind_filtered(binder: ExpressionBinder, node: exp.Filter) -> Expression:
    """Bind an aggregate with FILTER (WHERE …)."""
    if not isinstance(node.this, exp.Anonymous) or node.this.name.casefold() in FUNCTIONS:
        raise binder.script.error("FILTER follows an aggregate", node)
    aggregate_function(node.this.name)
    return bind_aggregate(binder, node.this, node.expression.this)


def bind_aggregate(binder: ExpressionBinder, node: exp.Anonymous, where: exp.Expr | None) -> Expression:
    """Bind a call of an aggregate, perhaps with the condition of its FILTER."""
    script = binder.script
    if binder.no_aggregates is not None:
        raise script.error(
            f"an aggregate cannot stand in {binder.no_aggregates}",
            node,
            next_step=_INSTEAD.get(binder.no_aggregates),
        )
    name = node.name.casefold()
    scope = binder.arguments or binder.scope
    inner = replace(binder, scope=scope, no_aggregates=_ANOTHER, arguments=None, timeline=None)
    arguments = node.expressions
    distinct = bool(arguments) and isinstance(arguments[0], exp.Distinct)
    if distinct:
        arguments = [*arguments[0].expressions, *arguments[1:]]
    condition = None if where is None else inner.condition(where, "FILTER")
    if distinct and len(arguments) > 1 and name == "count":
        # One text for all arguments, which is NULL if one of them is.
        values = [inner.bind(a) for a in arguments]
        return AggregateRef(AggregateCall("count", one_key(values), True, condition), tuple(values))
    if aggregate_function(name).name == PERCENTILE:
        return _bind_percentile(inner, node, arguments, distinct, condition)
    compared = _compared(binder, node, arguments, inner)
    arguments = arguments[:1] if compared is not None else arguments
    if len(arguments) != 1:
        raise script.error(f"{name.upper()} takes one argument", node)
    star = isinstance(arguments[0], exp.Star)
    if star and (distinct or name != "count"):
        raise script.error("* may only be counted, as COUNT(*)", node)
    argument = None if star else inner.bind(arguments[0])
    if isinstance(argument, Literal) and argument.value is not None and name == "count":
        argument = argument if distinct else None  # COUNT(1) counts rows
    call = AggregateCall(name, argument, distinct, condition, compared)
    if name in BY_TIME and argument is not None:
        return AggregateRef(call, (argument,), name)
    return AggregateRef(call)


def _compared(
    binder: ExpressionBinder, node: exp.Anonymous, arguments: Sequence[exp.Expr], inner: ExpressionBinder
) -> Expression | None:
    """Return what MAX_BY and MIN_BY compare; FIRST and LAST compare the time line of the rows."""
    name = node.name.casefold()
    if name in COMPARED_BY and len(arguments) != 2:
        raise binder.script.error(
            f"{name.upper()} takes two arguments: a value, and what rows are compared by", node
        )
    if name not in BY_TIME or len(arguments) != 1:
        return inner.bind(arguments[1]) if name in COMPARED_BY else None
    if binder.timeline is None:
        raise binder.script.error(
            f"{name.upper()} goes by the time line of the rows, and these have none",
            node,
            next_step=f"use {BY_TIME[name].upper()}(value, column), which says what the order is",
        )
    return binder.timeline


def _bind_percentile(
    inner: ExpressionBinder,
    node: exp.Anonymous,
    arguments: Sequence[exp.Expr],
    distinct: bool,
    condition: Expression | None,
) -> Expression:
    """Bind MEDIAN(x) and PERCENTILE(x, fraction): of the values as DOUBLE, whose order is the same."""
    script, name = inner.script, node.name.casefold()
    if name == PERCENTILE and len(arguments) != 2:
        raise script.error(
            "PERCENTILE takes two arguments: a value, and a fraction between 0 and 1", node,
            next_step="write PERCENTILE(x, 0.9)",
        )  # fmt: skip
    if name != PERCENTILE and len(arguments) != 1:
        raise script.error(f"{name.upper()} takes one argument", node)
    argument = inner.bind(arguments[0])
    if not argument.type.is_numeric and argument.type != T.VOID:
        raise script.error(f"{name.upper()} of {argument.type} has no meaning", node)
    fraction = _fraction(inner, arguments[1]) if name == PERCENTILE else 0.5
    value = argument if argument.type in (T.DOUBLE, T.VOID) else cast(argument, T.DOUBLE)
    written = (argument, *(inner.bind(a) for a in arguments[1:]))
    return AggregateRef(AggregateCall(name, value, distinct, condition, fraction=fraction), written, name)


def _fraction(inner: ExpressionBinder, node: exp.Expr) -> float:
    given = inner.bind(node)
    if isinstance(given, Literal) and given.type.is_numeric:
        value = convert(given.value, given.type, T.DOUBLE)
        if isinstance(value, float) and 0 <= value <= 1:
            return value
    raise inner.script.error(
        "the fraction of PERCENTILE is a constant between 0 and 1", node, next_step="write PERCENTILE(x, 0.9)"
    )


_ANOTHER = "the argument of another aggregate"
_INSTEAD = {
    "WHERE": "put the condition into HAVING, or aggregate in a subquery of FROM",
    _ANOTHER: "aggregate in a subquery of FROM first",
    "ORDER BY": "give the aggregate a name in the SELECT list and order by that",
}
