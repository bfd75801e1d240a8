"""The way of a query in one place: parse, bind, and show or work out what it means.

>>> script = '''
... CREATE STREAM s (v INT, ts TIMESTAMP, TIMELINE ts);
... CREATE VIEW total AS SELECT SUM(v) AS total FROM s [RANGE 10 SECONDS];
... '''
>>> print(explain(script))
View total  · may be retracted (WK±) · keeps its changes, for ever
  Project `sum(v)` AS total  · may be retracted (WK±)
    Aggregate sum(s.v) AS `sum(v)`  · may be retracted (WK±) · keeps one value; ends to come, 10 s
      Window [RANGE 10 SECONDS]  · expires within 10 s (WKS)
        Stream s (v INT, ts TIMESTAMP TIMELINE)  · append-only (MON) · bound newest ts

Behind each operator stands how its results come and go, with the name that paper 2 has for it: MON are only
added, WKS end in order, WK at known times, STR at times nobody could know; ± says that rows may be retracted.
Then what state it keeps and for how long, and up to where the rows of a stream are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from everview.algebra import nodes as N
from everview.algebra.changes import ChangeRow, Record, coalesce, from_raw
from everview.algebra.reference import meaning
from everview.algebra.time import INFINITY, Chronon, Grid, format_timestamp
from everview.algebra.windows import Rows
from everview.catalog import Catalog, StreamEntry
from everview.errors import PlanError
from everview.explanation import Explanation, explained
from everview.sql import bind_script
from everview.sql import statements as S
from everview.temporal.runnable import require_runnable


@dataclass(frozen=True)
class Answer:
    """A view over a handful of rows: its columns, and its rows with the times at which they hold."""

    name: str
    plan: N.Node
    rows: list[ChangeRow]


def explanation_of(script: str, catalog: Catalog | None = None) -> Explanation:
    """The plans of all views, event streams and queries in a script, as they would run.

    A query is shown as the view that it would be. The catalog is left as it is.
    """
    known = Catalog() if catalog is None else catalog.copy()
    return explained(_declared(script, known), known)


def explain(script: str, catalog: Catalog | None = None, format: str = "text") -> str:
    """The same as text, as a picture (svg) or for programs (json)."""
    return explanation_of(script, catalog).shown(format)


def _declared(script: str, catalog: Catalog) -> Iterator[S.Statement]:
    """The statements of a script, the names of each known to those after it."""
    for statement in bind_script(script, catalog):
        declare(statement, catalog)
        yield statement


def declare(statement: S.Statement, catalog: Catalog) -> None:
    """Carries out what a statement says about names."""
    match statement:
        case S.Create(entry, _, replace):
            catalog.add(entry, replace)
        case S.CreateAs(entry):
            catalog.add(entry)
        case S.Drop(name, cascade) if name is not None:
            catalog.drop(name, cascade)
        case S.SetClock(grain):
            catalog.clock_grain = grain


def work_out(script: str, given: Mapping[str, Sequence[Record]] | None = None) -> list[Answer]:
    """The answers of a script's views by their definitions alone: slow and plain, for a handful of rows.

    Rows come from the script's INSERTs and from `given`, by the name of the stream.

    >>> answers = work_out('''
    ... CREATE STREAM s (v INT, ts TIMESTAMP, TIMELINE ts);
    ... INSERT INTO s VALUES (7, TIMESTAMP '1970-01-01 00:00:01'), (7, TIMESTAMP '1970-01-01 00:00:02');
    ... CREATE VIEW once AS SELECT DISTINCT v FROM s [RANGE 5 SECONDS];
    ... ''')
    >>> answers[0].rows
    [ChangeRow(record=(7,), from_=1000000, until=7000000, n=1)]
    """
    catalog = Catalog()
    records = {name: list(rows) for name, rows in (given or {}).items()}
    plans: dict[str, N.Node] = {}
    for statement in bind_script(script, catalog):
        declare(statement, catalog)
        match statement:
            case S.Insert(target, rows, None):
                records.setdefault(target, []).extend(rows)
            case S.Create(entry, plan) if entry.kind == "view" and plan is not None:
                require_runnable(plan)
                plans[entry.name] = plan
            case S.Create(entry) if entry.kind != "event stream":
                continue
            case _:
                raise PlanError(
                    "work_out takes CREATE STREAM, TABLE and VIEW, and INSERT without AT",
                    next_step="use connect() for the rest",
                )
    read = {n.name for p in plans.values() for n in p.walk() if isinstance(n, N.Stream)}
    if any(name.casefold() not in catalog.entries for name in read):
        raise PlanError("work_out has no clock, and no late or rejected rows")
    inputs = {entry.name: _change_rows(entry, records.get(entry.name, [])) for entry in catalog}
    return [Answer(name, plan, _worked_out(plan, inputs)) for name, plan in plans.items()]


def _change_rows(entry: object, records: Sequence[Record]) -> list[ChangeRow]:
    """Rows of a stream hold from their time line on, rows of a table from the beginning."""
    if not isinstance(entry, StreamEntry):
        return [ChangeRow(record, -INFINITY, INFINITY) for record in records]
    position = entry.columns.names.index(entry.timelines[0].column)

    def timestamp(record: Record) -> Chronon:
        ts = record[position]
        return ts if isinstance(ts, int) else 0

    return from_raw(records, timestamp)


def _worked_out(plan: N.Node, inputs: Mapping[str, Sequence[ChangeRow]]) -> list[ChangeRow]:
    instants = _instants(plan, [t for rows in inputs.values() for r in rows for t in (r.from_, r.until)])
    following = dict(zip(instants, [*instants[1:], INFINITY], strict=True))
    rows = [ChangeRow(e, t, following[t], n) for (e, t), n in meaning(plan, inputs, instants).items()]
    return sorted(coalesce(rows), key=lambda r: (r.from_, r.until))


def _instants(plan: N.Node, times: list[Chronon]) -> list[Chronon]:
    """All instants at which the answer may change: where rows begin and end, windows and grids move."""
    found = {t for t in times if -INFINITY < t < INFINITY} or {0}
    windows = [n.window for n in plan.walk() if isinstance(n, N.Window) and not isinstance(n.window, Rows)]
    grids: list[Grid] = [n.grid for n in plan.walk() if isinstance(n, (N.Synchronize, N.RStream))]
    for window in windows:
        for ts in list(found):
            interval = window.interval(ts)
            found |= set() if interval is None else {interval.from_, interval.until} - {INFINITY}
    for grid in grids:
        found |= set(grid.points(min(found), max(found) + grid.step + 1))
    return sorted(found)


def moment(t: Chronon) -> str:
    """An instant as it is shown to a person."""
    return format_timestamp(t)
