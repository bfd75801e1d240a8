"""The nodes of a view as they run, each with the operators that it becomes: what EXPLAIN shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from everview import operators as P
from everview.algebra import nodes as N
from everview.operators.base import stateful_operators
from everview.plan.domains import in_domain
from everview.plan.lower import Lowering
from everview.temporal.clocks import Clock


@dataclass(frozen=True)
class PlannedNodes:
    """The nodes of a view; `events` has the plans of event streams that it reads: then it has a clock."""

    lowering: Lowering
    events: Mapping[str, P.EventOutputOperator] = field(default_factory=dict)
    clock: Clock | None = None

    def __call__(self, node: N.Node) -> P.Operator:
        plan = self.lowering(node)
        return plan if self.clock is None else in_domain(plan, self.events, self.clock)

    def own_operators(self, node: N.Node) -> list[P.StatefulOperator]:
        """Return the operators with state that a node becomes, without those that its inputs become.

        A stream that an event query defines has its own operators in its own plan.
        """
        below = [self(each) for each in node.inputs]
        if isinstance(node, N.Stream) and node.name in self.events:
            below.append(self.events[node.name])
        return own_operators(self(node), below)


def own_operators(plan: P.Operator, inputs: Iterable[P.Operator]) -> list[P.StatefulOperator]:
    """Return the operators with state of a plan that are not those of its inputs."""
    below = set(stateful_operators(inputs))
    return [operator for operator in stateful_operators([plan]) if operator not in below]
