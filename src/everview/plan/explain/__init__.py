"""EXPLAIN: the plan of a whole script before it starts, as text, JSON or a picture; all three say the same.

`operators.py` makes the graph of operators with all that is known of them, `text.py` and `data.py` write it
down, `layout.py`, `drawing.py`, `boxes.py` and `picture.py` draw it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from everview.catalog import Catalog
from everview.errors import EverviewError, nearest
from everview.plan.explain.data import json_of
from everview.plan.explain.operators import (
    ExplainedOperator,
    ExplainedPlan,
    ExplainedSource,
    Part,
    TimeLine,
    graph_of,
)
from everview.plan.explain.picture import picture_of
from everview.plan.explain.text import text_of

__all__ = [
    "FORMATS",
    "ExplainedOperator",
    "ExplainedPlan",
    "ExplainedSource",
    "Explanation",
    "Part",
    "TimeLine",
    "explain_plans",
]

FORMATS = ("text", "svg", "json")


@dataclass(frozen=True, repr=False)
class Explanation:
    """What a script will do: its operators, each once, and the views and queries that they answer.

    It prints as text; a notebook shows the picture.
    """

    operators: tuple[ExplainedOperator, ...]
    parts: tuple[Part, ...]

    def text(self) -> str:
        """An indented tree for each view and query, a line an operator."""
        return text_of(self.operators, self.parts)

    def json(self) -> str:
        """One JSON document, on one line."""
        return json_of(self.operators, self.parts)

    def svg(self) -> str:
        """The picture."""
        return picture_of(self.operators, self.parts)

    def shown(self, format: str = "text") -> str:
        """In one of FORMATS."""
        match format:
            case "text":
                return self.text()
            case "svg":
                return self.svg()
            case "json":
                return self.json()
        raise EverviewError(
            f"a plan is not shown as '{format}'", meant=nearest(format, FORMATS), choices=FORMATS
        )

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.svg()


def explain_plans(plans: Iterable[ExplainedPlan], catalog: Catalog) -> Explanation:
    """Explain plans as they will run; the catalog knows their streams, tables and views."""
    operators, parts = graph_of(plans, catalog)
    return Explanation(tuple(operators), tuple(parts))
