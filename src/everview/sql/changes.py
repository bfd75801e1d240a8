"""UPDATE and DELETE: the rows of a table that they change, and the new values."""

from __future__ import annotations

from sqlglot import exp

from everview.algebra import nodes as N
from everview.algebra.expressions import TRUE, Expression, conjunction
from everview.catalog import TableEntry
from everview.sql import statements as S
from everview.sql.context import Context
from everview.sql.joins import bind_from
from everview.sql.query import bind_where
from everview.sql.rows import bind_assignments
from everview.sql.scope import Scope
from everview.sql.subqueries import split_conditions


def bind_update(node: exp.Expr, entry: TableEntry, at: int | None, context: Context) -> S.Update:
    """Bind UPDATE name [alias] SET column = value, … [FROM …] [WHERE …]."""
    base, scope, beside = _relations(node, entry, context)
    new = bind_assignments(node, entry, scope, context)
    return S.Update(entry.name, new, _selection(node, base, scope, beside, context), at)


def bind_delete(node: exp.Expr, entry: TableEntry, at: int | None, context: Context) -> S.Delete:
    """Bind DELETE FROM name [alias] [WHERE …]."""
    base, scope, beside = _relations(node, entry, context)
    return S.Delete(entry.name, _selection(node, base, scope, beside, context), at)


def _relations(node: exp.Expr, entry: TableEntry, context: Context) -> tuple[N.Node, Scope, N.Node | None]:
    """Return the table, joined with FROM if there is one, the scope, and the relation of FROM."""
    alias = node.args.get("alias")
    table: N.Node = N.Table(entry.name, entry.columns, entry.key)
    if alias is not None:
        table = N.Alias(table, alias.name)
    scope = Scope()
    scope.add(table.schema.fields[0].relation, table.schema)
    source = node.args.get("source")
    if source is None:
        return table, scope, None
    beside, others, _ = bind_from(source, context, [])
    with context.script.blame(source.args["from_"]):
        scope.include(others)
        return N.Join(table, beside), scope, beside


def _selection(
    node: exp.Expr, base: N.Node, scope: Scope, beside: N.Node | None, context: Context
) -> S.Selection:
    """Split WHERE into plain conditions and conditions on subqueries."""
    where = node.args.get("where")
    plan = bind_where(base, scope, split_conditions(None if where is None else where.this), context)
    plain: list[Expression] = []
    matches: list[S.Match] = []
    while plan is not base:
        match plan:
            case N.Filter(below, condition):
                plain.append(condition)
            case N.SemiJoin(below, right, condition):
                matches.append(S.Match(right, condition))
            case N.AntiJoin(below, right, condition):
                matches.append(S.Match(right, condition, negated=True))
            case _:
                raise context.script.error(
                    "such a subquery cannot stand in the WHERE of a change",
                    where or node.this,
                    next_step="use IN (…) or EXISTS (…), joined by AND",
                )
        plan = below
    name = scope.relations[0][0]
    assert name is not None
    return S.Selection(name, conjunction(plain) if plain else TRUE, tuple(matches), beside)
