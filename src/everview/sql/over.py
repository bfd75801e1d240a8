"""OVER (PARTITION BY … ORDER BY …), QUALIFY, LIMIT and DISTINCT ON of a query that a view can keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.algebra import nodes as N
from everview.algebra.expressions import And, Column, Comparison, Expression, Literal, SortKey, substitute
from everview.algebra.over import Over, OverCall, OverFrame, Rank, RankLimit
from everview.algebra.types import INT
from everview.sql.over_functions import bind_frame, bind_function

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


@dataclass(frozen=True)
class OverRef(Expression):
    """A function over a frame inside an expression; it becomes a column of an Over node below.

    The fields are those of an OverCall, then those of its window, as of a RankRef.
    """

    function: str
    argument: Expression | None
    frame: OverFrame | None
    offset: int
    default: Expression | None
    where: Expression | None
    skips_nulls: bool
    partition: tuple[Expression, ...]
    keys: tuple[Expression, ...]
    directions: tuple[tuple[bool, bool], ...]

    def __post_init__(self) -> None:
        self._typed(self.call.type)

    @property
    def call(self) -> OverCall:
        return OverCall(
            self.function, self.argument, self.frame, self.offset, self.default, self.where, self.skips_nulls
        )

    @property
    def order(self) -> tuple[SortKey, ...]:
        return tuple(SortKey(e, *way) for e, way in zip(self.keys, self.directions, strict=True))


def bind_over(binder: ExpressionBinder, node: exp.Window) -> Expression:
    """Bind a rank, a value of another row or an aggregate with OVER (PARTITION BY … ORDER BY … frame)."""
    if binder.no_aggregates is not None:
        raise binder.script.error(
            f"OVER (…) cannot stand in {binder.no_aggregates}",
            node,
            next_step="put the condition into QUALIFY, or select it in a subquery of FROM",
        )
    if node.alias and not node.meta.get("named"):
        raise binder.script.error(
            f"there is no window '{node.alias}'",
            node,
            next_step=f"add WINDOW {node.alias} AS (PARTITION BY … ORDER BY …) before QUALIFY",
        )
    call = bind_function(binder, node)
    inner = replace(binder, no_aggregates=None)
    partition = tuple(inner.bind(e) for e in node.args.get("partition_by") or ())
    order = node.args.get("order")
    ordered = [] if order is None else order.expressions
    keys = tuple(inner.bind(e.this) for e in ordered)
    directions = tuple((bool(e.args.get("desc")), bool(e.args.get("nulls_first"))) for e in ordered)
    window = (tuple(dict.fromkeys(partition)), keys, directions)
    if isinstance(call, str):
        found: Expression = RankRef(call, *window)
    else:
        frame = bind_frame(binder, node, call.function, [k.type for k in keys])
        found = OverRef(
            call.function,
            call.argument,
            frame,
            call.offset,
            call.default,
            call.where,
            call.skips_nulls,
            *window,
        )
    if overs_in(found.children):
        raise binder.script.error("OVER (…) cannot stand in another one", node)
    return found


def overs_in(expressions: Sequence[Expression]) -> list[RankRef | OverRef]:
    """Return the different functions with OVER, in the order in which they stand."""
    return list(dict.fromkeys(p for e in expressions for p in e.walk() if isinstance(p, (RankRef, OverRef))))


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
            window.meta["named"] = True
            for part in ("partition_by", "order", "spec"):
                if not window.args.get(part):
                    window.set(part, found.args.get(part))


def add_overs(plan: N.Node, expressions: Sequence[Expression]) -> tuple[N.Node, list[Expression]]:
    """Return the plan with a node for each window of OVER, and the expressions over its columns.

    Ranks come last, so that a condition on one can be their limit.
    """
    found = overs_in(expressions)
    if not found:
        return plan, list(expressions)
    replacement: dict[Expression, Expression] = {}
    values = [r for r in found if isinstance(r, OverRef)]
    for over in dict.fromkeys((r.partition, r.order) for r in values):
        calls: list[tuple[str, OverCall]] = []
        for ref in (r for r in values if (r.partition, r.order) == over):
            name = _free_name(ref.function, plan, [n for n, _ in calls])
            calls.append((name, ref.call))
            replacement[ref] = Column(name, ref.type)
        plan = Over(plan, *over, tuple(calls))
    places = [r for r in found if isinstance(r, RankRef)]
    for over in dict.fromkeys((r.partition, r.order) for r in places):
        ranks: list[tuple[str, str]] = []
        for rank in (r for r in places if (r.partition, r.order) == over):
            name = _free_name(rank.function, plan, [n for n, _ in ranks])
            ranks.append((name, rank.function))
            replacement[rank] = Column(name, INT)
        plan = Rank(plan, *over, tuple(ranks))
    return plan, [substitute(e, replacement) for e in expressions]


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
