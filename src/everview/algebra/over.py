"""Functions over the rows of a partition in an order.

`Rank` has ROW_NUMBER, RANK and DENSE_RANK, perhaps with a limit; `Over` has LAG, LEAD, FIRST_VALUE,
LAST_VALUE, NTH_VALUE and aggregates over a frame of the partition's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from everview.algebra.aggregates import AggregateCall
from everview.algebra.expressions import Expression, SortKey, require_columns
from everview.algebra.nodes import Node
from everview.algebra.schema import Field, Schema
from everview.algebra.text import aggregate_sql, expression_sql, over_sql
from everview.algebra.time import interval_sql
from everview.algebra.types import DATE, INT, TIMESTAMP, DataType
from everview.errors import AlgebraError

RANK_FUNCTIONS = ("row_number", "rank", "dense_rank")
SHIFT_FUNCTIONS = ("lag", "lead")
FRAME_VALUES = ("first_value", "last_value", "nth_value")
OVER_AGGREGATES = ("count", "sum", "avg", "min", "max", "stddev")


@dataclass(frozen=True)
class RankLimit:
    """A condition on a rank: the function yields at most `count`."""

    function: str
    count: int

    def __post_init__(self) -> None:
        _require_rank(self.function)
        if self.count < 1:
            raise AlgebraError(f"a ranking of {self.count} rows has none")


@dataclass(frozen=True)
class Rank(Node):
    """Every row with its ranks in its partition, or only those within a limit (top-N).

    ROW_NUMBER orders rows with equal keys by all columns, from left to right, ascending, NULL first.
    """

    input: Node
    partition: tuple[Expression, ...]
    order: tuple[SortKey, ...]
    ranks: tuple[tuple[str, str], ...]
    limit: RankLimit | None = None

    def __post_init__(self) -> None:
        for expression in (*self.partition, *(key.expression for key in self.order)):
            require_columns(expression, self.input.schema)
        for _, function in self.ranks:
            _require_rank(function)
        if not self.ranks and self.limit is None:
            raise AlgebraError("a ranking has a rank or a limit")
        added = tuple(Field(name, INT) for name, _ in self.ranks)
        self._shaped(Schema(self.input.schema.fields + added))


def _require_rank(function: str) -> None:
    if function not in RANK_FUNCTIONS:
        raise AlgebraError(f"there is no rank '{function}'", choices=RANK_FUNCTIONS)


@dataclass(frozen=True)
class OverFrame:
    """Which rows of its partition a function sees from each row: from `start` to `end`, both inclusive.

    0 is the current row, a negative number lies before it, None is the end of the partition. With ROWS they
    count rows. With RANGE 0 means all peers, and other numbers are distances of the sort key, in its unit:
    microseconds for a TIMESTAMP, days for a DATE.
    """

    unit: str
    start: int | None = None
    end: int | None = None

    def __post_init__(self) -> None:
        if self.unit not in ("ROWS", "RANGE"):
            raise AlgebraError(f"a frame counts ROWS or RANGE, not {self.unit}")
        if any(abs(offset or 0) >= 2**63 for offset in (self.start, self.end)):
            raise AlgebraError("a distance of a frame has at most 64 bits")
        if self.start is not None and self.end is not None and self.start > self.end:
            raise AlgebraError("a frame ends before it begins")

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole partition."""
        return self.start is None and self.end is None

    @property
    def is_running(self) -> bool:
        """Whether it is what OVER (… ORDER BY …) has without a frame: up to the peers of the row."""
        return (self.unit, self.start, self.end) == ("RANGE", None, 0)

    @property
    def by_distance(self) -> bool:
        """Whether the sort key is calculated with."""
        return self.unit == "RANGE" and bool(self.start or self.end)

    @property
    def counts_rows(self) -> bool:
        """Whether rows with equal sort keys can have different frames."""
        return self.unit == "ROWS" and not self.is_whole


