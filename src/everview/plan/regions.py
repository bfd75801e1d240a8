"""Regions: kernels that can run one after the other without an exchange.

All kernels of a region are routed by the same values, which are columns of the key of each. The operators
between them only move columns. So rows with equal keys stay in one partition, and no exchange is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from everview import operators as P

_InputEdge = tuple[P.Operator, int]  # an input of a node: the node, and the number of the input
_ColumnRef = tuple[
    P.Operator | _InputEdge, int
]  # a column of a node's output, or of the rows of an input edge
Route = tuple[int, ...]


@dataclass(frozen=True)
class Region:
    """Some kernels, with the operators between them.

    `routes` has for each kernel the numbers of its keys that decide the partition, in the order in which they
    are hashed. `ports` has for each input from outside the columns that decide it: an empty route leads to
    the first partition, None to any. The route of a broadcast input is not used.
    """

    kernels: frozenset[P.StatefulOperator]
    routes: Mapping[P.StatefulOperator, Route]
    ports: Mapping[_InputEdge, Route | None]


def find_region(
    kernels: Iterable[P.StatefulOperator], fixed: Mapping[P.StatefulOperator, Route]
) -> Region | None:
    """Return the kernels as one region, or None; `fixed` has the routes that must not change."""
    return _Candidate(frozenset(kernels), fixed).region


def single_region(kernel: P.StatefulOperator, fixed: Mapping[P.StatefulOperator, Route]) -> Region:
    """Return the region of a single kernel, routed by its whole key."""
    pairs = kernel.keys
    route = fixed.get(kernel, tuple(range(len(pairs))))
    ports: dict[_InputEdge, Route | None] = {
        (kernel, i): None if kernel.is_broadcast(i) else tuple(pairs[n][i] for n in route)
        for i in range(len(kernel.inputs))
    }
    return Region(frozenset([kernel]), {kernel: route}, ports)


@dataclass(frozen=True)
class _RouteValue:
    """A value that routes rows: its column at each port, and the numbers of its keys in each kernel."""

    ports: Mapping[_InputEdge, frozenset[int]]
    numbers: Mapping[P.StatefulOperator, Sequence[int]]


class _Candidate:
    """Kernels that may form a region: the nodes inside, the ports, and the columns with equal values."""

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
            if is_inside(below, self.kernels):
                self._enter(below)
            else:
                self.ports.append((node, number))
        self.inside.append(node)

    @cached_property
    def region(self) -> Region | None:
        if any(n.is_broadcast(i) and (n, i) not in self._port_set for n, i in self._edges()):
            return None
        values = self._route_values(self._inner_kernels)
        if values is None:
            return None
        routes = {k: self.fixed.get(k, tuple(min(v.numbers[k]) for v in values)) for k in self.kernels}
        ports: dict[_InputEdge, Route | None] = {}
        for edge in self.ports:
            columns = [v.ports[edge] for v in values]
            known = all(columns) and not edge[0].is_broadcast(edge[1])
            ports[edge] = tuple(min(c) for c in columns) if known else None
        return Region(self.kernels, routes, ports)

    @cached_property
    def _inner_kernels(self) -> list[P.StatefulOperator]:
        return [k for k in self.inside if isinstance(k, P.StatefulOperator) and k in self.kernels]

    def _edges(self) -> Iterator[_InputEdge]:
        return ((n, i) for n in self.inside for i in range(len(n.inputs)))

    def _route_values(self, kernels: Sequence[P.StatefulOperator]) -> list[_RouteValue] | None:
        """Return the values that decide the partition; None if no value is a key of all kernels."""
        if any(not k.keys for k in kernels):
            return [] if all(not k.keys for k in kernels) else None
        first = next((k for k in kernels if k in self.fixed), kernels[0])
        wanted = self.fixed.get(first, range(len(first.keys)))
        classes = dict.fromkeys(self._class_of(first, number) for number in wanted)
        found = [self._follow(column, kernels) for column in classes]
        values = [value for value in found if value is not None]
        if not self.fixed:
            return values or None
        unchanged = all(
            len(route) == len(values) and all(n in v.numbers[k] for n, v in zip(route, values, strict=True))
            for k, route in self.fixed.items()
        )
        return values if unchanged else None

    def _class_of(self, kernel: P.StatefulOperator, number: int) -> _ColumnRef:
        return self._find((self._input(kernel, 0), kernel.keys[number][0]))

    def _follow(self, column: _ColumnRef, kernels: Sequence[P.StatefulOperator]) -> _RouteValue | None:
        """Return the value of a column as a route value; None if it is not in the key of every kernel.

        Equal values are found by following columns in both directions. Whether rows are really partitioned
        by them is found by following the rows from the ports upwards.
        """
        ports = {edge: frozenset(self._columns_in(edge, column)[:1]) for edge in self.ports}
        routed: dict[P.Operator | _InputEdge, frozenset[int]] = {
            edge: frozenset() if edge[0].is_broadcast(edge[1]) else columns for edge, columns in ports.items()
        }
        numbers: dict[P.StatefulOperator, list[int]] = {}
        for node in self.inside:
            below = [routed[self._input(node, i)] for i in range(len(node.inputs))]
            if isinstance(node, P.StatefulOperator) and node in kernels:
                numbers[node] = [
                    number
                    for number, columns in enumerate(node.keys)
                    if all(c in below[i] for i, c in enumerate(columns))
                ]
                if not numbers[node]:
                    return None
            routed[node] = _routed_columns(node, below)
        return _RouteValue(ports, numbers)

    def _columns_in(self, where: P.Operator | _InputEdge, column: _ColumnRef) -> list[int]:
        size = len(where[0].inputs[where[1]].types) if isinstance(where, tuple) else len(where.types)
        return [c for c in range(size) if self._find((where, c)) == column]

    def _input(self, node: P.Operator, number: int) -> P.Operator | _InputEdge:
        return (node, number) if (node, number) in self._port_set else node.inputs[number]

    @cached_property
    def _port_set(self) -> set[_InputEdge]:
        return set(self.ports)

    @cached_property
    def _parents(self) -> dict[_ColumnRef, _ColumnRef]:
        """The columns with equal values in each row, as a forest: equal columns have the same root."""
        parents: dict[_ColumnRef, _ColumnRef] = {}
        for a, b in self._equal_columns():
            x, y = _find_root(parents, a), _find_root(parents, b)
            if x != y:
                parents[y] = x
        return parents

    def _equal_columns(self) -> Iterator[tuple[_ColumnRef, _ColumnRef]]:
        for node in self.inside:
            for i, columns in enumerate(node.input_columns):
                for out, column in enumerate(columns):
                    if column is not None:
                        yield (node, out), (self._input(node, i), column)
            if isinstance(node, P.StatefulOperator) and node in self.kernels:
                for pair in node.keys:
                    for i, column in enumerate(pair):
                        yield (self._input(node, 0), pair[0]), (self._input(node, i), column)

    def _find(self, column: _ColumnRef) -> _ColumnRef:
        return _find_root(self._parents, column)


def _find_root(parents: Mapping[_ColumnRef, _ColumnRef], column: _ColumnRef) -> _ColumnRef:
    while column in parents:
        column = parents[column]
    return column


def _routed_columns(node: P.Operator, below: Sequence[frozenset[int]]) -> frozenset[int]:
    """Return the output columns that decide the partition of a row, given those of the inputs."""
    routed = [
        [None if column is None else column in here for column in columns]
        for columns, here in zip(node.input_columns, below, strict=True)
    ]
    # A column that comes from several inputs, as in a union, must decide the partition in all of them.
    return frozenset(
        out for out, known in enumerate(zip(*routed, strict=True)) if {*known} - {None} == {True}
    )


def is_inside(node: P.Operator, kernels: frozenset[P.StatefulOperator]) -> bool:
    """Return whether a node is one of the kernels, or only moves columns of their output."""
    return node in kernels or (node.is_light and any(is_inside(i, kernels) for i in node.inputs))


def find_feeders(kernel: P.StatefulOperator) -> list[tuple[P.StatefulOperator, bool]]:
    """Return the kernels that a kernel reads, nearest first, and whether through Catalyst."""
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


def group_depths(
    groups: Mapping[P.StatefulOperator, frozenset[P.StatefulOperator]],
    feeding: Mapping[P.StatefulOperator, Sequence[tuple[P.StatefulOperator, bool]]],
) -> dict[P.StatefulOperator, int] | None:
    """Return the number of groups on the longest path to each kernel, with its own; None if there is a cycle.

    A kernel that reads another one of its own group through Catalyst is a cycle, too.
    """
    found: dict[frozenset[P.StatefulOperator], int | None] = {}

    def depth(group: frozenset[P.StatefulOperator]) -> int | None:
        if group in found:
            return found[group]  # None while it is being computed: a cycle
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
