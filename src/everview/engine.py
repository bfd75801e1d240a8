"""The way of a query in one place: parse, bind, and show or work out what it means.

>>> script = '''
... CREATE STREAM s (v INT, ts TIMESTAMP, TIMELINE ts);
... CREATE VIEW total AS SELECT SUM(v) AS total FROM s [RANGE 10 SECONDS];
... '''
>>> print(explain(script))
View total  · WK±
  Project `sum(v)` AS total  · WK±
    Aggregate sum(s.v) AS `sum(v)`  · WK±
      Window [RANGE 10 SECONDS]  · WKS
        Stream s (v INT, ts TIMESTAMP TIMELINE)  · MON

Behind each operator stands how its results come and go (paper 2): MON only come, WKS end in order, WK at
known times, STR at times nobody could know; ± says that rows may be taken back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from everview.algebra import nodes as N
from everview.algebra.changes import ChangeRow, Record, coalesce, from_raw
from everview.algebra.explain import explain as explain_plan
from everview.algebra.reference import meaning
from everview.algebra.text import string_sql
from everview.algebra.time import INFINITY, Chronon, Grid, format_timestamp
from everview.algebra.windows import Rows
from everview.catalog import Catalog, StreamEntry, ViewEntry, describe
from everview.errors import PlanError
from everview.rewrite import rewrite
from everview.sql import bind_script, plan_of
from everview.sql import statements as S
from everview.temporal.patterns import edge, require_runnable

if TYPE_CHECKING:
    from everview.runtime.pipeline import DataFrame, Done, Pipeline, SparkSession, Taken


@dataclass(frozen=True)
class Answer:
    """A view over a handful of rows: its columns, and its rows with the times at which they hold."""

    name: str
    plan: N.Node
    rows: list[ChangeRow]


def explain(script: str, catalog: Catalog | None = None) -> str:
    """The plans of all views and queries in a script, as they would run.

    Each operator with its update pattern, and at the end the rules that made the plan better.
    """
    catalog = Catalog() if catalog is None else Catalog(dict(catalog.entries), catalog.clock_grain)
    parts = []
    for statement in bind_script(script, catalog):
        _declare(statement, catalog)
        match statement:
            case S.Create(entry, plan) if plan is not None and entry.kind == "view":
                parts.append(_shown(N.View(entry.name, plan)))
            case S.Create(entry, plan) if plan is not None:
                parts.append(f"{entry.kind.capitalize()} {entry.name}\n{_indented(_shown(plan))}")
            case S.Select(query) | S.Explain(query) | S.InsertQuery(_, query):
                parts.append(_shown(query.plan))
    return "\n\n".join(parts)


def _shown(plan: N.Node) -> str:
    require_runnable(plan)
    better = rewrite(plan)
    text = explain_plan(better.plan, note=lambda node: f"· {edge(node)}")
    return text + (f"\nrules: {', '.join(better.fired)}" if better.fired else "")


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def _declare(statement: S.Statement, catalog: Catalog) -> None:
    """Carries out what a statement says about names."""
    match statement:
        case S.Create(entry, _, replace):
            catalog.add(entry, replace)
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
        _declare(statement, catalog)
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


class Database:
    """A store that is open for work: by one process at a time, on one Spark session."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._catalog = pipeline.store.load_catalog()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets the store go, and the Spark session if it was made for it."""
        self._pipeline.close()

    def execute(self, sql: str) -> DataFrame | str | None:
        """Carries out a script; what its last statement answers."""
        answer: DataFrame | str | None = None
        for statement in bind_script(sql, self._catalog):
            answer = self._carry_out(statement)
        return answer

    def _carry_out(self, statement: S.Statement) -> DataFrame | str | None:
        match statement:
            case S.Insert(target, rows, at):
                self._pipeline.take_in(self._catalog.get(target), rows, at)
            case S.Select(query):
                return self._pipeline.ask(query)
            case S.Explain(query):
                return _shown(query.plan)
            case S.Show(kind):
                return "\n".join(e.name for e in self._catalog if e.kind.upper().endswith(kind[:-1]))
            case S.Describe(name):
                return describe(self._catalog.get(name))
            case S.Create(entry, plan):
                if plan is not None:
                    require_runnable(plan)
                if self._catalog.entries.get(entry.name.casefold()) != entry:
                    self._pipeline.require_runnable(entry)
                self._remember(statement)
            case S.Drop() | S.SetClock():
                self._pipeline.require_new()
                self._remember(statement)
            case _:
                raise PlanError(f"{type(statement).__name__.upper()} binds, but does not run yet")
        return None

    def _remember(self, statement: S.Statement) -> None:
        _declare(statement, self._catalog)
        self._pipeline.store.save_catalog(self._catalog)

    def insert(self, name: str, rows: Iterable[Mapping[str, object]]) -> Taken:
        """Rows for a stream or a table, each by the names of its columns; times as datetime or as text."""
        return self._pipeline.take_in_rows(self._catalog.get(name), rows)

    def run(self, finish: bool = False) -> Done:
        """Takes in all there is and brings every view up to the bound; with `finish` no more will come."""
        views = {
            e.name: rewrite(plan_of(e.sql, self._catalog)).plan
            for e in self._catalog
            if isinstance(e, ViewEntry)
        }
        return self._pipeline.run(self._catalog, views, finish)

    def query(self, sql: str, as_of: str | None = None) -> DataFrame:
        """The answer of a SELECT at the present, or as of an instant: a Spark DataFrame."""
        ending = "" if as_of is None else f" AS OF TIMESTAMP {string_sql(as_of)}"
        answer = self.execute(sql.rstrip().rstrip(";") + ending)
        if answer is None or isinstance(answer, str):
            raise PlanError("query() takes a SELECT", next_step="use execute() for other statements")
        return answer

    def explain(self, sql: str) -> str:
        """The plan of a query."""
        return explain(sql, self._catalog)


def connect(path: str, spark: SparkSession | None = None, partitions: int | None = None) -> Database:
    """The store at a path, made where there is none; without a session, a local one for this machine."""
    from everview.runtime.pipeline import open_pipeline  # Spark is loaded only where it is needed

    return Database(open_pipeline(path, spark, partitions))
