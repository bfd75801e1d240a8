"""The times in the rows of each operator of an event query, and what its rows wait for (paper 3, section 4).

Bottom-up, each node gets the cases of its rows and the waits of its state: definitions 3 to 10 of the paper.
A row of an operator that must wait (NOT EXISTS, GROUP BY, EXCEPT, the padded side of an outer join) is
decided when its wait is over, and all state is dropped when its wait is over. A node that waited requires one
thing of those above: that its clock has passed the row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import singledispatch
from typing import NamedTuple

from everview.algebra import nodes as N
from everview.algebra.expressions import Column, Expression, conjuncts
from everview.algebra.types import TIMESTAMP
from everview.temporal.cases import MOST_CASES, TimeCase, fewer_cases, simplify_cases
from everview.temporal.clocks import (
    STORE_BOUND,
    Alternative,
    Clock,
    Origin,
    Requirement,
    StreamLine,
    Wait,
)
from everview.temporal.distances import Attribute, Distances
from everview.temporal.event_query import EventQueryError, Knowledge, StreamFacts, Timing, Trial
from everview.temporal.extremes import extreme_argument, extreme_times
from everview.temporal.formulas import Atom
from everview.temporal.istream_timing import istream_timing, new_case
from everview.temporal.terms import Reading, define_term
from everview.temporal.waits import Requirements, Unbounded, choose_wait, look_back_of


def timing_of(
    plan: N.Node, facts: Mapping[str, StreamFacts] | None = None, trial: Trial | None = None
) -> Timing:
    """Analyse the plan of an event query; `facts` are those of the streams that it reads, by name.

    >>> from everview.algebra.schema import Schema
    >>> from everview.algebra.types import INT
    >>> s = N.Stream("s", Schema.of(("k", INT), ("ts", TIMESTAMP), timeline="ts"))
    >>> print(timing_of(N.Distinct(s)).wait("records"))
    records until s.ts ≤ s.ts
    """
    return _timing(plan, Knowledge({} if facts is None else facts, trial))


@singledispatch
def _timing(node: N.Node, known: Knowledge) -> Timing:
    raise TypeError(f"{type(node).__name__} has no place in an event query")


# Leaves


@_timing.register
def _(node: N.Stream, known: Knowledge) -> Timing:
    """Definition 3: a stream is known as far as one of its time lines is."""
    lines = [f for f in node.schema if f.timeline is not None]
    if not lines:
        kind = node.name.rpartition("$")[2]
        what = f"{kind} rows have no time line" if "$" in node.name else f"'{node.name}' has no time line"
        raise EventQueryError(what).about("relation", node.name)
    facts = known.facts.get(node.name, StreamFacts())
    cases = [new_case(node)] if facts.query is None else _cases_of_query(node, facts.query, known)
    never_null = {f.name for f in lines} | set(facts.not_null)
    ordered = sorted(lines, key=lambda f: f.timeline or 0)
    found = []
    for case in cases:
        by_name = {f.name: a for f, a in zip(node.schema, case.columns, strict=True) if a is not None}
        alternatives = tuple(
            Alternative(by_name[f.name], Clock.line(StreamLine(node.name, f.name))) for f in ordered
        )
        case = replace(
            case,
            present=case.present | {a for name, a in by_name.items() if name in never_null},
            requirements=(Requirement(alternatives, (Origin(node.name, node.name),)),),
        )
        found += _checked(case, node, facts.check)
    return Timing(node, (), tuple(simplify_cases(found)))


def _cases_of_query(node: N.Stream, query: N.Node, known: Knowledge) -> list[TimeCase]:
    """Return what an event stream says of the times in its rows: what its query does."""
    found = []
    for case in _timing(query, Knowledge(known.facts)).cases:
        whole = replace(case, requirements=(), branches=()).trimmed()
        columns = tuple(
            a or (Attribute(f.qualified) if f.type == TIMESTAMP else None)
            for a, f in zip(whole.columns, node.schema, strict=True)
        )
        found.append(_named(replace(whole, columns=columns), node.schema.names, node.name))
    return found


def _checked(case: TimeCase, node: N.Stream, check: Expression | None) -> list[TimeCase]:
    """Return the cases in which a CHECK holds; where it reads a column that may be NULL it says nothing."""
    reading = Reading(case, node.schema)
    sure = []
    for condition in [] if check is None else conjuncts(check):
        times = [reading.attribute(c) for c in condition.columns()]
        if all(a is not None and case.is_present(a) for a in times):
            sure.append(reading.formula(condition))
    found = [case]
    for formula in sure:
        found = [narrower for each in found for narrower in each.restrict(formula)]
    return found


@_timing.register(N.View)
@_timing.register(N.IStream)
def _(node: N.View | N.IStream, known: Knowledge) -> Timing:
    return istream_timing(node, known)


@_timing.register
def _(node: N.Values, known: Knowledge) -> Timing:
    raise EventQueryError(
        "an event query reads streams, and this part of it reads no stream", next_step="select FROM a stream"
    ).about("query", "")


# Row by row


@_timing.register
def _(node: N.Alias, known: Knowledge) -> Timing:
    below = _timing(node.input, known)
    if node.name.startswith("_q"):  # made by the binder: the names inside are those of the user
        return replace(below, node=node, inputs=(below,), waits=())
    cases = [_named(case, node.schema.names, node.name) for case in below.cases]
    base = node.input.input if isinstance(node.input, N.Filter) else node.input
    if isinstance(base, (N.Stream, N.View)):
        cases = [_under(case, node.name) for case in cases]
    return Timing(node, (below,), tuple(cases))


def _named(case: TimeCase, names: Sequence[str], relation: str) -> TimeCase:
    """Return the case with new attributes for its columns, called as they are called now."""
    renamed: dict[Attribute, Attribute] = {}
    for name, attribute in zip(names, case.columns, strict=True):
        if attribute is not None and attribute not in renamed:
            renamed[attribute] = Attribute(f"{relation}.{name}")
    return case.rename(renamed)


def _under(case: TimeCase, alias: str) -> TimeCase:
    return replace(
        case,
        requirements=tuple(
            replace(r, origins=tuple(Origin(o.stream, alias) for o in r.origins)) for r in case.requirements
        ),
    )


@_timing.register
def _(node: N.Filter, known: Knowledge) -> Timing:
    """Definition 4: the relations of a selection are those of its input and of its condition."""
    below = _timing(node.input, known)
    found = [
        narrower
        for case in below.cases
        for narrower in case.restrict(Reading(case, node.input.schema).formula(node.condition))
    ]
    return Timing(node, (below,), tuple(simplify_cases(found)))


@_timing.register
def _(node: N.Project, known: Knowledge) -> Timing:
    """Definitions 5 and 6: a computed time keeps its relation; times that are not selected stay variables."""
    below = _timing(node.input, known)
    return Timing(node, (below,), tuple(_project(below.cases, node.columns, node.input)))


def _project(
    cases: Sequence[TimeCase], columns: Sequence[tuple[str, Expression]], source: N.Node
) -> list[TimeCase]:
    found: list[TimeCase] = []
    for case in cases:
        reading = Reading(case, source.schema)
        made: list[TimeCase] = [replace(case, columns=(), nulls=frozenset())]
        for position, (name, expression) in enumerate(columns):
            if reading.is_null(expression):
                made = [replace(m, columns=(*m.columns, None), nulls=m.nulls | {position}) for m in made]
                continue
            made = [m for each in made for m in _with_column(each, name, expression, reading)]
        found += [m.trimmed() for m in made]
    return simplify_cases(found)


def _with_column(case: TimeCase, name: str, expression: Expression, reading: Reading) -> list[TimeCase]:
    """Return the cases with one more column: a column that is passed on, or a time that is computed."""
    if expression.type != TIMESTAMP:
        return [replace(case, columns=(*case.columns, None))]
    if isinstance(expression, Column):
        return [replace(case, columns=(*case.columns, reading.attribute(expression)))]
    attribute, term = Attribute(name), reading.term(expression)
    if term is None:
        distances = Distances({**case.distances.rows, attribute: {}})
        return [replace(case, distances=distances, columns=(*case.columns, attribute))]
    return [replace(c, columns=(*c.columns, attribute)) for c in define_term(case, attribute, term)]


# Joins


class _Pair(NamedTuple):
    """A case of two rows side by side for which a condition holds, and what is required of either."""

    case: TimeCase
    left: Requirements
    right: Requirements


def _pairs(node: N.Node, left: Timing, right: Timing, condition: Expression, known: Knowledge) -> list[_Pair]:
    """Return all combinations of cases of both sides in which the condition can hold (definition 8)."""
    schema = left.node.schema.concat(right.node.schema)
    lefts, rights = list(left.cases), list(right.cases)
    if len(lefts) * len(rights) > MOST_CASES:
        lefts, rights = fewer_cases(lefts), fewer_cases(rights)
    found = []
    for l in lefts:  # noqa: E741
        for r in rights:
            both = l.beside(r)
            for case in both.restrict(Reading(both, schema).formula(condition)):
                found += [
                    _Pair(c, l.requirements, r.requirements) for c in _with_trial(node, case, known.trial)
                ]
    return found


def _with_trial(node: N.Node, case: TimeCase, trial: Trial | None) -> list[TimeCase]:
    """Return the case with a condition that is tried at this node."""
    if trial is None or trial.node is not node:
        return [case]
    named = {a.name: a for a in case.distances.rows}
    if trial.later not in named or trial.earlier not in named:
        return [case]
    return case.restrict(Atom(named[trial.later], named[trial.earlier], trial.apart))


def _both_waits(
    left: Timing, right: Timing, pairs: Sequence[_Pair]
) -> tuple[Wait, Wait, dict[str, tuple[Unbounded, ...]]]:
    """Return how long the rows of either side are needed: until no partner can come any more."""
    size = len(left.node.schema)
    for_left, left_open = choose_wait("left", 0, left.cases, [(p.case, p.right) for p in pairs])
    for_right, right_open = choose_wait("right", size, right.cases, [(p.case, p.left) for p in pairs])
    return for_left, for_right, {"left": left_open, "right": right_open}


@_timing.register
def _(node: N.Join, known: Knowledge) -> Timing:
    left, right = _timing(node.left, known), _timing(node.right, known)
    pairs = _pairs(node, left, right, node.condition, known)
    for_left, for_right, growing = _both_waits(left, right, pairs)
    cases = tuple(simplify_cases([p.case for p in pairs]))
    return Timing(node, (left, right), cases, (for_left, for_right), growing=growing, pairs=cases)


@_timing.register
def _(node: N.SemiJoin, known: Knowledge) -> Timing:
    """As the join, then the columns of the left side only; a row goes out when its first partner comes."""
    left, right = _timing(node.left, known), _timing(node.right, known)
    pairs = _pairs(node, left, right, node.condition, known)
    for_left, for_right, growing = _both_waits(left, right, pairs)
    size = len(node.left.schema)
    cases = tuple(simplify_cases([_first_columns(p.case, size) for p in pairs]))
    waits = for_left, for_right
    return Timing(node, (left, right), cases, waits, growing=growing, pairs=_met(pairs))


def _met(pairs: Sequence[_Pair]) -> tuple[TimeCase, ...]:
    return tuple(simplify_cases([p.case for p in pairs]))


def _first_columns(case: TimeCase, size: int) -> TimeCase:
    nulls = frozenset(position for position in case.nulls if position < size)
    return replace(case, columns=case.columns[:size], nulls=nulls).trimmed()


@_timing.register
def _(node: N.AntiJoin, known: Knowledge) -> Timing:
    """Definition 10: the right side's times count for the bound, not for the rows."""
    left, right = _timing(node.left, known), _timing(node.right, known)
    pairs = _pairs(node, left, right, node.condition, known)
    for_left, for_right, growing = _both_waits(left, right, pairs)
    back = _back(for_left, 0, pairs, 1)
    cases = [_after_wait(case, 0, for_left, _origins(pairs, 1), back) for case in left.cases]
    blocked = growing.pop("left")
    waits = for_left, for_right
    return Timing(node, (left, right), tuple(cases), waits, blocked, growing, _met(pairs))


