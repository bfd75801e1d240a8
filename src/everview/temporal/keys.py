"""The key of a plan: columns of its output whose values are unique at every instant.

With a key, a deleted record and the inserted one with the same key are one update, the `u` of a tagged stream
(paper 5, 4.1 and 6.2.2; DESIGN section 4). Values count as equal as Spark groups them: NULL is a value like
any other. The keys that are derived here always hold; a key that does not follow from the plan is not found.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import singledispatch

from everview.algebra import nodes as N
from everview.algebra.expressions import Column
from everview.algebra.over import Over, Rank
from everview.algebra.schema import Schema

KeyColumns = tuple[int, ...]


@singledispatch
def keys_of(plan: N.Node) -> KeyColumns | None:
    """Return the positions of the output columns that form a key, or None if no key is known.

    The empty key means that there is never more than one record, so that a new one replaces the old.

    >>> from everview.algebra.aggregates import AggregateCall
    >>> from everview.algebra.types import INT, TIMESTAMP
    >>> s = N.Stream("s", Schema.of(("room", INT), ("ts", TIMESTAMP), timeline="ts"))
    >>> rooms = N.Tagged(s, ("room",))
    >>> count = (("n", AggregateCall("count")),)
    >>> keys_of(s), keys_of(rooms), keys_of(N.Join(rooms, N.Aggregate(s, (), count)))
    (None, (0,), (0,))
    """
    return None


@keys_of.register(N.Tagged)
@keys_of.register(N.Table)
def _(plan: N.Tagged | N.Table) -> KeyColumns | None:
    """The declared key, if there is one."""
    return _positions(plan.schema, plan.key) or None


@keys_of.register
def _(plan: N.Aggregate) -> KeyColumns:
    """A group has one row; without GROUP BY there is one row in total."""
    return tuple(range(len(plan.keys)))


@keys_of.register(N.View)
@keys_of.register(N.Alias)
@keys_of.register(N.Filter)
@keys_of.register(N.GroupMember)
@keys_of.register(N.Window)
@keys_of.register(N.Coalesce)
@keys_of.register(N.Split)
@keys_of.register(N.Synchronize)
@keys_of.register(N.SynchronizeOn)
@keys_of.register(Over)
@keys_of.register(N.Distinct)
@keys_of.register(N.SemiJoin)
@keys_of.register(N.AntiJoin)
def _(plan: N.Node) -> KeyColumns | None:
    """The output is part of the (left) input, now or at an earlier instant, with no record more often.

    All columns of a Distinct together are unique; that is not used as a key, as an update could change
    no other column.
    """
    return keys_of(plan.inputs[0])


@keys_of.register
def _(plan: Rank) -> KeyColumns | None:
    """The key of the input; without one, the partition and the row number."""
    below = keys_of(plan.input)
    numbers = [i for i, (_, f) in enumerate(plan.ranks, len(plan.input.schema)) if f == "row_number"]
    if below is not None or not numbers or not all(isinstance(e, Column) for e in plan.partition):
        return below
    columns = [e for e in plan.partition if isinstance(e, Column)]
    schema = plan.input.schema
    return (*(schema.index(schema.find(c.name, c.relation)) for c in columns), numbers[0])


@keys_of.register
def _(plan: N.Project) -> KeyColumns | None:
    """The key of the input, if every column of it is projected unchanged, under any name."""
    below = keys_of(plan.input)
    shown: dict[int, int] = {}
    for position, (_, expression) in enumerate(plan.columns):
        if isinstance(expression, Column):
            field = plan.input.schema.find(expression.name, expression.relation)
            shown.setdefault(plan.input.schema.index(field), position)
    if below is None or not shown.keys() >= set(below):
        return None
    return tuple(shown[k] for k in below)


@keys_of.register(N.Join)
@keys_of.register(N.TableJoin)
def _(plan: N.Join | N.TableJoin) -> KeyColumns | None:
    """Both keys: they identify the two records of a pair. An outer TableJoin is like a LEFT join."""
    return _both(plan.left, plan.right)


@keys_of.register
def _(plan: N.OuterJoin) -> KeyColumns | None:
    """Both keys for LEFT and RIGHT: a record of the preserved side has partners or one padding, never both.

    Not for FULL: a record whose key is NULL may be padded on either side, and both then have NULLs only.
    """
    return None if plan.kind == "FULL" else _both(plan.left, plan.right)


def _both(left: N.Node, right: N.Node) -> KeyColumns | None:
    first, second = keys_of(left), keys_of(right)
    if first is None or second is None:
        return None
    return first + tuple(len(left.schema) + k for k in second)


def _positions(schema: Schema, names: Iterable[str]) -> KeyColumns:
    return tuple(schema.index(schema.find(name)) for name in names)
