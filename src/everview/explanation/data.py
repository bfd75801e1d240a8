"""An explanation as JSON, for programs that read it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from everview.algebra.time import INFINITY
from everview.explanation.operators import Operator, Part
from everview.temporal.keeping import Keeping


def json_of(operators: Sequence[Operator], parts: Sequence[Part]) -> str:
    """One JSON document on one line; keys always in the same order."""
    document = {"parts": [_part_data(p) for p in parts], "operators": [_operator_data(o) for o in operators]}
    return json.dumps(document, ensure_ascii=False)


def _part_data(part: Part) -> dict[str, Any]:
    points = part.synchronization
    return {
        "kind": part.kind,
        "name": part.name,
        "root": part.root,
        "rules": part.rules,
        "full_sync_points": None if points is None else str(points.full),
        "partial_sync_points": [] if points is None else [str(p) for p in points.partial],
        "notes": part.notes,
        "growth": part.growth,
    }


def _operator_data(operator: Operator) -> dict[str, Any]:
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
        "keeps": [_keeping_data(k) for k in operator.keeps],
        "window": _window_data(operator),
        "source": None if operator.source is None else asdict(operator.source),
    }


def _keeping_data(part: Keeping) -> dict[str, Any]:
    """How long in microseconds where that is a number, and always in words."""
    finite = part.how_long is not None and part.how_long < INFINITY
    return {
        "what": part.what,
        "how_long": part.duration,
        "microseconds": part.how_long if finite else None,
        "expiry_buckets": part.buckets,
    }


def _window_data(operator: Operator) -> dict[str, Any] | None:
    if operator.window is None:
        return None
    return {"text": str(operator.window), **asdict(operator.window)}
