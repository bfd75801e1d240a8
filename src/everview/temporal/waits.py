"""Which column the rows of an operator wait by, and for what (paper 3, definitions 22 and 24)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everview.temporal.cases import TimeCase
from everview.temporal.clocks import Clock, Moment, Requirement, Wait
from everview.temporal.distances import ZERO, Attribute

Requirements = tuple[Requirement, ...]


@dataclass(frozen=True)
class Unbounded:
    """An input whose rows may come at any time after a row that waits for them, and the case in which."""

    requirement: Requirement
    case: TimeCase
    columns: tuple[int, ...]


def choose_wait(
    part: str,
    offset: int,
    rows: Sequence[TimeCase],
    needed: Sequence[tuple[TimeCase, Requirements]],
) -> tuple[Wait, tuple[Unbounded, ...]]:
    """Return the wait of rows for what is needed: by the column whose clock is least behind (definition 24).

    The column must be there in every row. If no column reaches all that is needed, the rows wait for ever;
    then also return what is not reached. `offset` is the position of the first column in `needed`.
    """
    width = len(rows[0].columns) if rows else 0
    columns = [
        position
        for position in range(width)
        if all((a := case.columns[position]) is not None and case.is_present(a) for case in rows)
    ]
    names = [str(rows[0].columns[position]) for position in columns]
    best: tuple[Clock, int, str] | None = None
    for position, name in zip(columns, names, strict=True):
        clock = clock_of(offset + position, needed)
        if clock is not None and (best is None or clock.lag < best[0].lag):
            best = clock, position, name
    if best is not None:
        return Wait(part, best[1], best[2], best[0]), ()
    if all(not required for _, required in needed):
        return Wait(part, None, "", Clock()), ()
    tried = columns or range(width)  # if no column is there in every row, those of the row itself
    found = tuple(
        Unbounded(requirement, case, tuple(offset + position for position in columns))
        for case, required in needed
        for requirement in required
        if not any(_reach(case, _present(case, offset + p), requirement) for p in tried)
    )
    every = (Unbounded(r, c, tuple(offset + p for p in columns)) for c, required in needed for r in required)
    return Wait(part, None, "", None), found or tuple(every)


def _present(case: TimeCase, position: int) -> Attribute | None:
    """Return the time in a column, if it is there in every row of the case."""
    time = case.columns[position]
    return time if time is not None and case.is_present(time) else None


def clock_of(position: int, needed: Sequence[tuple[TimeCase, Requirements]]) -> Clock | None:
    """Return the stream bound function of a column (definition 24); None if something is not reached."""
    parts: list[Sequence[Moment]] = []
    for case, requirements in needed:
        for requirement in requirements:
            reached = _reach(case, case.columns[position], requirement)
            if not reached:
                return None
            parts += reached
    return Clock.earliest(parts)


def look_back_of(position: int | None, needed: Sequence[tuple[TimeCase, Requirements]]) -> int | None:
    """Return how far before the time in a column rows of the inputs can matter; None: any time before it.

    That is the distance the other way round: p ≤ v + dist(v, p), so no v before p − dist(v, p) matters.
    """
    longest = 0
    for case, requirements in needed:
        time = None if position is None else case.columns[position]
        for requirement in requirements:
            first = next((a.attribute for a in requirement.alternatives), None)
            apart = None if first is None or time is None else case.distances.dist(first, time)
            if apart is None or requirement.back is None:
                return None
            longest = max(longest, apart + requirement.back)
    return longest


def _reach(case: TimeCase, time: Attribute | None, requirement: Requirement) -> list[Sequence[Moment]]:
    """Return the clock of one requirement, as parts; none if the time does not bound it."""
    single: list[Moment] = []
    for alternative in requirement.alternatives:
        apart = None if time is None else case.distances.dist(time, alternative.attribute)
        constant = case.distances.dist(ZERO, alternative.attribute)
        shifted = None if apart is None else alternative.clock.less(apart + alternative.plus)
        fixed = None if constant is None else alternative.clock.reaching(constant + alternative.plus)
        if len(alternative.clock.parts) > 1:  # of a node that has waited: its only alternative
            chosen = shifted or fixed
            return [] if chosen is None else list(chosen.parts)
        single += [m for clock in (shifted, fixed) if clock is not None for part in clock.parts for m in part]
    return [single] if single else []
