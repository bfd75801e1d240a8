"""δ(μ_f(S1 ⋈ S2)) is δ(μ_f(δ(S1) ⋈ δ(S2))) (paper 2, 5.4.2, duplicate elimination below joins; paper 1, 5.3).

A record of the join is there as long as each of its parts is, however often. With δ* below, the join keeps
each record once and is asked for pairs only where a record comes, goes or is extended. It does not pay where
records hardly recur: then each row is kept and emitted once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from everview.algebra import nodes as N
from everview.algebra.expressions import Expression
from everview.rewrite.conditions import tells_equal_rows_apart
from everview.rewrite.cost import Costs, Flow, join_flow, join_work
from everview.rewrite.prune_columns import cut_columns, read_columns
from everview.temporal.update_patterns import edge

_KEPT = 1 / 1000  # what it costs in a second to keep a row, which steps read, of what it costs to emit one


def push_distinct_below_join(node: N.Node, costs: Costs | None = None) -> N.Node | None:
    """Remove duplicates from the inputs of a join below DISTINCT, where that is cheaper.

    Rows that may be retracted are kept as they come by δ, too: nothing would be won there.
    """
    if not isinstance(node, N.Distinct):
        return None
    project = node.input if isinstance(node.input, N.Project) else None
    join = node.input if project is None else project.input
    if not isinstance(join, N.Join) or any(isinstance(side, N.Distinct) for side in join.inputs):
        return None
    read = [join.condition, *([] if project is None else [e for _, e in project.columns])]
    if any(map(tells_equal_rows_apart, read)):
        return None
    sides = [_once(side, read if project is not None else None) for side in join.inputs]
    chosen = _choose(join, sides, costs or Costs())
    if not any(chosen):
        return None
    inputs = [once if below else side for side, once, below in zip(join.inputs, sides, chosen, strict=True)]
    joined = N.with_inputs(join, inputs)
    if project is not None:
        return N.Distinct(N.with_inputs(project, [joined]))
    return joined if all(chosen) else N.Distinct(joined)


def _once(side: N.Node, read: Sequence[Expression] | None) -> N.Distinct:
    """Return each record of an input once, with only the columns that are read; None: all are."""
    return N.Distinct(side if read is None else cut_columns(side, read_columns(read)))


def _choose(join: N.Join, sides: Sequence[N.Distinct], costs: Costs) -> tuple[bool, ...]:
    """Return of which inputs to remove duplicates first."""
    before = [costs.flow_of(side) for side in join.inputs]
    once = [costs.flow_of(side) for side in sides]
    pairs = costs.flow_of(join)
    apart = join_flow(before[0], before[1], 1.0).rate
    share = pairs.rate / apart if apart else 0.0  # of the pairs in time, those that fulfil the condition
    allowed = [(False,) if edge(side).signed else (False, True) for side in join.inputs]
    found = {
        chosen: _cost([b if c else a for a, b, c in zip(before, once, chosen, strict=True)], share)
        + sum(a.rate + 2 * b.rate + _KEPT * b.kept for a, b, c in zip(before, once, chosen, strict=True) if c)
        for chosen in product(*allowed)
    }
    best = min(found, key=lambda chosen: (found[chosen], chosen))
    if len(found) > 1:
        texts = {chosen: _text(chosen) for chosen in found}
        named = {texts[chosen]: cost for chosen, cost in found.items()}
        costs.record("DISTINCT over a join", join.condition, named, texts[best])
    return best


def _cost(sides: Sequence[Flow], share: float) -> float:
    """Return what the join of two inputs costs, and a DISTINCT over it."""
    pairs = join_flow(sides[0], sides[1], share)
    kept = _KEPT * sum(side.kept for side in sides)
    return join_work(sides[0], sides[1], pairs).total + 2 * pairs.rate + kept


def _text(chosen: Sequence[bool]) -> str:
    match tuple(chosen):
        case (True, True):
            return "both inputs first"
        case (True, False):
            return "the left input first"
        case (False, True):
            return "the right input first"
    return "no input first"