def _back(wait: Wait, offset: int, pairs: Sequence[_Pair], side: int) -> int | None:
    """Return how far before a row of one side rows of the other side can matter."""
    column = None if wait.column is None else offset + wait.column
    return look_back_of(column, [(p.case, (p.left, p.right)[side]) for p in pairs])


def _origins(pairs: Sequence[_Pair], side: int) -> tuple[Origin, ...]:
    required = (r for p in pairs for r in (p.left, p.right)[side])
    return tuple(dict.fromkeys(o for r in required for o in r.origins))


def _after_wait(
    case: TimeCase, offset: int, wait: Wait, origins: tuple[Origin, ...], back: int | None
) -> TimeCase:
    """Return the case of a row that has waited, with one more requirement: that the clock has passed it."""
    if wait.clock is None:
        return replace(case, requirements=(*case.requirements, Requirement((), origins)))
    if not wait.clock.parts or wait.column is None:
        return case
    time = case.columns[offset + wait.column]
    assert time is not None
    added = Requirement((Alternative(time, wait.clock),), origins, back)
    return replace(case, requirements=(*case.requirements, added))


@_timing.register
def _(node: N.OuterJoin, known: Knowledge) -> Timing:
    """The pairs of the join, and the rows without a partner, padded with NULLs, as of an anti join."""
    left, right = _timing(node.left, known), _timing(node.right, known)
    pairs = _pairs(node, left, right, node.condition, known)
    for_left, for_right, growing = _both_waits(left, right, pairs)
    cases = [p.case for p in pairs]
    sizes = len(node.left.schema), len(node.right.schema)
    blocked: tuple[Unbounded, ...] = ()
    if node.kind in ("LEFT", "FULL"):
        padding = frozenset(range(sizes[0], sum(sizes)))
        for case in left.cases:
            waited = _after_wait(case, 0, for_left, _origins(pairs, 1), _back(for_left, 0, pairs, 1))
            padded = (*waited.columns, *(None,) * sizes[1])
            cases.append(replace(waited, columns=padded, nulls=waited.nulls | padding))
        blocked += growing.pop("left")
    if node.kind in ("RIGHT", "FULL"):
        padding = frozenset(range(sizes[0]))
        for case in right.cases:
            waited = _after_wait(case, 0, for_right, _origins(pairs, 0), _back(for_right, sizes[0], pairs, 0))
            nulls = padding | {sizes[0] + position for position in waited.nulls}
            cases.append(replace(waited, columns=(*(None,) * sizes[0], *waited.columns), nulls=nulls))
        blocked += growing.pop("right")
    waits = (for_left, for_right)
    cases = simplify_cases(cases)
    return Timing(node, (left, right), tuple(cases), waits, blocked, growing, _met(pairs))


