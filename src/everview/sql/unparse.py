"""A plan as SQL text that binds to an equal plan again.

A plan is written from the top: the select list, what is grouped, what is filtered, then the FROM
clause, a relation at a time. Operators that SQL does not have (coalesce, split, max-union) are refused.
"""

from __future__ import annotations

from dataclasses import replace

from everview.algebra import nodes as N
from everview.algebra.expressions import TRUE, Call, Cast, Column, Expression, substitute
from everview.algebra.over import Over, Rank, over_call_sql
from everview.algebra.schema import Schema
from everview.algebra.session import Session
from everview.algebra.text import (
    Written,
    aggregate_sql,
    expression_sql,
    literal_sql,
    name_rank,
    name_sql,
    order_sql,
)
from everview.algebra.time import Grid, interval_sql, timestamp_sql
from everview.algebra.types import BOOLEAN, INT
from everview.errors import PlanError

_SET_WORDS: tuple[tuple[type[N.Node], str], ...] = (
    (N.Union, "UNION ALL"),
    (N.Difference, "EXCEPT ALL"),
    (N.Intersection, "INTERSECT ALL"),
)


def unparse(plan: N.Node) -> str:
    """Return the plan as one query.

    >>> from everview.algebra.schema import Schema
    >>> from everview.algebra.types import INT, TIMESTAMP
    >>> s = N.Stream("s", Schema.of(("v", INT), ("ts", TIMESTAMP), timeline="ts"))
    >>> unparse(N.Distinct(N.Project(s, (("v", s.column("v")),))))
    'SELECT DISTINCT s.v AS v FROM s'
    """
    match plan:
        case N.Values() if len(plan.columns):
            names = _column_names(plan)
            return _values(plan) + (f" AS v{names}" if names else "")
        case N.IStream(stamped=True) | N.DStream(stamped=True):
            return f"{type(plan).__name__.upper()}({unparse(plan.input)})"
        case N.RStream(stamped=True):
            return f"RSTREAM({unparse(plan.input)}) {_sync_every(plan.grid)}"
        case Rank() if _takes_first_rows(plan):
            return _first_rows(plan)
        case N.Distinct(N.Union() as union):
            return f"({unparse(union.left)}) UNION ({unparse(union.right)})"
        case N.Distinct():
            inner = unparse(plan.input)
            if not inner.startswith("SELECT ") or isinstance(plan.input, N.Distinct):
                inner = f"SELECT * FROM ({inner})"
            return "SELECT DISTINCT" + inner.removeprefix("SELECT")
        case N.StrictDifference(N.Distinct() as left):
            return f"({unparse(left.input)}) EXCEPT ({unparse(plan.right)})"
        case N.Intersection(N.Distinct() as left, N.Distinct() as right):
            return f"({unparse(left.input)}) INTERSECT ({unparse(right.input)})"
    for kind, words in _SET_WORDS:
        if isinstance(plan, kind):
            return f" {words} ".join(f"({unparse(side)})" for side in plan.inputs)
    return _select(plan)


def _select(plan: N.Node) -> str:
    columns, qualify, ranks = None, None, list[Over | Rank]()
    if isinstance(plan, N.Project):
        columns, plan = plan.columns, plan.input
    if isinstance(plan, N.Filter) and _is_over(plan.input):
        qualify, plan = plan.condition, plan.input
    while isinstance(plan, (Over, Rank)) and _is_over(plan):
        if columns is None:
            columns = tuple((f.name, Column.to(f)) for f in plan.schema)
        ranks.append(plan)
        plan = plan.input
    having = None
    if isinstance(plan, N.Filter) and isinstance(plan.input, N.Aggregate):
        having, plan = plan.condition, plan.input
    if isinstance(plan, N.Aggregate):
        return _grouped_select(plan, columns, having, ranks, qualify)
    written: dict[Column, str] = {}
    _write_ranks(ranks, written)
    items = "*" if columns is None else ", ".join(f"{_with(e, written)} AS {name_sql(n)}" for n, e in columns)
    text = f"SELECT {items}{_body(plan)}"
    return text if qualify is None else f"{text} QUALIFY {_with(qualify, written)}"


def _is_over(plan: N.Node) -> bool:
    """Return whether a node is written as OVER (…)."""
    return isinstance(plan, Over) or (isinstance(plan, Rank) and not _takes_first_rows(plan))


