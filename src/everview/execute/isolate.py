"""A fault stays where it is: which views make a step fail, so that the others can go on without them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from everview.execute.failures import is_of_the_machine


def failing_views(
    names: Sequence[str], evaluate: Callable[[Sequence[str]], object], error: Exception
) -> dict[str, Exception]:
    """Return the views that cannot be evaluated, each with its error, found by halves.

    `error` is that of all views together. It is raised if it is one of the machine, or if no view can be
    evaluated: then there is nothing that could go on. Without a view that fails alone, none is returned.

    >>> def evaluate(names):
    ...     if "b" in names:
    ...         raise ValueError("odd")
    >>> failing_views(["a", "b", "c", "d"], evaluate, ValueError("odd"))
    {'b': ValueError('odd')}
    >>> failing_views(["b"], evaluate, ValueError("odd"))
    Traceback (most recent call last):
    ValueError: odd
    """
    found: dict[str, Exception] = {}

    def search(part: Sequence[str], why: Exception) -> None:
        if is_of_the_machine(why):
            raise why
        if len(part) == 1:
            try:
                evaluate(part)  # once more: an error that does not recur is no fault of the view
            except Exception as again:
                found[part[0]] = again
            return
        for half in (part[: len(part) // 2], part[len(part) // 2 :]):
            try:
                evaluate(half)
            except Exception as deeper:
                search(half, deeper)

    search(names, error)
    if len(found) == len(names):
        raise error
    return found
