"""The meaning of functions over ordered rows: for the rows of one snapshot, a partition at a time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from everview.algebra.changes import Record, Snapshot
from everview.algebra.evaluate import evaluate
from everview.algebra.expressions import Expression, SortKey
from everview.algebra.over import Rank
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
