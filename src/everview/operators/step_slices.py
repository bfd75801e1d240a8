"""The slices of a step: (old, new] of the store's bound, and of every clock that operators go by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from everview.operators.base import Operator, StatefulOperator
from everview.operators.columnar.frame import BEFORE_ALL, Slice
from everview.operators.constant import DomainConstantOperator
from everview.operators.event_hold import HoldOperator
from everview.operators.event_operator import EventOperator
from everview.operators.event_output import EventOutputOperator
from everview.operators.scan import DomainScanOperator
from everview.temporal.clocks import ENDED, NOT_BEGUN, Clock, LineBounds


@dataclass(frozen=True)
class StepSlices:
    """The slice of the store in a step, and the bounds of all time lines before and after the step.

    `ended` says that no more rows will come: then rows that are kept for ever are dropped, too.

    >>> from everview.temporal.clocks import STORE_BOUND, StreamLine
    >>> line = StreamLine("s", "ts")
    >>> slices = StepSlices(Slice(3, 9), {line: 3}, {line: 7})
    >>> slices.of_clock(Clock.line(line))
    Slice(b0=3, b1=7, first=False, start=-9223372036854775807, present=9223372036854775806)
    """

    store: Slice
    old: LineBounds = field(default_factory=dict)
    new: LineBounds = field(default_factory=dict)
    ended: bool = False

    def of_clock(self, clock: Clock) -> Slice:
        """Return the slice of a clock."""
        b0, b1 = clock.value(self.old), clock.value(self.new)
        return replace(self.store, b0=b0, b1=b1, first=b0 == BEFORE_ALL < b1)

    def of_operator(self, operator: Operator) -> Slice:
        """Return the slice that an operator evaluates."""
        clock = operator.clock if isinstance(operator, EventOperator) else domain_clock(operator)
        return self.store if clock is None else self.of_clock(clock)

    def dropped(self, operator: StatefulOperator) -> Mapping[str, tuple[int, int]] | None:
        """Return up to where rows of each part of a state were dropped, and are now; None: by the slice."""
        if not isinstance(operator, EventOperator):
            return None
        return {part: self._dropped(wait.clock) for part, wait in operator.waits.items()}

    def _dropped(self, clock: Clock | None) -> tuple[int, int]:
        if clock is None:
            return NOT_BEGUN, ENDED if self.ended else NOT_BEGUN
        return clock.value(self.old), clock.value(self.new)


@lru_cache(maxsize=10_000)  # plans share their parts
def domain_clock(operator: Operator) -> Clock | None:
    """Return the clock that a part of a view goes by; None: by the store's bound.

    All that a view over event streams reads comes by one clock: its scans, and the event streams.
    """
    match operator:
        case DomainScanOperator(clock=clock) | DomainConstantOperator(clock=clock):
            return clock
        case HoldOperator(wait=wait, begins=True):
            return wait.clock
        case EventOperator() | EventOutputOperator():
            return None
    return next((c for below in operator.inputs if (c := domain_clock(below)) is not None), None)
