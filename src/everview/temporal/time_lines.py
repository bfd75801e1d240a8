"""Why a column cannot be a time line of an event stream, and what could (paper 3, definition 22)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from everview.algebra import nodes as N
from everview.algebra.expressions import (
    Arithmetic,
    Call,
    Cast,
    Column,
    Comparison,
    Expression,
    TryCast,
    conjuncts,
)
from everview.algebra.text import expression_sql, name_sql
from everview.algebra.time import DAY, HOUR, interval_sql
from everview.algebra.types import INTERVAL, TIMESTAMP
from everview.temporal.cases import TimeCase
from everview.temporal.clocks import Clock, Origin
from everview.temporal.distances import Attribute
from everview.temporal.event_query import EventQueryError, Timing
from everview.temporal.formulas import Atom
from everview.temporal.output_bounds import output_clock
from everview.temporal.terms import Extreme, Shifted, define_term
from everview.temporal.waits import Unbounded, clock_of

_Cases = Sequence[TimeCase]


def refused_line(timing: Timing, line: str) -> tuple[EventQueryError, tuple[Unbounded, ...]]:
    """Return why a column does not bound every input, and the inputs that nothing bounds."""
    node = timing.node
    position = node.schema.index(node.schema.find(line))
    for case in timing.cases:
        if position in case.nulls:
            return _padded_line_error(timing, case, line), ()
    unbounded = tuple(
        Unbounded(requirement, case, (position,))
        for case in timing.cases
        for requirement in case.requirements
        if _clock([replace(case, requirements=(requirement,))], lambda c: c.columns[position]) is None
    )
    for case in timing.cases:
        time = case.columns[position]
        if time is None or not case.is_present(time):
            return _unrelated_line_error(timing, case, line, position), ()
        if not any(case.distances.dist(time, a) is not None or case.distances.dist(a, time) is not None
                   for a in case.distances.rows if a is not time):  # fmt: skip
            alone = all(case.requirements == (u.requirement,) for u in unbounded if u.case is case)
            if alone and len(case.requirements) == 1 and not _is_line(case, time):
                return _unrelated_line_error(timing, case, line, position), ()
    return _unbounded_line_error(timing, line, unbounded), unbounded


def _clock(cases: _Cases, pick: Callable[[TimeCase], Attribute | None]) -> Clock | None:
    """Return the clock of any time in the cases, whether it is selected or not."""
    found = []
    for case in cases:
        time = pick(case)
        if time is None or not case.is_present(time):
            return None
        found.append((replace(case, columns=(time,)), case.requirements))
    return clock_of(0, found)


def _named(name: str) -> Callable[[TimeCase], Attribute | None]:
    return lambda case: next((a for a in case.distances.rows if a.name == name), None)


def _is_line(case: TimeCase, time: Attribute) -> bool:
    return any(a.attribute is time for r in case.requirements for a in r.alternatives)


def short_name(name: str, plan: N.Node) -> str:
    """Return the name of a column as it can be written: without the relation if the query has but one.

    >>> from everview.algebra.schema import Schema
    >>> s = N.Stream("s", Schema.of(("ts", TIMESTAMP), timeline="ts"))
    >>> short_name("s.ts", s), short_name("s.ts", N.Join(s, N.Alias(s, "r")))
    ('ts', 's.ts')
    """
    streams = [node for node in plan.walk() if isinstance(node, (N.Stream, N.View, N.Table))]
    return name.rpartition(".")[2] if len(streams) == 1 else name


# The reasons


def _padded_line_error(timing: Timing, case: TimeCase, line: str) -> EventQueryError:
    """Return the error for a time line that is NULL, as of a side of an outer join that may be padded."""
    outer = any(isinstance(n, N.OuterJoin) or (isinstance(n, N.TableJoin) and n.outer)
                for n in timing.node.walk())  # fmt: skip
    if not outer:
        return EventQueryError(
            f"the time line '{line}' may be NULL", next_step="; or ".join(_other_lines(timing, line)) or None
        ).about("timeline", line)
    kept, missing = _padded_sides(timing, case, line)
    who = "a row without a match" if missing is None else f"{_a(kept.stream)} without {_a(missing.stream)}"
    ways = _unpadded_ways(timing, case, line, kept)
    return EventQueryError(f"the time line '{line}' is NULL for {who}", next_step=ways).about(
        "timeline", line
    )


def _padded_sides(timing: Timing, case: TimeCase, line: str) -> tuple[Origin, Origin | None]:
    """Return the stream whose rows are kept, and the one that may be missing, if the query tells them."""
    origins = [r.origins[0] for r in case.requirements if r.origins and not r.origins[0].is_table]
    expression = _defining(timing.node, line)
    read = [] if expression is None else [column.relation for column in expression.columns()]
    missing = next((o for o in origins if o.alias in read), None)
    kept = next((o for o in origins if o.stream != (missing or o).stream), None)
    return (origins[0], None) if kept is None or missing is None else (kept, missing)


def _unpadded_ways(timing: Timing, padded: TimeCase, line: str, kept: Origin) -> str | None:
    """Return what helps where a time line is padded: a time of the side that is kept, or no outer join."""
    ways, seen = [], _visible(timing)
    lines = [a.attribute.name for r in padded.requirements if kept in r.origins for a in r.alternatives]
    if any(_clock(timing.cases, _named(name)) is not None for name in lines if name in seen):
        ways.append(f"TIMELINE of a column of {name_sql(kept.stream)}")
    position = timing.node.schema.index(timing.node.schema.find(line))
    matched = [case for case in timing.cases if position not in case.nulls]
    if matched and _clock(matched, lambda case: case.columns[position]) is not None:
        ways.append("JOIN")
    return "; or ".join(ways) or None


def _a(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeiou' else 'a'} {noun}"


def _unrelated_line_error(timing: Timing, case: TimeCase, line: str, position: int) -> EventQueryError:
    """Return the error for a column that is no time line and that no condition relates to one, in a case."""
    cases = (case, *(other for other in timing.cases if other is not case))
    lines = [a.attribute for c in cases for r in c.requirements for a in r.alternatives]
    seen = _visible(timing)
    ways = [
        _time_line(short_name(time, timing.node))
        for time in dict.fromkeys(a.name for a in lines)
        if time in seen and _clock(timing.cases, _named(time)) is not None
    ][:1]
    computed = _computed(timing.node, line)
    if computed is not None:
        what = f"nothing is known of the times that {computed} yields"
        return EventQueryError(what, next_step="; or ".join(ways) or None).about("timeline", line)
    if (inserted := _inserted_later(timing, line)) is not None:
        return EventQueryError(
            f"a row may be inserted any time after its {line}",
            next_step="; or ".join([*ways, "ISTREAM of the stream's window"]),
        ).about("relation", inserted)
    stream = next((r.origins[0].stream for c in cases for r in c.requirements if r.origins), "")
    time = next((a.name for a in lines), None)
    related = "" if time is None else f"nothing says how it relates to {short_name(time, timing.node)}"
    own = case.columns[position]
    null = "" if own is not None and case.is_present(own) else "it may be NULL, and "
    if time is not None and own is not None:
        ways += _between(timing, own.name, time) if {own.name, time} <= seen else []
    return EventQueryError(
        f"'{line}' is a timestamp and no time line of '{stream}': {null}{related}",
        next_step="; or ".join(ways) or None,
    ).about("timeline", line)


def _inserted_later(timing: Timing, line: str) -> str | None:
    """Return ISTREAM, or the view that is one, if a time line is that of a relation whose rows come later."""
    for node in (each.node for each in timing.walk()):
        stream = node.definition if isinstance(node, N.View) else node
        if isinstance(stream, N.IStream) and stream.stamped:
            lines = [f.name for f in stream.input.schema if f.timeline is not None]
            if line in lines:
                return node.name if isinstance(node, N.View) else "ISTREAM"
    return None


def _time_line(name: str) -> str:
    return f"TIMELINE of {name}" if "." in name else f"TIMELINE {name}"


def _visible(timing: Timing) -> set[str]:
    """Return the columns that a condition of the query can name: those of the rows where its inputs meet."""
    while len(timing.inputs) == 1 and not isinstance(timing.node, N.TableJoin):
        timing = timing.inputs[0]
    return {f.qualified for f in timing.node.schema} | {
        f.qualified for below in timing.node.inputs for f in below.schema
    }


def _computed(plan: N.Node, line: str) -> str | None:
    """Return in words what computes a column, if it is not a column of an input."""
    expression = _defining(plan, line)
    match expression:
        case None | Column():
            return None
        case Cast() | TryCast():
            return "a CAST"
        case Call(name):
            return f"{name}(…)"
    return "this expression"


def _defining(plan: N.Node, line: str) -> Expression | None:
    """Return the expression of a column in the SELECT of the query."""
    while isinstance(plan, (N.Distinct, N.Filter, N.Alias)):
        plan = plan.input
    return dict(plan.columns)[line] if isinstance(plan, N.Project) else None


def _between(timing: Timing, own: str, time: str) -> list[str]:
    """Return the condition that a time lies in the 30 days after a time line, if it helps."""
    tried = []
    for case in timing.cases:
        column, line = _named(own)(case), _named(time)(case)
        if column is None or line is None:
            return []
        for later in case.restrict(Atom(line, column, 0)):
            tried += later.restrict(Atom(column, line, 30 * DAY))
    if _clock(tried, _named(own)) is None:
        return []
    column_name, line_name = (short_name(name, timing.node) for name in (own, time))
    return [f"WHERE {column_name} BETWEEN {line_name} AND {line_name} + {interval_sql(30 * DAY)}"]


def _unbounded_line_error(timing: Timing, line: str, unbounded: Sequence[Unbounded]) -> EventQueryError:
    """Return the error for a known time line, with an input whose rows may come any time later."""
    first = unbounded[0]
    origin = first.requirement.origins[0]
    later = next((a.attribute for a in first.requirement.alternatives), None)
    variable = None if later is None else variable_distance(timing.node, later.name)
    if variable is not None:
        ends = [f"{end} beside it" for end in _upper_ends(timing, line, first, later, DAY)]
        return EventQueryError(
            f"the distance from {variable} is no constant, so nothing bounds {later}",
            next_step="; or ".join(ends + _other_lines(timing, line)) or None,
        ).about("relation", origin.alias)
    ways = _upper_ends(timing, line, first, later) + _other_lines(timing, line)
    ways = ways or _greatest(timing)
    what = "" if later is None else f": for a given {line}, {later} can be any time later"
    return EventQueryError(
        f"'{line}' bounds no {origin.rows}{what}", next_step="; or ".join(ways) or None
    ).about("relation", origin.alias)


def variable_distance(plan: N.Node, later: str) -> str | None:
    """Return the time from which a condition bounds another one by a length that is no constant.

    >>> from everview.algebra.schema import Schema
    >>> s = N.Stream("s", Schema.of(("ts", TIMESTAMP), ("d", INTERVAL), ("e", TIMESTAMP), timeline="ts"))
    >>> until = Arithmetic("+", s.column("ts"), s.column("d"))
    >>> variable_distance(N.Filter(s, Comparison("<=", s.column("e"), until)), "s.e")
    's.ts'
    """
    for node in plan.walk():
        condition = getattr(node, "condition", None)
        for part in conjuncts(condition) if isinstance(condition, Expression) else []:
            if not isinstance(part, Comparison) or part.operator in ("<>", "<=>"):
                continue
            sides = part.left, part.right
            bounded, end = reversed(sides) if part.operator.startswith(">") else sides
            if _is_time(bounded, later) and isinstance(end, Arithmetic) and end.type == TIMESTAMP:
                turned = end.right.type != INTERVAL
                time, length = (end.right, end.left) if turned else (end.left, end.right)
                if length.columns():
                    return expression_sql(time)
    return None


def _is_time(expression: Expression, name: str) -> bool:
    """Return whether an expression is the time of this name; in a subquery the binder names the relation."""
    if not isinstance(expression, Column) or expression.relation is None:
        return False
    if expression.relation.startswith("_q"):
        return expression.name == name.rpartition(".")[2]
    return f"{expression.relation}.{expression.name}" == name


def _upper_ends(
    timing: Timing, line: str, first: Unbounded, later: Attribute | None, apart: int = HOUR
) -> list[str]:
    """Return an upper end for the time, after a time that is a lower end of it, if it helps."""
    seen = _visible(timing)
    if later is None or later.name not in seen:
        return []
    dist = first.case.distances.dist
    lower = [a for a in first.case.distances.rows if a is not later and dist(later, a) is not None]
    own = first.case.columns[first.columns[0]]
    for earlier in [*lower, *([own] if own is not None and own not in lower else [])]:
        tried = []
        for case in timing.cases:
            ends = _named(later.name)(case), _named(earlier.name)(case)
            both = ends[0] is not None and ends[1] is not None
            tried += case.restrict(Atom(ends[0], ends[1], apart)) if both else [case]  # type: ignore[arg-type]
        position = first.columns[0]
        if earlier.name in seen and _clock(tried, lambda c, p=position: c.columns[p]) is not None:  # type: ignore[misc]
            return [f"AND {later} <= {earlier} + {interval_sql(apart)}"]
    return []


def _other_lines(timing: Timing, line: str) -> list[str]:
    names = [f.name for f in timing.node.schema if f.type == TIMESTAMP and f.name != line]
    return [f"TIMELINE {name_sql(n)}" for n in names if output_clock(timing, n) is not None][:1]


def _greatest(timing: Timing) -> list[str]:
    """Return GREATEST of the first time lines of all inputs, if it helps."""
    firsts = [
        r.alternatives[0].attribute.name for c in timing.cases for r in c.requirements if r.alternatives
    ]
    names = list(dict.fromkeys(firsts))
    known = Attribute("known")
    tried = []
    for case in timing.cases:
        times = [_named(name)(case) for name in names]
        sure = [Shifted(a) for a in times if a is not None and case.is_present(a)]
        if len(sure) < len(names) or len(names) < 2 or not set(names) <= _visible(timing):
            return []
        tried += define_term(case, known, Extreme(True, tuple(sure)))
    if _clock(tried, lambda case: known) is None:
        return []
    return [f"SELECT GREATEST({', '.join(names)}) AS known, and TIMELINE known"]