def _takes_first_rows(plan: Rank) -> bool:
    """Return whether a ranking is what LIMIT and DISTINCT ON are."""
    return plan.limit is not None and plan.limit.function == "row_number" and not plan.ranks


def _write_ranks(ranks: list[Over | Rank], written: dict[Column, str]) -> None:
    """Add how functions with OVER are written, from the innermost on."""
    for rank in reversed(ranks):
        if isinstance(rank, Rank) and rank.limit is not None:
            raise PlanError("SQL has no words for a ranking with a limit and a rank")
        shown: dict[Expression, Expression] = {c: Written(text, c.type) for c, text in written.items()}
        partition = [substitute(e, shown) for e in rank.partition]
        order = [replace(key, expression=substitute(key.expression, shown)) for key in rank.order]
        if isinstance(rank, Rank):
            written |= {Column(name, INT): name_rank(f, partition, order) for name, f in rank.ranks}
            continue
        for name, call in rank.calls:
            shown_call = call.map_expressions(lambda e, shown=shown: substitute(e, shown))  # type: ignore[misc]
            written[Column(name, call.type)] = over_call_sql(shown_call, partition, order)


def _first_rows(plan: Rank) -> str:
    """Return SELECT … ORDER BY … LIMIT n, or SELECT DISTINCT ON (…) … for the first row of each partition."""
    order = f" ORDER BY {order_sql(plan.order)}" if plan.order else ""
    below = f"FROM ({unparse(plan.input)}){order}"
    if plan.limit is None or (plan.partition and plan.limit.count > 1):
        raise PlanError("SQL has no words for a ranking without a rank")
    if plan.partition:
        return f"SELECT DISTINCT ON ({', '.join(map(expression_sql, plan.partition))}) * {below}"
    return f"SELECT * {below} LIMIT {plan.limit.count}"


def _grouped_select(
    plan: N.Aggregate, columns: tuple[tuple[str, Expression], ...] | None, having: Expression | None,
    ranks: list[Over | Rank], qualify: Expression | None,
) -> str:  # fmt: skip
    """Return SELECT … GROUP BY … HAVING … QUALIFY …, with the Aggregate's columns as their expressions."""
    plain = (Column, Call, Cast)
    written = {
        Column(n, e.type): expression_sql(e) if isinstance(e, plain) else f"({expression_sql(e)})"
        for n, e in plan.keys
    }
    written |= {Column(n, c.type): aggregate_sql(c) for n, c in plan.calls}
    groups = dict(written)
    _write_ranks(ranks, written)
    if columns is None:
        columns = tuple((f.name, Column.to(f)) for f in plan.schema)
    items = ", ".join(f"{_with(e, written)} AS {name_sql(n)}" for n, e in columns)
    text = f"SELECT {items}{_body(plan.input)}"
    if plan.keys:
        text += " GROUP BY " + ", ".join(groups[Column(n, e.type)] for n, e in plan.keys)
    text = text if having is None else f"{text} HAVING {_with(having, groups)}"
    return text if qualify is None else f"{text} QUALIFY {_with(qualify, written)}"


def _with(expression: Expression, written: dict[Column, str]) -> str:
    """Return the expression with the Aggregate's columns written as their expressions."""
    return expression_sql(substitute(expression, {c: Written(text, c.type) for c, text in written.items()}))


def _body(plan: N.Node) -> str:
    """Return FROM and WHERE."""
    where = ""
    if isinstance(plan, N.Filter):
        where, plan = f" WHERE {expression_sql(plan.condition)}", plan.input
    if plan == N.Values(Schema(()), ((),)):
        return where
    return f" FROM {_from(plan)}{where}"


def _from(plan: N.Node) -> str:
    """Return a relation, or joins from left to right."""
    match plan:
        case N.Join() if plan.condition == TRUE:
            return f"{_from(plan.left)} CROSS JOIN {_relation(plan.right)}"
        case N.Join():
            return f"{_from(plan.left)} JOIN {_relation(plan.right)} ON {expression_sql(plan.condition)}"
        case N.OuterJoin():
            return f"{_from(plan.left)} {plan.kind} JOIN {_relation(plan.right)} ON {_on(plan.condition)}"
        case N.SemiJoin():
            return f"{_from(plan.left)} LEFT SEMI JOIN {_relation(plan.right)} ON {_on(plan.condition)}"
        case N.AntiJoin():
            return f"{_from(plan.left)} LEFT ANTI JOIN {_relation(plan.right)} ON {_on(plan.condition)}"
        case N.TableJoin():
            return _table_join(plan)
    return _relation(plan)


