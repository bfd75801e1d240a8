"""TUMBLE(TABLE s, …), HOP(…) and SESSION(…) in FROM, and Spark's window(ts, …) in GROUP BY."""

from __future__ import annotations

from sqlglot import exp

from everview.algebra import nodes as N
from everview.algebra.assignment import WINDOW_END, WINDOW_START, assign_windows
from everview.algebra.expressions import Column
from everview.algebra.session import Session
from everview.algebra.text import name_sql
from everview.sql import ast
from everview.sql.context import BoundQuery, Context
from everview.sql.literals import duration
from everview.sql.script import Script


def bind_window_function(
    node: ast.WindowFunctionSyntax, query: BoundQuery, keys: tuple[str, ...], context: Context
) -> BoundQuery:
    """Return the rows of a relation with window_start and window_end; `keys` are those of SESSION."""
    script, plan = context.script, query.plan
    _require_time_line(node, query, script)
    if node.args["kind"] == "SESSION":
        gap = duration(node.args["gap"], script)
        with script.blame(node):
            return _bind_session(Session(plan, gap, keys), query)
    size = duration(node.args["size"], script)
    slide = duration(node.args["slide"], script) if node.args.get("slide") is not None else size
    origin = duration(node.args["offset"], script) if node.args.get("offset") is not None else 0
    with script.blame(node):
        return BoundQuery(assign_windows(plan, size, slide, origin), (*query.names, WINDOW_START, WINDOW_END))


def _bind_session(node: Session, query: BoundQuery) -> BoundQuery:
    """Return a session window whose ends have the names that window functions give them."""
    names = (*node.input.schema.names, WINDOW_START, WINDOW_END)
    columns = tuple((name, Column.to(f)) for name, f in zip(names, node.schema, strict=True))
    return BoundQuery(N.Project(node, columns), (*query.names, WINDOW_START, WINDOW_END))


def _require_time_line(node: ast.WindowFunctionSyntax, query: BoundQuery, script: Script) -> None:
    """Refuse a DESCRIPTOR of another column than the first time line."""
    relation, line = node.this, node.args["line"]
    what = f"'{relation.name}'" if isinstance(relation, exp.Table) else "the subquery"
    if isinstance(query.plan, N.Table):
        raise script.error(
            f"{what} is a table, and a table has no windows",
            relation,
            next_step="declare a STREAM with a TIMELINE",
        )
    first = query.plan.schema.timeline
    if first is None:
        raise script.error(
            f"{what} carries no time line, so it can have no window",
            relation,
            next_step="use the stream below, or select its time line column too",
        )
    shown = query.names[query.plan.schema.index(first)]
    if line.name.casefold() != shown.casefold():
        raise script.error(
            f"'{line.name}' is not the time line of {what}",
            line,
            next_step=f"write {name_sql(shown)}, its first time line",
        )


def take_window_call(select: exp.Select, script: Script) -> None:
    """Write window(ts, size [, slide [, start]]) of GROUP BY as a window function in FROM.

    The keys are window_start and window_end from then on, and so are window.start and window.end.
    """
    group = select.args.get("group")
    calls = [] if group is None else [e for e in group.expressions if _is_window_call(e)]
    if group is None or not calls:
        for item in select.expressions:
            if _is_window_call(item.unalias()):
                raise script.error(
                    "window(…) stands in GROUP BY only",
                    item,
                    next_step=f"put it there, and select {WINDOW_START} and {WINDOW_END}",
                )
        return
    if len(calls) > 1:
        raise script.error("GROUP BY has two windows", calls[1], next_step="leave one of them out")
    call = calls[0]
    source = select.args.get("from_")
    if source is None or select.args.get("joins") or source.this.args.get("joins"):
        raise script.error(
            "window(…) is about the time line of one relation",
            call,
            next_step="join in a subquery of FROM that selects the time line",
        )
    for item in select.expressions:
        if _is_window_call(item.unalias()) or _is_window_name(item.unalias()):
            raise script.error(
                "a window is two columns here",
                item,
                next_step=f"select {WINDOW_START} and {WINDOW_END}",
            )
    item = source.this
    syntax = ast.WindowFunctionSyntax(
        kind="window", this=item, line=_time_column(call, script), **_lengths(call, script)
    )
    syntax.meta.update(call.meta)
    if alias := item.args.get("alias"):
        syntax.set("alias", alias.copy())
    source.set("this", syntax)
    keys = [exp.column(name) for name in (WINDOW_START, WINDOW_END)]
    for key in keys:
        key.meta.update(call.meta)
    others = [[e] if e is not call else keys for e in group.expressions]
    group.set("expressions", [e for part in others for e in part])
    for column in [c for c in select.find_all(exp.Column) if _is_part(c)]:
        renamed = exp.column(f"window_{column.name.lower()}")
        renamed.meta.update(column.meta)
        named = isinstance(column.parent, exp.Select)
        column.replace(exp.alias_(renamed, column.name) if named else renamed)


def _is_window_call(node: exp.Expr) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.casefold() == "window"


def _is_window_name(node: exp.Expr) -> bool:
    bare = isinstance(node, exp.Column) and not node.table and node.name.casefold() == "window"
    return bare or (isinstance(node, exp.Column) and node.table.casefold() == "window" and node.name == "*")


def _is_part(column: exp.Column) -> bool:
    return column.table.casefold() == "window" and column.name.casefold() in ("start", "end")


def _time_column(call: exp.Expr, script: Script) -> exp.Expr:
    first = call.expressions[0] if call.expressions else None
    if not isinstance(first, exp.Column):
        raise script.error(
            "window(…) takes the time line first", call, next_step="write window(ts, '10 minutes')"
        )
    name: exp.Expr = first.this
    name.meta.update(first.meta)
    return name


def _lengths(call: exp.Expr, script: Script) -> dict[str, exp.Expr]:
    """Return the size, the slide and the offset of a call; texts are lengths of time, as in Spark."""
    given = call.expressions[1:]
    if not 1 <= len(given) <= 3:
        raise script.error(
            "window(…) takes a time line, a size, and perhaps a slide and a start",
            call,
            next_step="write window(ts, '10 minutes', '5 minutes')",
        )
    return dict(zip(("size", "slide", "offset"), map(_length, given), strict=False))


def _length(node: exp.Expr) -> exp.Expr:
    if not (isinstance(node, exp.Literal) and node.is_string):
        return node
    found = exp.Interval(this=node.copy())
    found.meta.update(node.meta)
    return found
