"""Regions: kernels that can run one after the other where their rows already are.

All kernels of a region are routed by the same values: for each of them columns of its key. What lies between
them only carries columns. So rows that must meet are in one partition all along, and no exchange is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from everview import operators as P

_InputEdge = tuple[P.Operator, int]  # an input of a node: who reads, and which of its inputs
_ColumnPlace = tuple[
    P.Operator | _InputEdge, int
]  # a column of what a node yields, or of what comes in at an edge
Route = tuple[int, ...]


@dataclass(frozen=True)
class Region:
    """Some kernels with what is between them.

    `routes` has for each kernel the numbers of its keys that decide the partition, in the order in which they
    are hashed. `ports` has for each input from outside the columns that do: none at all leads to the first
    partition, None anywhere; where all partitions need all rows, it does not count.
    """

    kernels: frozenset[P.StatefulOperator]
    routes: Mapping[P.StatefulOperator, Route]
    ports: Mapping[_InputEdge, Route | None]


def region(kernels: Iterable[P.StatefulOperator], fixed: Mapping[P.StatefulOperator, Route]) -> Region | None:
    """The kernels as one region, if they can be one; `fixed` are routes that must stay as they are."""
    return _Candidate(frozenset(kernels), fixed).region


def alone(kernel: P.StatefulOperator, fixed: Mapping[P.StatefulOperator, Route]) -> Region:
    """A kernel as a region of its own, routed by its whole key."""
    pairs = kernel.keys
    route = fixed.get(kernel, tuple(range(len(pairs))))
    ports: dict[_InputEdge, Route | None] = {
        (kernel, i): None if kernel.is_broadcast(i) else tuple(pairs[n][i] for n in route)
        for i in range(len(kernel.inputs))
    }
    return Region(frozenset([kernel]), {kernel: route}, ports)


@dataclass(frozen=True)
class _Slot:
    """A value by which rows are routed: its column at each port, and the keys of each kernel that it is."""

    ports: Mapping[_InputEdge, frozenset[int]]
    numbers: Mapping[P.StatefulOperator, Sequence[int]]


class _Candidate:
    """Kernels that may be a region: what is inside, what comes in, and where equal values are."""

    def __init__(
        self, kernels: frozenset[P.StatefulOperator], fixed: Mapping[P.StatefulOperator, Route]
    ) -> None:
        self.kernels = kernels
        self.fixed = {k: fixed[k] for k in kernels if k in fixed}
        self.inside: list[P.Operator] = []  # each after its inputs
        self.ports: list[_InputEdge] = []
        for kernel in sorted(kernels, key=lambda k: k.digest):
            self._enter(kernel)

    def _enter(self, node: P.Operator) -> None:
        if node in self.inside:
            return
        for number, below in enumerate(node.inputs):
            if reaches(below, self.kernels):
                self._enter(below)
            else:
                self.ports.append((node, number))
        self.inside.append(node)

    @cached_property
    def region(self) -> Region | None:
        if any(n.is_broadcast(i) and (n, i) not in self._port_set for n, i in self._edges()):
            return None
        slots = self._slots(self._inner_kernels)
        if slots is None:
            return None
        routes = {k: self.fixed.get(k, tuple(min(s.numbers[k]) for s in slots)) for k in self.kernels}
        ports: dict[_InputEdge, Route | None] = {}
        for edge in self.ports:
            columns = [s.ports[edge] for s in slots]
            known = all(columns) and not edge[0].is_broadcast(edge[1])
            ports[edge] = tuple(min(c) for c in columns) if known else None
        return Region(self.kernels, routes, ports)

    @cached_property
    def _inner_kernels(self) -> list[P.StatefulOperator]:
        return [k for k in self.inside if isinstance(k, P.StatefulOperator) and k in self.kernels]

    def _edges(self) -> Iterator[_InputEdge]:
        return ((n, i) for n in self.inside for i in range(len(n.inputs)))

    def _slots(self, kernels: Sequence[P.StatefulOperator]) -> list[_Slot] | None:
        """The values that decide the partition; None if there are none that all kernels have as a key."""
        if any(not k.keys for k in kernels):
            return [] if all(not k.keys for k in kernels) else None
        first = next((k for k in kernels if k in self.fixed), kernels[0])
        wanted = self.fixed.get(first, range(len(first.keys)))
        classes = dict.fromkeys(self._class_of(first, number) for number in wanted)
        found = [self._followed(place, kernels) for place in classes]
        slots = [slot for slot in found if slot is not None]
        if not self.fixed:
            return slots or None
        stay = all(
            len(route) == len(slots) and all(n in s.numbers[k] for n, s in zip(route, slots, strict=True))
            for k, route in self.fixed.items()
        )
        return slots if stay else None

    def _class_of(self, kernel: P.StatefulOperator, number: int) -> _ColumnPlace:
        return self._find((self._input(kernel, 0), kernel.keys[number][0]))

    def _followed(self, place: _ColumnPlace, kernels: Sequence[P.StatefulOperator]) -> _Slot | None:
        """What lies where, if rows are routed by a value; None if a kernel does not have it in its key.

        Equal values are found by following columns in both directions; whether rows really lie by them is
        seen by following the rows from the ports upwards.
        """
        ports = {edge: frozenset(self._columns_in(edge, place)[:1]) for edge in self.ports}
        placed: dict[P.Operator | _InputEdge, frozenset[int]] = {
            edge: frozenset() if edge[0].is_broadcast(edge[1]) else columns for edge, columns in ports.items()
        }
        numbers: dict[P.StatefulOperator, list[int]] = {}
        for node in self.inside:
            below = [placed[self._input(node, i)] for i in range(len(node.inputs))]
            if isinstance(node, P.StatefulOperator) and node in kernels:
                numbers[node] = [
                    number
                    for number, columns in enumerate(node.keys)
                    if all(c in below[i] for i, c in enumerate(columns))
                ]
                if not numbers[node]:
                    return None
            placed[node] = _carried_over(node, below)
        return _Slot(ports, numbers)

    def _columns_in(self, where: P.Operator | _InputEdge, slot: _ColumnPlace) -> list[int]:
        size = len(where[0].inputs[where[1]].types) if isinstance(where, tuple) else len(where.types)
        return [c for c in range(size) if self._find((where, c)) == slot]

    def _input(self, node: P.Operator, number: int) -> P.Operator | _InputEdge:
        return (node, number) if (node, number) in self._port_set else node.inputs[number]

    @cached_property
    def _port_set(self) -> set[_InputEdge]:
        return set(self.ports)

    @cached_property
    def _parents(self) -> dict[_ColumnPlace, _ColumnPlace]:
        """Columns that have the same value for the same row: a forest whose roots stand for all."""
        parents: dict[_ColumnPlace, _ColumnPlace] = {}
        for a, b in self._equal():
            x, y = _top(parents, a), _top(parents, b)
            if x != y:
                parents[y] = x
        return parents

    def _equal(self) -> Iterator[tuple[_ColumnPlace, _ColumnPlace]]:
        for node in self.inside:
            for i, columns in enumerate(node.input_columns):
                for out, column in enumerate(columns):
                    if column is not None:
                        yield (node, out), (self._input(node, i), column)
            if isinstance(node, P.StatefulOperator) and node in self.kernels:
                for pair in node.keys:
                    for i, column in enumerate(pair):
                        yield (self._input(node, 0), pair[0]), (self._input(node, i), column)

    def _find(self, place: _ColumnPlace) -> _ColumnPlace:
        return _top(self._parents, place)


def _top(parents: Mapping[_ColumnPlace, _ColumnPlace], place: _ColumnPlace) -> _ColumnPlace:
    while place in parents:
        place = parents[place]
    return place


def _carried_over(node: P.Operator, below: Sequence[frozenset[int]]) -> frozenset[int]:
    """The columns of a node's output that decide where a row lies, from those of its inputs."""
    placed = [
        [None if column is None else column in here for column in columns]
        for columns, here in zip(node.input_columns, below, strict=True)
    ]
    # A column that comes from several inputs, as in a union, must decide the place in all of them.
    return frozenset(
        out for out, known in enumerate(zip(*placed, strict=True)) if {*known} - {None} == {True}
    )