def _on(condition: Expression) -> str:
    return literal_sql(True, BOOLEAN) if condition == TRUE else expression_sql(condition)


def _table_join(plan: N.TableJoin) -> str:
    table = N.base_of(plan.right)
    as_of = ""
    if not plan.retroactive and isinstance(table, N.Table) and plan.left.schema.timeline is not None:
        as_of = f" FOR SYSTEM_TIME AS OF {expression_sql(Column.to(plan.left.schema.timeline))}"
    name = f"{name_sql(table.name)}{as_of}" if isinstance(table, N.Table) else ""
    alias = f" AS {name_sql(plan.right.name)}" if isinstance(plan.right, N.Alias) else ""
    kind = "LEFT JOIN" if plan.outer else "JOIN"
    return f"{_from(plan.left)} {kind} {name}{alias} ON {_on(plan.condition)}"


def _relation(plan: N.Node) -> str:
    """Return one relation of FROM: its name or a subquery, its windows, its synchronization, its alias."""
    match plan:
        case N.Alias():
            alias = f"{name_sql(plan.name)}{_column_names(_below(plan))}"
            return f"{_before(plan.input, N.Window, Session, N.Synchronize, N.SynchronizeOn)} AS {alias}"
        case N.Stream() | N.Table() | N.View():
            return name_sql(plan.name)
        case Session() if plan.with_end:
            return f"{_before(plan.input, N.Window)} [{plan.words}]"
        case N.Window():
            return f"{_before(plan.input, N.Window, Session)} [{plan.window}]"
        case N.Synchronize():
            return f"{_before(plan.input, N.Window, Session)} {_sync_every(plan.grid)}"
        case N.SynchronizeOn(points=points) if isinstance(points, (N.View, N.Stream)):
            return f"{_before(plan.input, N.Window, Session)} SYNC ON {name_sql(points.name)}"
        case N.Values():
            return f"({_values(plan)})"
        case (
            N.Project()
            | N.Aggregate()
            | N.Filter()
            | N.Distinct()
            | N.Union()
            | N.Difference()
            | Over()
            | Rank()
        ):
            return f"({unparse(plan)})"
        case N.Intersection() | N.StrictDifference(left=N.Distinct()):
            return f"({unparse(plan)})"
        case N.Join() | N.SemiJoin() | N.AntiJoin() | N.OuterJoin() | N.TableJoin():
            return f"({_from(plan)})"
        case N.IStream(stamped=True) | N.DStream(stamped=True) | N.RStream(stamped=True):
            return f"({unparse(plan)})"
    raise PlanError(f"SQL has no words for {type(plan).__name__}")


_BEHIND = (N.Window, Session, N.Synchronize, N.SynchronizeOn, N.Alias)


def _before(plan: N.Node, *kinds: type[N.Node]) -> str:
    """Return a relation before a window, SYNC or an alias, in brackets if it needs them."""
    text = _relation(plan)
    return f"({text})" if isinstance(plan, _BEHIND) and not isinstance(plan, kinds) else text


def _below(plan: N.Node) -> N.Node:
    """Return the relation without its windows, its synchronization and its alias."""
    return _below(plan.inputs[0]) if isinstance(plan, _BEHIND) else plan


def _values(plan: N.Values) -> str:
    rows = (", ".join(map(literal_sql, row, plan.columns.types)) for row in plan.rows)
    return "VALUES " + ", ".join(f"({row})" for row in rows)


def _column_names(plan: N.Node) -> str:
    """Return the names of the columns of VALUES, where these are not those that it has by itself."""
    own = tuple(f"col{i}" for i in range(1, len(plan.schema) + 1))
    if not isinstance(plan, N.Values) or plan.columns.names == own:
        return ""
    return f" ({', '.join(map(name_sql, plan.columns.names))})"


def _sync_every(grid: Grid) -> str:
    origin = f" ORIGIN {timestamp_sql(grid.origin)}" if grid.origin % grid.step else ""
    return f"SYNC EVERY {interval_sql(grid.step)}{origin}"
