"""EXPLAIN: the plan of a whole script before it starts, as text, JSON or a picture; all three say the same.

`operators.py` makes the graph of operators with all that is known of them, `text.py` and `data.py` write it
down, `layout.py`, `drawing.py`, `boxes.py` and `picture.py` draw it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from everview.catalog import Catalog
from everview.errors import EverviewError, nearest
from everview.explanation.data import json_of
from everview.explanation.operators import Operator, Part, Source, TimeLine, parts_of
from everview.explanation.picture import picture_of
from everview.explanation.text import text_of
from everview.sql.statements import Statement

__all__ = ["FORMATS", "Explanation", "Operator", "Part", "Source", "TimeLine", "explained"]

FORMATS = ("text", "svg", "json")


@dataclass(frozen=True, repr=False)
class Explanation:
    """What a script will do: its operators, each once, and the views and queries that they answer.

    It prints as text; a notebook shows the picture.
    """

    operators: tuple[Operator, ...]
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


def explained(statements: Iterable[Statement], catalog: Catalog) -> Explanation:
    """What bound statements will do; the catalog knows their streams, tables and views."""
    operators, parts = parts_of(statements, catalog)
    return Explanation(tuple(operators), tuple(parts))
