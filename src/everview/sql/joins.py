"""FROM: the joins between relations, in a row or in brackets, and the names that they leave in scope."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from sqlglot import exp

from everview.algebra import nodes as N
from everview.algebra.expressions import TRUE, Column, Comparison, Expression, conjunction
from everview.algebra.schema import Schema
from everview.algebra.text import column_sql
from everview.sql import ast
from everview.sql.context import BoundQuery, Context
from everview.sql.relations import Relation, bind_relation, bind_windows, named_relation
from everview.sql.renaming import select_columns, selects_all_columns
from everview.sql.scope import Scope, SharedColumn
from everview.sql.windows import NowBound, now_bounds


@dataclass
class Joined:
    """Relations and joins in the order in which they are joined."""

    first: Relation | Joined
    rest: list[tuple[exp.Join, Relation | Joined]]


Tree = Relation | Joined


@dataclass
class FreshNames:
    """Generated names for relations without a name; none of them occurs in the query."""

    query: exp.Expr
    given: int = 0

    def next(self) -> str:
        """Return one more name."""
        written = {identifier.name.casefold() for identifier in self.query.find_all(exp.Identifier)}
        name = next(name for n in count(self.given + 1) if (name := f"_r{n}") not in written)
        self.given = int(name.removeprefix("_r"))
        return name


def bind_from(
    select: exp.Select, context: Context, conditions: list[exp.Expr]
) -> tuple[N.Node, Scope, list[exp.Expr]]:
    """Return the plan of a FROM clause, its scope, and the conditions of WHERE that are left.

    Conditions on NOW are taken out of them: they are windows of the relations (paper 5, 4.4).
    """
    first = select.args.get("from_")
    if first is None:
        return N.Values(Schema(()), ((),)), Scope(outer=context.outer), conditions
    fresh = FreshNames(select)
    tree = _with_joins(_tree(first.this, context, fresh), select, context, fresh)
    _separate(tree, fresh)
    _mark_padded(tree)
    rest = _take_now_bounds(conditions, list(_relations(tree)), context)
    plan, scope = _finish_joins(tree, context)
    scope.outer = context.outer
    return plan, scope, rest


def bind_item(item: exp.Expr, context: Context) -> tuple[N.Node, Scope]:
    """Return the plan and the scope of one item of FROM, as SELECT * FROM item has them."""
    fresh = FreshNames(item)
    tree = _tree(item, context, fresh)
    _separate(tree, fresh)
    return _finish_joins(tree, context)


def is_relation(node: exp.Expr) -> bool:
    """Return whether what stands in brackets is a relation or a join, and not a query."""
    if isinstance(node, exp.Subquery):
        return has_relation_parts(node) or is_relation(node.this)
    return isinstance(node, (exp.Table, exp.Lateral, ast.WindowFunctionSyntax))


def has_relation_parts(node: exp.Expr) -> bool:
    """Return whether an alias, a window, SYNC or a join follows brackets: only a relation can have these."""
    return bool(
        node.args.get("alias") or node.args.get("joins") or node.meta.get("windows") or node.meta.get("sync")
    )


def _tree(item: exp.Expr, context: Context, fresh: FreshNames) -> Tree:
    if isinstance(item, exp.Subquery) and is_relation(item.this):
        base = _bind_bracketed(item, _tree(item.this, context, fresh), context, fresh)
    else:
        base = bind_relation(item, context)
    return _with_joins(base, item, context, fresh)


def _with_joins(base: Tree, node: exp.Expr, context: Context, fresh: FreshNames) -> Tree:
    joins = node.args.get("joins") or ()
    return Joined(base, [(join, _tree(join.this, context, fresh)) for join in joins]) if joins else base


def _bind_bracketed(item: exp.Subquery, inner: Tree, context: Context, fresh: FreshNames) -> Tree:
    """Return what is in brackets: unchanged, unless a window, SYNC or an alias follows them."""
    if not (item.args.get("alias") or item.meta.get("windows") or item.meta.get("sync")):
        return inner
    _separate(inner, fresh)
    plan, scope = _finish_joins(inner, context)
    if item.alias:
        one = len(scope.relations) == 1 and selects_all_columns(plan, scope.columns)
        names = tuple(c.name for c in scope.columns)
        query = BoundQuery(plan, names) if one else select_columns(plan, scope.columns)
        return named_relation(item, query, item.alias, context)
    below = bind_windows(BoundQuery.of(plan), item, context, scope)
    return Relation(item, below.plan, None, below.names, inside=scope)


def _relations(tree: Tree) -> Iterator[Relation]:
    if isinstance(tree, Relation):
        yield tree
        return
    yield from _relations(tree.first)
    for _, right in tree.rest:
        yield from _relations(right)


def _separate(tree: Tree, fresh: FreshNames) -> None:
    """Give a subquery without a name one that the plan needs, where others have columns of its names."""
    relations = list(_relations(tree))
    names = Counter(f.name.casefold() for r in relations for f in r.node.schema)
    for relation in relations:
        unnamed = relation.name is None and relation.inside is None
        if unnamed and any(names[f.name.casefold()] > 1 for f in relation.node.schema):
            relation.plan_name = fresh.next()


def _mark_padded(tree: Tree) -> None:
    """Note which relations an outer join may pad with NULLs, and which a semi or anti join hides."""
    if isinstance(tree, Relation):
        return
    before = list(_relations(tree.first))
    _mark_padded(tree.first)
    for join, right in tree.rest:
        _mark_padded(right)
        side, only_left = join.side.upper(), join.kind.upper() in ("SEMI", "ANTI")
        for relation in _relations(right):
            relation.hidden |= only_left
            relation.padded |= side in ("LEFT", "FULL") and not only_left
        for relation in before if side in ("RIGHT", "FULL") else ():
            relation.padded = True
        before += _relations(right)


def _take_now_bounds(
    conditions: list[exp.Expr], relations: list[Relation], context: Context
) -> list[exp.Expr]:
    rest = []
    for condition in conditions:
        bounds = now_bounds(condition, context.script)
        if bounds is None:
            rest.append(condition)
        for bound in bounds or ():
            _owner(bound, relations, context).bounds.append(bound)
    return rest


def _owner(bound: NowBound, relations: list[Relation], context: Context) -> Relation:
    """Return the relation whose time line a bound speaks of."""
    scope = Scope()
    with context.script.blame(bound.column):
        for relation in relations:
            if not relation.hidden:
                scope.include(relation.scope(relation.node))
        column = scope.column(bound.column.name, bound.column.table or None)
    lines = []
    for relation in relations:
        line = relation.node.schema.timeline
        own = relation.name or relation.plan_name or (None if line is None else line.relation)
        owner = own if relation.inside is None or line is None else line.relation
        if line is not None and column == Column(line.name, line.type, owner):
            return relation
        lines += [] if line is None else [column_sql(line.name, owner)]
    raise context.script.error(
        f"'{bound.column.name}' is not the time line of its relation, and NOW bounds only that",
        bound.column,
        next_step=f"bound {' or '.join(lines)}" if lines else None,
    )


def _finish_joins(tree: Tree, context: Context, joined: bool = False) -> tuple[N.Node, Scope]:
    """Return the plan and the scope of relations and joins; `joined`: they are the right side of a join."""
    if isinstance(tree, Relation):
        if (version := _version(tree)) is not None and not joined:
            raise context.script.error(
                "FOR SYSTEM_TIME AS OF stands behind a table that is joined",
                version,
                next_step="write FROM stream JOIN table FOR SYSTEM_TIME AS OF stream.ts",
            )
        node = tree.finished(context)
        return node, tree.scope(node)
    plan, scope = _finish_joins(tree.first, context)
    for join, right in tree.rest:
        with context.script.blame(join):
            plan, scope = _join(plan, scope, right, join, context)
    return plan, scope


def _version(tree: Tree) -> exp.Expr | None:
    return tree.syntax.args.get("version") if isinstance(tree, Relation) else None


def _join(left: N.Node, before: Scope, tree: Tree, join: exp.Join, context: Context) -> tuple[N.Node, Scope]:
    """Return one join, of the kind that is written, and the scope of both sides."""
    side, kind = join.side.upper(), join.kind.upper()
    right, other = _finish_joins(tree, context, joined=True)
    shared = _shared_columns(join, before, other, context)
    both = Scope(list(before.relations), list(before.columns), unseen=dict(before.unseen))
    with context.script.blame(join.this):
        both.include(other, shared, side)
    both.outer = context.outer
    condition = _condition(join, shared, both, context)
    version = _version(tree)
    if kind in ("SEMI", "ANTI"):
        if version is not None:
            raise context.script.error(
                f"FOR SYSTEM_TIME AS OF in a {kind} join is not available",
                version,
                next_step="use JOIN or LEFT JOIN",
            )
        refuse_non_retroactive(left, right, join.this, context)
        gone = "a SEMI or ANTI join has the columns of its left side only"
        before.unseen |= {name.casefold(): gone for name, _ in other.relations if name is not None}
        keys = [s.left for s in shared]
        before.columns = [*keys, *(c for c in before.columns if c not in keys)]
        made = N.SemiJoin if kind == "SEMI" else N.AntiJoin
        return made(left, right, condition), before
    if version is not None and isinstance(tree, Relation):
        return _join_as_of(left, right, tree.syntax, condition, side, version, before, context), both
    if side in ("LEFT", "RIGHT", "FULL"):
        if isinstance(N.base_of(right), N.Table) and side == "LEFT" and not _retroactive(right):
            return _table_join(left, right, condition, join, context, outer=True), both
        refuse_non_retroactive(left, right, join.this, context)
        return N.OuterJoin(left, right, condition, side), both
    return _inner(left, right, condition, join, context), both


def _inner(left: N.Node, right: N.Node, condition: Expression, join: exp.Join, context: Context) -> N.Node:
    """Return an inner join; with a table it is paper 2's ⋈R or ⋈NRR, the table on the right."""
    left_table, right_table = (isinstance(N.base_of(side), N.Table) for side in (left, right))
    if right_table and not left_table:
        return _table_join(left, right, condition, join, context)
    if left_table and not right_table:
        return _table_join(right, left, condition, join, context)
    refuse_non_retroactive(left, right, join.this, context)
    return N.Join(left, right, condition)


