"""MIN and MAX of a time in an event query: the time of one of the rows of the group (finding 7 of paper 3).

It bounds no group, since rows may still come that change it. But whatever all rows of a group say of the time
and the keys, it satisfies too; so it may be a time line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from everview.algebra.aggregates import AggregateCall
from everview.algebra.expressions import Expression
from everview.algebra.types import TIMESTAMP
from everview.temporal.cases import TimeCase
from everview.temporal.distances import ZERO, Attribute, Distances

_ZERO_KEY = -1


@dataclass
class ExtremeTime:
    """The greatest distances between a time and each key, to it and from it, in all rows; None: infinite.

    `sure` says that the time is never NULL.
    """

    to: dict[int, int | None] = field(default_factory=dict)
    back: dict[int, int | None] = field(default_factory=dict)
    sure: bool = True

    def include(self, case: TimeCase, time: Attribute | None, keys: int) -> None:
        """Extend it by the rows of a case."""
        if time is None or not case.is_present(time):
            self.sure = False
            return
        for number in (_ZERO_KEY, *range(keys)):
            key = _key(case, number)
            for known, pair in ((self.to, (key, time)), (self.back, (time, key))):
                dist = None if key is None else case.distances.dist(*pair)
                before = known.get(number, dist)
                known[number] = None if dist is None or before is None else max(dist, before)

    def added_to(self, case: TimeCase, name: str) -> TimeCase:
        """Return the case of a group with this time as one more column."""
        if not self.sure:
            return replace(case, columns=(*case.columns, None))
        time = Attribute(name)
        distances = Distances({**case.distances.rows, time: {}})
        for number in self.to:
            key, to, back = _key(case, number), self.to[number], self.back[number]
            if key is not None and to is not None:
                distances = distances.restrict(time, key, to) or distances
            if key is not None and back is not None:
                distances = distances.restrict(key, time, back) or distances
        columns = (*case.columns, time)
        return replace(case, distances=distances, columns=columns, present=case.present | {time})


def _key(case: TimeCase, number: int) -> Attribute | None:
    return ZERO if number == _ZERO_KEY else case.columns[number]


def extreme_argument(call: AggregateCall) -> Expression | None:
    """Return the argument of MIN or MAX of a time, if the result is the time of one of the rows."""
    plain = call.function in ("min", "max") and call.where is None and call.type == TIMESTAMP
    return call.argument if plain else None


def extreme_times(rows: Sequence[TimeCase], keys: int, count: int) -> list[ExtremeTime]:
    """Return what all rows say of the times that stand behind their keys."""
    found = [ExtremeTime() for _ in range(count)]
    for case in rows:
        for number, extreme in enumerate(found):
            extreme.include(case, case.columns[keys + number], keys)
    return found
