"""OVER (…) → operators: ranks, and functions over frames of a partition's rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from everview import operators as P
from everview.algebra.expressions import Case, Expression, Literal, SortKey
from everview.algebra.over import Over, OverCall, Rank
from everview.algebra.schema import Schema
from everview.algebra.types import INT
from everview.operators.columnar.standings import SortColumn
from everview.plan.positions import bind_positions
from everview.temporal.life import life


class _Columns:
    """The columns of an input, and behind them what is computed from them."""

    def __init__(self, below: P.Operator, schema: Schema) -> None:
        self._below, self._schema = below, schema
        self._columns: list[Expression] = list(below.columns)

    def place(self, wanted: Expression) -> int:
        """Return the place of an expression; it is added if it is not there."""
        bound = bind_positions(wanted, self._schema)
        if bound not in self._columns:
            self._columns.append(bound)
        return self._columns.index(bound)

    def sort_columns(self, order: Sequence[SortKey]) -> tuple[SortColumn, ...]:
        return tuple(SortColumn(self.place(k.expression), k.descending, k.nulls_first) for k in order)

    @property
    def plan(self) -> P.Operator:
        if len(self._columns) == len(self._schema):
            return self._below
        return P.ProjectOperator(self._below, tuple(self._columns))


def lower_rank(node: Rank, below: P.Operator, rows: P.InputRows) -> P.Operator:
    """Return the operator of a ranking."""
    columns = _Columns(below, node.input.schema)
    partition = tuple(columns.place(e) for e in node.partition)
    order = columns.sort_columns(node.order)
    ranks = tuple(function for _, function in node.ranks)
    known = replace(rows, grows_groups=life(node).grows)
    width = len(node.input.schema)
    return P.RankOperator(
        columns.plan, width, partition, order, ranks, node.limit, rows.signed, rows=(known,)
    )


def lower_over(node: Over, below: P.Operator, rows: P.InputRows) -> P.Operator:
    """Return the operator of functions over a partition."""
    columns = _Columns(below, node.input.schema)
    partition = tuple(columns.place(e) for e in node.partition)
    order = columns.sort_columns(node.order)
    calls = tuple(_over_column(call, columns) for _, call in node.calls)
    results = tuple(call.type for _, call in node.calls)
    return P.OverOperator(
        columns.plan, len(node.input.schema), partition, order, calls, results, rows=(rows,)
    )


def _over_column(call: OverCall, columns: _Columns) -> P.OverColumn:
    argument = call.argument
    if call.where is not None:  # what is NULL does not count
        shown = argument or Literal(1, INT)
        argument = Case(((call.where, shown),), Literal(None, shown.type))
    return P.OverColumn(
        call.function,
        None if argument is None else columns.place(argument),
        call.frame,
        call.offset,
        None if call.default is None else columns.place(call.default),
        call.skips_nulls,
    )
