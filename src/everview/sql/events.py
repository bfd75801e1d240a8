"""The check of event queries: they read streams without windows (paper 3; DESIGN section 5)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlglot import exp

from everview.algebra import nodes as N
from everview.algebra.aggregates import is_aggregate
from everview.algebra.over import Over, Rank
from everview.algebra.session import Session
from everview.algebra.types import TIMESTAMP
from everview.errors import Place
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
        case Over():
            return _Reason("OVER (…), whose values change as other rows come", _ranking)
        case Session():
            return _Reason(f"the window [{plan.words}]", _window)
        case Rank():
            return _Reason("a ranking, whose rows change as others come", _ranking)
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


def _ranking(part: exp.Expr) -> exp.Expr | None:
    return part if isinstance(part, (exp.Window, exp.Limit, exp.Offset, exp.Distinct)) else None


def _stream_function(part: exp.Expr) -> exp.Expr | None:
    return part if isinstance(part, ast.StreamFunctionSyntax) else None


def _named(name: str) -> Callable[[exp.Expr], exp.Expr | None]:
    def found(part: exp.Expr) -> exp.Expr | None:
        named = isinstance(part, exp.Table) and part.name.casefold() == name.casefold()
        return part.this if named else None

    return found


def event_time_lines(plan: N.Node, node: exp.Expr, script: Script) -> tuple[str, ...]:
    """Return the time lines of an event stream, as the columns of its query are called."""
    lines: list[str] = []
    for line in node.args["timelines"]:
        with script.blame(line):
            found = plan.schema.find(line.name)
        if found.type != TIMESTAMP:
            raise script.error(
                f"the time line '{found.name}' is {found.type.a}",
                line,
                next_step="name a TIMESTAMP column of the query",
            )
        if found.name in lines:
            raise script.error(f"the time line '{found.name}' stands twice", line)
        lines.append(found.name)
    return tuple(lines)


# Places of what the analysis of an event query refuses


@dataclass(frozen=True)
class EventPlaces:
    """The text of an event query, in which the parts are found that the analysis of its plan speaks of."""

    statement: exp.Expr
    script: Script

    def find(self, part: str, name: str) -> Place | None:
        """Return the place of a part: of a relation, of what is around it, of a time line, of a branch."""
        found = self._span(part, name)
        return self.script.place(self.statement.this) if found is None else Place.of(self.script.text, *found)

    def _span(self, part: str, name: str) -> tuple[int, int] | None:
        table = next(self._relations(name), None)
        match part:
            case "timeline":
                lines = self.statement.args["timelines"]
                return self._first(line for line in lines if line.name.casefold() == name.casefold())
            case "negation":
                return self._negation(table)
            case "group":
                select = None if table is None else table.find_ancestor(exp.Select)
                group = None if select is None else select.args.get("group")
                return None if group is None else self._with_words(ast.span(group), r"GROUP\s+BY\s+")
            case "join" | "set operation":
                kind = exp.Join if part == "join" else exp.SetOperation
                around = None if table is None else table.find_ancestor(kind)
                return ast.span(table if around is None or around.expression is None else around)  # type: ignore[arg-type]
            case "branch":
                return self._first(side for side in self._branches() if _plain(side.sql()) == _plain(name))
            case "aggregate":
                calls = self._query.find_all(exp.Anonymous, exp.AggFunc)
                return self._first(call for call in calls if is_aggregate(call.name or call.key))
            case "query":
                return ast.span(self._query)
        if name == "ISTREAM":
            return self._first(self._query.find_all(ast.StreamFunctionSyntax))
        return None if table is None else ast.span(table)

    @property
    def _query(self) -> exp.Expr:
        query: exp.Expr = self.statement.args["query"]
        return query

    def _first(self, nodes: Iterator[exp.Expr]) -> tuple[int, int] | None:
        return next((span for node in nodes if (span := ast.span(node)) is not None), None)

    def _relations(self, name: str) -> Iterator[exp.Table]:
        for table in self._query.find_all(exp.Table):
            if table.alias_or_name.casefold() == name.casefold():
                yield table

    def _negation(self, table: exp.Table | None) -> tuple[int, int] | None:
        """Return the words NOT EXISTS, NOT IN or ANTI JOIN around a relation."""
        around = None if table is None else table.find_ancestor(exp.Exists, exp.In)
        if around is None:
            return None if table is None else ast.span(table)
        outer = around.parent if isinstance(around.parent, exp.Not) else around
        where = ast.span(outer)
        if where is None:
            return None
        words = re.compile(r"(NOT\s+)?EXISTS\b", re.I)
        before = re.search(r"NOT\s+(EXISTS\s*\(?\s*)?$", self.script.text[: where[0]], re.I)
        start = where[0] if before is None else before.start()
        match = words.search(self.script.text, start, where[1])
        return where if match is None else match.span()

    def _with_words(self, where: tuple[int, int] | None, words: str) -> tuple[int, int] | None:
        """Return a place together with the words before it."""
        if where is None:
            return None
        before = re.search(words + "$", self.script.text[: where[0]], re.I)
        return where if before is None else (before.start(), where[1])

    def _branches(self) -> Iterator[exp.Expr]:
        for either in self._query.find_all(exp.Or):
            yield from (either.this, either.expression)


def _plain(sql: str) -> str:
    return re.sub(r"[\s()`]", "", sql).casefold()
