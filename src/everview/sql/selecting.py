"""The SELECT list: its items, and the columns that * stands for."""

from __future__ import annotations

from sqlglot import exp

from everview.algebra.expressions import Column, Expression
from everview.sql.aggregation import SelectItem
from everview.sql.context import Context
from everview.sql.scope import Named, Scope
from everview.sql.times import CLOCKS


def bind_items(node: exp.Select, scope: Scope, context: Context) -> list[SelectItem]:
    """Bind the SELECT list; every * is replaced by its columns."""
    items: list[SelectItem] = []
    for syntax in node.expressions:
        star = syntax.this if isinstance(syntax, exp.Column) else syntax
        if isinstance(star, exp.Star):
            items += [SelectItem(c.name, c.expression, syntax) for c in _star(star, syntax, scope, context)]
            continue
        expression = context.binder(scope).bind(syntax.unalias())
        alias = syntax.alias or None if isinstance(syntax, exp.Alias) else None
        if isinstance(syntax, exp.Column):
            alias = _written_name(syntax, expression, scope)
        if isinstance(syntax, (exp.Anonymous, exp.CurrentTimestamp, exp.CurrentDate)):
            alias = _clock_name(syntax)
        if isinstance(syntax, exp.Subquery):
            alias = "scalarsubquery()"
        items.append(SelectItem(alias, expression, syntax))
    if not items:
        raise context.script.error("SELECT needs at least one column", node)
    return items


def _written_name(syntax: exp.Column, expression: Expression, scope: Scope) -> str | None:
    """Return the name of a column that differs from the plan's: USING of a full join, or a repeated name."""
    own = expression.name if isinstance(expression, Column) else None
    if own is not None and own.casefold() == syntax.name.casefold():
        return None
    found = scope.named(syntax.name, syntax.table or None)
    return syntax.name if found is None else found.name


def _clock_name(call: exp.Expr) -> str | None:
    """Return the name of a column that is a function of the clock: the name of the function."""
    name = (call.name if isinstance(call, exp.Anonymous) else call.sql().rstrip("()")).casefold()
    return f"{name}()" if name in CLOCKS else None


def _star(star: exp.Star, syntax: exp.Expr, scope: Scope, context: Context) -> list[Named]:
    """Return the columns of *, of relation.*, and of * EXCEPT (…)."""
    relation = syntax.table or None if isinstance(syntax, exp.Column) else None
    if not scope.relations:
        raise context.script.error("* needs a FROM", syntax)
    with context.script.blame(syntax):
        columns = scope.star(relation)
    for name in star.args.get("except_") or ():
        with context.script.blame(name):
            gone = scope.column(name.name, name.table or relation)
        if all(c.expression != gone for c in columns):
            raise context.script.error(f"* has no column '{name.sql()}' that EXCEPT could leave out", name)
        columns = [c for c in columns if c.expression != gone]
    if not columns and star.args.get("except_"):
        raise context.script.error("EXCEPT leaves no column", syntax)
    return columns
