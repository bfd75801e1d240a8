"""ORDER BY of an ad hoc query: by columns of the answer, or by what the query could have selected too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from everview.algebra.expressions import Column, Expression, SortKey
from everview.algebra.schema import Field, Schema
from everview.errors import EverviewError
from everview.sql.aggregation import SelectItem
from everview.sql.context import BoundQuery, Context
from everview.sql.literals import constant_int
from everview.sql.renaming import unique_names
from everview.sql.scope import AmbiguousName, Scope


@dataclass(frozen=True)
class Sorting:
    """The keys of an ORDER BY, and the items that the SELECT list lacks for them."""

    keys: tuple[SortKey, ...]
    items: tuple[SelectItem, ...] = ()


def bind_order(order: exp.Order | None, items: list[SelectItem], scope: Scope, context: Context) -> Sorting:
    """Bind ORDER BY of a SELECT: a name means a column of the answer first, then one of FROM, as in Spark."""
    names = [i.name for i in items]
    columns = zip(unique_names(names), items, strict=True)
    schema = Schema(tuple(Field(name, item.expression.type) for name, item in columns))
    ordered: Sequence[exp.Expr] = order.expressions if order is not None else ()
    if _means_all(ordered, [*names, *(c.name for c in scope.columns)]):
        return Sorting(_every_key(schema, ordered[0]))
    wanted: list[Expression | SelectItem] = []
    for syntax in ordered:
        if (place := _position(syntax.this, schema, context)) is not None:
            wanted.append(place)
            continue
        try:
            wanted.append(_of_answer(syntax.this, schema, names, context))
        except AmbiguousName:
            raise
        except EverviewError:
            wanted.append(_of_query(syntax.this, items, scope, context))
    every = list(items)
    for key in wanted:
        if isinstance(key, SelectItem) and _find_selected(key, every) is None:
            every.append(key)
    own = unique_names([i.name for i in every])
    keys = []
    for key, syntax in zip(wanted, ordered, strict=True):
        if isinstance(key, SelectItem):
            found = _find_selected(key, every)
            assert found is not None
            key = Column(own[found], key.expression.type)
        keys.append(_key(key, syntax))
    return Sorting(tuple(keys), tuple(every[len(items) :]))


def bind_order_of_answer(order: exp.Order | None, query: BoundQuery, context: Context) -> tuple[SortKey, ...]:
    """Bind ORDER BY of a set operation or of a query in brackets: only by columns of the answer."""
    schema = Schema(query.plan.schema.fields[: len(query.names)])
    ordered: Sequence[exp.Expr] = order.expressions if order is not None else ()
    if _means_all(ordered, query.names):
        return _every_key(schema, ordered[0])
    keys = []
    for syntax in ordered:
        if (place := _position(syntax.this, schema, context)) is not None:
            keys.append(_key(place, syntax))
            continue
        try:
            keys.append(_key(_of_answer(syntax.this, schema, query.names, context), syntax))
        except AmbiguousName:
            raise
        except EverviewError as error:
            if error.next_step is None:
                error.next_step = "ORDER BY takes columns of the answer here: select it too"
            raise
    return tuple(keys)


def _means_all(ordered: Sequence[exp.Expr], names: Sequence[str]) -> bool:
    """Return whether it is ORDER BY ALL and not, as in Spark, by a column named so."""
    target = ordered[0].this if len(ordered) == 1 else None
    bare = isinstance(target, exp.Column) and not target.table and target.name.casefold() == "all"
    return bare and all(name.casefold() != "all" for name in names)


def _every_key(schema: Schema, syntax: exp.Expr) -> tuple[SortKey, ...]:
    return tuple(_key(Column.to(f), syntax) for f in schema)


def _key(expression: Expression, syntax: exp.Expr) -> SortKey:
    return SortKey(expression, bool(syntax.args.get("desc")), bool(syntax.args.get("nulls_first")))


def _find_selected(wanted: SelectItem, items: Sequence[SelectItem]) -> int | None:
    """Return the place at which an expression is selected already."""
    return next((i for i, item in enumerate(items) if item.expression == wanted.expression), None)


def _position(target: exp.Expr, schema: Schema, context: Context) -> Expression | None:
    """Return the column at a position in the SELECT list, if that is what is written."""
    if not isinstance(target, exp.Literal) or target.is_string:
        return None
    position = constant_int(target, context.script, "ORDER BY")
    if not 1 <= position <= len(schema):
        raise context.script.error(f"there is no column {position} in the SELECT list", target)
    return Column.to(schema.fields[position - 1])


def _of_answer(target: exp.Expr, schema: Schema, names: Sequence[str], context: Context) -> Expression:
    """Return an expression over the columns of the SELECT list."""
    scope = Scope()
    scope.add(None, schema, names)
    return context.binder(scope, "ORDER BY").bind(target)


def _of_query(target: exp.Expr, items: list[SelectItem], scope: Scope, context: Context) -> SelectItem:
    """Return an expression over FROM, in which names of the SELECT list come first; it may aggregate."""
    aliases = {i.name.casefold(): i.expression for i in items}
    binder = replace(context.binder(scope.with_aliases_first(aliases)), arguments=scope)
    return SelectItem(None, binder.bind(target), target)
