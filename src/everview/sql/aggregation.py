"""GROUP BY, aggregates and HAVING: from a SELECT list to an Aggregate node and a projection of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from everview.algebra import nodes as N
from everview.algebra.aggregates import AggregateCall
from everview.algebra.expressions import Column, Expression, Literal, substitute
from everview.algebra.over import over_call_sql
from everview.algebra.text import Written, aggregate_sql, expression_sql, name_rank, name_sql
from everview.sql.context import Context
from everview.sql.expressions import AggregateRef
from everview.sql.literals import whole_number
from everview.sql.over import OverRef, RankRef
from everview.sql.scope import OuterColumn, Scope


@dataclass(frozen=True)
class SelectItem:
    """One column of a SELECT list: its name, if it was given one, its expression, its syntax."""

    alias: str | None
    expression: Expression
    syntax: exp.Expr

    @property
    def name(self) -> str:
        if self.alias is not None:
            return self.alias
        return output_name(self.expression)


def output_name(expression: Expression) -> str:
    """Return the name of a column that was given none."""
    if isinstance(expression, Column):
        return expression.name
    if isinstance(expression, AggregateRef):
        return _written_name(expression)
    if isinstance(expression, (OverRef, RankRef)):
        return _over_name(expression)
    return expression_sql(_bare(expression))


def _bare(expression: Expression) -> Expression:
    """Return an expression for a name: columns without their relation, aggregates by their text."""
    shown: dict[Expression, Expression] = {}
    for part in expression.walk():
        if isinstance(part, Column):
            shown[part] = Column(part.name, part.type)
        elif isinstance(part, AggregateRef):
            shown[part] = Written(_written_name(part), part.type)
        elif isinstance(part, (OverRef, RankRef)):
            shown[part] = Written(_over_name(part), part.type)
    return substitute(expression, shown)


def _over_name(over: OverRef | RankRef) -> str:
    """Return a function with OVER as written in SQL."""
    order = [replace(key, expression=_bare(key.expression)) for key in over.order]
    partition = [_bare(e) for e in over.partition]
    if isinstance(over, RankRef):
        return name_rank(over.function, partition, order)
    return over_call_sql(over.call.map_expressions(_bare), partition, order)


def _written_name(aggregate: AggregateRef) -> str:
    """Return the aggregate as written in SQL."""
    name = _call_name(aggregate.call)
    if not aggregate.written or aggregate.call.argument is None:
        return name
    combined = expression_sql(_bare(aggregate.call.argument))
    if aggregate.spelled is not None and aggregate.call.by is not None:
        combined += f", {expression_sql(_bare(aggregate.call.by))}"
        name = name.replace(aggregate.call.function, aggregate.spelled, 1)
    return name.replace(combined, ", ".join(expression_sql(_bare(e)) for e in aggregate.written), 1)


def _call_name(call: AggregateCall) -> str:
    argument, where, by = (None if e is None else _bare(e) for e in (call.argument, call.where, call.by))
    return aggregate_sql(replace(call, argument=argument, where=where, by=by))


_SEVERAL_GROUPINGS = ((exp.GroupingSets, "GROUPING SETS"), (exp.Cube, "CUBE"), (exp.Rollup, "ROLLUP"))


def aggregates_in(expressions: Sequence[Expression]) -> list[AggregateCall]:
    """Return the different aggregates, in the order in which they stand."""
    found = [p.call for e in expressions for p in e.walk() if isinstance(p, AggregateRef)]
    return list(dict.fromkeys(found))


def group_keys(
    group: exp.Group | None, items: list[SelectItem], scope: Scope, context: Context
) -> list[Expression]:
    """Return the expressions of GROUP BY: columns, aliases, positions or expressions."""
    if group is None:
        return []
    for part in group.walk():
        words = next((w for kind, w in _SEVERAL_GROUPINGS if isinstance(part, kind)), None)
        if words is not None:
            raise context.script.error(
                f"{words} is not available", group, next_step="UNION ALL one SELECT for each grouping"
            )
    if group.args.get("all"):
        return [i.expression for i in items if not aggregates_in([i.expression])]
    keys = []
    for syntax in group.expressions:
        key = _group_key(syntax, items, scope, context)
        if aggregates_in([key]):
            raise context.script.error("GROUP BY cannot hold an aggregate", syntax)
        keys.append(key)
    return list(dict.fromkeys(keys))


def _group_key(syntax: exp.Expr, items: list[SelectItem], scope: Scope, context: Context) -> Expression:
    if isinstance(syntax, exp.Literal) and not syntax.is_string:
        position = whole_number(syntax.name)
        if position is None or not 1 <= position <= len(items):
            raise context.script.error(f"there is no column {syntax.name} in the SELECT list", syntax)
        return items[position - 1].expression
    if isinstance(syntax, exp.Column) and not syntax.table:
        named = [i for i in items if i.alias is not None and i.alias.casefold() == syntax.name.casefold()]
        known = any(c.name.casefold() == syntax.name.casefold() for c in scope.columns)
        if named and not known:
            return named[0].expression
    return context.binder(scope, "GROUP BY").bind(syntax)


def bind_aggregation(
    plan: N.Node, keys: list[Expression], items: list[SelectItem], having: tuple[Expression, exp.Expr] | None,
    context: Context,
) -> tuple[N.Node, list[SelectItem], Expression | None]:  # fmt: skip
    """Return the Aggregate node, and the SELECT list and HAVING rewritten to read its columns."""
    wanted = [i.expression for i in items] + ([having[0]] if having is not None else [])
    calls = aggregates_in(wanted)
    names = _names(keys, calls)
    key_columns = tuple((names[k], k) for k in keys)
    call_columns = tuple((names[c], c) for c in calls)
    node = N.Aggregate(plan, key_columns, call_columns)
    replacement: Mapping[Expression, Expression] = {k: Column(name, k.type) for name, k in key_columns} | {
        AggregateRef(c): Column(name, c.type) for name, c in call_columns
    }
    rewritten = [
        SelectItem(i.alias, _over(i.expression, replacement, i.syntax, context), i.syntax)
        if not isinstance(i.expression, Literal)
        else i
        for i in items
    ]
    named = [SelectItem(i.name, r.expression, i.syntax) for i, r in zip(items, rewritten, strict=True)]
    condition = None if having is None else _over(having[0], replacement, having[1], context)
    return node, named, condition


def _names(keys: list[Expression], calls: list[AggregateCall]) -> dict[Expression | AggregateCall, str]:
    """Return names for the columns of the Aggregate node: equal columns get equal names and can be shared."""
    taken: set[str] = set()
    names: dict[Expression | AggregateCall, str] = {}
    wishes: list[tuple[Expression | AggregateCall, str]] = [(k, output_name(k)) for k in keys]
    for thing, wished in wishes + [(c, _call_name(c)) for c in calls]:
        name, number = wished, 2
        while name.casefold() in taken:
            name, number = f"{wished}_{number}", number + 1
        taken.add(name.casefold())
        names[thing] = name
    return names


def _over(
    expression: Expression, replacement: Mapping[Expression, Expression], syntax: exp.Expr, context: Context
) -> Expression:  # fmt: skip
    """Return the expression over the Aggregate's columns; what is neither grouped nor aggregated is refused.

    It is refused as it was written: among the Aggregate's columns one may have the same name.
    """
    loose = _ungrouped(expression, replacement)
    if loose is not None:
        name = name_sql(loose.name)
        raise context.script.error(
            f"the column '{loose.name}' is neither grouped nor aggregated",
            syntax,
            next_step=f"add {name} to GROUP BY, or aggregate it: max({name})",
        )
    return substitute(expression, replacement)


def _ungrouped(expression: Expression, grouped: Mapping[Expression, Expression]) -> Column | None:
    """Return the first column of an expression that is no part of what is grouped or aggregated."""
    if expression in grouped or isinstance(expression, OuterColumn):
        return None
    if isinstance(expression, Column):
        return expression
    found = (_ungrouped(child, grouped) for child in expression.children)
    return next((column for column in found if column is not None), None)
