"""A stage while it is planned: ports gain columns as nodes read them, registers are numbered last."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from everview import operators as P
from everview.algebra.expressions import Expression, substitute
from everview.algebra.types import DataType
from everview.operators.base import position_of, source_column
from everview.plan.regions import Route


@dataclass(frozen=True)
class DraftPath:
    """The source of some rows, and the operators that Catalyst applies to them, in order."""

    base: P.Operator
    through: tuple[P.Operator, ...]


@dataclass(eq=False)
class DraftPort:
    """A port: some columns of a plan. Nodes that read the same plan with the same route share it."""

    plan: P.Operator
    wanted_route: Route | None
    broadcast: bool = False
    columns: set[int] = field(default_factory=set)
    paths: list[DraftPath] = field(default_factory=list)

    @property
    def positions(self) -> list[int]:
        return sorted(self.columns)

    @property
    def node(self) -> P.Operator:
        """The plan, projected to the columns that are read."""
        if len(self.columns) == len(self.plan.types):
            return self.plan
        return P.ProjectOperator(self.plan, tuple(self.plan.columns[i] for i in self.positions))

    @property
    def types(self) -> tuple[DataType, ...]:
        return tuple(self.plan.types[i] for i in self.positions)

    @property
    def route(self) -> Route | None:
        """The columns that decide the partition; all of them if any partition will do."""
        if self.broadcast:
            return None
        if self.wanted_route is None:
            return tuple(range(len(self.columns)))
        return tuple(self.positions.index(i) for i in self.wanted_route)


@dataclass(eq=False)
class DraftRows:
    """Rows in a task: either the output of `node`, or expressions over the rows of `port`."""

    inputs: Sequence[DraftRows] = ()
    node: P.Operator | None = None
    kernel: P.StatefulOperator | None = None
    route: Route | None = None
    port: DraftPort | None = None
    outputs: tuple[Expression, ...] = ()
    sign: int = 1
    cancels: bool = False  # whether some of the rows may cancel


class StageDraft:
    """The ports, nodes and outputs of a stage, as far as they are planned."""

    def __init__(self) -> None:
        self.ports: list[DraftPort] = []
        self.rows: list[DraftRows] = []
        self.writes: list[tuple[str, DraftRows]] = []
        self.handed_registers: list[DraftRows] = []
        self._made: dict[object, DraftRows] = {}

    def make_once(self, key: object, make: Callable[[], DraftRows]) -> DraftRows:
        """Return the rows that were made for a key, or make them."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def _append(self, rows: DraftRows) -> DraftRows:
        self.rows.append(rows)
        return rows

    def add_node(
        self,
        node: P.Operator,
        inputs: Sequence[DraftRows],
        route: Route | None,
        kernel: P.StatefulOperator | None,
    ) -> DraftRows:
        """Add a node over rows of the task; `kernel` is the node itself if it keeps state in this stage."""
        cancels = isinstance(node, P.UnionOperator) or (kernel is None and any(i.cancels for i in inputs))
        return self._append(DraftRows(inputs, node, kernel, route, cancels=cancels))

    def read_port(self, node: P.Operator, route: Route | None, broadcast: bool) -> DraftRows:
        """Return the rows of a plan that is computed before the stage, from a port that may be shared."""
        plan, outputs, sign = strip_moves(node)
        below = None if route is None else [source_column(outputs[i]) for i in route]
        if below is not None and None in below:
            plan, outputs, sign, below = node, node.columns, 1, list(route or ())
        wanted = None if below is None else tuple(i for i in below if i is not None)
        port = self._find_port(plan, wanted, broadcast)
        port.columns |= {position_of(c) for e in outputs for c in e.columns()}
        port.columns |= set(wanted or ())
        key = (id(port), outputs, sign)
        return self.make_once(key, lambda: self._append(DraftRows(port=port, outputs=outputs, sign=sign)))

    def _find_port(self, plan: P.Operator, route: Route | None, broadcast: bool) -> DraftPort:
        """Return the port of a plan with this route; open one if there is none."""
        for port in self.ports:
            same_route = route is None or port.wanted_route == route
            if port.plan == plan and not port.paths and port.broadcast == broadcast and same_route:
                return port
        self.ports.append(DraftPort(plan, route, broadcast))
        return self.ports[-1]

    def write_port(self, view: str, path: DraftPath, types: tuple[DataType, ...]) -> None:
        """Write the rows of a path to a view; they enter the stage only for that."""

        def make() -> DraftRows:
            register = P.RegisterOperator(0, types)
            port = DraftPort(register, None, columns=set(range(len(types))))
            self.ports.append(port)
            rows = self._append(DraftRows(port=port, outputs=register.columns))
            self.writes.append((view, rows))
            return rows

        port = self.make_once((view, "written"), make).port
        assert port is not None
        port.paths.append(path)

    # The finished stage

    def number_registers(self) -> dict[DraftRows, int]:
        """Return the register of each rows object: ports first, then nodes. A plain port needs no node."""
        found: dict[DraftRows, int] = {}
        following = len(self.ports)
        for rows in self.rows:
            if rows.port is not None and self._is_plain(rows, rows.port):
                found[rows] = self.ports.index(rows.port)
            else:
                following += 1 + (rows.port is not None and rows.sign < 0)
                found[rows] = following - 1
        return found

    @staticmethod
    def _is_plain(rows: DraftRows, port: DraftPort) -> bool:
        return rows.sign > 0 and rows.outputs == tuple(port.plan.columns[i] for i in port.positions)

    def list_nodes(
        self, registers: Mapping[DraftRows, int]
    ) -> Iterator[tuple[P.Operator, P.StatefulOperator | None, Route | None]]:
        """Yield the nodes to run, in order, with registers as their inputs."""
        for rows in self.rows:
            if rows.port is None:
                assert rows.node is not None
                inputs = [P.RegisterOperator(registers[i], _row_types(i)) for i in rows.inputs]
                yield rows.node.with_inputs(inputs), rows.kernel, rows.route
            elif not self._is_plain(rows, rows.port):
                projected = self._project_port(rows, rows.port, registers[rows])
                yield from ((node, None, None) for node in projected)

    def _project_port(self, rows: DraftRows, port: DraftPort, register: int) -> Iterator[P.Operator]:
        """Yield the nodes that compute the outputs of rows from their port."""
        read = P.RegisterOperator(self.ports.index(port), port.types)
        columns = [port.plan.columns[p] for p in port.positions]
        moved: dict[Expression, Expression] = {c: read.columns[i] for i, c in enumerate(columns)}
        projection = P.ProjectOperator(read, tuple(substitute(e, moved) for e in rows.outputs))
        yield projection
        if rows.sign < 0:
            yield P.NegateOperator(P.RegisterOperator(register - 1, projection.types))

    def cancelling_outputs(self) -> list[DraftRows]:
        """Return the rows that leave the stage and may cancel."""
        return [rows for rows in [*(r for _, r in self.writes), *self.handed_registers] if rows.cancels]


def _row_types(rows: DraftRows) -> tuple[DataType, ...]:
    return tuple(e.type for e in rows.outputs) if rows.node is None else rows.node.types


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