def _table_join(
    left: N.Node,
    table: N.Node,
    condition: Expression,
    join: exp.Join,
    context: Context,
    outer: bool = False,
) -> N.Node:
    retroactive = _retroactive(table)
    if not retroactive and left.schema.timeline is None:
        raise context.script.error(
            "a NON RETROACTIVE table is joined as of the time line of each row, and these rows carry none",
            join.this,
            next_step="select the time line column of the stream below too",
        )
    return N.TableJoin(left, table, condition, retroactive, outer)


def _retroactive(node: N.Node) -> bool:
    table = N.base_of(node)
    return not isinstance(table, N.Table) or table.retroactive


def refuse_non_retroactive(left: N.Node, right: N.Node, syntax: exp.Expr, context: Context) -> None:
    """Refuse a NON RETROACTIVE table where its updates would change the answers to earlier rows."""
    for side, other in ((left, right), (right, left)):
        if _loose_table(side) and any(isinstance(n, N.Stream) for n in (*side.walk(), *other.walk())):
            raise context.script.error(
                "a NON RETROACTIVE table can only be joined with a stream, as it stands: "
                "by JOIN, or by LEFT JOIN with the stream on the left",
                syntax,
                next_step="join it so, or declare it without NON RETROACTIVE",
            )


def _loose_table(node: N.Node) -> bool:
    """Return whether a NON RETROACTIVE table is in a plan other than as the right side of its own join."""
    match node:
        case N.Table():
            return not node.retroactive
        case N.TableJoin() if not node.retroactive:
            return _loose_table(node.left)
        case N.View():
            return False  # inside a view it is an ordinary relation
    return any(_loose_table(i) for i in node.inputs)


