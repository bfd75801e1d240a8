"""Cases: what is known of the times in the rows of an operator (paper 3, definition 2, as a disjunction)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from everview.algebra.expressions import Expression
from everview.temporal.clocks import Alternative, Requirement
from everview.temporal.distances import ZERO, Attribute, Distances
from everview.temporal.formulas import AllOf, AnyOf, Atom, Formula, Given

MOST_CASES = 64


@dataclass(frozen=True)
class TimeCase:
    """One disjunct of a temporal relation formula: a closed conjunction of atoms.

    `columns` has the attribute of each column of the row, None for other columns; `nulls` are the positions
    of columns that are NULL in this case (padded), `present` attributes that are never NULL. `requirements`
    say what must be known so that no row of this case is missing. `branches` are the sides of OR that the
    case comes from. `hulled` says that it stands for several cases, and is weaker than they are.
    """

    distances: Distances
    columns: tuple[Attribute | None, ...]
    nulls: frozenset[int] = frozenset()
    present: frozenset[Attribute] = frozenset()
    requirements: tuple[Requirement, ...] = ()
    branches: tuple[Expression, ...] = ()
    hulled: bool = False

    def is_present(self, attribute: Attribute) -> bool:
        """Return whether a time is never NULL here.

        A comparison is true only of times that are not NULL, and a time that is computed from another one is
        NULL with it. So a time at a known distance from one that is never NULL is never NULL either.
        """
        dist = self.distances.dist
        return attribute in self.present or any(
            dist(attribute, other) is not None or dist(other, attribute) is not None
            for other in (ZERO, *self.present)
        )

    def restrict(self, formula: Formula) -> list[TimeCase]:
        """Return the cases in which the formula also holds; none, if it never does."""
        match formula:
            case AllOf(parts):
                found = [self]
                for part in parts:  # cases that others cover go at each step, before they multiply
                    narrower = [each for case in found for each in case.restrict(part)]
                    found = simplify_cases(narrower) if len(found) > 1 else narrower
                return found
            case AnyOf(parts, branches):
                every: list[TimeCase] = []
                for number, part in enumerate(parts):
                    branch = branches[number : number + 1]
                    every += [replace(case, branches=case.branches + branch) for case in self.restrict(part)]
                return simplify_cases(every)
            case Given(attribute):
                return [replace(self, present=self.present | {attribute})]
        distances = self.distances.restrict(formula.later, formula.earlier, formula.apart)
        if distances is None:
            return []
        present = self.present | {a for a in (formula.later, formula.earlier) if a is not ZERO}
        return [replace(self, distances=distances, present=present)]

    def beside(self, other: TimeCase) -> TimeCase:
        """Return the case of a row of this one beside a row of another one."""
        size = len(self.columns)
        return TimeCase(
            self.distances.beside(other.distances),
            self.columns + other.columns,
            self.nulls | {size + position for position in other.nulls},
            self.present | other.present,
            self.requirements + other.requirements,
            self.branches + other.branches,
            self.hulled or other.hulled,
        )

    def requiring(self, requirements: tuple[Requirement, ...]) -> TimeCase:
        """Return the case with other requirements, without attributes that nothing needs any more."""
        return replace(self, requirements=requirements).trimmed()

    def trimmed(self) -> TimeCase:
        """Return the case without attributes that are neither columns nor required."""
        needed = {a for a in self.columns if a is not None}
        needed |= {alternative.attribute for r in self.requirements for alternative in r.alternatives}
        if needed.issuperset(a for a in self.distances.rows if a is not ZERO):
            return self
        present = frozenset(a for a in needed if self.is_present(a))
        return replace(self, distances=self.distances.only(needed), present=present)

    def rename(self, names: Mapping[Attribute, Attribute]) -> TimeCase:
        """Return the case with other attributes."""
        return replace(
            self,
            distances=self.distances.rename(names),
            columns=tuple(None if a is None else names.get(a, a) for a in self.columns),
            present=frozenset(names.get(a, a) for a in self.present),
            requirements=tuple(
                replace(
                    r,
                    alternatives=tuple(
                        Alternative(names.get(a.attribute, a.attribute), a.clock, a.plus)
                        for a in r.alternatives
                    ),
                )
                for r in self.requirements
            ),
        )

    def _with_column(self, position: int, attribute: Attribute, equal: bool) -> TimeCase:
        """Return the case with a new attribute for a column, which equals the one before or is not known."""
        before = self.columns[position]
        columns = (*self.columns[:position], attribute, *self.columns[position + 1 :])
        case = replace(self, columns=columns, distances=self.distances.beside(Distances.of(attribute)))
        if not equal or before is None:
            return case
        (same,) = case.restrict(Atom(attribute, before, 0))
        (same,) = same.restrict(Atom(before, attribute, 0))
        return replace(same, present=self.present | ({attribute} if self.is_present(before) else set()))

    def _alike(self) -> tuple[object, ...]:
        return self.columns, self.nulls, self.requirements

    def _is_covered(self, by: TimeCase) -> bool:
        return (
            self._alike() == by._alike()
            and by.present <= self.present
            and self.distances.implies(by.distances)
        )


def simplify_cases(cases: Sequence[TimeCase]) -> list[TimeCase]:
    """Drop the cases that another one covers; of too many, replace some by weaker ones."""
    kept: list[TimeCase] = []
    for case in cases:
        if any(case._is_covered(other) for other in kept):
            continue
        kept = [other for other in kept if not other._is_covered(case)]
        kept.append(case)
    return kept if len(kept) <= MOST_CASES else fewer_cases(kept)


def fewer_cases(cases: Sequence[TimeCase]) -> list[TimeCase]:
    """Replace cases by fewer weaker ones: by their hulls; if these are still many, apart by requirement.

    Outer joins and unions multiply: each has cases of other columns and requirements, which have no hull.
    """
    hulls = hull_cases(cases)
    return hulls if len(hulls) <= MOST_CASES else hull_cases(_apart(hulls))


def _apart(cases: Sequence[TimeCase]) -> list[TimeCase]:
    """Return the cases of each single requirement, with nothing known of columns that only some cases pad.

    A clock is the least over all cases and all their requirements, so a case with several requirements means
    the same as several cases with one each. Each keeps the times of its own requirement only: then those of
    different outer joins, or sides of unions, are not combined with each other any more.
    """
    always = cases[0].nulls.intersection(*(case.nulls for case in cases))
    common = {
        position: Attribute(str(next(filter(None, times))))
        for position, times in enumerate(zip(*(case.columns for case in cases), strict=True))
        if len(set(times)) > 1
    }
    unknown = {position for position in common if any(case.columns[position] is None for case in cases)}
    found = []
    for case in cases:
        for position, attribute in common.items():
            case = case._with_column(position, attribute, position not in unknown)
        weaker = replace(case, nulls=always, branches=(), hulled=True)
        found += [weaker.requiring((requirement,)) for requirement in case.requirements]
        found += [] if case.requirements else [weaker.trimmed()]
    return found


def hull_cases(cases: Iterable[TimeCase]) -> list[TimeCase]:
    """Replace the cases of equal shape by the least case that covers them."""
    found: dict[tuple[object, ...], TimeCase] = {}
    for case in cases:
        known = found.get(case._alike())
        if known is None:
            found[case._alike()] = replace(case, branches=())
        else:  # weaker than the disjunction, and so never wrong
            found[case._alike()] = replace(
                known,
                distances=known.distances.hull(case.distances),
                present=frozenset(
                    a for a in known.distances.rows if known.is_present(a) and case.is_present(a)
                ),
                hulled=True,
            )
    return list(found.values())
