"""The answers of the views and event streams of a script by the definitions alone, for a few rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from everview.algebra import nodes as N
from everview.algebra.changes import ChangeRow, Record, coalesce, from_raw
from everview.algebra.session import Session
from everview.algebra.time import INFINITY, Chronon, Grid
from everview.algebra.windows import Rows
from everview.catalog import Catalog, EventStreamEntry, StreamEntry
from everview.errors import PlanError
from everview.reference.events import EventInputs, event_meaning
from everview.reference.meaning import meaning
from everview.sql import bind_script, declare
from everview.sql import statements as S
from everview.temporal.runnable import require_runnable


@dataclass(frozen=True)
class Answer:
    """A view or event stream over a few rows: its plan, and its rows with the times at which they hold."""

    name: str
    plan: N.Node
    rows: list[ChangeRow]


def work_out(script: str, given: Mapping[str, Sequence[Record]] | None = None) -> list[Answer]:
    """Return the answers of the views and event streams of a script by the definitions alone.

    It is slow, for a few rows. Rows come from the script's INSERTs and from `given`, by the name of the
    stream. A row of an event stream holds from its first time line on, for ever.

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
            case S.Create(entry, plan) if isinstance(entry, EventStreamEntry) and plan is not None:
                plans[entry.name] = plan
            case S.Create():
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
    answers = []
    for name, plan in plans.items():  # each after those that it reads
        entry = catalog.get(name)
        if isinstance(entry, EventStreamEntry):
            inputs[name] = _final_rows(plan, entry, inputs)
            answers.append(Answer(name, plan, inputs[name]))
        else:
            answers.append(Answer(name, plan, _worked_out(plan, inputs)))
    return answers


def _final_rows(
    plan: N.Node, entry: EventStreamEntry, inputs: Mapping[str, Sequence[ChangeRow]]
) -> list[ChangeRow]:
    """Return all rows of an event stream; each holds from its first time line on."""
    tables = {n.name for n in plan.walk() if isinstance(n, N.Table)}
    rows = {name: [r.record for r in rows for _ in range(r.n)] for name, rows in inputs.items()}
    times = [t for rows in inputs.values() for r in rows for t in (r.from_, r.until)]
    given = EventInputs(rows, {name: inputs[name] for name in tables}, instants=_instants(plan, times))
    found = event_meaning(plan, given)
    position = plan.schema.index(plan.schema.find(entry.timelines[0]))
    return sorted(from_raw(found.elements(), _time_at(position)), key=lambda r: r.from_)


def _change_rows(entry: object, records: Sequence[Record]) -> list[ChangeRow]:
    """Return rows as change rows: rows of a stream hold from their timestamp on, those of a table always."""
    if not isinstance(entry, StreamEntry):
        return [ChangeRow(record, -INFINITY, INFINITY) for record in records]
    return from_raw(records, _time_at(entry.columns.names.index(entry.timelines[0].column)))


def _time_at(position: int) -> Callable[[Record], Chronon]:
    """Return the function that reads the timestamp at a position of a record."""

    def timestamp(record: Record) -> Chronon:
        ts = record[position]
        return ts if isinstance(ts, int) else 0

    return timestamp


def _worked_out(plan: N.Node, inputs: Mapping[str, Sequence[ChangeRow]]) -> list[ChangeRow]:
    instants = _instants(plan, [t for rows in inputs.values() for r in rows for t in (r.from_, r.until)])
    following = dict(zip(instants, [*instants[1:], INFINITY], strict=True))
    rows = [ChangeRow(e, t, following[t], n) for (e, t), n in meaning(plan, inputs, instants).items()]
    return sorted(coalesce(rows), key=lambda r: (r.from_, r.until))


def _instants(plan: N.Node, times: list[Chronon]) -> list[Chronon]:
    """Return all instants at which the answer may change: begins and ends of rows, steps of windows."""
    found = {t for t in times if -INFINITY < t < INFINITY} or {0}
    windows = [n.window for n in plan.walk() if isinstance(n, N.Window) and not isinstance(n.window, Rows)]
    grids: list[Grid] = [n.grid for n in plan.walk() if isinstance(n, (N.Synchronize, N.RStream))]
    for window in windows:
        for ts in list(found):
            interval = window.interval(ts)
            found |= set() if interval is None else {interval.from_, interval.until} - {INFINITY}
    for gap in {n.gap for n in plan.walk() if isinstance(n, Session)}:
        found |= {ts + gap for ts in found}
    for grid in grids:
        found |= set(grid.points(min(found), max(found) + grid.step + 1))
    return sorted(found)