@_timing.register
def _(node: N.TableJoin, known: Knowledge) -> Timing:
    """A table as of a time line of the row: its versions are final up to the bound of the store."""
    left = _timing(node.left, known)
    line = node.version_line
    position = node.left.schema.index(line)
    wait = Wait("rows", position, line.qualified, Clock.line(STORE_BOUND))
    table, schema = new_case(node.right), node.left.schema.concat(node.right.schema)
    base = N.base_of(node.right)
    assert isinstance(base, N.Table)
    alias = node.right.name if isinstance(node.right, N.Alias) else base.name
    origins = (Origin(base.name, alias, is_table=True),)
    cases: list[TimeCase] = []
    for case in left.cases:
        waited = _after_wait(case, 0, wait, origins, 0)
        if node.outer:
            padded = (*waited.columns, *(None,) * len(node.right.schema))
            cases.append(replace(waited, columns=padded))
        else:
            both = waited.beside(table)
            cases += both.restrict(Reading(both, schema).formula(node.condition))
    return Timing(node, (left,), tuple(simplify_cases(cases)), (wait,))


# State of one input


@_timing.register
def _(node: N.Aggregate, known: Knowledge) -> Timing:
    """Definition 7. Only times among the keys can bound a group: of others more may come (finding 7)."""
    below = _timing(node.input, known)
    if not node.keys:
        raise EventQueryError(
            "an aggregate without GROUP BY is about the whole stream, which never ends",
            next_step="group by a time; or make a view",
        ).about("aggregate", "")
    arguments = [extreme_argument(call) for _, call in node.calls]
    times = [("", argument) for argument in arguments if argument is not None]
    size = len(node.keys)
    rows = _project(below.cases, [*node.keys, *times], node.input)
    rows = [tried for case in rows for tried in _with_trial(node, case, known.trial)]
    grouped = [_first_columns(case, size) for case in rows]
    wait, unbounded = choose_wait("groups", 0, grouped, [(c, c.requirements) for c in grouped])
    origins = tuple(dict.fromkeys(o for c in grouped for r in c.requirements for o in r.origins))
    extremes = extreme_times(rows, size, len(times))
    back = look_back_of(wait.column, [(c, c.requirements) for c in grouped])
    found = []
    for case in grouped:
        group, following = case.requiring(()), iter(extremes)
        for (name, _), argument in zip(node.calls, arguments, strict=True):
            if argument is None:
                group = replace(group, columns=(*group.columns, None))
            else:
                group = next(following).added_to(group, name)
        found.append(_after_wait(group, 0, wait, origins, back))
    return Timing(node, (below,), tuple(simplify_cases(found)), (wait,), unbounded)


