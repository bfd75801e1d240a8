"""OVER (PARTITION BY … ORDER BY …), QUALIFY, LIMIT and DISTINCT ON of a query that a view can keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.algebra import nodes as N
from everview.algebra.expressions import And, Column, Comparison, Expression, Literal, SortKey, substitute
from everview.algebra.over import RANK_FUNCTIONS, Rank, RankLimit
from everview.algebra.types import INT
from everview.errors import nearest

if TYPE_CHECKING:
    from everview.sql.expressions import ExpressionBinder


@dataclass(frozen=True)
class RankRef(Expression):
    """A rank inside an expression; it becomes a column of a Rank node below.

    `directions` has for each of `keys` whether it is descending, and whether NULLs come first.
    """

    function: str
    partition: tuple[Expression, ...]
    keys: tuple[Expression, ...]
    directions: tuple[tuple[bool, bool], ...]

    def __post_init__(self) -> None:
        self._typed(INT)

    @property
    def order(self) -> tuple[SortKey, ...]:
        return tuple(SortKey(e, *way) for e, way in zip(self.keys, self.directions, strict=True))


def bind_over(binder: ExpressionBinder, node: exp.Window) -> Expression:
    """Bind a rank: ROW_NUMBER, RANK or DENSE_RANK OVER ([PARTITION BY …] ORDER BY …)."""
    call = node.this
    name = call.name.casefold() if isinstance(call, exp.Anonymous) else ""
    if binder.no_aggregates is not None:
        raise binder.script.error(
            f"OVER (…) cannot stand in {binder.no_aggregates}",
            node,
            next_step="put the condition into QUALIFY, or select it in a subquery of FROM",
        )
    if name not in RANK_FUNCTIONS:
        raise binder.script.error(
            f"{call.name.upper() or 'this'} OVER (…) is not available",
            node,
            meant=nearest(name, RANK_FUNCTIONS),
            next_step="ROW_NUMBER, RANK and DENSE_RANK have an OVER; for an aggregate use GROUP BY",
        )
    if call.expressions:
        raise binder.script.error(f"{name.upper()} takes no argument", call.expressions[0])
    if node.args.get("spec") is not None:
        raise binder.script.error(
            f"{name.upper()} is about the whole partition and takes no ROWS or RANGE",
            node,
            next_step="leave it out",
        )
    if node.alias and node.args.get("order") is None:
        raise binder.script.error(
            f"there is no window '{node.alias}' with an order",
            node,
            next_step=f"add WINDOW {node.alias} AS (PARTITION BY … ORDER BY …) before QUALIFY",
        )
    if node.args.get("order") is None:
        raise binder.script.error(
            f"{name.upper()} needs an order",
            node,
            next_step=f"write {name.upper()}() OVER (PARTITION BY … ORDER BY …)",
        )
    inner = replace(binder, no_aggregates=None)
    partition = tuple(inner.bind(e) for e in node.args.get("partition_by") or ())
    ordered = node.args["order"].expressions
    keys = tuple(inner.bind(e.this) for e in ordered)
    if ranks_in([*partition, *keys]):
        raise binder.script.error("OVER (…) cannot stand in another one", node)
    directions = tuple((bool(e.args.get("desc")), bool(e.args.get("nulls_first"))) for e in ordered)
    return RankRef(name, tuple(dict.fromkeys(partition)), keys, directions)


def ranks_in(expressions: Sequence[Expression]) -> list[RankRef]:
    """Return the different ranks, in the order in which they stand."""
    return list(dict.fromkeys(p for e in expressions for p in e.walk() if isinstance(p, RankRef)))


def name_windows(node: exp.Select) -> None:
    """Write the windows that WINDOW names where OVER names them."""
    named = {w.name.casefold(): w for w in node.args.get("windows") or ()}
    if not named:
        return
    for window in [
        w for e in (*node.expressions, node.args.get("qualify")) if e for w in e.find_all(exp.Window)
    ]:
        found = named.get(window.alias.casefold()) if window.alias else None
        if found is not None:
            for part in ("partition_by", "order", "spec"):
                window.set(part, found.args.get(part))


def add_ranks(plan: N.Node, expressions: Sequence[Expression]) -> tuple[N.Node, list[Expression]]:
    """Return the plan with a Rank node for each OVER, and the expressions over its columns."""
    found = ranks_in(expressions)
    replacement: dict[Expression, Expression] = {}
    for over in dict.fromkeys((r.partition, r.order) for r in found):
        ranks: list[tuple[str, str]] = []
        for rank in (r for r in found if (r.partition, r.order) == over):
            name = _free_name(rank.function, plan, [n for n, _ in ranks])
            ranks.append((name, rank.function))
            replacement[rank] = Column(name, INT)
        plan = Rank(plan, *over, tuple(ranks))
    return plan, [substitute(e, replacement) for e in expressions] if found else list(expressions)


def _free_name(wished: str, plan: N.Node, others: Sequence[str]) -> str:
    taken = {name.casefold() for name in (*plan.schema.names, *others)}
    name, number = wished, 2
    while name.casefold() in taken:
        name, number = f"{wished}_{number}", number + 1
    return name


def limit_rows(plan: N.Node, keys: tuple[SortKey, ...], limit: int | None, offset: int) -> N.Node:
    """Return the first rows of a plan in an order, after an offset: by ROW_NUMBER."""
    if limit is not None and limit > 0 and not offset:
        return Rank(plan, (), keys, (), RankLimit("row_number", limit))
    name = _free_name("row_number", plan, ())
    ranked = Rank(plan, (), keys, ((name, "row_number"),))
    number = Column(name, INT)
    condition: Expression = Comparison(">", number, Literal(offset, INT))
    if limit is not None:
        condition = And(condition, Comparison("<=", number, Literal(offset + limit, INT)))
    columns = tuple((f.name, Column.to(f)) for f in plan.schema)
    return N.Project(N.Filter(ranked, condition), columns)


def distinct_on(plan: N.Node, on: Sequence[Expression], keys: tuple[SortKey, ...]) -> N.Node:
    """Return the first row for each value of some expressions, in an order."""
    order = tuple(key for key in keys if key.expression not in on)
    return Rank(plan, tuple(on), order, (), RankLimit("row_number", 1))
