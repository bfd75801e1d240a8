"""Write an explanation as JSON, for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from everview.algebra.time import INFINITY
from everview.operators import StatePart
from everview.plan.explain.events import ExplainedEvents, clock_data
from everview.plan.explain.operators import ExplainedOperator, ExplainedPart
from everview.temporal.clocks import Wait


def render_json(operators: Sequence[ExplainedOperator], parts: Sequence[ExplainedPart]) -> str:
    """Return one JSON document on one line; the order of the keys is fixed."""
    document = {"parts": [_part_data(p) for p in parts], "operators": [_operator_data(o) for o in operators]}
    return json.dumps(document, ensure_ascii=False)


def _part_data(part: ExplainedPart) -> dict[str, Any]:
    points = part.synchronization
    return {
        "kind": part.kind,
        "name": part.name,
        "root": part.root,
        "rules": part.rules,
        "strategy": part.strategy,
        "full_sync_points": None if points is None else str(points.full),
        "partial_sync_points": [] if points is None else [str(p) for p in points.partial],
        "notes": part.notes,
        "growth": part.growth,
        **({} if part.events is None else {"bounds": _bounds(part.events)}),
        **({"costs": part.costs} if part.costs else {}),
        **({"choices": [asdict(choice) for choice in part.choices]} if part.choices else {}),
    }


def _bounds(events: ExplainedEvents) -> dict[str, Any]:
    """Return the clock of each time line."""
    return {line: clock_data(clock) for line, clock in events.timing.clocks.items()}


def _operator_data(operator: ExplainedOperator) -> dict[str, Any]:
    return {
        "id": operator.id,
        "kind": operator.kind,
        "name": operator.name,
        "text": operator.text,
        "inputs": operator.inputs,
        "shared": operator.shared,
        "changes": operator.changes,
        "pattern": operator.edge.pattern.name,
        "signed": operator.edge.signed,
        "method": operator.method,
        "keeps": [_part_of_state(part) for part in operator.state],
        "operators": [
            {"name": o.name, "state": [{"part": p.name, **_part_of_state(p)} for p in o.state]}
            for o in operator.operators
        ],
        **({"waits": [_wait_data(wait) for wait in operator.waits]} if operator.waits else {}),
        "window": _window_data(operator),
        "source": None if operator.source is None else asdict(operator.source),
        **({} if operator.figures is None else {"figures": asdict(operator.figures)}),
    }


def _wait_data(wait: Wait) -> dict[str, Any]:
    return {"part": wait.part, "until": wait.name or None, "clock": clock_data(wait.clock)}


def _part_of_state(part: StatePart) -> dict[str, Any]:
    """Return a part of the state; its duration always in words, and in microseconds if it is finite."""
    finite = part.lasts is not None and part.lasts < INFINITY
    return {
        "what": part.text,
        "how_long": part.duration,
        "microseconds": part.lasts if finite else None,
        "expiry_buckets": part.expires_within is not None,
    }


def _window_data(operator: ExplainedOperator) -> dict[str, Any] | None:
    if operator.window is None:
        return None
    return {"text": str(operator.window), **asdict(operator.window)}