def reaches(node: P.Operator, kernels: frozenset[P.StatefulOperator]) -> bool:
    """Whether a node is one of the kernels, or only carries columns of what they yield."""
    return node in kernels or (node.is_light and any(reaches(i, kernels) for i in node.inputs))


def feeders(kernel: P.StatefulOperator) -> list[tuple[P.StatefulOperator, bool]]:
    """The kernels whose rows a kernel reads, nearest first, and whether Catalyst works on them on the way."""
    found: dict[tuple[P.StatefulOperator, bool], None] = {}
    seen: set[tuple[P.Operator, bool]] = set()

    def walk(node: P.Operator, through_catalyst: bool) -> None:
        if (node, through_catalyst) in seen:
            return
        seen.add((node, through_catalyst))
        if isinstance(node, P.StatefulOperator):
            found[node, through_catalyst] = None
            return
        for below in node.inputs:
            walk(below, through_catalyst or not node.is_light)

    for below in kernel.inputs:
        walk(below, False)
    return list(found)


def depths(
    groups: Mapping[P.StatefulOperator, frozenset[P.StatefulOperator]],
    feeding: Mapping[P.StatefulOperator, Sequence[tuple[P.StatefulOperator, bool]]],
) -> dict[P.StatefulOperator, int] | None:
    """How many groups lie on the longest way to each kernel, its own included; None if there is a circle.

    A kernel that reads another one of its own group through Catalyst is a circle, too.
    """
    found: dict[frozenset[P.StatefulOperator], int | None] = {}

    def depth(group: frozenset[P.StatefulOperator]) -> int | None:
        if group in found:
            return found[group]  # None while it is being looked at: a circle
        found[group] = None
        longest = 0
        for kernel in group:
            for below, through_catalyst in feeding[kernel]:
                if groups[below] == group and not through_catalyst:
                    continue
                length = None if groups[below] == group else depth(groups[below])
                if length is None:
                    return None
                longest = max(longest, length)
        found[group] = longest + 1
        return found[group]

    lengths = {kernel: depth(group) for kernel, group in groups.items()}
    known = {kernel: length for kernel, length in lengths.items() if length is not None}
    return known if len(known) == len(lengths) else None