@_timing.register
def _(node: N.Distinct, known: Knowledge) -> Timing:
    """A record goes out when it comes first; it is remembered until no other copy of it can come."""
    below = _timing(node.input, known)
    wait, unbounded = choose_wait("records", 0, below.cases, [(c, c.requirements) for c in below.cases])
    return Timing(node, (below,), below.cases, (wait,), growing={"records": unbounded})


# Set operations


@_timing.register
def _(node: N.Union, known: Knowledge) -> Timing:
    """Definition 9: each side's requirements count for its own rows only (finding 2)."""
    left, right = _timing(node.left, known), _timing(node.right, known)
    return Timing(node, (left, right), tuple(simplify_cases([*_sides(node, left), *_sides(node, right)])))


def _sides(node: N.Node, side: Timing) -> list[TimeCase]:
    """Return the cases of a side; of a column that is widened to a TIMESTAMP nothing is known."""
    found = []
    for case in side.cases:
        columns = []
        for position, field_ in enumerate(node.schema):
            known = case.columns[position]
            fresh = field_.type == TIMESTAMP and known is None and position not in case.nulls
            columns.append(Attribute(field_.name) if fresh else known)
        found.append(replace(case, columns=tuple(columns)))
    return found


@_timing.register(N.Difference)
@_timing.register(N.StrictDifference)
@_timing.register(N.Intersection)
@_timing.register(N.MaxUnion)
def _(node: N.Difference | N.StrictDifference | N.Intersection | N.MaxUnion, known: Knowledge) -> Timing:
    """Definition 10, counted: a record is decided when no copy of it can come on either side."""
    left, right = _timing(node.left, known), _timing(node.right, known)
    sides = _sides(node, left), _sides(node, right)
    both = [*sides[0], *sides[1]]
    tried = [c for case in both for c in _with_trial(node, case, known.trial)]
    wait, unbounded = choose_wait("records", 0, both, [(c, c.requirements) for c in tried])
    origins = tuple(dict.fromkeys(o for c in both for r in c.requirements for o in r.origins))
    kept = both if isinstance(node, N.MaxUnion) else sides[0]
    back = look_back_of(wait.column, [(c, c.requirements) for c in tried])
    cases = [_after_wait(case.requiring(()), 0, wait, origins, back) for case in kept]
    return Timing(node, (left, right), tuple(simplify_cases(cases)), (wait,), unbounded)
