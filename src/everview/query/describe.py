"""DESCRIBE: an entry of the catalog as a readable report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from everview.algebra import nodes as N
from everview.algebra.time import INFINITY, LEAST, Chronon, duration_text, instant_words
from everview.catalog import (
    CLOCK_ENTRY,
    Catalog,
    Entry,
    EventStreamEntry,
    Lateness,
    QueryEntry,
    StreamEntry,
    TableEntry,
    TaggedEntry,
    ViewEntry,
)
from everview.query.create import column_constraints, source_sql
from everview.query.event_words import all_bounds, wait_words
from everview.query.report import Report, table_lines, watermark
from everview.query.status import holding_of, view_bound, view_note
from everview.temporal.clocks import Clock
from everview.temporal.keys import keys_of
from everview.temporal.update_patterns import Pattern, edge

if TYPE_CHECKING:
    from everview.storage.manifest import Manifest

_PATTERNS = {
    Pattern.MON: "rows only come",
    Pattern.WKS: "rows end in the order in which they came",
    Pattern.WK: "rows end at times that are known",
    Pattern.STR: "rows end at times that are not known before",
}


@dataclass(frozen=True)
class Facts:
    """What a report needs besides the definition of an entry: its plan, and the state of the store."""

    catalog: Catalog
    manifest: Manifest
    plan: N.Node
    clocks: Mapping[str, Clock] = field(default_factory=dict)  # of the time lines of an event stream
    now: int = LEAST  # what the clock shows: it says which streams are idle


def describe_entry(entry: Entry, facts: Facts) -> Report:
    """Describe an entry: its columns with their types, then a line for each known property."""
    columns = _columns(entry, facts.plan)
    known = {name: value for name, value in _known(entry, facts).items() if value}
    lines = [f"{entry.kind} {entry.name}"]
    lines += [f"  {line}" for line in table_lines(*_split([tuple(c.values()) for c in columns]))]
    lines += [f"{name}: {value}" for name, value in known.items()]
    record = {
        "kind": entry.kind,
        "name": entry.name,
        "columns": [{k: v for k, v in c.items() if v} for c in columns],
        **{name.replace(" ", "_"): value for name, value in _record(known, entry, facts).items()},
    }
    return Report("\n".join(lines), (record,), tuple(columns))


def _split(rows: Sequence[tuple[str, ...]]) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    return rows[0], rows[1:]


def _columns(entry: Entry, plan: N.Node) -> list[dict[str, str]]:
    key = _key(entry, plan)
    lines = {t.column: t for t in entry.timelines} if isinstance(entry, StreamEntry) else {}
    found = []
    for f in plan.schema:
        notes = ["KEY"] if f.name in key else []
        if isinstance(entry, (StreamEntry, TableEntry)):
            notes += column_constraints(entry, entry.columns.find(f.name))
        if f.timeline is not None:
            notes.append("TIMELINE" + _time_line(lines.get(f.name)))
        found.append({"name": f.name, "type": str(f.type), "note": ", ".join(notes)})
    return found


def _time_line(line: Lateness | None) -> str:
    """Return what a stream says of a time line."""
    if line is None or not (line.arrival or line.lateness):
        return ""
    return " ARRIVAL" if line.arrival else f" LATENESS {duration_text(line.lateness)}"


def _key(entry: Entry, plan: N.Node) -> tuple[str, ...]:
    if isinstance(entry, (TableEntry, TaggedEntry)):
        return entry.key
    key = keys_of(plan.definition if isinstance(plan, N.View) else plan)
    return tuple(plan.schema.names[i] for i in key or ())


def _known(entry: Entry, facts: Facts) -> dict[str, str]:
    """Return the properties of an entry in the order of the report; empty ones are left out."""
    bound = facts.manifest.bound
    used = {"used by": ", ".join(facts.catalog.dependants(entry.name))}
    match entry:
        case StreamEntry():
            return {**_stream(entry, facts), **used}
        case TableEntry():
            return {
                "source": "INSERT" if entry.source is None else source_sql(entry.source),
                "updates": "change earlier results (RETROACTIVE)"
                if entry.retroactive
                else "count for later rows only (NON RETROACTIVE)",
                **used,
            }
        case TaggedEntry():
            return {
                "over": entry.over,
                "delete when": entry.delete_when or "",
                "update pattern": _pattern(facts.plan),
                "watermark": _known_up_to(bound),
                **used,
            }
        case ViewEntry():
            since = facts.manifest.since.get(entry.name, LEAST)
            return {
                "definition": " ".join(entry.sql.split()),
                "keeps": "its changes and its present answer (COMPLETE)" if entry.complete else "its changes",
                "history": _kept_history(entry, facts),
                "update pattern": _pattern(facts.plan),
                "watermark": _known_up_to(view_bound(facts.catalog, facts.manifest, entry.name)),
                "note": view_note(facts.manifest, entry.name),
                "complete since": instant_words(since),
                "reads": ", ".join(entry.depends_on),
                "does not read": _added_since(entry, facts.catalog),
                **used,
            }
        case EventStreamEntry():
            since = facts.manifest.since.get(entry.name, LEAST)
            bounds = all_bounds(facts.manifest)
            holding = holding_of(facts.catalog, facts.manifest, facts.clocks.values(), facts.now)
            waits = [wait_words(line, clock, bounds, holding) for line, clock in facts.clocks.items()]
            return {
                "definition": " ".join(entry.sql.split()),
                "keeps": "its rows, which are final",
                "history": _kept_history(entry, facts),
                "bound": "; ".join(f"{line}: {clock}" for line, clock in facts.clocks.items()),
                "watermark": _known_up_to(view_bound(facts.catalog, facts.manifest, entry.name)),
                "waits": "; ".join(waits),
                "note": view_note(facts.manifest, entry.name),
                "complete since": instant_words(since),
                "reads": ", ".join(entry.depends_on),
                "does not read": _added_since(entry, facts.catalog),
                **used,
            }


def default_history(entries: Iterable[Entry]) -> str:
    """Return what is kept of the changes of new views, if one of them does not say it; else nothing."""
    return next((_history(e) for e in entries if isinstance(e, QueryEntry) and e.least_changes), "")


def _kept_history(entry: QueryEntry, facts: Facts) -> str:
    """Return what is kept of the changes of a view, and from when on, if some are forgotten by now."""
    from everview.storage.history import forgotten_before

    begin = forgotten_before(facts.manifest, facts.catalog, entry.name)
    return _history(entry) if begin < LEAST else f"{_history(entry)}; kept from {instant_words(begin)} on"


def _history(entry: QueryEntry) -> str:
    if entry.history == INFINITY:
        return "for ever"
    length = duration_text(entry.history) if entry.history else "none, only the present answer"
    return f"{length}, and the last {entry.least_changes:,} changes" if entry.least_changes else length


def _added_since(entry: QueryEntry, catalog: Catalog) -> str:
    """Return the columns that were added, after a view was made, to what it reads."""
    found = []
    for name, number in entry.read_columns:
        below = catalog.get(name)
        if isinstance(below, (StreamEntry, TableEntry)):
            found.append(f"{', '.join(below.columns.names[number:])} of {name}, added later")
    return "; ".join(found)


def _stream(entry: StreamEntry, facts: Facts) -> dict[str, str]:
    if entry is CLOCK_ENTRY:
        return {"source": f"the clock, every {duration_text(facts.catalog.clock_grain)}"}
    own = facts.manifest.bounds.get(entry.name, {}).get(entry.timelines[0].column, LEAST)
    taken, late, rejected = facts.manifest.counts.get(entry.name, (0, 0, 0))
    admitted = sum(run.rows for run in facts.manifest.admitted(entry.name))
    again = f" ({admitted:,} re-admitted)" if admitted else ""
    return {
        "source": "INSERT" if entry.source is None else source_sql(entry.source),
        "sequence by": ", ".join(entry.sequence),
        "check": " AND ".join(f"({check})" for check in entry.checks),
        "punctuate when": entry.punctuate or "",
        "max ahead": _max_ahead(entry),
        "idle after": "" if entry.idle_after is None else duration_text(entry.idle_after),
        "expected": "" if entry.expected.rate is None else f"{entry.expected.rate:,.15g} rows/s",
        "watermark": _known_up_to(own),
        "rows": f"{taken:,} taken{again}, {late:,} late, {rejected:,} rejected",
    }


def _max_ahead(entry: StreamEntry) -> str:
    """Return how far ahead of the clock the rows of a source may be."""
    if entry.source is None:
        return ""
    return "without a limit" if entry.max_ahead is None else duration_text(entry.max_ahead)


def _record(known: dict[str, str], entry: Entry, facts: Facts) -> dict[str, Any]:
    """Return the properties for programs: times as timestamps, names as lists, counts as numbers."""
    record: dict[str, Any] = dict(known)
    for name in ("reads", "used by", "sequence by"):
        if name in record:
            record[name] = record[name].split(", ")
    if isinstance(entry, QueryEntry):
        known_to = view_bound(facts.catalog, facts.manifest, entry.name)
        record |= {
            "definition": entry.sql,
            "watermark": watermark(known_to),
            "complete since": watermark(facts.manifest.since.get(entry.name, LEAST)),
            **({"update pattern": str(edge(facts.plan))} if isinstance(entry, ViewEntry) else {}),
        }
    if "rows" in record and isinstance(entry, StreamEntry):
        counts = facts.manifest.counts.get(entry.name, (0, 0, 0))
        record["rows"] = dict(zip(("taken", "late", "rejected"), counts, strict=True))
        own = facts.manifest.bounds.get(entry.name, {}).get(entry.timelines[0].column, LEAST)
        record["watermark"] = watermark(own)
    return record


def _known_up_to(t: Chronon) -> str:
    return "nothing is known yet" if watermark(t) is None else instant_words(t)


def _pattern(plan: N.Node) -> str:
    found = edge(plan)
    back = ", and may be taken back" if found.signed else ""
    return f"{found}, {_PATTERNS[found.pattern]}{back}"
