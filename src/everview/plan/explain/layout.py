"""Place the boxes of a graph in layers, so that every edge leads from one layer to a later one.

The method is Sugiyama's: assign layers by the longest path, add a dummy item wherever an edge passes a layer,
order each layer to have few crossings, then place each item as near to its neighbours as the boxes allow.
Edges bend only between layers, so that none runs through a box. Positions have two axes, `flow` (from source
to result) and `cross`; the caller decides which of them is horizontal.

Libraries were tried instead: igraph (GPL) and grandalf swap the left and right inputs of joins, so that edges
cross; fast-sugiyama (0.5) places points, not boxes, and spreads a join of many inputs wider. Mermaid swaps
inputs too and cannot draw windows and time lines in its boxes. rustworkx has no layered layout, and Graphviz
needs the program `dot`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

Size = tuple[float, float]  # flow, cross
Point = tuple[float, float]
Inputs = Mapping[int, Sequence[int]]  # the inputs of each box

LAYER_GAP = 62.0  # the least gap between two layers
BOX_GAP = 22.0
_STEEP, _BEND, _MOST_BEND = 300.0, 0.08, 70.0  # an edge longer than this across widens the gap
_LANE = 10.0  # the width of an edge that passes a layer
_SWEEPS = 12

# The number of a box, or a dummy item: the producer of an edge and the layer that the edge passes.
_Item = int | tuple[int, int]


@dataclass(frozen=True)
class PictureLayout:
    """The corner of every box, the points of every edge, and the total size."""

    corners: dict[int, Point]
    routes: dict[tuple[int, int, int], list[Point]]  # by producer, consumer and the position of the input
    size: Size


def lay_out(sizes: Mapping[int, Size], inputs: Inputs) -> PictureLayout:
    """Place boxes of these sizes.

    >>> found = lay_out({1: (40, 100), 2: (40, 100), 3: (40, 100)}, {1: [2, 3], 2: [], 3: []})
    >>> [found.corners[i] for i in (1, 2, 3)]
    [(102.0, 61.0), (0.0, 0.0), (0.0, 122.0)]
    """
    layers = _layers(_levels(inputs), inputs, sizes)
    _put_in_order(layers)
    _put_in_place(layers)
    starts, gaps, end = _flow(layers)
    corners = {i: (starts[layers.level[i]], layers.cross[i] - sizes[i][1] / 2) for i in sizes}
    routes = {
        (producer, consumer, place): [
            *_way(layers, starts, gaps, producer, consumer),
            _port(corners[consumer], sizes[consumer], place, len(producers)),
        ]
        for consumer, producers in inputs.items()
        for place, producer in enumerate(producers)
    }
    return PictureLayout(
        corners, routes, (end, max((corners[i][1] + sizes[i][1] for i in sizes), default=0.0))
    )


def _levels(inputs: Inputs) -> dict[int, int]:
    """Return the layer of each box: after all its inputs, and directly before its first reader."""
    level: dict[int, int] = {}

    def low(number: int) -> int:
        if number not in level:
            level[number] = 1 + max((low(i) for i in inputs[number]), default=-1)
        return level[number]

    readers: dict[int, list[int]] = defaultdict(list)
    for number, producers in inputs.items():
        low(number)
        for producer in producers:
            readers[producer].append(number)
    for number in sorted(level, key=lambda i: -level[i]):
        if readers[number]:
            level[number] = min(level[reader] for reader in readers[number]) - 1
    return level


@dataclass
class _Layers:
    """The items of each layer in order, their neighbours in the layers before and after, their positions."""

    level: dict[int, int]
    sizes: Mapping[int, Size]
    rows: list[list[_Item]]
    below: dict[_Item, list[_Item]] = field(default_factory=lambda: defaultdict(list))
    above: dict[_Item, list[_Item]] = field(default_factory=lambda: defaultdict(list))
    cross: dict[_Item, float] = field(default_factory=dict)

    def link(self, low: _Item, high: _Item) -> None:
        if high not in self.above[low]:
            self.above[low].append(high)
            self.below[high].append(low)

    def room(self, item: _Item) -> float:
        return self.sizes[item][1] if isinstance(item, int) else _LANE

    def sweep(self, upward: bool) -> list[list[_Item]]:
        """Return the layers from first to last, or from last to first."""
        return self.rows if upward else self.rows[::-1]


def _layers(level: dict[int, int], inputs: Inputs, sizes: Mapping[int, Size]) -> _Layers:
    """Return the boxes and dummy items of each layer, in the order of a walk from the results."""
    layers = _Layers(level, sizes, [[] for _ in range(1 + max(level.values(), default=-1))])
    seen: set[_Item] = set()

    def meet(item: _Item, at: int) -> bool:
        new = item not in seen
        if new:
            seen.add(item)
            layers.rows[at].append(item)
        return new

    def walk(number: int) -> None:
        if not meet(number, level[number]):
            return
        for producer in inputs[number]:
            high: _Item = number
            for at in range(level[number] - 1, level[producer], -1):
                meet((producer, at), at)
                layers.link((producer, at), high)
                high = (producer, at)
            layers.link(producer, high)
            walk(producer)

    for number in sorted(inputs, key=lambda i: (-level[i], i)):
        walk(number)
    return layers


def _put_in_order(layers: _Layers) -> None:
    """Sort each layer by the mean position of the neighbours; keep the order with the fewest crossings."""
    best, fewest = [list(row) for row in layers.rows], _crossings(layers)
    for turn in range(_SWEEPS):
        near = layers.below if turn % 2 == 0 else layers.above
        for before, row in pairwise(layers.sweep(upward=turn % 2 == 0)):
            place = {item: i for i, item in enumerate(before)}
            middle = {item: _mean([place[n] for n in near[item]], i) for i, item in enumerate(row)}
            row.sort(key=middle.__getitem__)
        crossings = _crossings(layers)
        if crossings < fewest:
            best, fewest = [list(row) for row in layers.rows], crossings
    layers.rows = best


def _crossings(layers: _Layers) -> int:
    total = 0
    for before, row in pairwise(layers.rows):
        place = {item: i for i, item in enumerate(before)}
        ends = [end for item in row for end in sorted(place[n] for n in layers.below[item])]
        total += sum(later < end for i, end in enumerate(ends) for later in ends[i + 1 :])
    return total


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _put_in_place(layers: _Layers) -> None:
    """Set the centre of every item across the flow: near its neighbours, without overlap in its layer."""
    for row in layers.rows:
        _spread(layers, row, [0.0] * len(row))
    for turn in range(_SWEEPS):
        near = layers.below if turn % 2 == 0 else layers.above
        for row in layers.sweep(upward=turn % 2 == 0):
            wanted = [_mean([layers.cross[n] for n in near[i]], layers.cross[i]) for i in row]
            _spread(layers, row, wanted)
    least = min((layers.cross[i] - layers.room(i) / 2 for i in layers.cross), default=0.0)
    layers.cross = {item: at - least for item, at in layers.cross.items()}


def _spread(layers: _Layers, row: Sequence[_Item], wanted: Sequence[float]) -> None:
    """Set the positions nearest to those wanted that keep order and distance (pool adjacent violators)."""
    offsets = [0.0]
    for one, other in pairwise(row):
        offsets.append(offsets[-1] + (layers.room(one) + layers.room(other)) / 2 + BOX_GAP)
    pools: list[tuple[float, int]] = []  # the sum of the wanted positions, the number of items
    for place, offset in zip(wanted, offsets, strict=bool(row)):
        pool = (place - offset, 1)
        while pools and pools[-1][0] / pools[-1][1] > pool[0] / pool[1]:
            total, count = pools.pop()
            pool = (total + pool[0], count + pool[1])
        pools.append(pool)
    levels = [total / count for total, count in pools for _ in range(count)]
    for item, level, offset in zip(row, levels, offsets, strict=bool(row)):
        layers.cross[item] = level + offset


def _flow(layers: _Layers) -> tuple[list[float], list[float], float]:
    """Return where each layer starts along the flow, the gap before each, and where the last one ends."""
    starts: list[float] = []
    gaps: list[float] = []
    end = 0.0
    for row in layers.rows:
        gaps.append(_gap(layers, row) if starts else 0.0)
        starts.append(end + gaps[-1])
        end = starts[-1] + max((layers.sizes[i][0] for i in row if isinstance(i, int)), default=0.0)
    return starts, gaps, end


def _gap(layers: _Layers, row: Sequence[_Item]) -> float:
    """Return the gap before a layer: wider for an edge that leads far across, to keep it off the others."""
    spans = [abs(layers.cross[item] - layers.cross[low]) for item in row for low in layers.below[item]]
    return LAYER_GAP + min(_MOST_BEND, max(0.0, max(spans, default=0.0) - _STEEP) * _BEND)


def _way(
    layers: _Layers, starts: Sequence[float], gaps: Sequence[float], producer: int, consumer: int
) -> list[Point]:
    """Return the points from the centre of the producer, straight through each layer that is passed."""
    at = layers.level[producer]
    here = layers.cross[producer]
    points = [(starts[at] + layers.sizes[producer][0], here), (starts[at + 1] - gaps[at + 1], here)]
    for passed in range(at + 1, layers.level[consumer]):
        lane = layers.cross[producer, passed]
        points += [(starts[passed], lane), (starts[passed + 1] - gaps[passed + 1], lane)]
    return points


def _port(corner: Point, size: Size, place: int, ports: int) -> Point:
    """Return where an edge ends: the inputs of a box are spread along its side, in order."""
    return corner[0], corner[1] + size[1] * (place + 1) / (ports + 1)
