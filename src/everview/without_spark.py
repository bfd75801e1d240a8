"""What a store and a script say without Spark: errors of a script, plans, the catalog, the status."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from everview.algebra.time import INFINITY
from everview.catalog import Catalog, EventStreamEntry, QueryEntry, StreamEntry, TableEntry, ViewEntry
from everview.errors import EverviewError, PlanError
from everview.explain import explain_script
from everview.plan.explain import MeasuredStore
from everview.plan.strategies import find_strategy
from everview.query.charts.view import Instant, chronon_of
from everview.query.event_words import line_clocks
from everview.query.status import Status, store_status
from everview.sql import bind_script, declare
from everview.sql import statements as S
from everview.sql.ad_hoc import Query
from everview.temporal.clocks import Clock
from everview.temporal.runnable import require_runnable

if TYPE_CHECKING:
    from everview.storage.manifest import Manifest
    from everview.storage.store import Store

_ATTEMPTS = 3  # to read a store while another process writes it


def explain_text(
    script: str,
    catalog: Catalog | None = None,
    format: str = "text",
    cost: bool = False,
    path: str | None = None,
    strategy: str | None = None,
) -> str:
    """Explain a script: its plans as text, as a picture (svg) or for programs (json). Nothing is run.

    With `cost`, operators have figures; with the `path` of a store, those that it has measured as well. The
    strategy is that of the store, or UPA, by default.
    """
    measured, kept = (None, "UPA") if path is None or catalog is None else _measured_at(path, catalog)
    chosen = kept if strategy is None else find_strategy(strategy)
    return explain_script(script, catalog, None, cost, measured, chosen).shown(format)


def _measured_at(path: str, catalog: Catalog) -> tuple[MeasuredStore | None, str]:
    """Return what the store at a path has measured, None if there is no store, and its strategy. No Spark."""
    if "://" not in path and not os.path.exists(path):
        return None, "UPA"  # without importing what reads a store
    from everview.storage.files import Files
    from everview.storage.statistics import measure_store
    from everview.storage.store import SETTINGS_FILE, Store

    if not Files(path).exists(SETTINGS_FILE):
        return None, "UPA"
    store = Store.open(path)
    return measure_store(store.manifest(), catalog), store.settings.strategy


def bind_question(
    sql: str, catalog: Catalog, as_of: Instant = None, parameters: Mapping[str, object] | None = None
) -> Query:
    """Bind a text that must be one SELECT, as of an instant if one is given. Nothing is executed."""
    found: list[Query] = []
    for statement in bind_script(sql, catalog, parameters):
        if not isinstance(statement, S.Select) or found:
            raise PlanError(
                "a query is one SELECT, and this is more or something else",
                next_step="run other statements as a script",
            )
        found.append(statement.query)
    if not found:
        raise PlanError("there is no query", next_step="write SELECT …")
    if as_of is None:
        return found[0]
    return replace(found[0], as_of=chronon_of(as_of))


def bind_on_copy(sql: str, catalog: Catalog) -> list[S.Statement]:
    """Bind the statements of a script on a copy of the catalog, to raise its errors before anything runs."""
    known = catalog.copy()
    found = []
    for statement in bind_script(sql, known):
        declare(statement, known)
        if isinstance(statement, S.Create) and isinstance(statement.entry, ViewEntry) and statement.plan:
            require_runnable(statement.plan)
        if isinstance(statement, S.CreateSink):
            check_sink(statement, known)
        found.append(statement)
    return found


def check_sink(statement: S.CreateSink, catalog: Catalog) -> None:
    """Refuse a sink whose mode does not go with its view."""
    from everview.sinks.definition import require_mode

    view = catalog.get(statement.sink.view)
    history = view.history if isinstance(view, QueryEntry) else INFINITY
    try:
        require_mode(statement.sink, statement.plan, statement.of_events, history)
    except PlanError as error:
        raise error.at(statement.place) from None


def is_show_statement(sql: str, catalog: Catalog) -> bool:
    """Return whether a text is a DESCRIBE or a SHOW, which need no Spark."""
    try:
        statements = list(bind_script(sql, catalog))
    except EverviewError:
        return False  # the error is reported when the text is executed
    return len(statements) == 1 and isinstance(statements[0], (S.Show, S.ShowCreate, S.ShowSink, S.Describe))


def only_asks(sql: str, catalog: Catalog) -> bool:
    """Return whether a script changes nothing: all its statements are questions."""
    asking = (
        S.Select, S.Explain, S.ExplainCreate, S.Show, S.ShowCreate, S.ShowSink, S.Describe,
        S.SetAnswerFromViews,
    )  # fmt: skip
    try:
        return all(isinstance(statement, asking) for statement in bind_script(sql, catalog))
    except EverviewError:
        return True  # the error is reported when the text is executed


def is_select(statement: S.Statement) -> bool:
    """Return whether a statement is a SELECT."""
    return isinstance(statement, S.Select)


def read_catalog(path: str, create: bool = False) -> Catalog:
    """Read the catalog of the store at a path without Spark; raise StoreError if there is no store.

    With `create`, a path where a store can be created has an empty catalog.
    """
    if create and "://" not in path and not os.path.exists(path):
        return Catalog()  # without importing what reads a store
    from everview.storage.files import Files
    from everview.storage.store import SETTINGS_FILE, Store

    nothing_yet = create and not Files(path).exists(SETTINGS_FILE)
    return Catalog() if nothing_yet else Store.open(path).load_catalog()


def status_at(path: str, for_others: bool = False) -> Status:
    """Return the state of the store at a path, read without Spark while other processes may write it.

    `for_others`: as another process on this machine would say it.
    """
    import time

    from everview.storage.lock import writer_of
    from everview.storage.store import Store

    store = Store.open(path)
    writer = writer_of(store.files, for_others)
    return status_of(
        store,
        store.load_catalog(),
        time.time_ns() // 1000,
        "not running" if writer is None else f"running in {writer}",
    )


def status_of(store: Store, catalog: Catalog, now: int, background: str, error: str | None = None) -> Status:
    """Return the state of a store, and of its background steps as they are given."""
    from everview.ingest.waiting import waiting_rows
    from everview.sinks.report import sink_statuses
    from everview.storage.files import FileMissing
    from everview.storage.sizes import view_bytes

    names = [e.name for e in catalog if isinstance(e, (StreamEntry, TableEntry))]
    views = [e.name for e in catalog if isinstance(e, QueryEntry)]
    for attempt in range(_ATTEMPTS):
        manifest = store.manifest()
        try:
            waiting = waiting_rows(store.files, manifest, names)
            sizes = view_bytes(store.files, manifest, views)
        except FileMissing:  # clean-up has removed it since: there is a later manifest
            if attempt == _ATTEMPTS - 1:
                raise
            continue
        clocks = event_clocks(store, catalog, manifest)
        sinks = sink_statuses(catalog, store.files, manifest)
        return store_status(catalog, manifest, waiting, now, background, error, sizes, clocks, sinks)
    raise AssertionError


def event_clocks(store: Store, catalog: Catalog, manifest: Manifest) -> dict[str, dict[str, Clock]]:
    """Return the clocks of all event streams that have run."""
    from everview.storage.plans import PlanReader

    events = [e for e in catalog if isinstance(e, EventStreamEntry)]
    load = PlanReader(store.files)
    return {e.name: line_clocks(e, manifest, load) for e in events}
