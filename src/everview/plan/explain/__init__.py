"""EXPLAIN: the plan of a whole script before it runs, as text, JSON or a picture with the same content.

`operators.py` builds the graph of operators; `text.py` and `data.py` write it as text and JSON; `layout.py`,
`drawing.py`, `boxes.py` and `picture.py` draw it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from everview.catalog import Catalog
from everview.errors import EverviewError, nearest
from everview.plan.explain.data import render_json
from everview.plan.explain.events import ExplainedEvents
from everview.plan.explain.figures import Figures, MeasuredSize, MeasuredStore
from everview.plan.explain.operators import (
    ExplainedOperator,
    ExplainedPart,
    ExplainedPlan,
    ExplainedSource,
    TimeLine,
    graph_of,
)
from everview.plan.explain.picture import render_picture
from everview.plan.explain.text import render_text

__all__ = [
    "EXPLAIN_FORMATS",
    "ExplainedEvents",
    "ExplainedOperator",
    "ExplainedPart",
    "ExplainedPlan",
    "ExplainedSource",
    "Explanation",
    "Figures",
    "MeasuredSize",
    "MeasuredStore",
    "TimeLine",
    "explain_plans",
]

EXPLAIN_FORMATS = ("text", "svg", "json")


@dataclass(frozen=True, repr=False)
class Explanation:
    """The plan of a script: its operators, each once, and the views and queries that they compute.

    It prints as text; a notebook shows the picture.
    """

    operators: tuple[ExplainedOperator, ...]
    parts: tuple[ExplainedPart, ...]

    def text(self) -> str:
        """Return an indented tree for each view and query, with one line per operator."""
        return render_text(self.operators, self.parts)

    def json(self) -> str:
        """Return one JSON document on one line."""
        return render_json(self.operators, self.parts)

    def svg(self) -> str:
        """Return the picture as SVG."""
        return render_picture(self.operators, self.parts)

    def shown(self, format: str = "text") -> str:
        """Return the plan in one of EXPLAIN_FORMATS."""
        match format:
            case "text":
                return self.text()
            case "svg":
                return self.svg()
            case "json":
                return self.json()
        raise EverviewError(
            f"a plan is not shown as '{format}'",
            meant=nearest(format, EXPLAIN_FORMATS),
            choices=EXPLAIN_FORMATS,
        )

    def __str__(self) -> str:
        return self.text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.svg()


def explain_plans(
    plans: Iterable[ExplainedPlan], catalog: Catalog, figures: Figures | None = None
) -> Explanation:
    """Explain plans as they will run; the catalog knows their streams, tables and views."""
    operators, parts = graph_of(plans, catalog, figures)
    return Explanation(tuple(operators), tuple(parts))
