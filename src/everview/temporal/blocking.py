"""The blocking check: refuse an event query that could never be sure of its answer (paper 3, proposition 14).

A refusal names the input that nothing bounds, and a condition or time line that would. Whatever it proposes
was tried before: the analysis accepts the query with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

from everview.algebra import nodes as N
from everview.algebra.expressions import Call, Column, Expression, Literal, Or
from everview.algebra.text import expression_sql
from everview.algebra.time import HOUR, interval_sql
from everview.algebra.types import STRING, TIMESTAMP
from everview.temporal.clocks import Origin
from everview.temporal.distances import Attribute
from everview.temporal.event_query import EventQueryError, StreamFacts, Timing, Trial
from everview.temporal.output_bounds import EventTiming, output_clock
from everview.temporal.time_lines import refused_line, short_name, variable_distance
from everview.temporal.timing import timing_of
from everview.temporal.waits import Unbounded

_Facts = Mapping[str, StreamFacts]


def require_non_blocking(plan: N.Node, lines: Sequence[str], facts: _Facts | None = None) -> EventTiming:
    """Return the timing of an event query with these time lines; refuse one that could never answer.

    >>> from everview.algebra.schema import Schema
    >>> s = N.Stream("s", Schema.of(("ts", TIMESTAMP), timeline="ts"))
    >>> print(require_non_blocking(s, ["ts"]).clocks["ts"])
    s.ts
    """
    timing = timing_of(plan, facts)
    for each in timing.walk():
        if each.blocked:
            raise _without_branch(plan, lines, each.blocked, facts) or _blocked(each, plan, lines, facts)
    clocks = {}
    for line in lines:
        clock = output_clock(timing, line)
        if clock is None:
            error, unbounded = refused_line(timing, line)
            raise _without_branch(plan, lines, unbounded, facts) or error
        clocks[line] = clock
    return EventTiming(timing, clocks)


# Operators that wait

_PARTS: dict[type[N.Node], str] = {
    N.AntiJoin: "negation",
    N.OuterJoin: "join",
    N.Difference: "set operation",
    N.StrictDifference: "set operation",
    N.Intersection: "set operation",
    N.MaxUnion: "set operation",
}


def _blocked(timing: Timing, plan: N.Node, lines: Sequence[str], facts: _Facts | None) -> EventQueryError:
    unbounded = timing.blocked[0]
    origin = unbounded.requirement.origins[0]
    if isinstance(timing.node, N.Aggregate):
        return _endless_group(timing.node, origin, plan, lines, facts)
    later = next((a.attribute for a in unbounded.requirement.alternatives), None)
    others = [a for p in unbounded.columns if (a := unbounded.case.columns[p]) is not None]
    after = f" after {others[0]}" if others else ""
    dist = unbounded.case.distances.dist
    lower = later is not None and any(dist(later, other) is not None for other in others)
    ends = f": {later} has a lower end and no upper one" if lower else ""
    if later is not None and (variable := variable_distance(timing.node, later.name)) is not None:
        ends = f": the distance from {variable} is no constant"
    return EventQueryError(
        "this query could never be sure of its answer: "
        f"{origin.rows} may still come at any time{after}{ends}",
        next_step=_upper_end(plan, timing, later, others, facts),
    ).about(_PARTS[type(timing.node)], origin.alias)


def _upper_end(
    plan: N.Node, timing: Timing, later: Attribute | None, others: Sequence[Attribute], facts: _Facts | None
) -> str | None:
    """Return an upper end of a time: one with which no row of this node waits for ever."""
    for earlier in others:
        if later is None or later is earlier:
            continue
        tried = timing_of(plan, facts, Trial(timing.node, later.name, earlier.name, HOUR))
        if not any(each.blocked for each in tried.walk() if each.node is timing.node):
            condition = f"AND {later} <= {earlier} + {interval_sql(HOUR)}"
            return f"bound {later} from above, for example {condition}"
    return None


def _endless_group(
    node: N.Aggregate, origin: Origin, plan: N.Node, lines: Sequence[str], facts: _Facts | None
) -> EventQueryError:
    extremes = {name for name, call in node.calls if call.type == TIMESTAMP}
    columns = dict(plan.columns) if isinstance(plan, N.Project) else {}
    last = [line for line in lines if isinstance(e := columns.get(line), Column) and e.name in extremes]
    so_far = f", and '{last[0]}' is only what has come so far" if last else ""
    keys = [expression_sql(_short_columns(e, plan)) for _, e in node.keys]
    time = _time_to_group_by(node, facts)
    view = "make a view"
    if time is not None:
        keys.append(f"date_trunc('HOUR', {short_name(time, plan)})")
        view = f"group by a time too: GROUP BY {', '.join(keys)}; or make a view"
    return EventQueryError(
        f"a group never ends: {origin.row} may still come to it at any time{so_far}", next_step=view
    ).about("group", origin.alias)


def _short_columns(expression: Expression, plan: N.Node) -> Expression:
    """Return a key as it can be written: without the relation if there is but one."""
    if isinstance(expression, Column) and expression.relation is not None:
        name = short_name(f"{expression.relation}.{expression.name}", plan)
        return expression if "." in name else replace(expression, relation=None)
    return expression


def _time_to_group_by(node: N.Aggregate, facts: _Facts | None) -> str | None:
    """Return a time line of the input that bounds every group if the groups are made by it, too."""
    for time in (f for f in node.input.schema if f.timeline is not None):
        hour = Call("date_trunc", (Literal("HOUR", STRING), Column.to(time)))
        tried = timing_of(replace(node, keys=(*node.keys, (f"{time.name} hour", hour))), facts)
        if not tried.blocked:
            return time.qualified
    return None


# State that grows


@dataclass(frozen=True)
class GrowingState:
    """A part of the state of a node that is kept for ever, and a condition that would bound it."""

    node: N.Node
    part: str
    condition: str | None


def growing_states(checked: EventTiming, facts: _Facts | None = None) -> list[GrowingState]:
    """Return the state of an event query that is never dropped: it is allowed, and reported."""
    found = []
    plan = checked.timing.node
    for each in checked.timing.walk():
        for part, unbounded in each.growing.items():
            if unbounded:
                found.append(GrowingState(each.node, part, _bounding(plan, each, part, unbounded[0], facts)))
    return found


def _bounding(
    plan: N.Node, timing: Timing, part: str, unbounded: Unbounded, facts: _Facts | None
) -> str | None:
    for alternative in unbounded.requirement.alternatives:
        for position in unbounded.columns:
            earlier, later = unbounded.case.columns[position], alternative.attribute
            if earlier is None or earlier is later:
                continue
            tried = timing_of(plan, facts, Trial(timing.node, later.name, earlier.name, HOUR))
            waits = [each.wait(part) for each in tried.walk() if each.node is timing.node]
            if all(wait.clock is not None for wait in waits):
                return f"{later} <= {earlier} + {interval_sql(HOUR)}"
    return None


# Branches of OR


def _without_branch(
    plan: N.Node, lines: Sequence[str], every: Sequence[Unbounded], facts: _Facts | None
) -> EventQueryError | None:
    """Return the refusal of a query in which only one branch of an OR bounds nothing."""
    for unbounded in every:
        for branch in reversed(unbounded.case.branches):
            tried = timing_of(_drop_branch(plan, branch), facts)
            blocked = any(each.blocked for each in tried.walk())
            if blocked or any(output_clock(tried, line) is None for line in lines):
                continue
            origin = unbounded.requirement.origins[0]
            words = expression_sql(_as_written(branch, origin))
            return EventQueryError(
                f"where only `{words}` holds, nothing bounds {origin.rows}",
                next_step="say it in both branches, or outside of the OR",
            ).about("branch", words)
    return None


def _as_written(branch: Expression, origin: Origin) -> Expression:
    """Return a condition with the alias that the user gave to the relation of a subquery."""
    if isinstance(branch, Column):
        inner = branch.relation is not None and branch.relation.startswith("_q")
        return replace(branch, relation=origin.alias) if inner else branch
    changed = {f.name: _each_as_written(getattr(branch, f.name), origin) for f in fields(branch) if f.init}
    return type(branch)(**changed)


def _each_as_written(value: object, origin: Origin) -> object:
    if isinstance(value, Expression):
        return _as_written(value, origin)
    return tuple(_each_as_written(v, origin) for v in value) if isinstance(value, tuple) else value


def _drop_branch(plan: N.Node, branch: Expression) -> N.Node:
    """Return the plan without a branch of its ORs."""
    below = [_drop_branch(each, branch) for each in plan.inputs]
    plan = N.with_inputs(plan, below) if below != list(plan.inputs) else plan
    condition = getattr(plan, "condition", None)
    if not isinstance(condition, Expression):
        return plan
    return replace(plan, condition=_remove(condition, branch))  # type: ignore[call-arg]


def _remove(condition: Expression, branch: Expression) -> Expression:
    if isinstance(condition, Or):
        for one, other in ((condition.left, condition.right), (condition.right, condition.left)):
            if one == branch:
                return other
    changed = {f.name: _each_removed(getattr(condition, f.name), branch) for f in fields(condition) if f.init}
    return type(condition)(**changed)


def _each_removed(value: object, branch: Expression) -> object:
    if isinstance(value, Expression):
        return _remove(value, branch)
    return tuple(_each_removed(v, branch) for v in value) if isinstance(value, tuple) else value
