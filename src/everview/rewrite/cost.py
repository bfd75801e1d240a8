"""The cost model: how many rows flow between operators, and what a plan costs, in rows a second.

A `Flow` describes the rows between two operators by the quantities of paper 2, 5.4.1: λ is its `rate`, N is
`holds`, d are its `values`. The formulas are those of the paper with the work of this engine: a row is
emitted, a pair of rows is probed, a row is written to the state, and rewritten when runs are merged.
`plan/estimates.py` applies them to physical operators; the rules that choose by cost ask it for the flow of
an input (`Costs`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from everview.algebra import nodes as N


@dataclass(frozen=True)
class Flow:
    """The rows between two operators.

    `rate` is the number of change rows in a second, `events` that of their begins and known ends; `holds` is
    the number of rows that hold at an instant, `kept` that of rows that have not ended, which includes those
    that begin later. `values` is how many different values each column can have. Begins and ends lie on a
    grid of `grain` seconds; 0: anywhere. With `extends`, a row begins where an earlier one of its record
    ends.
    """

    rate: float
    events: float
    holds: float
    kept: float
    values: tuple[float, ...] = ()
    grain: float = 0.0
    extends: bool = False

    @property
    def closed(self) -> float:
        """The number of rows in a second whose end is known when they are emitted."""
        return max(self.events - self.rate, 0.0)

    @property
    def open(self) -> float:
        """The number of rows in a second whose end is not known, retractions among them."""
        return self.rate - min(self.closed, self.rate)

    @property
    def lasts(self) -> float:
        """How many seconds a row holds, by Little's law."""
        return self.holds / self.rate if self.rate else math.inf

    def thin(self, share: float) -> Flow:
        """Return a share of the rows."""
        return replace(
            self,
            rate=share * self.rate,
            events=share * self.events,
            holds=share * self.holds,
            kept=share * self.kept,
        )

    def count_met(self, other: Flow) -> float:
        """Return how many rows of another flow a new row meets: those that hold when it begins.

        One that extends an earlier one meets only those that have come since that one.
        """
        return min(other.rate * self.lasts, other.holds) if self.extends else other.holds

    def distinct(self, columns: Iterable[int] | None = None) -> float:
        """Return how many different values some columns together can have, or all of them."""
        chosen = self.values if columns is None else [self.values[i] for i in columns]
        return math.prod(chosen)


@dataclass(frozen=True)
class Work:
    """What an operator does in a second: rows emitted, pairs probed, rows written and rewritten."""

    emitted: float = 0.0
    probed: float = 0.0
    written: float = 0.0
    rewritten: float = 0.0

    @property
    def total(self) -> float:
        return self.emitted + self.probed + self.written + self.rewritten

    def __add__(self, other: Work) -> Work:
        return Work(
            self.emitted + other.emitted,
            self.probed + other.probed,
            self.written + other.written,
            self.rewritten + other.rewritten,
        )


def count_occurring(values: float, rows: float) -> float:
    """Return how many of the possible values occur in some rows that are drawn at random.

    >>> round(count_occurring(100, 10)), round(count_occurring(100, 1000)), count_occurring(math.inf, 7)
    (10, 100, 7)
    """
    if math.isinf(values) or rows <= 0:
        return max(rows, 0.0)
    return -values * math.expm1(-rows / values) if values > 0 else 0.0


def join_flow(left: Flow, right: Flow, share: float, step: float = 0.0) -> Flow:
    """Return the pairs of two flows that overlap in time, of which a share matches (paper 2: λ1·N2 + λ2·N1).

    Rows without a known end also meet half of the other rows of their step, to which they are corrections.

    >>> one, other = (Flow(r, 2 * r, 60 * r, 60 * r) for r in (10, 5))
    >>> pairs = join_flow(one, other, 1 / 100)
    >>> pairs.rate, pairs.holds
    (60.0, 1800.0)
    """
    rate = share * sum(
        one.rate * one.count_met(other) for one, other in ((left, right), (right, left)) if one.rate
    )
    rate += share * step / 2 * (left.open * right.rate + right.open * left.rate)
    holds = share * left.holds * right.holds
    going = sum(side.rate / side.kept for side in (left, right) if side.kept > 0)
    ends = max((side.events / side.rate for side in (left, right) if side.rate > 0), default=1.0)
    return Flow(
        rate,
        rate * ends,
        holds,
        rate / going if going else holds,
        left.values + right.values,
        max(left.grain, right.grain),
    )


def join_work(left: Flow, right: Flow, pairs: Flow) -> Work:
    """Return what a join does: it writes both inputs, and probes and emits the pairs."""
    written = left.rate + right.rate
    return Work(pairs.rate, pairs.rate, written, rewritten_rows(written, left.kept + right.kept))


def rewritten_rows(written: float, kept: float) -> float:
    """Return how many rows a second are written again by merges: once for each tier of sizes.

    Four runs of a tier are merged; runs of fewer than 10,000 rows are one tier (`storage/compaction.py`).

    >>> rewritten_rows(100, 5_000), rewritten_rows(100, 40_000)
    (100.0, 200.0)
    """
    return written * (1 + max(math.log(kept / 1e4, 4), 0.0) if kept > 0 else 0.0)


@dataclass(frozen=True)
class CostedPlan:
    """A way to compute a part of a query, and what it costs, in rows a second."""

    text: str
    cost: float


@dataclass(frozen=True)
class Choice:
    """A choice by cost: what was chosen, and the best of what was rejected; `shown`: without COST, too."""

    what: str
    chosen: CostedPlan
    rejected: tuple[CostedPlan, ...] = ()
    shown: bool = False


FlowOf = Callable[[N.Node], Flow]

_MOST_REJECTED = 5


def assume_alike(node: N.Node) -> Flow:
    """Return one flow for all nodes: a row a second for a minute, a hundred values in each column."""
    return Flow(1.0, 2.0, 60.0, 60.0, (100.0,) * len(node.schema))


@dataclass(frozen=True)
class Costs:
    """What a rule that chooses by cost asks for flows, and where it records its choices.

    `choices` has the last choice of each subject: rules are applied until none changes the plan.
    """

    flow_of: FlowOf = assume_alike
    choices: dict[object, Choice] = field(default_factory=dict)

    def record(self, what: str, subject: object, costs: Mapping[str, float], chosen: str) -> None:
        """Record what was chosen for a subject, by the costs of all that was compared."""
        others = sorted((cost, text) for text, cost in costs.items() if text != chosen)
        rejected = tuple(CostedPlan(text, cost) for cost, text in others[:_MOST_REJECTED])
        self.choices[what, subject] = Choice(what, CostedPlan(chosen, costs[chosen]), rejected)
