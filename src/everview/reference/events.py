"""The meaning of event queries (paper 3), slow and plain: the oracle for their analysis and their operators.

An event query means one relation over the whole of its streams: `event_meaning`. What is visible of it after
a step is the paper's increment (definition 26): `visible_rows`. What the operators of the query have emitted
after a step depends only on the rows that have come and on the bounds, and never shrinks: `emitted_rows`.
Nothing here is incremental and nothing is ever dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatch

from everview.algebra import nodes as N
from everview.algebra.changes import ChangeRow, Record
from everview.algebra.evaluate import evaluate, holds
from everview.algebra.expressions import Expression
from everview.algebra.schema import Schema
from everview.algebra.time import INFINITY, LEAST, Chronon
from everview.algebra.values import normal
from everview.reference.meaning import aggregate_group, meaning, snapshot_at, widen_record
from everview.temporal.clocks import STORE_BOUND, LineBounds, Wait
from everview.temporal.event_query import Timing

Bag = Counter[Record]


@dataclass(frozen=True)
class EventInputs:
    """The rows of each stream, the versions of each table, and the bounds of the streams' time lines.

    `instants` are those at which a view below ISTREAM may change, beside the times in the rows.
    """

    rows: Mapping[str, Sequence[Record]]
    tables: Mapping[str, Sequence[ChangeRow]] = field(default_factory=dict)
    bounds: LineBounds = field(default_factory=dict)
    instants: Iterable[Chronon] = ()


def event_meaning(plan: N.Node, inputs: EventInputs) -> Bag:
    """Return E(R): the relation that an event query means over all rows of its streams (definition 12).

    >>> from everview.algebra.schema import Schema
    >>> from everview.algebra.types import INT, TIMESTAMP
    >>> s = N.Stream("s", Schema.of(("k", INT), ("ts", TIMESTAMP), timeline="ts"))
    >>> event_meaning(N.Distinct(s), EventInputs({"s": [(7, 1), (7, 1), (7, 2)]}))
    Counter({(7, 1): 1, (7, 2): 1})
    """
    streams = {n.name: n for n in plan.walk() if isinstance(n, N.Stream)}
    given: dict[str, Sequence[ChangeRow]] = dict(inputs.tables)
    times = {t for rows in inputs.tables.values() for row in rows for t in (row.from_, row.until)}
    for name, stream in streams.items():
        line = stream.schema.timeline
        assert line is not None
        position = stream.schema.index(line)
        given[name] = [ChangeRow(row, _instant(row[position]), INFINITY) for row in inputs.rows[name]]
        lines = [i for i, f in enumerate(stream.schema) if f.timeline is not None]
        times |= {_instant(row[i]) for row in inputs.rows[name] for i in lines}
    times |= {*inputs.instants}
    last = max([*times - {INFINITY}, LEAST]) + 1
    changing = any(isinstance(n, (N.Table, N.IStream)) for n in plan.walk())
    domain = sorted({*(times - {INFINITY}), last}) if changing else [last]
    return Counter(snapshot_at(meaning(plan, given, domain), last))


def visible_rows(rows: Bag, lines: Sequence[int], bounds: Sequence[Chronon]) -> Bag:
    """Return σ[p1 ≤ b1 ∨ … ∨ pk ≤ bk]: the rows that are visible at the bounds of the time lines (def. 23).

    `lines` are the positions of the time lines.
    """
    shown = {
        row: n
        for row, n in rows.items()
        if any(_instant(row[p]) <= bound for p, bound in zip(lines, bounds, strict=True))
    }
    return Counter(shown)


def increment_rows(
    rows: Bag, lines: Sequence[int], before: Sequence[Chronon], after: Sequence[Chronon]
) -> Bag:
    """Return σ[(∨ p ≤ new) ∧ ¬(∨ p ≤ old)]: what becomes visible in a step (definition 26)."""
    return visible_rows(rows, lines, after) - visible_rows(rows, lines, before)


def _instant(value: object) -> Chronon:
    assert isinstance(value, int)
    return value


# What the operators have emitted


def emitted_rows(timing: Timing, inputs: EventInputs) -> Bag:
    """Return all rows that the operators of an event query have emitted, given the rows and bounds so far.

    Only operators that wait look at the bounds: a row of theirs is emitted when its column ≤ its clock.
    """
    return _emitted(timing.node, timing, inputs)


@singledispatch
def _emitted(node: N.Node, timing: Timing, inputs: EventInputs) -> Bag:
    raise TypeError(f"no event rows of {type(node).__name__}")


def _below(timing: Timing, inputs: EventInputs) -> list[Bag]:
    return [emitted_rows(each, inputs) for each in timing.inputs]


def _is_over(wait: Wait, row: Record, inputs: EventInputs) -> bool:
    """Return whether a row has waited long enough."""
    if wait.clock is None:
        return False
    return wait.column is None or _instant(row[wait.column]) <= wait.clock.value(inputs.bounds)


@_emitted.register(N.Stream)
@_emitted.register(N.View)
def _(node: N.Stream | N.View, timing: Timing, inputs: EventInputs) -> Bag:
    """A row of a stream is there from when it arrives."""
    return Counter(inputs.rows[node.name])


@_emitted.register
def _(node: N.IStream, timing: Timing, inputs: EventInputs) -> Bag:
    """A row is there from when the view is known at its instant, the last column."""
    rows, known = event_meaning(node, inputs), inputs.bounds[STORE_BOUND]
    return Counter({row: n for row, n in rows.items() if _instant(row[-1]) <= known})


@_emitted.register
def _(node: N.Alias, timing: Timing, inputs: EventInputs) -> Bag:
    return _below(timing, inputs)[0]


@_emitted.register
def _(node: N.Filter, timing: Timing, inputs: EventInputs) -> Bag:
    (rows,) = _below(timing, inputs)
    return Counter({r: n for r, n in rows.items() if holds(node.condition, node.input.schema, r)})


@_emitted.register
def _(node: N.Project, timing: Timing, inputs: EventInputs) -> Bag:
    (rows,) = _below(timing, inputs)
    return _mapped(rows, [e for _, e in node.columns], node.input.schema)


def _mapped(rows: Bag, expressions: Sequence[Expression], schema: Schema) -> Bag:
    found: Bag = Counter()
    for row, n in rows.items():
        found[tuple(normal(evaluate(e, schema, row)) for e in expressions)] += n
    return found


def _pairs(node: N.Join | N.OuterJoin, left: Bag, right: Bag) -> Bag:
    schema = node.left.schema.concat(node.right.schema)
    return Counter(
        {
            a + b: n * m
            for a, n in left.items()
            for b, m in right.items()
            if holds(node.condition, schema, a + b)
        }
    )


@_emitted.register
def _(node: N.Join, timing: Timing, inputs: EventInputs) -> Bag:
    """A pair goes out as soon as both rows are there."""
    return _pairs(node, *_below(timing, inputs))


def _matched(node: N.SemiJoin | N.AntiJoin | N.OuterJoin, row: Record, others: Bag) -> bool:
    schema = node.left.schema.concat(node.right.schema)
    return any(holds(node.condition, schema, row + other) for other in others)


@_emitted.register
def _(node: N.SemiJoin, timing: Timing, inputs: EventInputs) -> Bag:
    """A row goes out when its first partner comes, and does not wait."""
    left, right = _below(timing, inputs)
    return Counter({r: n for r, n in left.items() if _matched(node, r, right)})


@_emitted.register
def _(node: N.AntiJoin, timing: Timing, inputs: EventInputs) -> Bag:
    """A row goes out when no partner can come any more and none has come."""
    left, right = _below(timing, inputs)
    wait = timing.wait("left")
    ready = {r: n for r, n in left.items() if _is_over(wait, r, inputs) and not _matched(node, r, right)}
    return Counter(ready)


@_emitted.register
def _(node: N.OuterJoin, timing: Timing, inputs: EventInputs) -> Bag:
    """The pairs of the join; a row without a partner as in an anti join, padded with NULLs."""
    left, right = _below(timing, inputs)
    found, schema = _pairs(node, left, right), node.left.schema.concat(node.right.schema)
    if node.kind in ("LEFT", "FULL"):
        padding = (None,) * len(node.right.schema)
        for row, n in left.items():
            if _is_over(timing.wait("left"), row, inputs) and not _matched(node, row, right):
                found[row + padding] += n
    if node.kind in ("RIGHT", "FULL"):
        padding = (None,) * len(node.left.schema)
        for row, n in right.items():
            over = _is_over(timing.wait("right"), row, inputs)
            if over and not any(holds(node.condition, schema, other + row) for other in left):
                found[padding + row] += n
    return found


@_emitted.register
def _(node: N.TableJoin, timing: Timing, inputs: EventInputs) -> Bag:
    """A row goes out when the version of the table at its time is final."""
    (left,) = _below(timing, inputs)
    wait, schema = timing.wait("rows"), node.left.schema.concat(node.right.schema)
    assert wait.column is not None
    base = N.base_of(node.right)
    assert isinstance(base, N.Table)
    found: Bag = Counter()
    for row, n in left.items():
        if not _is_over(wait, row, inputs):
            continue
        at = _instant(row[wait.column])
        versions = [v for v in inputs.tables[base.name] if v.from_ <= at < v.until]
        matches = [v for v in versions if holds(node.condition, schema, row + v.record)]
        for version in matches:
            found[row + version.record] += n * version.n
        if node.outer and not matches:
            found[row + (None,) * len(node.right.schema)] += n
    return found


@_emitted.register
def _(node: N.Aggregate, timing: Timing, inputs: EventInputs) -> Bag:
    """A group goes out when no row of it can come any more."""
    (rows,) = _below(timing, inputs)
    groups: dict[Record, list[Record]] = {}
    for row, n in rows.items():
        key = tuple(normal(evaluate(e, node.input.schema, row)) for _, e in node.keys)
        groups.setdefault(key, []).extend([row] * n)
    wait = timing.wait("groups")
    return Counter(
        key + tuple(aggregate_group(call, node.input.schema, members) for _, call in node.calls)
        for key, members in groups.items()
        if _is_over(wait, key, inputs)
    )


@_emitted.register
def _(node: N.Distinct, timing: Timing, inputs: EventInputs) -> Bag:
    (rows,) = _below(timing, inputs)
    return Counter(dict.fromkeys((tuple(normal(v) for v in row) for row in rows), 1))


@_emitted.register
def _(node: N.Union, timing: Timing, inputs: EventInputs) -> Bag:
    left, right = _widened(node, timing, inputs)
    return left + right


@_emitted.register(N.Difference)
@_emitted.register(N.StrictDifference)
@_emitted.register(N.Intersection)
@_emitted.register(N.MaxUnion)
def _(
    node: N.Difference | N.StrictDifference | N.Intersection | N.MaxUnion, timing: Timing, inputs: EventInputs
) -> Bag:
    """A record is decided when no copy of it can come on either side."""
    left, right = _widened(node, timing, inputs)
    match node:
        case N.Difference():
            found = left - right
        case N.StrictDifference():
            found = Counter({row: n for row, n in left.items() if row not in right})
        case N.Intersection():
            found = left & right
        case N.MaxUnion():
            found = left | right
    wait = timing.wait("records")
    return Counter({row: n for row, n in found.items() if _is_over(wait, row, inputs)})


def _widened(node: N.Node, timing: Timing, inputs: EventInputs) -> list[Bag]:
    found = []
    for below, rows in zip(timing.inputs, _below(timing, inputs), strict=True):
        side: Bag = Counter()
        for row, n in rows.items():
            side[widen_record(row, below.node.schema.types, node.schema.types)] += n
        found.append(side)
    return found
