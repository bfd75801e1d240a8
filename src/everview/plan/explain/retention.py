"""Summarize the state that physical operators retain and for how long; find state that is never dropped."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace

from everview.algebra import nodes as N
from everview.algebra.explain import describe_node
from everview.algebra.text import name_sql
from everview.operators.base import Growth, StatefulOperator, StatePart, stateful_operators
from everview.plan.planned import PlannedNodes
from everview.temporal.life import life

_GROWS = {
    Growth.BY_UPDATE: "with every update of the table",
    Growth.BY_RECORD: "with every distinct record",
    Growth.BY_ROW: "without bound",
}


_FIRST = {"left input": 0, "right input": 1}


def state_of(operators: Sequence[StatefulOperator]) -> tuple[StatePart, ...]:
    """Return the state of physical operators without duplicates, the inputs first.

    >>> from everview.operators import InputRows, JoinOperator, ScanOperator
    >>> rows = (InputRows("left input", 5), InputRows("right input", 5))
    >>> join = JoinOperator(ScanOperator("s", ()), ScanOperator("r", ()), (), (), rows=rows)
    >>> [str(part) for part in state_of([join])]
    ['both inputs, 5 µs']
    """
    found: dict[tuple[str, str], StatePart] = {}
    for part in (part for operator in operators for part in operator.state):
        known = found.get((part.text, part.duration))
        found[part.text, part.duration] = part if known is None else _together(known, part)
    parts = sorted(found.values(), key=lambda part: _FIRST.get(part.text, len(_FIRST)))
    if (
        len(parts) > 1
        and [p.text for p in parts[:2]] == list(_FIRST)
        and parts[0].retention == parts[1].retention
    ):
        parts[:2] = [replace(_together(parts[0], parts[1]), text="both inputs")]
    return tuple(parts)


def _together(one: StatePart, other: StatePart) -> StatePart:
    expires = one.expires_within if one.expires_within is not None else other.expires_within
    return replace(one, expires_within=expires, growth=max(one.growth, other.growth))


def growing_state(plan: N.Node, planned: PlannedNodes, reported: Container[N.Node] = ()) -> tuple[str, ...]:
    """Return a sentence for each operator whose state can never be dropped while ever more rows come.

    One value per group is not reported, nor are the nodes in `reported`.
    """
    nodes = (node for node in plan.walk() if node not in reported)
    running = set(stateful_operators([planned(plan)]))
    return tuple(dict.fromkeys(said for node in nodes for said in _grows(node, planned, running)))


def _grows(node: N.Node, planned: PlannedNodes, running: Container[StatefulOperator]) -> Iterator[str]:
    own = [operator for operator in planned.own_operators(node) if operator in running]
    parts = [part for part in state_of(own) if part.growth != Growth.NO]
    if not parts:
        return
    how = _GROWS[max(part.growth for part in parts)]
    words = [f"its {p.text}" if p.text in ("left input", "right input") else p.text for p in parts]
    windows = " or ".join(dict.fromkeys(_without_window(node)))
    hint = f", put a window on {windows}" if windows else ""
    yield f"grows {how}: {describe_node(node)} keeps {' and '.join(words)} for ever{hint}"


def _without_window(node: N.Node) -> Iterator[str]:
    """Yield the streams below whose rows never expire."""
    for below in node.inputs:
        if not life(below).grows:
            continue
        if isinstance(below, N.Stream) and below.schema.timeline is not None:
            yield name_sql(below.name)
        yield from _without_window(below)
