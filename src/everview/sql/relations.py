"""FROM: relations with their windows and synchronizations, and the joins between them."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from everview.algebra import nodes as N
from everview.algebra.expressions import TRUE, Column, Comparison, Expression, conjunction
from everview.algebra.schema import Schema
from everview.algebra.text import column_sql
from everview.algebra.time import Grid
from everview.algebra.windows import Band
from everview.errors import AlgebraError, counted
from everview.sql import ast
from everview.sql.context import Context
from everview.sql.literals import duration, instant
from everview.sql.scope import Scope
from everview.sql.windows import NowBound, now_bounds, predicate_window, window


@dataclass
class Relation:
    """One relation of FROM while it is being built; the bounds on NOW become its predicate window."""

    syntax: exp.Expr
    node: N.Node
    name: str | None
    bounds: list[NowBound] = field(default_factory=list)
    padded: bool = False
    hidden: bool = False  # the right side of a semi or anti join

    def finished(self, context: Context) -> N.Node:
        """The relation with its windows, then its synchronization, then its alias."""
        node = self.node
        if self.bounds:
            if self.padded:
                raise context.script.error(
                    "a predicate window cannot bound the side of an outer join that may be NULL",
                    self.bounds[0].column,
                    next_step="use a window bracket after the stream",
                )
            found = predicate_window(self.bounds, context.script)
            if found is not None:
                with context.script.blame(self.bounds[0].column):
                    node = N.Window(node, found)
        sync = self.syntax.meta.get("sync")
        if sync is not None:
            node = synchronized(node, sync, context)
        if self.name is not None and any(f.relation != self.name for f in node.schema):
            node = N.Alias(node, self.name)
        return node


def synchronized(node: N.Node, sync: ast.Sync, context: Context) -> N.Node:
    """SYNC EVERY and SYNC ON (paper 5, 5)."""
    with context.script.blame(sync):
        if sync.args.get("on") is not None:
            with context.script.blame(sync.args["on"]):
                points = context.read(sync.args["on"].name, context)
            found = N.SynchronizeOn(node, points)
            if points.schema.timeline is None:
                raise context.script.error(
                    f"SYNC ON takes the instants at which rows are inserted into '{sync.args['on'].name}', "
                    f"and its column '{points.schema.names[0]}' is not their time line",
                    sync.args["on"],
                    next_step="select the time line column of the stream below as it is",
                )
            return found
        return N.Synchronize(node, sync_grid(sync, context))


def sync_grid(sync: ast.Sync, context: Context) -> Grid:
    """The grid of SYNC EVERY interval [ORIGIN timestamp]."""
    step = duration(sync.args["every"], context.script)
    if step <= 0:
        raise context.script.error("SYNC EVERY needs a length of time above zero", sync.args["every"])
    origin = sync.args.get("origin")
    start = 0 if origin is None else instant(origin, context.script)
    return Grid(step, start % step)


def bind_from(
    select: exp.Select, context: Context, conditions: list[exp.Expr]
) -> tuple[N.Node, Scope, list[exp.Expr]]:
    """The plan of a FROM clause, its scope, and the conditions of WHERE that are left.

    Conditions on NOW are taken out of them: they are windows of the relations (paper 5, 4.4).
    """
    first = select.args.get("from_")
    if first is None:
        return N.Values(Schema(()), ((),)), Scope(outer=context.outer), conditions
    joins = list(select.args.get("joins") or ())
    syntax = [first.this, *(join.this for join in joins)]
    for item in list(syntax):
        joins_inside = item.args.get("joins") if isinstance(item, (exp.Table, exp.Subquery)) else None
        if joins_inside:
            raise context.script.error(
                "joins inside brackets are not available", item, next_step="write them in a row"
            )
    relations = [_relation(item, context) for item in syntax]
    _mark_padded(relations, joins)
    rest = _take_now_bounds(conditions, relations, context)
    return (*_joined(relations, joins, context), rest)


def _mark_padded(relations: list[Relation], joins: list[exp.Join]) -> None:
    for i, join in enumerate(joins):
        relations[i + 1].hidden = join.kind.upper() in ("SEMI", "ANTI")
        if join.side.upper() in ("LEFT", "FULL") and join.kind.upper() not in ("SEMI", "ANTI"):
            relations[i + 1].padded = True
        if join.side.upper() in ("RIGHT", "FULL"):
            for earlier in relations[: i + 1]:
                earlier.padded = True


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
    """The relation whose time line a bound speaks of."""
    scope = Scope()
    with context.script.blame(bound.column):
        for relation in relations:
            if not relation.hidden:
                scope.add(relation.name, relation.node.schema.under(relation.name))
        column = scope.column(bound.column.name, bound.column.table or None)
    lines = []
    for relation in relations:
        line = relation.node.schema.timeline
        if line is not None and column == Column(line.name, line.type, relation.name):
            return relation
        lines += [] if line is None else [column_sql(line.name, relation.name)]
    raise context.script.error(
        f"'{bound.column.name}' is not the time line of its relation, and NOW bounds only that",
        bound.column,
        next_step=f"bound {' or '.join(lines)}" if lines else None,
    )


def _relation(item: exp.Expr, context: Context) -> Relation:
    alias = item.alias or None
    if isinstance(item, exp.Subquery) and isinstance(item.this, exp.Table):
        raise context.script.error(
            "joins inside brackets are not available", item, next_step="write them in a row"
        )
    if isinstance(item, exp.Subquery):
        plan = _windowed(context.bind_query(item.this, context.inside(None)), item, context)
        return Relation(item, _renamed(plan, item, context), alias)
    if isinstance(item, exp.Values):
        raise context.script.error(
            "VALUES cannot stand in FROM", item, next_step="INSERT the rows into a table"
        )
    if isinstance(item, exp.Lateral):
        raise context.script.error("LATERAL is not available", item, next_step="use JOIN … ON, or EXISTS (…)")
    if not isinstance(item, exp.Table) or not isinstance(item.this, exp.Identifier):
        raise context.script.error("expected the name of a stream, a table or a view", item)
    if item.args.get("db") is not None:
        raise context.script.error("a name in FROM has one part", item, next_step=f"write {item.name}")
    with context.script.blame(item.this):
        node = context.read(item.name, context)
    name = alias or _relation_name(node) or item.name
    return Relation(item, _renamed(_windowed(node, item, context), item, context), name)


def _relation_name(node: N.Node) -> str | None:
    return node.schema.fields[0].relation if len(node.schema) else None


def _windowed(node: N.Node, item: exp.Expr, context: Context) -> N.Node:
    for bracket in item.meta.get("windows", ()):
        if isinstance(node, N.Table):
            raise context.script.error(
                f"'{item.name}' is a table, and a table has no windows",
                bracket,
                next_step="take the bracket away, or declare a STREAM with a TIMELINE",
            )
        found = window(bracket, context.script)
        if node.schema.timeline is None and found != Band():
            what = f"'{item.name}' carries" if item.name else "this subquery carries"
            raise context.script.error(
                f"{what} no time line, so it can have no window",
                bracket,
                next_step="put the window on the stream below, or select its time line column too",
            )
        for key in bracket.args.get("keys") or ():
            with context.script.blame(key):
                node.schema.find(key.name)
        with context.script.blame(bracket):
            node = node if found == Band() else N.Window(node, found)
    return node


def _renamed(node: N.Node, item: exp.Expr, context: Context) -> N.Node:
    """The columns renamed, where the alias lists names: AS d (a, b)."""
    alias = item.args.get("alias")
    names = [c.name for c in alias.columns] if isinstance(alias, exp.TableAlias) else []
    if not names or names == list(node.schema.names):
        return node
    if len(names) != len(node.schema):
        raise context.script.error(
            f"{counted(len(names), 'name')} for {counted(len(node.schema), 'column')}", item
        )
    return N.Project(node, tuple((n, Column.to(f)) for n, f in zip(names, node.schema, strict=True)))


def _joined(relations: list[Relation], joins: list[exp.Join], context: Context) -> tuple[N.Node, Scope]:
    scope = Scope(outer=context.outer)
    for relation in relations:
        if relation.name is not None and isinstance(relation.syntax, exp.Table):
            scope.unseen[relation.syntax.name.casefold()] = (
                f"write {relation.name}: it goes by that name here"
            )
    plan = relations[0].finished(context)
    if (version := relations[0].syntax.args.get("version")) is not None:
        raise context.script.error(
            "FOR SYSTEM_TIME AS OF stands behind a table that is joined",
            version,
            next_step="write FROM stream JOIN table FOR SYSTEM_TIME AS OF stream.ts",
        )
    scope.add(relations[0].name, plan.schema)
    for relation, join in zip(relations[1:], joins, strict=True):
        right = relation.finished(context)
        with context.script.blame(join):
            plan = _join(plan, right, relation, join, scope, context)
    return plan, scope


def _join(
    left: N.Node, right: N.Node, relation: Relation, join: exp.Join, scope: Scope, context: Context
) -> N.Node:
    """One join, by the kind it is written as."""
    side, kind = join.side.upper(), join.kind.upper()
    before = Scope(list(scope.relations), scope.outer, dict(scope.shared), set(scope.hidden), scope.unseen)
    with context.script.blame(join.this):
        scope.add(relation.name, right.schema)
    condition = _condition(join, before, relation, right, scope, context)
    version = relation.syntax.args.get("version")
    if kind in ("SEMI", "ANTI"):
        if side == "RIGHT" or version is not None:
            what = "a RIGHT" if side == "RIGHT" else "FOR SYSTEM_TIME AS OF in a"
            raise context.script.error(
                f"{what} {kind} join is not available",
                join if version is None else version,
                next_step="swap the two sides" if version is None else "use JOIN or LEFT JOIN",
            )
        refuse_non_retroactive(left, right, join.this, context)
        scope.relations.pop()
        if relation.name is not None:
            scope.unseen[relation.name.casefold()] = (
                "a SEMI or ANTI join has the columns of its left side only"
            )
        made = N.SemiJoin if kind == "SEMI" else N.AntiJoin
        return made(left, right, condition)
    if version is not None:
        return _join_as_of(left, right, relation, condition, side, version, before, context)
    if side in ("LEFT", "RIGHT", "FULL"):
        if isinstance(N.base_of(right), N.Table) and side == "LEFT" and not _retroactive(right):
            return _table_join(left, right, condition, join, context, outer=True)
        refuse_non_retroactive(left, right, join.this, context)
        return N.OuterJoin(left, right, condition, side)
    return _inner(left, right, condition, join, context)


def _inner(left: N.Node, right: N.Node, condition: Expression, join: exp.Join, context: Context) -> N.Node:
    """An inner join; with a table it is paper 2's ⋈R or ⋈NRR, the table on the right."""
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
    """Refuses a NON RETROACTIVE table where its updates would change the answers to earlier rows."""
    for side, other in ((left, right), (right, left)):
        if _loose_table(side) and any(isinstance(n, N.Stream) for n in (*side.walk(), *other.walk())):
            raise context.script.error(
                "a NON RETROACTIVE table can only be joined with a stream, as it stands: "
                "by JOIN, or by LEFT JOIN with the stream on the left",
                syntax,
                next_step="join it so, or declare it without NON RETROACTIVE",
            )


