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
from everview.algebra.types import BOOLEAN
from everview.sql.aggregate_calls import AggregateRef
from everview.sql.context import Context
from everview.sql.grouping_sets import (
    MOST_SETS,
    GroupingRef,
    count_sets,
    for_one_set,
    sets_of_keys,
    unite_sets,
)
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
        elif isinstance(part, GroupingRef):
            shown[part] = Written(f"grouping({expression_sql(_bare(part.key))})", part.type)
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
    written = ", ".join(expression_sql(_bare(e)) for e in aggregate.written)
    if aggregate.spelled is None:
        return name.replace(expression_sql(_bare(aggregate.call.argument)), written, 1)
    bare = AggregateCall("count", aggregate.call.argument, aggregate.call.distinct, aggregate.call.where)
    found = expression_sql(_bare(aggregate.call.argument))
    return _call_name(bare).replace(found, written, 1).replace("count", aggregate.spelled, 1)


def _call_name(call: AggregateCall) -> str:
    """Return an aggregate as SQL, its columns without their relation."""
    argument, where, by = (None if e is None else _bare(e) for e in (call.argument, call.where, call.by))
    return aggregate_sql(replace(call, argument=argument, where=where, by=by))


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
    if group.args.get("all"):
        return [i.expression for i in items if not aggregates_in([i.expression])]
    return _bind_keys(group.expressions, items, scope, context)


def _bind_keys(
    syntaxes: Sequence[exp.Expr], items: list[SelectItem], scope: Scope, context: Context
) -> list[Expression]:
    keys = []
    for syntax in syntaxes:
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
    context: Context, joined: Sequence[N.Node] = (),
) -> tuple[N.Node, list[SelectItem], Expression | None]:  # fmt: skip
    """Return the Aggregate node, and the SELECT list and HAVING rewritten to read its columns.

    Every group is joined with the one row of each of `joined`, the subqueries that are values.
    """
    wanted = [i.expression for i in items] + ([having[0]] if having is not None else [])
    calls = aggregates_in(wanted)
    names = name_aggregate_columns(keys, calls)
    key_columns = tuple((names[k], k) for k in keys)
    call_columns = tuple((names[c], c) for c in calls)
    node: N.Node = N.Aggregate(plan, key_columns, call_columns)
    for right in joined:
        node = N.Join(node, right)
    replacement: Mapping[Expression, Expression] = (
        {k: Column(name, k.type) for name, k in key_columns}
        | {AggregateRef(c): Column(name, c.type) for name, c in call_columns}
        | {Column.to(f): Column.to(f) for right in joined for f in right.schema}
    )
    rewritten = [
        SelectItem(i.alias, _over(i.expression, replacement, i.syntax, context), i.syntax)
        if not isinstance(i.expression, Literal)
        else i
        for i in items
    ]
    named = [SelectItem(i.name, r.expression, i.syntax) for i, r in zip(items, rewritten, strict=True)]
    condition = None if having is None else _over(having[0], replacement, having[1], context)
    return node, named, condition


def bind_groupings(
    plan: N.Node, group: exp.Group, items: list[SelectItem], having: tuple[Expression, exp.Expr] | None,
    scope: Scope, context: Context, joined: Sequence[N.Node] = (),
) -> tuple[N.Node, list[SelectItem]]:  # fmt: skip
    """Return the union of the aggregations of GROUPING SETS, ROLLUP or CUBE, and the SELECT list over it."""
    if count_sets(group) > MOST_SETS:
        raise context.script.error(
            f"this GROUP BY has {count_sets(group)} sets of keys, and {MOST_SETS} is the most",
            group,
            next_step="write the sets that are wanted: GROUPING SETS ((a, b), (a), ())",
        )
    sets = [_bind_keys(syntaxes, items, scope, context) for syntaxes in sets_of_keys(group)]
    every = list(dict.fromkeys(key for keys in sets for key in keys))
    require_keys_of_grouping(items, having, every, context)
    branches = []
    for keys in sets:
        own = [SelectItem(i.name, for_one_set(i.expression, keys, every), i.syntax) for i in items]
        condition = None if having is None else (for_one_set(having[0], keys, every), having[1])
        # Beside other sets, that without keys has no row where there are none to group, as in Spark.
        grouped = keys or ([Literal(True, BOOLEAN)] if every else [])
        node, found, kept = bind_aggregation(plan, grouped, own, condition, context, joined)
        branches.append((node if kept is None else N.Filter(node, kept), [i.expression for i in found]))
    united, columns = unite_sets(branches)
    return united, [SelectItem(i.name, c, i.syntax) for i, c in zip(items, columns, strict=True)]


def require_keys_of_grouping(
    items: list[SelectItem],
    having: tuple[Expression, exp.Expr] | None,
    keys: Sequence[Expression],
    context: Context,
) -> None:
    """Refuse GROUPING of what is no key of several groupings."""
    places = [(i.expression, i.syntax) for i in items] + ([having] if having is not None else [])
    for expression, syntax in places:
        if any(isinstance(p, GroupingRef) and p.key not in keys for p in expression.walk()):
            raise context.script.error(
                "GROUPING takes a key of GROUPING SETS, ROLLUP or CUBE",
                syntax,
                next_step="leave it out, or add the key to GROUP BY",
            )


def name_aggregate_columns(
    keys: Sequence[Expression], calls: Sequence[AggregateCall]
) -> dict[Expression | AggregateCall, str]:
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
