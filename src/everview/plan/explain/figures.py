"""The figures of EXPLAIN COST: rows and state that are estimated, beside what a store has measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from everview.algebra import nodes as N
from everview.algebra.text import name_sql
from everview.operators import Operator, StatefulOperator
from everview.operators.base import Growth, stateful_operators
from everview.plan.estimates import Estimates, all_operators
from everview.plan.statistics import RelationStatistics, Statistics
from everview.plan.views import KeptPlan
from everview.rewrite.cost import Choice, CostedPlan


@dataclass(frozen=True)
class MeasuredSize:
    """Rows and bytes of files."""

    rows: int = 0
    bytes: int = 0

    def __add__(self, other: MeasuredSize) -> MeasuredSize:
        return MeasuredSize(self.rows + other.rows, self.bytes + other.bytes)


@dataclass(frozen=True)
class MeasuredStore:
    """What a store has measured: its statistics, and the state of operators by their names.

    `planned_by` has the kept plans of the views of the store, and the statistics by which they were made.
    """

    statistics: Statistics
    state: Mapping[str, MeasuredSize] = field(default_factory=dict)
    planned_by: Mapping[str, KeptPlan] = field(default_factory=dict)

    def size_of(self, operators: Sequence[StatefulOperator]) -> MeasuredSize | None:
        """Return the state of some operators; None if the store runs none of them."""
        found = [self.state[o.name.casefold()] for o in operators if o.name.casefold() in self.state]
        return sum(found, MeasuredSize()) if found else None


@dataclass(frozen=True)
class OperatorFigures:
    """What an operator is expected to emit and keep, and what it keeps as measured."""

    rate: float | None
    state_rows: float
    state_bytes: float
    measured: MeasuredSize | None = None

    def words(self) -> list[str]:
        """Return the figures for people."""
        said = [] if self.rate is None else [f"≈ {count_text(self.rate)} rows/s"]
        if self.state_rows:
            said.append(f"keeps ≈ {count_text(self.state_rows)} rows, {bytes_text(self.state_bytes)}")
        if self.measured is not None:
            rows, size = count_text(self.measured.rows), bytes_text(self.measured.bytes)
            said.append(f"measured {rows} rows, {size}")
        return said


@dataclass(frozen=True)
class Figures:
    """The estimates of plans, and what a store has measured, if it has run.

    With `everywhere`, figures stand at every operator; else there is a forecast where rates are declared.
    """

    estimates: Estimates
    everywhere: bool = False
    measured: MeasuredStore | None = None

    def of_operators(
        self, operator: Operator | None, own: Sequence[StatefulOperator]
    ) -> OperatorFigures | None:
        """Return the figures of a node that becomes an operator, with `own` operators that keep state."""
        if not self.everywhere:
            return None
        found = [self.estimates(each) for each in own]
        measured = None if self.measured is None else self.measured.size_of(own)
        return OperatorFigures(
            None if operator is None else self.estimates(operator).flow.rate,
            sum(each.state_rows for each in found),
            sum(each.state_bytes for each in found),
            measured,
        )

    def lines(self, node: N.Node, plan: Operator, choices: Sequence[Choice]) -> list[str]:
        """Return the forecast for a plan, and in EXPLAIN COST its cost and the choices that were made."""
        rates = self._rates(node)
        forecast = [self._forecast(plan, rates)] if rates else []
        if not self.everywhere:
            return [*forecast, *(f"{c.what}: {c.chosen.text}" for c in choices if c.shown)]
        done = {each: self.estimates(each) for each in all_operators(plan)}
        work = sum((e.work.total for e in done.values()), 0.0)
        parts = {
            word: sum(getattr(e.work, word) for e in done.values())
            for word in ("emitted", "probed", "written", "rewritten")
        }
        shown = ", ".join(f"{count_text(number)} {word}" for word, number in parts.items())
        cost = f"cost: ≈ {count_text(work)} rows/s ({shown})"
        return [*forecast, cost, *(line for choice in choices for line in _choice_lines(choice))]

    def _rates(self, node: N.Node) -> list[str]:
        """Return the rates of the streams that a plan reads; none if no figure is asked for or declared."""
        names = dict.fromkeys(n.name for n in node.walk() if isinstance(n, N.Stream))
        known = {n: self.estimates.statistics.relations.get(n.casefold()) for n in names}
        found = {n: r for n, r in known.items() if r is not None}
        if not self.everywhere and not any(r.declared for r in found.values()):
            return []
        return [_rate_text(name, of) for name, of in found.items()]

    def _forecast(self, plan: Operator, rates: Sequence[str]) -> str:
        kept = stateful_operators([plan])
        found = [self.estimates(each) for each in kept]
        rows, size = sum(e.state_rows for e in found), sum(e.state_bytes for e in found)
        grows = any(part.growth != Growth.NO for each in kept for part in each.state)
        after = f" after {_span_text(self.estimates.statistics.span)}" if grows else ""
        state = f"keeps about {count_text(rows)} rows, {bytes_text(size)}{after}" if rows else "keeps no rows"
        emits = count_text(self.estimates.flow(plan).rate)
        return f"forecast: at {', '.join(rates)} it {state}, and emits about {emits} rows/s"


def _rate_text(name: str, of: RelationStatistics) -> str:
    known = "" if of.known == "declared" else f" ({of.known})"
    return f"{count_text(of.rate)} rows/s of {name_sql(name)}{known}"


def _choice_lines(choice: Choice) -> list[str]:
    return [
        f"{choice.what}: {_costed_text(choice.chosen)}",
        *(f"  rejected: {_costed_text(other)}" for other in choice.rejected),
    ]


def _costed_text(plan: CostedPlan) -> str:
    return f"{plan.text}, ≈ {count_text(plan.cost)} rows/s"


def _span_text(seconds: float) -> str:
    return "a day" if seconds == 86_400 else f"{count_text(seconds)} s"


def count_text(number: float) -> str:
    """Return a number with two or three digits that count.

    >>> [count_text(n) for n in (0, 0.034, 7.25, 812.4, 6_000, 12_345, 2_100_000, 3.4e9)]
    ['0', '0.03', '7.2', '812', '6,000', '12,300', '2.1 M', '3,400 M']
    """
    if number >= 999_500:
        millions = number / 1e6
        return f"{millions:.1f} M" if millions < 100 else f"{_three_digits(millions):,} M"
    if number >= 100:
        return f"{_three_digits(number):,}"
    return f"{number:.1f}".removesuffix(".0") if number >= 0.1 or not number else f"{number:.1g}"


def _three_digits(number: float) -> int:
    return int(float(f"{number:.3g}"))


def bytes_text(number: float) -> str:
    """Return a number of bytes for people.

    >>> [bytes_text(n) for n in (0, 812, 42_000, 1.8e8, 5.2e9)]
    ['0 bytes', '812 bytes', '42 kB', '180 MB', '5.2 GB']
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= size:
            return f"{number / size:.3g} {unit}"
    return f"{number:.0f} bytes"