def _loose_table(node: N.Node) -> bool:
    """Whether a NON RETROACTIVE table lies in a plan otherwise than as the right side of its own join."""
    match node:
        case N.Table():
            return not node.retroactive
        case N.TableJoin() if not node.retroactive:
            return _loose_table(node.left)
        case N.View():
            return False  # a view has made it a relation like any other
    return any(_loose_table(i) for i in node.inputs)


def _join_as_of(
    left: N.Node, right: N.Node, relation: Relation, condition: Expression, side: str, version: exp.Expr,
    before: Scope, context: Context,
) -> N.Node:  # fmt: skip
    """JOIN table FOR SYSTEM_TIME AS OF s.ts: the non-retroactive join."""
    if side not in ("", "INNER", "LEFT"):
        raise context.script.error(
            f"a {side} join has no FOR SYSTEM_TIME AS OF", version, next_step="use JOIN or LEFT JOIN"
        )
    if not isinstance(N.base_of(right), N.Table):
        raise context.script.error(
            f"FOR SYSTEM_TIME AS OF needs a table, and '{relation.syntax.name}' is none", relation.syntax.this
        )
    if version.args.get("kind") != "AS OF":
        raise context.script.error("FOR SYSTEM_TIME takes AS OF and a time line", version)
    moment = context.binder(before, "AS OF").bind(version.expression)
    line = left.schema.timeline
    if line is None or moment != Column.to(line):
        raise context.script.error(
            "a table is joined AS OF the time line of the rows before it",
            version.expression,
            next_step=None if line is None else f"write FOR SYSTEM_TIME AS OF {line.qualified}",
        )
    return N.TableJoin(left, right, condition, retroactive=False, outer=side == "LEFT")


