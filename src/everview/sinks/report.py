"""DESCRIBE SINK, SHOW CREATE SINK, and the sinks in the state of a store."""

from __future__ import annotations

from everview.algebra.text import name_sql
from everview.catalog import SPARK_FILES, Catalog, SinkEntry
from everview.errors import format_count
from everview.query.report import Report, show_names
from everview.query.status import SinkStatus
from everview.sinks.definition import sink_key
from everview.sinks.position import SinkPosition, SinkPositions
from everview.sql import relation_of
from everview.storage.files import Files
from everview.storage.manifest import Manifest

_ONCE = {
    "parquet": "each step once, by the name of its folder",
    "json": "each step once, by the name of its folder",
    "csv": "each step once, by the name of its folder",
    "webhook": "each step at least once, with an idempotency key",
    "delta": "each step once, by the version of its transaction",
    "iceberg": "each step once, in a commit with its number",
    "postgres": "each step once, in a transaction with its number",
    **dict.fromkeys(SPARK_FILES, "each step once, by the name of its folder"),
    "kafka": "each step at least once, with (sink, step, row) in the header 'everview' of each record",
}
_BY_SPARK = "each step at least once, appended by Spark"


def show_sink_sql(sink: SinkEntry) -> Report:
    """Show the statement that creates a sink; passwords are not shown."""
    sql = f"CREATE SINK {name_sql(sink.name)} FROM {name_sql(sink.view)}\n{sink.clauses_sql};"
    return Report(sql, ({"name": sink.name, "sql": sql},))


def show_sinks(catalog: Catalog, files: Files) -> Report:
    """Return the names of all sinks; with each that was set aside, the reason."""
    positions = SinkPositions(files)
    found = {sink.name: positions.read(sink.id) for sink in catalog.sinks.values()}
    aside = {name: position.error for name, position in found.items() if position and position.aside}
    return show_names(list(found), aside)


def describe_sink(sink: SinkEntry, catalog: Catalog, files: Files, manifest: Manifest) -> Report:
    """Describe a sink: what it writes where, how far it has come, and what is wrong with it."""
    position = SinkPositions(files).read(sink.id)
    key = sink_key(sink, relation_of(sink.view, catalog))
    known = {
        "from": sink.view,
        "into": sink.target_sql,
        "mode": sink.mode,
        "key": ", ".join(key),
        "written": _ONCE.get(sink.format, _BY_SPARK),
        "position": _position(position, manifest),
        "note": "" if position is None else position.note,
        "next": _next_step(position),
    }
    known = {name: value for name, value in known.items() if value}
    lines = [f"sink {sink.name}", *(f"{name}: {value}" for name, value in known.items())]
    record = {"kind": "sink", "name": sink.name, **known}
    record["step"] = "" if position is None else position.step  # type: ignore[assignment]
    return Report("\n".join(lines), (record,))


def sink_statuses(catalog: Catalog, files: Files, manifest: Manifest) -> tuple[SinkStatus, ...]:
    """Return the state of all sinks, and of the functions that changes are given to."""
    positions = SinkPositions(files)
    found = []
    for sink in catalog.sinks.values():
        position = positions.read(sink.id)
        note = "" if position is None else position.note
        found.append(SinkStatus(sink.name, sink.view, sink.target_sql, _step(position), note))
    for id_ in positions.ids():
        position = positions.read(id_)
        if position is not None and position.function:
            found.append(
                SinkStatus(position.name, position.view, "a Python function", position.step, position.note)
            )
    return tuple(found)


def _step(position: SinkPosition | None) -> int:
    return 0 if position is None else position.step


def _position(position: SinkPosition | None, manifest: Manifest) -> str:
    if position is None or not position.begun:
        return "nothing is written yet"
    behind = sum(1 for step, _ in manifest.marks if step > position.step and manifest.voided(step) is None)
    left = f", {format_count(behind, 'step')} behind" if behind and position.aside else ""
    return f"step {position.step}{left}"


def _next_step(position: SinkPosition | None) -> str:
    if position is None or not position.aside:
        return ""
    if position.stopped:
        return f"{position.resume_sql} writes the present answer anew"
    mend = f"{position.next_step}; " if position.next_step else ""
    return f"{mend}it is tried again after each step, or at once by {position.resume_sql}"
