"""Views over event streams: they are known up to the lesser of the store's bound and the streams' bounds.

Such a view is evaluated by a clock of its own, its domain's. Its plan contains the plans of its event
streams: their rows wait until the clock has passed them, and then count as rows of any other stream do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from everview import operators as P
from everview.operators.base import InputRows
from everview.plan.views import replace_parts
from everview.temporal.clocks import STORE_BOUND, Clock, Moment, StreamLine


def clock_of_domain(lines: Iterable[StreamLine]) -> Clock:
    """Return the clock of views that read event streams with these first time lines."""
    return Clock.earliest([(Moment(STORE_BOUND),), *((Moment(line),) for line in lines)])


def in_domain(plan: P.Operator, events: Mapping[str, P.EventOutputOperator], clock: Clock) -> P.Operator:
    """Return the plan of a view over event streams: it goes by the clock of its domain.

    `events` has the plans of the event streams, by name.
    """

    def replace_part(part: P.Operator) -> P.Operator | None:
        match part:
            case P.EventOutputOperator():
                return part  # it goes by clocks of its own
            case P.ScanOperator(relation=name, source="rows") if name in events:
                event = events[name]
                rows = InputRows("rows", until="until the bound has passed them")
                wait = P.EventWait(event.first_line, clock)
                return P.HoldOperator(event, wait=wait, begins=True, rows=(rows,))
            case P.HoldOperator(begins=True):
                return replace(part, wait=P.EventWait(part.wait.column, clock))
            case P.DomainScanOperator() | P.DomainConstantOperator():
                return replace(part, clock=clock)
            case P.ScanOperator(relation, of, source, since):
                return P.DomainScanOperator(relation, of, source, since, clock=clock)
            case P.ConstantOperator(records, of):
                return P.DomainConstantOperator(records, of, clock=clock)
        return None

    return replace_parts(plan, replace_part)


def in_plan_of_events(plan: P.Operator, events: Mapping[str, P.EventOutputOperator]) -> P.Operator:
    """Return the plan of an event query with the plans of the event streams that it reads."""

    def replace_part(part: P.Operator) -> P.Operator | None:
        match part:
            case P.ScanOperator(relation=name, source=P.ARRIVALS) if name in events:
                return events[name]
        return None

    return replace_parts(plan, replace_part)
