"""A Python function that gets the changes of a view: `f(changes, step)`, with an Arrow table and a number.

It is called before the position is written: after a crash it may get the step that it had last once more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from everview.errors import PlanError
from everview.operators.columnar.lazy import pl
from everview.sinks.delivery import Delivery

SinkFunction = Callable[[Any, int], object]


def function_name(function: object, view: str) -> str:
    """Return the name by which a function is known: its own, or for a lambda that of its view."""
    if not callable(function):
        raise PlanError(
            f"{function!r} is no function", next_step="give a function of two arguments: changes and step"
        )
    name = getattr(function, "__name__", "<lambda>")
    return view if name == "<lambda>" else str(name)


class FunctionTarget:
    """A function of the program that has opened the store."""

    can_rewrite = True

    def __init__(self, function: SinkFunction) -> None:
        self.function = function

    def prepare(self) -> None:
        """A function is always there."""

    def write(self, delivery: Delivery) -> None:
        """Call the function with all changes of a delivery."""
        self.function(pl.concat(part.rows for part in delivery.parts()).to_arrow(), delivery.step)

    def close(self) -> None:
        """There is nothing to close."""
