"""Write an explanation as text: an indented tree with one line per operator, the same in every run.

A shared operator has its number in front; where it is read again, a line refers to that number.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from everview.algebra.time import length_text
from everview.operators import StatePart
from everview.plan.explain.operators import ExplainedOperator, ExplainedPart


def render_text(operators: Sequence[ExplainedOperator], parts: Sequence[ExplainedPart]) -> str:
    """Return all parts, with an empty line between them."""
    by_id = {operator.id: operator for operator in operators}
    shown: set[int] = set()
    return "\n\n".join("\n".join(_part(part, by_id, shown)) for part in parts)


def _part(part: ExplainedPart, by_id: dict[int, ExplainedOperator], shown: set[int]) -> list[str]:
    if part.kind in ("view", "query"):
        return [*_tree(part.root, 0, by_id, shown), *part.lines]
    title = f"{part.kind.capitalize()} {part.name}"
    if part.events is not None:
        title += f"  · {part.events.bounds}"
    return [title, *_tree(part.root, 1, by_id, shown), *(f"  {line}" for line in part.lines)]


def _tree(number: int, depth: int, by_id: dict[int, ExplainedOperator], shown: set[int]) -> list[str]:
    operator = by_id[number]
    indent = "  " * depth
    if number in shown:
        return [f"{indent}= #{number} {operator.label}, shared  · {operator.flow}"]
    shown.add(number)
    mark = f"#{number} " if operator.shared else ""
    line = f"{indent}{mark}{operator.text}  · {' · '.join((operator.flow, *remarks(operator)))}"
    return [line, *(below for i in operator.inputs for below in _tree(i, depth + 1, by_id, shown))]


def remarks(operator: ExplainedOperator) -> list[str]:
    """Return the remarks on an operator: its state, its bounds, and in EXPLAIN COST its figures."""
    said = [state_words(operator)] if operator.state else []
    if operator.source is not None and operator.source.lines:
        bounds = ", ".join(line.bound for line in operator.source.lines)
        said.append(f"bound {bounds}")
        if operator.source.idle_after is not None:
            said.append(f"idle after {length_text(operator.source.idle_after)}")
    return said if operator.figures is None else [*said, *operator.figures.words()]


def state_words(operator: ExplainedOperator) -> str:
    """Return the state of an operator in words, with its method; an empty text if it has no state."""
    method = "" if operator.method is None else f"{operator.method}, "
    return f"{method}state: {parts_text(operator.state)}" if operator.state else ""


def parts_text(parts: Sequence[StatePart]) -> str:
    """Return parts of a state in words; parts with the same duration are joined.

    >>> parts_text([StatePart("sums", "one value", 10_000_000), StatePart("queue", "ends", 10_000_000)])
    'one value and ends, 10 s'
    >>> parts_text([StatePart("left", "left input", 10_000_000), StatePart("right", "right input")])
    'left input, 10 s; right input, until retracted'
    """
    together = [
        (manner, " and ".join(part.text for part in same))
        for manner, same in groupby(parts, key=lambda part: part.retention)
    ]
    return "; ".join(f"{what}, {manner}" if manner else what for manner, what in together)