@dataclass(frozen=True)
class OverCall:
    """A function over the rows of a partition.

    LAG and LEAD have no frame: `offset` says how many rows before or after the row. NTH_VALUE takes the row
    number `offset` of its frame. `default` is the value of LAG and LEAD where there is no such row, `where`
    is FILTER of an aggregate. `skips_nulls` is IGNORE NULLS.
    """

    function: str
    argument: Expression | None = None
    frame: OverFrame | None = None
    offset: int = 1
    default: Expression | None = None
    where: Expression | None = None
    skips_nulls: bool = False
    type: DataType = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        known = (*SHIFT_FUNCTIONS, *FRAME_VALUES, *OVER_AGGREGATES)
        if self.function not in known:
            raise AlgebraError(f"{self.function.upper()} has no OVER", choices=known)
        if (self.frame is None) != (self.function in SHIFT_FUNCTIONS):
            raise AlgebraError(f"{self.function.upper()} {'takes no' if self.frame else 'needs a'} frame")
        if self.is_aggregate:
            type_ = self.aggregate.type
        elif self.argument is None:
            raise AlgebraError(f"{self.function.upper()} needs an argument")
        else:
            type_ = self.argument.type
        object.__setattr__(self, "type", type_)

    @property
    def is_aggregate(self) -> bool:
        return self.function in OVER_AGGREGATES

    @property
    def aggregate(self) -> AggregateCall:
        """The aggregate that is computed over the frame."""
        return AggregateCall(self.function, self.argument, where=self.where)

    @property
    def needs_total_order(self) -> bool:
        """Whether the order of rows with equal sort keys matters."""
        return self.frame is None or self.frame.counts_rows or not self.is_aggregate

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return tuple(e for e in (self.argument, self.default, self.where) if e is not None)

    def map_expressions(self, change: Callable[[Expression], Expression]) -> OverCall:
        """Return the function over other expressions."""
        argument, default, where = (
            None if e is None else change(e) for e in (self.argument, self.default, self.where)
        )
        return replace(self, argument=argument, default=default, where=where)


@dataclass(frozen=True)
class Over(Node):
    """Every row with the values of functions over its partition.

    Where the order of rows with equal keys matters, they are ordered by all columns, from left to right,
    ascending, NULL first: as for ROW_NUMBER.
    """

    input: Node
    partition: tuple[Expression, ...]
    order: tuple[SortKey, ...]
    calls: tuple[tuple[str, OverCall], ...]

    def __post_init__(self) -> None:
        read = [e for _, call in self.calls for e in call.expressions]
        for expression in (*self.partition, *(key.expression for key in self.order), *read):
            require_columns(expression, self.input.schema)
        if not self.calls:
            raise AlgebraError("OVER has a function")
        for _, call in self.calls:
            if call.frame is not None and call.frame.by_distance:
                require_distance_key(self.order)
        added = tuple(Field(name, call.type) for name, call in self.calls)
        self._shaped(Schema(self.input.schema.fields + added))


def require_distance_key(order: Sequence[SortKey]) -> DataType:
    """Return the type of the one key that RANGE with a distance goes by; refuse another order."""
    if len(order) != 1:
        raise AlgebraError("RANGE with a distance needs one ORDER BY key")
    type_ = order[0].expression.type
    if not (type_.is_integer or type_ in (DATE, TIMESTAMP)):
        raise AlgebraError(
            f"RANGE with a distance needs an order by a whole number, a DATE or a TIMESTAMP, not {type_.a}"
        )
    return type_


def over_call_sql(call: OverCall, partition: Sequence[Expression], order: Sequence[SortKey]) -> str:
    """Return a function with its OVER as SQL: `sum(v) OVER (ORDER BY ts ROWS BETWEEN 2 PRECEDING AND …)`."""
    if call.is_aggregate:
        text = aggregate_sql(call.aggregate)
    else:
        parts = [expression_sql(call.expressions[0])]
        if (
            call.function == "nth_value"
            or call.default is not None
            or (call.frame is None and call.offset != 1)
        ):
            parts.append(str(call.offset))
        parts += [] if call.default is None else [expression_sql(call.default)]
        text = f"{call.function}({', '.join(parts)})" + (" IGNORE NULLS" if call.skips_nulls else "")
    inside = over_sql(partition, order)
    if call.frame is not None and not (call.frame.is_running if order else call.frame.is_whole):
        inside += (" " if inside else "") + _frame_sql(call.frame, order)
    return f"{text} OVER ({inside})"


def _frame_sql(frame: OverFrame, order: Sequence[SortKey]) -> str:
    def bound(offset: int | None, unbounded: str) -> str:
        if offset is None:
            return f"UNBOUNDED {unbounded}"
        if offset == 0:
            return "CURRENT ROW"
        timed = frame.unit == "RANGE" and order[0].expression.type == TIMESTAMP
        size = interval_sql(abs(offset)) if timed else str(abs(offset))
        return f"{size} {'PRECEDING' if offset < 0 else 'FOLLOWING'}"

    return f"{frame.unit} BETWEEN {bound(frame.start, 'PRECEDING')} AND {bound(frame.end, 'FOLLOWING')}"
