"""The check of event queries: they read streams without windows (paper 3; DESIGN section 5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from everview.algebra import nodes as N
from everview.sql import ast
from everview.sql.script import Script
from everview.sql.windows import is_now


@dataclass(frozen=True)
class _Reason:
    """What an event query cannot read, and how to know it in the text of the query."""

    what: str
    stands_at: Callable[[exp.Expr], exp.Expr | None]


def require_event_query(plan: N.Node, node: exp.Expr, script: Script) -> None:
    """Refuse windows and relations whose rows end."""
    reason = _not_an_event(plan)
    if reason is None:
        return
    places = (reason.stands_at(part) for part in node.args["query"].walk())
    raise script.error(
        f"an event query cannot read {reason.what}",
        next((place for place in places if place is not None), node.this),
        next_step="read streams, ISTREAM of a view, and tables FOR SYSTEM_TIME AS OF a time line",
    )


def _not_an_event(plan: N.Node) -> _Reason | None:
    match plan:
        case N.Window():
            return _Reason(f"the window [{plan.window}]", _window)
        case N.Synchronize() | N.SynchronizeOn():
            return _Reason("a synchronized relation", lambda part: part.meta.get("sync"))
        case N.View(definition=N.IStream()) | N.IStream():
            return None
        case N.View():
            kind = "tagged stream" if isinstance(plan.definition, N.Tagged) else "view"
            return _Reason(f"the {kind} '{plan.name}', whose rows come and go", _named(plan.name))
        case N.DStream() | N.RStream():
            words = type(plan).__name__.upper()
            return _Reason(f"{words}: of a relation it takes ISTREAM only", _stream_function)
        case N.TableJoin() if not plan.retroactive:
            return _not_an_event(plan.left)
        case N.Table():
            return _Reason(f"the table '{plan.name}' without FOR SYSTEM_TIME AS OF", _named(plan.name))
    return next((r for i in plan.inputs if (r := _not_an_event(i)) is not None), None)


def _window(part: exp.Expr) -> exp.Expr | None:
    bracket = next(iter(part.meta.get("windows", ())), None)
    return bracket if bracket is not None else part if is_now(part) else None


def _stream_function(part: exp.Expr) -> exp.Expr | None:
    return part if isinstance(part, ast.StreamFunctionSyntax) else None


def _named(name: str) -> Callable[[exp.Expr], exp.Expr | None]:
    def found(part: exp.Expr) -> exp.Expr | None:
        named = isinstance(part, exp.Table) and part.name.casefold() == name.casefold()
        return part.this if named else None

    return found
