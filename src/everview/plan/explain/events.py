"""Event queries in EXPLAIN: bounds, state, the relations of times and their distances, growth (paper 3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from everview import operators as P
from everview.algebra import nodes as N
from everview.algebra.explain import describe_node
from everview.algebra.text import expression_sql, name_sql
from everview.algebra.time import timestamp_sql
from everview.plan.planned import PlannedNodes, own_operators
from everview.temporal.blocking import growing_states
from everview.temporal.cases import MOST_CASES, TimeCase
from everview.temporal.clocks import Clock, offset_text
from everview.temporal.distances import ZERO, Attribute
from everview.temporal.event_query import StreamFacts, Timing
from everview.temporal.output_bounds import EventTiming

_WORDS = {"left": "left input", "right": "right input"}


@dataclass(frozen=True)
class ExplainedEvents:
    """The timing of an event stream, the facts that its analysis used, and how its parts run.

    `lower` returns the plan of a part of the query, `istream` how the nodes below an ISTREAM run.
    """

    timing: EventTiming
    facts: Mapping[str, StreamFacts]
    lower: Callable[[Timing], P.Operator] = field(compare=False, repr=False)
    istream: Callable[[N.Node], PlannedNodes] = field(compare=False, repr=False)

    def own_operators(self, timing: Timing) -> list[P.StatefulOperator]:
        """Return the operators with state that a node becomes, without those that its inputs become."""
        if not timing.inputs:
            return []
        return own_operators(self.lower(timing), map(self.lower, timing.inputs))

    @property
    def bounds(self) -> str:
        """Return the bounds of its time lines in words."""
        lines = self.timing.clocks.items()
        return "; ".join(f"bound of {name_sql(line)}: {clock}" for line, clock in lines)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the relations of its times and their distances, case by case."""
        if self.timing.is_empty:
            return ("its conditions can never hold at once: the stream is always empty",)
        cases = _joined_cases(self.timing.timing)
        found: list[str] = []
        if _has_hull(self.timing.timing):
            found.append(f"more than {MOST_CASES} cases: one weaker case stands for all of them")
        for number, case in enumerate(cases, 1):
            if len(cases) > 1:
                branches = " and ".join(f"`{expression_sql(branch)}`" for branch in case.branches)
                found.append(f"case {number} of {len(cases)}" + (f": {branches}" if branches else ""))
            found += _case_lines(case)
        return tuple(found)

    @property
    def growth(self) -> tuple[str, ...]:
        """Return a sentence for each state that is kept for ever."""
        found = []
        for state in growing_states(self.timing, self.facts):
            what = f"its {_WORDS[state.part]}" if state.part in _WORDS else state.part
            hint = "" if state.condition is None else f", bound it: {state.condition}"
            found.append(f"grows without bound: {describe_node(state.node)} keeps {what} for ever{hint}")
        return tuple(dict.fromkeys(found))


def clock_data(clock: Clock | None) -> list[list[dict[str, object]]] | None:
    """Return a clock for programs: the least over the outer list of the greatest over the inner ones."""
    if clock is None:
        return None
    return [
        [
            {"stream": m.line.stream or None, "line": m.line.column, "minus": m.minus, "reaches": m.reaches}
            for m in part
        ]
        for part in clock.parts
    ]


def _joined_cases(timing: Timing) -> tuple[TimeCase, ...]:
    """Return the cases of the rows where the inputs meet: at the topmost join, or at the only input."""
    while len(timing.inputs) == 1 and not timing.pairs:
        timing = timing.inputs[0]
    return timing.pairs or timing.cases


def _has_hull(timing: Timing) -> bool:
    """Return whether too many cases were replaced by a weaker one."""
    return any(case.hulled for each in timing.walk() for case in (*each.cases, *each.pairs))


def _case_lines(case: TimeCase) -> list[str]:
    times = [a for a in case.distances.rows if a is not ZERO]
    relations = [text for n, time in enumerate(times) for text in _relations(case, times[:n], time)]
    found = [f"times: {'; '.join(relations)}"] if relations else []
    return found + (_distance_table(case, times) if relations and len(times) > 1 else [])


def _relations(case: TimeCase, before: Sequence[Attribute], time: Attribute) -> list[str]:
    """Return what the atoms say of a time and those before it; what follows from others is left out."""
    dist = case.distances.dist
    others = [ZERO, *before]
    below = [(a, dist(time, a)) for a in others if _own(case, time, a, others)]
    above = [(a, dist(a, time)) for a in others if _own(case, a, time, others)]
    lower = [_shifted(a, -d) for a, d in below if d is not None]
    upper = [_shifted(a, d) for a, d in above if d is not None]
    found = []
    for number in range(max(len(lower), len(upper))):
        left = f"{lower[number]} ≤ " if number < len(lower) else ""
        right = f" ≤ {upper[number]}" if number < len(upper) else ""
        same = left and right and lower[number] == upper[number]
        found.append(f"{time} = {lower[number]}" if same else f"{left}{time}{right}")
    return found


def _shifted(time: Attribute, by: int) -> str:
    return timestamp_sql(by) if time is ZERO else f"{time}{offset_text(by)}"


def _own(case: TimeCase, w: Attribute, v: Attribute, among: Sequence[Attribute]) -> bool:
    """Return whether a distance does not follow from those through another time."""
    direct = case.distances.dist(w, v)
    for between in among:
        if between is w or between is v:
            continue
        first, second = case.distances.dist(w, between), case.distances.dist(between, v)
        if first is not None and second is not None and direct is not None and first + second <= direct:
            return False
    return True


def _distance_table(case: TimeCase, times: Sequence[Attribute]) -> list[str]:
    rows = [["distances", *(f"to {time}" for time in times)]]
    for w in times:
        rows.append([f"from {w}", *(_distance(case.distances.dist(w, v)) for v in times)])
    widths = [max(len(row[i]) for row in rows) for i in range(len(times) + 1)]
    return [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]


def _distance(dist: int | None) -> str:
    if dist is None:
        return "∞"
    return offset_text(dist).removeprefix(" + ").strip() or "0"
