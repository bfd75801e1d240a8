"""The meaning of functions over ordered rows: for the rows of one snapshot, a partition at a time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from everview.algebra.aggregates import AggregateCall
from everview.algebra.changes import Record, Snapshot
from everview.algebra.evaluate import evaluate
from everview.algebra.expressions import Expression, SortKey
from everview.algebra.over import Over, OverCall, OverFrame, Rank
from everview.algebra.schema import Schema
from everview.algebra.values import normal, ordering, record_ordering
from everview.errors import AlgebraError


def ordered_partitions(
    schema: Schema, partition: Sequence[Expression], order: Sequence[SortKey], rows: Snapshot
) -> list[list[Record]]:
    """Return the rows of each partition, each as often as it occurs, sorted by keys and by all columns."""
    members: dict[Record, list[Record]] = defaultdict(list)
    for e, n in rows.items():
        if n < 0:
            raise AlgebraError("an order of rows over a snapshot with negative counts has no meaning")
        members[tuple(normal(evaluate(p, schema, e)) for p in partition)].extend([e] * n)
    for found in members.values():
        found.sort(key=lambda e: record_ordering([normal(v) for v in e]))
        for key in reversed(order):  # a stable sort, from the last key to the first
            found.sort(key=lambda e, key=key: _place(key, schema, e), reverse=key.descending)  # type: ignore[misc]
    return list(members.values())


def _place(key: SortKey, schema: Schema, e: Record) -> tuple[object, ...]:
    value = normal(evaluate(key.expression, schema, e))
    # A descending sort is reversed, and NULL comes first in it if it is greatest.
    return ((value is None) == (key.nulls_first == key.descending), ordering(value))


def sort_values(order: Sequence[SortKey], schema: Schema, e: Record) -> Record:
    """Return the values that a row is ordered by; rows with equal ones are peers."""
    return tuple(normal(evaluate(key.expression, schema, e)) for key in order)


def rank_rows(plan: Rank, rows: Snapshot) -> Counter[Record]:
    """Return the rows of a snapshot with their ranks, within the limit if there is one.

    ROW_NUMBER counts rows, RANK is one more than the rows before all peers, DENSE_RANK counts peers once.
    """
    schema = plan.input.schema
    found: Counter[Record] = Counter()
    for members in ordered_partitions(schema, plan.partition, plan.order, rows):
        ranks = {"row_number": 0, "rank": 0, "dense_rank": 0}
        last: Record | None = None
        for number, e in enumerate(members, 1):
            values = sort_values(plan.order, schema, e)
            ranks["row_number"] = number
            if values != last:
                ranks["rank"], ranks["dense_rank"] = number, ranks["dense_rank"] + 1
            last = values
            if plan.limit is None or ranks[plan.limit.function] <= plan.limit.count:
                found[(*map(normal, e), *(ranks[function] for _, function in plan.ranks))] += 1
    return found


# LAG, LEAD, FIRST_VALUE, LAST_VALUE, NTH_VALUE and aggregates

AggregateMeaning = Callable[[AggregateCall, Schema, list[Record]], object]


def over_rows(plan: Over, rows: Snapshot, aggregate: AggregateMeaning) -> Counter[Record]:
    """Return the rows of a snapshot with the values of the functions; each copy is a row of its own."""
    found: Counter[Record] = Counter()
    for members in ordered_partitions(plan.input.schema, plan.partition, plan.order, rows):
        for i, e in enumerate(members):
            values = (_over_value(call, plan, members, i, aggregate) for _, call in plan.calls)
            found[(*map(normal, e), *values)] += 1
    return found


def _over_value(
    call: OverCall, plan: Over, members: list[Record], i: int, aggregate: AggregateMeaning
) -> object:
    schema = plan.input.schema
    if call.frame is None:
        return _shifted(call, schema, members, i)
    seen = [members[j] for j in range(len(members)) if _is_in_frame(call.frame, plan, members, i, j)]
    if call.is_aggregate:
        return aggregate(call.aggregate, schema, seen)
    values = _values(call, schema, seen)
    place = {"first_value": 0, "last_value": len(values) - 1, "nth_value": call.offset - 1}[call.function]
    return values[place] if 0 <= place < len(values) else None


def _values(call: OverCall, schema: Schema, rows: Sequence[Record]) -> list[object]:
    """Return the values of the argument for some rows; with IGNORE NULLS without NULLs."""
    assert call.argument is not None
    values = [normal(evaluate(call.argument, schema, e)) for e in rows]
    return [v for v in values if v is not None] if call.skips_nulls else values


def _shifted(call: OverCall, schema: Schema, members: list[Record], i: int) -> object:
    """Return the value so many rows before (LAG) or after (LEAD); with IGNORE NULLS, so many values."""
    offset = call.offset if call.function == "lead" else -call.offset
    if offset == 0:
        return normal(evaluate(call.argument, schema, members[i])) if call.argument is not None else None
    passed = members[i + 1 :] if offset > 0 else members[:i][::-1]
    values = _values(call, schema, passed)
    if abs(offset) <= len(values):
        return values[abs(offset) - 1]
    return None if call.default is None else normal(evaluate(call.default, schema, members[i]))


def _is_in_frame(frame: OverFrame, plan: Over, members: list[Record], i: int, j: int) -> bool:
    """Return whether row j is in the frame of row i."""
    if frame.unit == "ROWS":
        return (frame.start is None or i + frame.start <= j) and (frame.end is None or j <= i + frame.end)
    return (frame.start is None or _distance(frame.start, plan, members, i, j) >= frame.start) and (
        frame.end is None or _distance(frame.end, plan, members, i, j) <= frame.end
    )


def _distance(bound: int, plan: Over, members: list[Record], i: int, j: int) -> float:
    """Return how far row j is behind row i, as a bound of RANGE counts it: 0 among peers.

    Where one of both keys is NULL, or the bound is the current row, only before and behind count. NULL and
    a distance are NULL, so that peers of a NULL lie just at the bound (Spark's RangeBoundOrdering).
    """
    schema = plan.input.schema
    mine, other = (sort_values(plan.order, schema, members[row]) for row in (i, j))
    if mine == other:
        return bound if mine and mine[0] is None else 0
    if bound and mine[0] is not None and other[0] is not None:
        further = _whole(other[0]) - _whole(mine[0])
        return -further if plan.order[0].descending else further
    return float("inf") if j > i else float("-inf")


def _whole(key: object) -> int:
    assert isinstance(key, int)
    return key
