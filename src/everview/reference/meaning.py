"""The meaning of every operator, slow and plain: the oracle that all other code is tested against.

A plan means a logical stream: (record, t) → n, for every instant t of a small finite domain (paper 1,
definition 3.1). Each function below is the paper's definition and cites it. Nothing here is clever,
incremental, or shared with the code under test: windows are paper 4's scope functions, not closed forms.

The domain is a run of instants, or any instants in order such that nothing happens between two of them
that is not seen at one. All inputs begin inside it: nothing happens before its first instant.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from itertools import pairwise

from everview.algebra import nodes as N
from everview.algebra.aggregates import AggregateCall
from everview.algebra.changes import ChangeRow, Logical, Record, Snapshot, to_logical
from everview.algebra.evaluate import convert, evaluate, holds
from everview.algebra.expressions import Expression
from everview.algebra.over import Over, Rank
from everview.algebra.schema import Schema
from everview.algebra.session import Session
from everview.algebra.time import Chronon, instant_column
from everview.algebra.types import VOID, DataType
from everview.algebra.values import normal, record_ordering
from everview.algebra.windows import Rows, TimeWindow
from everview.errors import AlgebraError
from everview.reference.over import over_rows, rank_rows
from everview.reference.scope import scope, session

Triple = tuple[Record, Chronon, int]


@dataclass(frozen=True)
class World:
    """The change rows of every stream and table by name, and the instants of the domain."""

    inputs: Mapping[str, Sequence[ChangeRow]]
    domain: Sequence[Chronon]


def meaning(plan: N.Node, inputs: Mapping[str, Sequence[ChangeRow]], domain: Sequence[Chronon]) -> Logical:
    """Return the logical stream that a plan means over these inputs.

    >>> from everview.algebra.types import INT, TIMESTAMP
    >>> from everview.algebra.windows import Range
    >>> s = N.Stream("s", Schema.of(("v", INT), ("ts", TIMESTAMP), timeline="ts"))
    >>> once = N.Distinct(N.Project(N.Window(s, Range(2)), (("v", s.column("v")),)))
    >>> rows = [ChangeRow((7, 1), 1, 99), ChangeRow((7, 2), 2, 99)]
    >>> sorted(meaning(once, {"s": rows}, range(5)).items())
    [(((7,), 1), 1), (((7,), 2), 1), (((7,), 3), 1)]
    """
    return _meaning(plan, World(inputs, domain))


def snapshot_at(logical: Logical, t: Chronon) -> Snapshot:
    """τ_t: the multiset that holds at t (paper 1, equation 17)."""
    return {e: n for (e, at), n in logical.items() if at == t}


@singledispatch
def _meaning(plan: N.Node, world: World) -> Logical:
    raise TypeError(f"no meaning for {type(plan).__name__}")


def _sum(triples: Iterable[Triple]) -> Logical:
    """Return the logical stream of triples: multiplicities of equal (e, t) are added up, zeros left out."""
    total: Counter[tuple[Record, Chronon]] = Counter()
    for e, t, n in triples:
        total[e, t] += n
    return {key: n for key, n in total.items() if n}


# Leaves


@_meaning.register(N.Stream)
@_meaning.register(N.Table)
def _leaf(plan: N.Stream | N.Table, world: World) -> Logical:
    """Physical to logical stream (paper 1, 3.1.1)."""
    return to_logical(world.inputs[plan.name], world.domain)


@_meaning.register
def _view(plan: N.View, world: World) -> Logical:
    """A view is its definition (paper 5, 4.3)."""
    return _meaning(plan.definition, world)


@_meaning.register
def _values(plan: N.Values, world: World) -> Logical:
    return _sum((row, t, 1) for row in plan.rows for t in world.domain)


# Row by row


@_meaning.register
def _alias(plan: N.Alias, world: World) -> Logical:
    return _meaning(plan.input, world)


@_meaning.register
def _filter(plan: N.Filter, world: World) -> Logical:
    """σ_p(S) = {(e, t, n) ∈ S | p(e)} (paper 1, equation 1)."""
    schema = plan.input.schema
    return {
        (e, t): n for (e, t), n in _meaning(plan.input, world).items() if holds(plan.condition, schema, e)
    }


@_meaning.register
def _project(plan: N.Project, world: World) -> Logical:
    """μ_f(S) = {(e, t, n) | n = Σ n̂ over (ê, t, n̂) ∈ S with f(ê) = e} (paper 1, equation 2)."""
    expressions = [e for _, e in plan.columns]
    return _sum(
        (_mapped(expressions, plan.input.schema, e), t, n)
        for (e, t), n in _meaning(plan.input, world).items()
    )


@_meaning.register
def _group_member(plan: N.GroupMember, world: World) -> Logical:
    """π_j(γ_f(S)) = {(e, t, n) ∈ S | f(e, t) = j} (paper 1, equation 6)."""
    schema = plan.input.schema
    return {
        (e, t): n
        for (e, t), n in _meaning(plan.input, world).items()
        if evaluate(plan.by, schema, e) == plan.value
    }


def _mapped(expressions: Sequence[Expression], schema: Schema, e: Record) -> Record:
    return tuple(normal(evaluate(x, schema, e)) for x in expressions)


# Time


@_meaning.register
def _window(plan: N.Window, world: World) -> Logical:
    """W_E(S(τ)) = {s ∈ S(τ) | s.Aτ ∈ scope(τ)} (paper 4, definition 9 and section 3)."""
    stream = _meaning(plan.input, world)
    if isinstance(plan.window, Rows):
        return _rows_window(plan, plan.window, stream, world)
    return _time_window(plan.input.schema, plan.window, stream, world)


def _time_window(schema: Schema, window: TimeWindow, stream: Logical, world: World) -> Logical:
    if schema.timeline is None:  # UNBOUNDED: all rows
        return stream
    position = schema.index(schema.timeline)
    oldest = min([_ts(e, position) for e, _ in stream] + [world.domain[0]])
    kept = {}
    for (e, t), n in stream.items():
        covered = scope(window, t, oldest)
        if covered is not None and covered[0] <= _ts(e, position) <= covered[1]:
            kept[e, t] = n
    return kept


def _rows_window(plan: N.Window, window: Rows, stream: Logical, world: World) -> Logical:
    """W_n and W_p: the N most recent tuples, of each partition (paper 4, 3.2).

    The paper leaves ties open; here rows of one instant are ordered by the stream's SEQUENCE BY columns,
    then by all columns. With a progression step, the state is that after the last arrival whose number is a
    multiple of it.
    """
    schema = plan.input.schema
    keys = [schema.index(schema.find(name)) for name in window.partition_by]
    triples: list[Triple] = []
    for t in world.domain:
        partitions: dict[Record, list[Record]] = defaultdict(list)
        for e, n in snapshot_at(stream, t).items():
            if n < 0:
                raise AlgebraError("a window of ROWS over a stream with negative rows has no meaning")
            partitions[tuple(normal(e[k]) for k in keys)].extend([e] * n)
        for members in partitions.values():
            arrived = sorted(members, key=lambda e: arrival_order(plan.input, e))
            seen = arrived[: len(arrived) - len(arrived) % window.slide]
            triples.extend((e, t, 1) for e in seen[-window.count :])
    return _sum(triples)


@_meaning.register
def _session(plan: Session, world: World) -> Logical:
    """The rows of each key whose timestamps are in the scope of its session, with the ends of that."""
    schema = plan.input.schema
    keys = [schema.index(schema.find(name)) for name in plan.partition_by]
    assert schema.timeline is not None
    line = schema.index(schema.timeline)
    stream = _meaning(plan.input, world)
    triples: list[Triple] = []
    for t in world.domain:
        stamps: dict[Record, list[Chronon]] = defaultdict(list)
        snapshot = snapshot_at(stream, t)
        for e in snapshot:
            stamps[tuple(normal(e[k]) for k in keys)].append(_ts(e, line))
        for e, n in snapshot.items():
            own = stamps[tuple(normal(e[k]) for k in keys)]
            covered = session(t, own, plan.gap)
            if covered is not None and covered[0] <= _ts(e, line):
                ends = (covered[0], max(own) + plan.gap)
                triples.append(((*e, *ends[: len(plan.schema) - len(schema)]), t, n))
    return _sum(triples)


def arrival_order(node: N.Node, e: Record) -> tuple[object, ...]:
    """(timestamp, the SEQUENCE BY columns if declared, all columns)."""
    line = node.schema.timeline
    if line is None:
        raise AlgebraError("rows without a time line have no order")
    stream = N.stream_of(node)
    sequence = () if stream is None else stream.sequence
    ordered = [node.schema.index(line), *(node.schema.index(node.schema.find(s)) for s in sequence)]
    return record_ordering([e[i] for i in ordered] + list(e))


@_meaning.register(N.Coalesce)
@_meaning.register(N.Split)
def _same(plan: N.Coalesce | N.Split, world: World) -> Logical:
    """Records are valid at the same points in time as before (paper 1, 4.2.4)."""
    return _meaning(plan.input, world)


@_meaning.register
def _tagged(plan: N.Tagged, world: World) -> Logical:
    """At t a key has the latest tuple up to t, unless that one deletes it (paper 5, 4.1)."""
    schema = plan.input.schema
    keys = [schema.index(schema.find(name)) for name in plan.key]
    stream = _meaning(plan.input, world)
    triples: list[Triple] = []
    for t in world.domain:
        latest: dict[Record, Record] = {}
        for e in sorted(snapshot_at(stream, t), key=lambda e: arrival_order(plan.input, e)):
            latest[tuple(normal(e[k]) for k in keys)] = e
        for e in latest.values():
            if plan.delete_when is None or not holds(plan.delete_when, schema, e):
                triples.append((e, t, 1))
    return _sum(triples)


@_meaning.register
def _synchronize(plan: N.Synchronize, world: World) -> Logical:
    """ℜ_Sync(S) at T is ℜ[S(T̃)], T̃ the last point of Sync up to T (paper 5, 5.1 and definition 1)."""
    points = [t for t in world.domain if t in plan.grid]
    return _held(_meaning(plan.input, world), points, world.domain)


@_meaning.register
def _synchronize_on(plan: N.SynchronizeOn, world: World) -> Logical:
    """The same, with a point at each instant at which a row with that instant is inserted (paper 5, 5.3)."""
    inserted = {t for (e, t) in _insertions(_meaning(plan.points, world), world.domain) if e == (t,)}
    return _held(_meaning(plan.input, world), sorted(inserted), world.domain)


def _held(stream: Logical, points: Sequence[Chronon], domain: Sequence[Chronon]) -> Logical:
    triples: list[Triple] = []
    for t in domain:
        last = max((p for p in points if p <= t), default=None)
        if last is not None:
            triples.extend((e, t, n) for e, n in snapshot_at(stream, last).items())
    return _sum(triples)


def _insertions(stream: Logical, domain: Sequence[Chronon]) -> Logical:
    """(e, t) → how many more of e there are at t than just before, where there are more."""
    before = {t: earlier for earlier, t in pairwise(domain)}
    grown = {(e, t): n - stream.get((e, before.get(t, t - 1)), 0) for (e, t), n in stream.items()}
    return {key: n for key, n in grown.items() if n > 0}


def _deletions(stream: Logical, domain: Sequence[Chronon]) -> Logical:
    """(e, t) → how many fewer of e there are at t than just before, where there are fewer."""
    after = dict(pairwise(domain))
    shrunk = {(e, after[t]): n - stream.get((e, after[t]), 0) for (e, t), n in stream.items() if t in after}
    return {key: n for key, n in shrunk.items() if n > 0}


def _arrived(events: Logical, domain: Sequence[Chronon]) -> Logical:
    """Return a stream of events as a relation: the events that have arrived up to t."""
    return _sum((e, t, n) for (e, at), n in events.items() for t in domain if t >= at)


def _stamped(plan: N.IStream | N.DStream | N.RStream, events: Logical) -> Logical:
    """Return events with their instants as a column, if the plan says so."""
    return {((*e, instant_column(t)), t): n for (e, t), n in events.items()} if plan.stamped else events


@_meaning.register
def _istream(plan: N.IStream, world: World) -> Logical:
    """A tuple whenever a tuple is inserted in the relation (paper 5, 1.2, case 3)."""
    inserted = _insertions(_meaning(plan.input, world), world.domain)
    return _arrived(_stamped(plan, inserted), world.domain)


@_meaning.register
def _dstream(plan: N.DStream, world: World) -> Logical:
    """A tuple whenever a tuple is deleted from the relation (paper 5, 1.2, case 4)."""
    deleted = _deletions(_meaning(plan.input, world), world.domain)
    return _arrived(_stamped(plan, deleted), world.domain)


@_meaning.register
def _rstream(plan: N.RStream, world: World) -> Logical:
    """The whole relation is streamed out at every point (paper 5, 1.2, case 2)."""
    shown = {(e, t): n for (e, t), n in _meaning(plan.input, world).items() if t in plan.grid}
    return _arrived(_stamped(plan, shown), world.domain)


# One input, with state


@_meaning.register
def _distinct(plan: N.Distinct, world: World) -> Logical:
    """δ(S) = {(e, t, 1) | ∃n. (e, t, n) ∈ S} (paper 1, equation 4)."""
    return {(_normal(e), t): 1 for (e, t) in _meaning(plan.input, world)}


@_meaning.register
def _aggregate(plan: N.Aggregate, world: World) -> Logical:
    """∪+ over the groups j of α_f(π_j(γ_g(S))) (paper 1, equations 6 and 7, section 5.3).

    α_f(S) = {(agg, t, 1) | agg = f({(e, t, n) ∈ S})}. Without keys there is one group at every instant,
    be it empty, as SQL has it.
    """
    schema = plan.input.schema
    stream = _meaning(plan.input, world)
    keys = [e for _, e in plan.keys]
    triples: list[Triple] = []
    for t in world.domain:
        groups: dict[Record, list[Record]] = {} if keys else {(): []}
        for e, n in snapshot_at(stream, t).items():
            if n < 0:
                raise AlgebraError("an aggregate over a snapshot with negative counts has no meaning")
            groups.setdefault(_mapped(keys, schema, e), []).extend([e] * n)
        for key, members in groups.items():
            values = tuple(aggregate_group(call, schema, members) for _, call in plan.calls)
            triples.append((key + values, t, 1))
    return _sum(triples)


def aggregate_group(call: AggregateCall, schema: Schema, members: Iterable[Record]) -> object:
    """Return the value of an aggregate for the rows of a group."""
    members = [e for e in members if call.where is None or holds(call.where, schema, e)]
    if call.argument is None:
        return len(members)
    values = [normal(evaluate(call.argument, schema, e)) for e in members]
    if call.by is not None:
        compared = [normal(evaluate(call.by, schema, e)) for e in members]
        values = [(by, v) for by, v in zip(compared, values, strict=True) if by is not None]
    values = [v for v in values if v is not None]
    if call.distinct:
        values = list(dict.fromkeys(values))
    return normal(call.value_of(values))


@_meaning.register
def _rank(plan: Rank, world: World) -> Logical:
    """At every instant the ranking of the rows that hold then (snapshot-reducible, paper 1, definition 4)."""
    stream = _meaning(plan.input, world)
    return _sum((e, t, n) for t in world.domain for e, n in rank_rows(plan, snapshot_at(stream, t)).items())


@_meaning.register
def _over(plan: Over, world: World) -> Logical:
    """At every instant the functions over the rows that hold then."""
    stream = _meaning(plan.input, world)
    snapshots = ((t, over_rows(plan, snapshot_at(stream, t), aggregate_group)) for t in world.domain)
    return _sum((e, t, n) for t, rows in snapshots for e, n in rows.items())


# Two inputs


@_meaning.register
def _join(plan: N.Join, world: World) -> Logical:
    """⋈_θ = σ_θ(S1 × S2); × = {(e1 ∘ e2, t, n1·n2)} (paper 1, equations 3 and 11)."""
    left, right = _meaning(plan.left, world), _meaning(plan.right, world)
    return _sum(
        (e1 + e2, t, n1 * n2)
        for (e1, t), n1 in left.items()
        for e2, n2 in snapshot_at(right, t).items()
        if holds(plan.condition, plan.schema, e1 + e2)
    )


def _matches(plan: N.SemiJoin | N.AntiJoin | N.OuterJoin, e1: Record, others: Snapshot) -> bool:
    schema = plan.left.schema.concat(plan.right.schema)
    return any(holds(plan.condition, schema, e1 + e2) for e2 in others)


@_meaning.register
def _semi_join(plan: N.SemiJoin, world: World) -> Logical:
    """All elements of S1 that join with an element of S2, as often as in S1 (paper 1, 3.5).

    The words; equation 12 as printed multiplies by the number of distinct partners.
    """
    left, right = _meaning(plan.left, world), _meaning(plan.right, world)
    return {(e, t): n for (e, t), n in left.items() if _matches(plan, e, snapshot_at(right, t))}


@_meaning.register
def _anti_join(plan: N.AntiJoin, world: World) -> Logical:
    """S1 − (S1 ⋉ S2)."""
    left, right = _meaning(plan.left, world), _meaning(plan.right, world)
    return {(e, t): n for (e, t), n in left.items() if not _matches(plan, e, snapshot_at(right, t))}


@_meaning.register
def _outer_join(plan: N.OuterJoin, world: World) -> Logical:
    """The join, ∪+ the rows of the kept side without a partner, padded with NULLs."""
    left, right = _meaning(plan.left, world), _meaning(plan.right, world)
    schema = plan.left.schema.concat(plan.right.schema)
    triples: list[Triple] = []
    for t in world.domain:
        ls, rs = snapshot_at(left, t), snapshot_at(right, t)
        pairs = [(e1, e2) for e1 in ls for e2 in rs if holds(plan.condition, schema, e1 + e2)]
        triples.extend((e1 + e2, t, ls[e1] * rs[e2]) for e1, e2 in pairs)
        if plan.kind in ("LEFT", "FULL"):
            padding = (None,) * len(plan.right.schema)
            triples.extend((e1 + padding, t, n) for e1, n in ls.items() if e1 not in {a for a, _ in pairs})
        if plan.kind in ("RIGHT", "FULL"):
            padding = (None,) * len(plan.left.schema)
            triples.extend((padding + e2, t, n) for e2, n in rs.items() if e2 not in {b for _, b in pairs})
    return _sum(triples)


@_meaning.register
def _table_join(plan: N.TableJoin, world: World) -> Logical:
    """Each result reflects the state of a NRR at the row's own time, t.ts (paper 2, definition 2);
    that of a relation, at every instant (definition 1).

    The row's own time is its time line, not the instant t at which it holds. So the retraction of a row
    retracts its results, whatever the table's version is by then: the paper leaves that open (5.4.2).
    """
    left, table = _meaning(plan.left, world), _meaning(plan.right, world)
    schema = plan.left.schema.concat(plan.right.schema)
    triples: list[Triple] = []
    for (e1, t), n1 in left.items():
        when = t if plan.retroactive else _ts(e1, plan.left.schema.index(plan.version_line))
        found = {
            e2: n2 for e2, n2 in snapshot_at(table, when).items() if holds(plan.condition, schema, e1 + e2)
        }
        triples.extend((e1 + e2, t, n1 * n2) for e2, n2 in found.items())
        if plan.outer and not found:
            triples.append((e1 + (None,) * len(plan.right.schema), t, n1))
    return _sum(triples)


@_meaning.register
def _union(plan: N.Union, world: World) -> Logical:
    """∪+ = {(e, t, n1 + n2)} (paper 1, equation 8)."""
    left, right = _sides(plan, world)
    return _sum([(e, t, n) for (e, t), n in left.items()] + [(e, t, n) for (e, t), n in right.items()])


@_meaning.register
def _difference(plan: N.Difference, world: World) -> Logical:
    """− = {(e, t, n1 ⊖ n2)}, where that is above 0 (paper 1, equation 5)."""
    left, right = _sides(plan, world)
    return _sum((e, t, max(0, n1 - right.get((e, t), 0))) for (e, t), n1 in left.items())


@_meaning.register
def _strict_difference(plan: N.StrictDifference, world: World) -> Logical:
    """−strict = S1 − (S1 ⋉= S2): all copies of what occurs in S2 go (paper 1, equation 15)."""
    left, right = _sides(plan, world)
    return {(e, t): n for (e, t), n in left.items() if (e, t) not in right}


@_meaning.register
def _intersection(plan: N.Intersection, world: World) -> Logical:
    """∩ = S1 − (S1 − S2): min{n1, n2} (paper 1, equation 13; paper 4, 4.1)."""
    left, right = _sides(plan, world)
    return _sum((e, t, min(n1, right.get((e, t), 0))) for (e, t), n1 in left.items())


@_meaning.register
def _max_union(plan: N.MaxUnion, world: World) -> Logical:
    """∪max = {(e, t, max{n1, n2})} (paper 1, equation 14)."""
    left, right = _sides(plan, world)
    return _sum((e, t, max(left.get((e, t), 0), right.get((e, t), 0))) for e, t in {**left, **right})


SetOperation = N.Union | N.Difference | N.StrictDifference | N.Intersection | N.MaxUnion


def _sides(plan: SetOperation, world: World) -> tuple[Logical, Logical]:
    """Return both inputs with their values widened to the types of the result."""
    types = plan.schema.types
    return (
        _widened(_meaning(plan.left, world), plan.left.schema.types, types),
        _widened(_meaning(plan.right, world), plan.right.schema.types, types),
    )


def _widened(stream: Logical, sources: Sequence[DataType], targets: Sequence[DataType]) -> Logical:
    return _sum((widen_record(e, sources, targets), t, n) for (e, t), n in stream.items())


def widen_record(e: Record, sources: Sequence[DataType], targets: Sequence[DataType]) -> Record:
    """Return a record with its values widened to other types."""
    pairs = zip(e, sources, targets, strict=True)
    return _normal(tuple(v if s in (d, VOID) else convert(v, s, d) for v, s, d in pairs))


def _normal(e: Record) -> Record:
    """Return one value for all values that Spark groups together: 0.0 for -0.0, one NaN for every NaN."""
    return tuple(normal(v) for v in e)


def _ts(e: Record, position: int) -> Chronon:
    ts = e[position]
    if not isinstance(ts, int):
        raise AlgebraError(f"a row without a timestamp: {e}")
    return ts
