"""A stage while it is made: its ports grow by what is asked of them, its work gets numbers at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from everview import operators as P
from everview.algebra.expressions import Expression, substitute
from everview.algebra.types import DataType
from everview.operators.base import position_of, source_column
from everview.plan.regions import Route


@dataclass(frozen=True)
class Way:
    """Where rows come from, and what Catalyst does with them on the way, from the first to the last."""

    base: P.Operator
    through: tuple[P.Operator, ...]


@dataclass(eq=False)
class Opened:
    """A port: some columns of a plan. Whoever wants rows of the plan in the same places shares it."""

    plan: P.Operator
    wanted_route: Route | None
    everywhere: bool = False
    columns: set[int] = field(default_factory=set)
    ways: list[Way] = field(default_factory=list)

    @property
    def positions(self) -> list[int]:
        return sorted(self.columns)

    @property
    def node(self) -> P.Operator:
        """The plan of just the columns that are wanted."""
        if len(self.columns) == len(self.plan.types):
            return self.plan
        return P.ProjectOperator(self.plan, tuple(self.plan.columns[i] for i in self.positions))

    @property
    def types(self) -> tuple[DataType, ...]:
        return tuple(self.plan.types[i] for i in self.positions)

    @property
    def route(self) -> Route | None:
        """Its columns that decide the partition; where any place will do, all of them."""
        if self.everywhere:
            return None
        if self.wanted_route is None:
            return tuple(range(len(self.columns)))
        return tuple(self.positions.index(i) for i in self.wanted_route)


@dataclass(eq=False)
class Ref:
    """Rows in a task: those of a port as some plan has them, or what a node yields."""

    inputs: Sequence[Ref] = ()
    node: P.Operator | None = None
    kernel: P.StatefulOperator | None = None
    route: Route | None = None
    opened: Opened | None = None
    outputs: tuple[Expression, ...] = ()
    sign: int = 1
    cancels: bool = False  # whether rows of it may cancel


class Draft:
    """What a stage has to do, as far as is known."""

    def __init__(self) -> None:
        self.ports: list[Opened] = []
        self.refs: list[Ref] = []
        self.writes: list[tuple[str, Ref]] = []
        self.hands_on: list[Ref] = []
        self._known: dict[object, Ref] = {}

    def once(self, key: object, make: Callable[[], Ref]) -> Ref:
        """What was made for a key before, or is made now."""
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def _kept(self, ref: Ref) -> Ref:
        self.refs.append(ref)
        return ref

    def add(
        self, node: P.Operator, inputs: Sequence[Ref], route: Route | None, kernel: P.StatefulOperator | None
    ) -> Ref:
        """What a node yields over others; `kernel` is the node itself if it keeps state in this stage."""
        cancels = isinstance(node, P.UnionOperator) or (kernel is None and any(i.cancels for i in inputs))
        return self._kept(Ref(inputs, node, kernel, route, cancels=cancels))

    def port(self, node: P.Operator, route: Route | None, everywhere: bool) -> Ref:
        """The rows of a plan that is worked out before the stage, from a port that others may share."""
        plan, outputs, sign = strip_moves(node)
        below = None if route is None else [source_column(outputs[i]) for i in route]
        if below is not None and None in below:
            plan, outputs, sign, below = node, node.columns, 1, list(route or ())
        places = None if below is None else tuple(i for i in below if i is not None)
        opened = self._opened(plan, places, everywhere)
        opened.columns |= {position_of(c) for e in outputs for c in e.columns()}
        opened.columns |= set(places or ())
        key = (id(opened), outputs, sign)
        return self.once(key, lambda: self._kept(Ref(opened=opened, outputs=outputs, sign=sign)))

    def _opened(self, plan: P.Operator, places: Route | None, everywhere: bool) -> Opened:
        for opened in self.ports:
            same_place = places is None or opened.wanted_route == places
            if opened.plan == plan and not opened.ways and opened.everywhere == everywhere and same_place:
                return opened
        self.ports.append(Opened(plan, places, everywhere))
        return self.ports[-1]

    def write_port(self, view: str, way: Way, types: tuple[DataType, ...]) -> None:
        """Rows of a view that come in just to be written."""

        def made() -> Ref:
            rows = P.RegisterOperator(0, types)
            opened = Opened(rows, None, columns=set(range(len(types))))
            self.ports.append(opened)
            ref = self._kept(Ref(opened=opened, outputs=rows.columns))
            self.writes.append((view, ref))
            return ref

        opened = self.once((view, "written"), made).opened
        assert opened is not None
        opened.ways.append(way)

    # The end

    def numbers(self) -> dict[Ref, int]:
        """The register of each piece: ports, then work. A port as it is needs no work."""
        found: dict[Ref, int] = {}
        following = len(self.ports)
        for ref in self.refs:
            if ref.opened is not None and self._is_plain(ref, ref.opened):
                found[ref] = self.ports.index(ref.opened)
            else:
                following += 1 + (ref.opened is not None and ref.sign < 0)
                found[ref] = following - 1
        return found

    @staticmethod
    def _is_plain(ref: Ref, opened: Opened) -> bool:
        return ref.sign > 0 and ref.outputs == tuple(opened.plan.columns[i] for i in opened.positions)

    def work(
        self, numbers: Mapping[Ref, int]
    ) -> Iterator[tuple[P.Operator, P.StatefulOperator | None, Route | None]]:
        """The nodes to run, in order, their inputs registers."""
        for ref in self.refs:
            if ref.opened is None:
                assert ref.node is not None
                given = [P.RegisterOperator(numbers[i], _types(i)) for i in ref.inputs]
                yield ref.node.with_inputs(given), ref.kernel, ref.route
            elif not self._is_plain(ref, ref.opened):
                yield from ((node, None, None) for node in self._unpacked(ref, ref.opened, numbers[ref]))

    def _unpacked(self, ref: Ref, opened: Opened, number: int) -> Iterator[P.Operator]:
        rows = P.RegisterOperator(self.ports.index(opened), opened.types)
        read = [opened.plan.columns[p] for p in opened.positions]
        moved: dict[Expression, Expression] = {c: rows.columns[i] for i, c in enumerate(read)}
        columns = P.ProjectOperator(rows, tuple(substitute(e, moved) for e in ref.outputs))
        yield columns
        if ref.sign < 0:
            yield P.NegateOperator(P.RegisterOperator(number - 1, columns.types))

    def sums(self) -> list[Ref]:
        """What leaves the stage, and may hold rows that cancel."""
        return [ref for ref in [*(r for _, r in self.writes), *self.hands_on] if ref.cancels]


def _types(ref: Ref) -> tuple[DataType, ...]:
    """The types of the rows."""
    return tuple(e.type for e in ref.outputs) if ref.node is None else ref.node.types


def strip_moves(node: P.Operator) -> tuple[P.Operator, tuple[Expression, ...], int]:
    """Return the plan below operators that only move columns, the columns over it, and the sign.

    >>> from everview.algebra.types import INT
    >>> scan = P.ScanOperator("s", (INT, INT))
    >>> below, outputs, sign = strip_moves(P.NegateOperator(P.ProjectOperator(scan, (scan.columns[1],))))
    >>> below == scan, outputs == (scan.columns[1],), sign
    (True, True, -1)
    """
    outputs: tuple[Expression, ...] = node.columns
    sign = 1
    while isinstance(node, (P.ProjectOperator, P.NegateOperator)) and node.is_light:
        if isinstance(node, P.NegateOperator):
            sign = -sign
        else:
            below = dict[Expression, Expression](zip(node.columns, node.outputs, strict=True))
            outputs = tuple(substitute(e, below) for e in outputs)
        node = node.input
    return node, outputs, sign