def _condition(
    join: exp.Join, before: Scope, relation: Relation, right: N.Node, scope: Scope, context: Context
) -> Expression:
    """The condition of ON, USING or NATURAL."""
    on = join.args.get("on")
    method = join.method.upper()
    if method not in ("", "NATURAL"):
        raise context.script.error(
            f"{'an' if method[0] in 'AEIOU' else 'a'} {method} join is not available", join
        )
    if method and (on is not None or join.args.get("using")):
        raise context.script.error(
            "a NATURAL join has no condition of its own",
            join,
            next_step="leave NATURAL out, or the condition",
        )
    if on is not None:
        return context.binder(scope, "the condition of a join").condition(on, "ON")
    names = [(i.name, i) for i in join.args.get("using") or ()]
    if method == "NATURAL":
        known = {f.name.casefold() for f in before.schema}
        names = [(f.name, join) for f in right.schema if f.name.casefold() in known]
    equalities: list[Expression] = []
    for name, syntax in names:
        with context.script.blame(syntax):
            there = right.schema.find(name, relation.name)
            here = before.column(name, None)
            equalities.append(Comparison("=", here, Column.to(there)))
            if isinstance(here, Column) and join.kind.upper() not in ("SEMI", "ANTI"):
                here_field = before.schema.find(here.name, here.relation)
                scope.share(name, here_field, there, join.side.upper())
            elif not isinstance(here, Column):
                raise AlgebraError(f"'{name}' comes from a full join and cannot be joined again by USING")
    return conjunction(equalities) if equalities else TRUE