def _join_as_of(
    left: N.Node, right: N.Node, syntax: exp.Expr, condition: Expression, side: str, version: exp.Expr,
    before: Scope, context: Context,
) -> N.Node:  # fmt: skip
    """Return JOIN table FOR SYSTEM_TIME AS OF s.ts: the non-retroactive join."""
    if side not in ("", "INNER", "LEFT"):
        raise context.script.error(
            f"a {side} join has no FOR SYSTEM_TIME AS OF", version, next_step="use JOIN or LEFT JOIN"
        )
    if not isinstance(N.base_of(right), N.Table):
        raise context.script.error(
            f"FOR SYSTEM_TIME AS OF needs a table, and '{syntax.name}' is none", syntax.this
        )
    if version.args.get("kind") != "AS OF":
        raise context.script.error("FOR SYSTEM_TIME takes AS OF and a time line", version)
    moment = context.binder(before, "AS OF").bind(version.expression)
    line = left.schema.timeline
    lines = [Column.to(f) for f in left.schema if f.timeline is not None]
    if line is None or not isinstance(moment, Column) or moment not in lines:
        raise context.script.error(
            "a table is joined AS OF the time line of the rows before it",
            version.expression,
            next_step=None if line is None else f"write FOR SYSTEM_TIME AS OF {line.qualified}",
        )
    as_of = None if moment == Column.to(line) else moment
    return N.TableJoin(left, right, condition, retroactive=False, outer=side == "LEFT", as_of=as_of)


def _shared_columns(join: exp.Join, left: Scope, right: Scope, context: Context) -> list[SharedColumn]:
    """Return the columns of USING in its order; those of NATURAL in that of the left side, as in Spark."""
    natural = join.method.upper() == "NATURAL"
    if natural and (join.args.get("on") is not None or join.args.get("using")):
        raise context.script.error(
            "a NATURAL join has no condition of its own",
            join,
            next_step="leave NATURAL out, or the condition",
        )
    names = [(i.name, i) for i in join.args.get("using") or ()]
    if natural:
        there = {c.name.casefold() for c in right.columns}
        names = [(c.name, join) for c in left.columns if c.name.casefold() in there]
    shared = []
    for name, syntax in names:
        with context.script.blame(syntax):
            right_column = right.require(name, right.only_relation)
            shared.append(SharedColumn(left.require(name), right_column))
    return shared


def _condition(join: exp.Join, shared: list[SharedColumn], scope: Scope, context: Context) -> Expression:
    """Return the condition of ON, USING or NATURAL."""
    on = join.args.get("on")
    if on is not None:
        return context.binder(scope, "the condition of a join").condition(on, "ON")
    equalities = [Comparison("=", s.left.expression, s.right.expression) for s in shared]
    return conjunction([*equalities]) if equalities else TRUE
