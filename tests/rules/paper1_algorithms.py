"""Algorithms 4 to 11 of paper 1 (section 4.3.2) in plain Python, and its windows on logical streams.

A physical stream is a list of elements in the order ≤t. An operator with two inputs gets its arrivals as
(input, element), in any interleaving of two ordered streams. All inputs are finite: what is left in the
state when they end is emitted ("drained"), as the paper says for each algorithm.

`printed=True` runs the algorithm as it stands in our copy of the paper, where that is wrong; otherwise the
line is corrected. Our copy is a text made from the printed pages: a lost hat (t̂ as t) or a lost indentation
may be the copy's fault, not the authors'. The words around the algorithms always ask for the correction.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import NamedTuple

from everview.algebra.changes import ChangeRow, Logical, Record
from everview.algebra.time import INFINITY, Chronon


class Element(NamedTuple):
    """(e, [start, end)). Unlike an Interval it may be empty, as the printed algorithms make some."""

    e: Record
    start: Chronon
    end: Chronon


Arrival = tuple[int, Element]
Predicate = Callable[[Element, Element], bool]


def by_time(s: Element) -> tuple[Chronon, Chronon]:
    """The order ≤t: by start, then by end (definition 2.2)."""
    return s.start, s.end


def as_rows(stream: Iterable[Element]) -> list[ChangeRow]:
    return [ChangeRow(e, start, end) for e, start, end in stream]


def as_arrivals(left: Iterable[Element], right: Iterable[Element]) -> list[Arrival]:
    """The left stream first, then the right one."""
    return [(1, s) for s in left] + [(2, s) for s in right]


# Intervals (4.3.2)


def overlaps(s: Element, x: Element) -> bool:
    return s.start < x.end and s.end > x.start


def intersect(s: Element, x: Element) -> tuple[Chronon, Chronon]:
    return max(s.start, x.start), min(s.end, x.end)


def inverse_intersect(s: Element, x: Element) -> list[tuple[Chronon, Chronon]]:
    """intersect⁻¹, by its formula: nothing where the two do not overlap."""
    if not overlaps(s, x) or (x.start <= s.start and x.end >= s.end):
        return []
    if x.start <= s.start:
        return [(x.end, s.end)]
    if s.end <= x.end:
        return [(s.start, x.start)]
    return [(s.start, x.start), (x.end, s.end)]


# The state of an operator (4.3.1)


def value_equivalent(s: Element, x: Element) -> bool:
    """p_query of duplicate elimination and difference."""
    return s.e == x.e and overlaps(s, x)


def expired(s: Element, x: Element) -> bool:
    """p_remove of most operators: x ends before s begins."""
    return s.start >= x.end


class SweepArea:
    """The elements that may still matter, linked by ≤t."""

    def __init__(self, query: Predicate = value_equivalent, remove: Predicate = expired) -> None:
        self.p_query = query
        self.p_remove = remove
        self.elements: list[Element] = []

    def insert(self, s: Element) -> None:
        insort(self.elements, s, key=by_time)

    def remove(self, s: Element) -> None:
        if s in self.elements:
            self.elements.remove(s)

    def query(self, s: Element) -> list[Element]:
        return [x for x in self.elements if self.p_query(s, x)]

    def reorganize(self, s: Element, out: list[Element] | None = None) -> None:
        """Removes from the front as long as p_remove holds; what goes is appended to `out`, if given."""
        while self.elements and self.p_remove(s, self.elements[0]):
            gone = self.elements.pop(0)
            if out is not None:
                out.append(gone)


class Progress:
    """t_S1, t_S2 and min_tS: how far both inputs have come; None while one has not begun."""

    def __init__(self) -> None:
        self.last: dict[int, Chronon] = {}

    def advance(self, j: int, s: Element) -> Chronon | None:
        self.last[j] = s.start
        return min(self.last.values()) if len(self.last) == 2 else None


# Algorithms 4 to 11


def window(stream: Sequence[Element], w: int, sliding: bool, printed: bool = False) -> list[Element]:
    """Algorithm 4. Printed: line 12 stands inside the while loop."""
    out = []
    for e, start, _ in stream:
        if sliding:
            out.append(Element(e, start, start + w))
            continue
        end = w
        while start >= end:
            end += w
            if printed:
                out.append(Element(e, start, end))
        if not printed:
            out.append(Element(e, start, end))
    return out


def join(
    arrivals: Sequence[Arrival], theta: Callable[[Record, Record], bool], printed: bool = False
) -> list[Element]:
    """Algorithm 5. Printed: line 10 concatenates e ∘ ê also when e comes from the right input."""
    out: list[Element] = []
    progress = Progress()

    def sides(j: int, s: Element, x: Element) -> tuple[Record, Record]:
        return (s.e, x.e) if j == 1 or printed else (x.e, s.e)

    areas = {
        k: SweepArea(lambda s, x, j=j: theta(*sides(j, s, x)) and overlaps(s, x)) for j, k in ((1, 2), (2, 1))
    }
    heap: list[Element] = []
    for j, s in arrivals:
        other = areas[j % 2 + 1]
        other.reorganize(s)
        areas[j].insert(s)
        for x in other.query(s):
            e1, e2 = sides(j, s, x)
            insort(heap, Element(e1 + e2, *intersect(s, x)), key=by_time)
        least = progress.advance(j, s)
        while least is not None and heap and heap[0].start < least:
            out.append(heap.pop(0))
    return out + heap


def eliminate_duplicates(stream: Sequence[Element]) -> list[Element]:
    """Algorithm 6, as printed."""
    out: list[Element] = []
    area = SweepArea()
    for s in stream:
        area.reorganize(s, out)
        qualifies = area.query(s)
        covered = max((x.end for x in qualifies), default=s.start)
        if covered < s.end:
            area.insert(Element(s.e, covered, s.end))
    return out + area.elements


def difference(arrivals: Sequence[Arrival], printed: bool = False) -> list[Element]:
    """Algorithm 7. Printed: line 18 removes from SA_k the part of the new element, which is not there."""
    out: list[Element] = []
    areas = {1: SweepArea(), 2: SweepArea()}
    progress = Progress()
    for j, s in arrivals:
        k = j % 2 + 1
        least = progress.advance(j, s)
        parts = [s]
        for x in areas[k].query(s):
            part = next((p for p in parts if overlaps(x, p)), None)
            if part is None:
                continue
            parts.remove(part)
            areas[k].remove(part if printed else x)
            for rest in inverse_intersect(part, x):
                if rest[1] <= x.start:
                    areas[j].insert(Element(part.e, *rest))
                else:
                    parts.append(Element(part.e, *rest))
            for rest in inverse_intersect(x, part):
                areas[k].insert(Element(x.e, *rest))
        for part in parts:
            areas[j].insert(part)
        if least is not None:
            areas[k].reorganize(Element(s.e, least, s.end), out if k == 1 else None)
    return out + areas[1].elements


def aggregate(
    stream: Sequence[Element],
    f: Callable[[Record | None, Record], Record],
    printed: bool = False,
    drained: bool = True,
) -> list[Element]:
    """Algorithm 8. Printed: line 10 inserts [t_S, t_S), and line 22 stands in the else branch only."""
    out: list[Element] = []
    area = SweepArea(query=overlaps)
    for s in stream:
        last = s.start
        for x in area.query(s):
            area.remove(x)
            both = f(x.e, s.e)
            if x.start < s.start:
                area.insert(Element(x.e, s.start if printed else x.start, s.start))
            elif last < x.start:
                area.insert(Element(f(None, s.e), last, x.start))
            area.insert(Element(both, *intersect(s, x)))
            if s.end < x.end:
                area.insert(Element(x.e, s.end, x.end))
            if not printed or x.start >= s.start:
                last = x.end
        if last < s.end:
            area.insert(Element(f(None, s.e), last, s.end))
        area.reorganize(s, out)
    return out + area.elements if drained else out


def union(arrivals: Sequence[Arrival]) -> list[Element]:
    """Algorithm 9, as printed."""
    out: list[Element] = []
    area = SweepArea(remove=lambda s, x: s.start > x.start)
    progress = Progress()
    for j, s in arrivals:
        least = progress.advance(j, s)
        if least is not None:
            area.reorganize(Element(s.e, least, s.end), out)
        area.insert(s)
    return out + area.elements


def coalesce(stream: Sequence[Element], limit: int, printed: bool = False) -> list[Element]:
    """Algorithm 10. Printed: line 9 inserts [t_S, t_E) and forgets the earlier start."""
    out: list[Element] = []
    area = SweepArea(
        query=lambda s, x: s.e == x.e and x.end == s.start,
        remove=lambda s, x: s.start > x.end or x.end - x.start > limit,
    )
    for s in stream:
        area.reorganize(s, out)
        qualifies = area.query(s)
        if not qualifies:
            area.insert(s)
            continue
        area.remove(qualifies[0])
        area.insert(Element(s.e, s.start if printed else qualifies[0].start, s.end))
    return out + area.elements


def split(stream: Sequence[Element], size: int, printed: bool = False) -> list[Element]:
    """Algorithm 11. Printed: p_remove is t_S ≥ t̂_S, which lets go of pieces one instant too early."""
    out: list[Element] = []
    area = SweepArea(remove=lambda s, x: s.start >= x.start if printed else s.start > x.start)
    for s in stream:
        start = s.start
        while start + size < s.end:
            area.insert(Element(s.e, start, start + size))
            start += size
        area.insert(Element(s.e, start, s.end))
        area.reorganize(s, out)
    return out + area.elements


# Windows on logical streams, for records that need not carry their timestamp


def sliding(stream: Logical, w: int) -> Logical:
    """ω^s, equation 9: what is there at t less what was there at t-w. n may come out 0, and is kept."""
    return {(e, t): n - stream.get((e, t - w), 0) for (e, t), n in stream.items()}


def fixed(stream: Logical, w: int) -> Logical:
    """ω^f, equation 10: what is there at t less what was there before t's section began."""
    return {(e, t): n - stream.get((e, t - t % w - 1), 0) for (e, t), n in stream.items()}


def nonzero(stream: Logical) -> Logical:
    """The stream as definition 3.1 has it: what occurs 0 times is not there."""
    return {key: n for key, n in stream.items() if n}


# Coalescing of sets (4.1)

Triple = tuple[Record, Chronon, Chronon, int]


def coalesce_set(triples: frozenset[Triple]) -> set[frozenset[Triple]]:
    """ζ, equation 16, as printed: a set of triples (e, [t_S, t_E), n), merged step by step with set union."""
    results: set[frozenset[Triple]] = set()
    for m, x in product(triples, triples):
        if m[0] == x[0] and m[2] == x[1]:
            fewer = {(*y[:3], y[3] - 1) for y in (m, x) if y[3] > 1}
            merged = (triples - {m, x}) | fewer | {(m[0], m[1], x[2], 1)}
            results |= coalesce_set(frozenset(merged))
    return results or {triples}


def raw(*elements: tuple[Record, Chronon]) -> list[Element]:
    """Raw elements (e, t): valid from t for ever (2.5)."""
    return sorted((Element(e, t, INFINITY) for e, t in elements), key=by_time)
