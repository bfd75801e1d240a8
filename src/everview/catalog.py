"""The catalog: the entries of a store by name, and the dependencies between them.

It is stored as readable JSON. The definition of a view is stored as the SQL text that the user wrote.

>>> from everview.algebra.types import INT, TIMESTAMP
>>> catalog = Catalog()
>>> columns = Schema.of(("id", INT), ("ts", TIMESTAMP), timeline="ts")
>>> _ = catalog.add(StreamEntry("s", columns, (Lateness("ts", 5_000_000),)))
>>> _ = catalog.add(ViewEntry("v", "SELECT id FROM s", depends_on=("s",)))
>>> catalog.dependants("s")
['v']
>>> Catalog.from_json(catalog.to_json()).get("V").sql
'SELECT id FROM s'
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from dataclasses import replace as replace_fields
from typing import Any

from everview.algebra.convert import convert
from everview.algebra.nodes import Node
from everview.algebra.schema import Field, Schema, names_beside
from everview.algebra.time import DAY, INFINITY, SECOND
from everview.algebra.types import BIGINT, BINARY, SIMPLE_TYPES, STRING, TIMESTAMP, DataType
from everview.errors import AlgebraError, CatalogError, StoreError, nearest

CATALOG_FORMAT = 1
CLOCK = "clock"
MAX_AHEAD = DAY  # unless a stream says otherwise

Defaults = tuple[tuple[str, object], ...]  # columns and what they hold where INSERT gives no value


@dataclass(frozen=True)
class Lateness:
    """The lateness of a time line, in microseconds: how late its rows may arrive.

    With `arrival` the clock stamps each row when it is taken in.
    """

    column: str
    lateness: int = 0
    arrival: bool = False


URI_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # of a path that is a URI


@dataclass(frozen=True)
class Source:
    """FROM format(path, option => value, …)."""

    format: str
    path: str | None = None
    options: tuple[tuple[str, str], ...] = ()

    @property
    def full_path(self) -> str:
        """Return the path for messages; a relative path starts at the working directory."""
        path = re.sub(r"^file:/+", "/", self.path or "")
        return path if URI_SCHEME.match(path) else os.path.abspath(os.path.expanduser(path))


@dataclass(frozen=True)
class StreamEntry:
    """An append-only stream; without a source, its rows come from INSERT.

    `max_ahead` says how far ahead of the clock the timestamps of its source may be; None: without a limit.
    A row for which one of the `checks` is false is rejected; one for which `punctuate` holds moves the bound
    to its own timestamp. Both are SQL conditions over the stream's columns.
    `incarnation` tells it apart from streams of the same name that were dropped before it was made.
    """

    name: str
    columns: Schema
    timelines: tuple[Lateness, ...]
    sequence: tuple[str, ...] = ()
    idle_after: int | None = None
    source: Source | None = None
    not_null: tuple[str, ...] = ()
    defaults: Defaults = ()
    max_ahead: int | None = MAX_AHEAD
    checks: tuple[str, ...] = ()
    punctuate: str | None = None
    incarnation: int = field(default=0, compare=False)
    kind = "stream"

    @property
    def depends_on(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True)
class TaggedEntry:
    """An update stream over a stream."""

    name: str
    over: str
    key: tuple[str, ...]
    delete_when: str | None = None
    kind = "tagged stream"

    @property
    def depends_on(self) -> tuple[str, ...]:
        return (self.over,)


@dataclass(frozen=True)
class TableEntry:
    """A relation; `as_query` is the query that its first rows came from (CREATE TABLE … AS).

    `incarnation` tells it apart from tables of the same name that were dropped before it was made.
    """

    name: str
    columns: Schema
    key: tuple[str, ...] = ()
    retroactive: bool = True
    source: Source | None = None
    not_null: tuple[str, ...] = ()
    defaults: Defaults = ()
    as_query: str | None = None
    incarnation: int = field(default=0, compare=False)
    kind = "table"

    @property
    def depends_on(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True)
class ViewEntry:
    """A view; `history` is how long its changes are retained, in microseconds, or for ever.

    `column_names` are those that CREATE VIEW gives to the columns of the query; without any they keep theirs.
    """

    name: str
    sql: str
    complete: bool = False
    history: int = INFINITY
    depends_on: tuple[str, ...] = ()
    column_names: tuple[str, ...] = ()
    kind = "view"


@dataclass(frozen=True)
class EventStreamEntry:
    """A stream that an event query defines (paper 3)."""

    name: str
    sql: str
    timelines: tuple[str, ...]
    depends_on: tuple[str, ...] = ()
    kind = "event stream"


FedEntry = StreamEntry | TableEntry  # an entry that receives rows, from a source or by INSERT
Entry = StreamEntry | TaggedEntry | TableEntry | ViewEntry | EventStreamEntry


def kind_with_article(entry: Entry) -> str:
    """Return the kind of an entry with its article: "a stream"."""
    return f"an {entry.kind}" if entry.kind.startswith("e") else f"a {entry.kind}"


# The columns that describe a rejected or late row: the step, the reason, and the row as text.
_REFUSAL = {"_step": BIGINT, "_reason": STRING, "_original": STRING}


def untaken_columns(stream: StreamEntry | TableEntry, kind: str) -> Schema:
    """Return the columns of stream$late (the stream's own first), or of stream$rejected and table$rejected.

    A column of ours gets another name in both if the stream already has a column of that name.
    """
    own = tuple(replace(f, timeline=None) for f in stream.columns) if kind == "late" else ()
    names = names_beside(stream.columns.names, *_REFUSAL)
    return Schema(own + tuple(map(Field, names, _REFUSAL.values())))


CLOCK_ENTRY = StreamEntry(
    CLOCK, Schema((Field("time_point", TIMESTAMP, timeline=0),)), (Lateness("time_point"),)
)


@dataclass
class Catalog:
    """All entries by name, in the order of their creation; names are compared without regard to case.

    `dropped` counts the streams and tables that were dropped; it is the incarnation of the next new one.
    """

    entries: dict[str, Entry] = field(default_factory=dict)
    clock_grain: int = SECOND
    dropped: int = 0
    _bound: dict[str, tuple[Entry, Node]] = field(default_factory=dict, repr=False, compare=False)

    def copy(self) -> Catalog:
        """Return an independent catalog with the same entries."""
        return Catalog(dict(self.entries), self.clock_grain, self.dropped, dict(self._bound))

    def take_over(self, other: Catalog) -> None:
        """Replace all entries with those of another catalog."""
        entries = dict(other.entries)
        if entries != self.entries:
            self._bound.clear()
        self.entries.clear()
        self.entries.update(entries)
        self.clock_grain, self.dropped = other.clock_grain, other.dropped

    def bound_definition(self, entry: Entry) -> Node | None:
        """Return the plan that was remembered for an entry; None if there is none, or for another entry."""
        known = self._bound.get(entry.name.casefold())
        return known[1] if known is not None and known[0] == entry else None

    def remember_definition(self, entry: Entry, plan: Node) -> None:
        """Remember the plan of an entry of this catalog, until it or what it depends on is replaced."""
        if self.entries.get(entry.name.casefold()) == entry:
            self._bound[entry.name.casefold()] = entry, plan

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries.values())

    def __contains__(self, name: str) -> bool:
        return name.casefold() in self.entries or name.casefold() == CLOCK

    def get(self, name: str) -> Entry:
        """Return the entry of this name; raise CatalogError if there is none."""
        found = self.entries.get(name.casefold())
        if found is not None:
            return found
        if name.casefold() == CLOCK:
            return CLOCK_ENTRY
        known = [e.name for e in self]
        raise CatalogError(
            f"there is no stream, table or view '{name}'",
            meant=nearest(name, [*known, CLOCK]),
            choices=known,
            next_step=None if known else "make one with CREATE STREAM, CREATE TABLE or CREATE VIEW",
        )

    def add(self, entry: Entry, replace: bool = False) -> bool:
        """Add an entry; return False if the catalog already had exactly this entry."""
        if entry.name.casefold() == CLOCK:
            raise CatalogError("'clock' is the built-in clock stream", next_step="choose another name")
        before = self.entries.get(entry.name.casefold())
        if before is not None and before == replace_fields(entry, name=before.name):
            return False
        if before is not None and not (replace and before.kind == entry.kind == "view"):
            raise CatalogError(
                f"there is already {kind_with_article(before)} '{before.name}' with another definition",
                next_step="use CREATE OR REPLACE VIEW"
                if before.kind == entry.kind == "view"
                else f"DROP it first, or choose another name (DESCRIBE {before.name} shows what it is)",
            )
        if isinstance(entry, (StreamEntry, TableEntry)):
            entry = replace_fields(entry, incarnation=self.dropped)
        if before is not None:
            entry = replace_fields(entry, name=before.name)  # its rows are kept under the name that it has
            for name in (entry.name, *self.dependants(entry.name)):
                self._bound.pop(name.casefold(), None)
        self.entries[entry.name.casefold()] = entry
        return True

    def drop(self, name: str, cascade: bool = False) -> list[str]:
        """Remove an entry, with CASCADE also all that depend on it; return the names that were removed."""
        entry = self.get(name)
        if entry is CLOCK_ENTRY:
            raise CatalogError("'clock' is built in and cannot be dropped")
        dependants = self.dependants(entry.name)
        if dependants and not cascade:
            raise CatalogError(
                f"the {entry.kind} '{entry.name}' is still used by {', '.join(dependants)}",
                next_step=f"drop these first, or DROP {entry.kind.split()[-1].upper()} {entry.name} CASCADE",
            )
        gone = [*reversed(dependants), entry.name]
        for each in gone:
            self._bound.pop(each.casefold(), None)
            self.dropped += isinstance(self.entries.pop(each.casefold()), (StreamEntry, TableEntry))
        return gone

    def dependants(self, name: str) -> list[str]:
        """Return the entries that depend on this name, directly or not, each after those it depends on."""
        ordered: dict[str, None] = {}

        def place(entry: Entry) -> bool:
            """Append an entry after those it depends on, if it depends on the name at all."""
            if entry.name in ordered:
                return True
            below = [d for d in entry.depends_on if d.casefold() != name.casefold()]
            reached = [place(self.get(d)) for d in below]
            if len(below) < len(entry.depends_on) or any(reached):
                ordered[entry.name] = None
                return True
            return False

        for entry in self:
            if entry.name.casefold() != name.casefold():
                place(entry)
        return list(ordered)

    def to_json(self) -> str:
        """Return the catalog as readable JSON text."""
        body = {
            "format": CATALOG_FORMAT,
            "clock_grain": self.clock_grain,
            **({"dropped": self.dropped} if self.dropped else {}),
            "entries": [_entry_to_dict(e) for e in self],
        }
        return json.dumps(body, indent=2, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Catalog:
        """Return the catalog that `to_json` wrote."""
        try:
            body = json.loads(text)
            version = body["format"]
        except (ValueError, KeyError, TypeError):
            raise StoreError(
                "this is not a catalog", next_step="check that the path is an Everview store"
            ) from None
        try:
            if version > CATALOG_FORMAT:
                raise StoreError(
                    f"the catalog was written by a newer Everview "
                    f"(format {version}, this one reads {CATALOG_FORMAT})",
                    next_step="upgrade Everview",
                )
            entries = [_entry_from_dict(e) for e in body["entries"]]
            named = {e.name.casefold(): e for e in entries}
            return cls(named, body["clock_grain"], body.get("dropped", 0))  # older catalogs have no counter
        except (ValueError, KeyError, TypeError, AttributeError, AlgebraError) as error:
            raise StoreError(
                f"the catalog is damaged: {error}", next_step="restore it from a copy of the store"
            ) from None


# Written by hand, not by msgspec: people read this file, so types stand in it as in SQL, `forever` as a word,
# values as their columns have them; what is not set is left out. Each would need a hook of its own.


def _entry_to_dict(entry: Entry) -> dict[str, Any]:
    out: dict[str, Any] = {"kind": entry.kind, "name": entry.name}
    match entry:
        case StreamEntry():
            out["columns"] = _columns_to_dict(entry.columns)
            out["timelines"] = [
                {"column": t.column, "lateness": t.lateness, **({"arrival": True} if t.arrival else {})}
                for t in entry.timelines
            ]
            out |= {"sequence": list(entry.sequence), "idle_after": entry.idle_after}
            out["source"] = _source_to_dict(entry.source)
            out |= _constraints_to_dict(entry)
            if entry.max_ahead != MAX_AHEAD:
                out["max_ahead"] = "none" if entry.max_ahead is None else entry.max_ahead
            out |= {"checks": list(entry.checks)} if entry.checks else {}
            out |= {} if entry.punctuate is None else {"punctuate": entry.punctuate}
        case TaggedEntry():
            out |= {"over": entry.over, "key": list(entry.key), "delete_when": entry.delete_when}
        case TableEntry():
            out["columns"] = _columns_to_dict(entry.columns)
            out |= {"key": list(entry.key), "retroactive": entry.retroactive}
            out["source"] = _source_to_dict(entry.source)
            out |= _constraints_to_dict(entry)
            out |= {} if entry.as_query is None else {"as_query": entry.as_query}
        case ViewEntry():
            history = "forever" if entry.history == INFINITY else entry.history
            out |= {"column_names": list(entry.column_names)} if entry.column_names else {}
            out |= {"sql": entry.sql, "complete": entry.complete, "history": history}
            out["depends_on"] = list(entry.depends_on)
        case EventStreamEntry():
            out |= {"sql": entry.sql, "timelines": list(entry.timelines)}
            out["depends_on"] = list(entry.depends_on)
    return out


def _entry_from_dict(d: dict[str, Any]) -> Entry:
    name = d["name"]
    match d["kind"]:
        case "stream":
            lines = tuple(
                Lateness(t["column"], t["lateness"], t.get("arrival", False)) for t in d["timelines"]
            )
            columns = stream_columns(_columns_from_dict(d["columns"]), [t.column for t in lines])
            ahead = d.get("max_ahead", MAX_AHEAD)
            return StreamEntry(
                name,
                columns,
                lines,
                tuple(d["sequence"]),
                d["idle_after"],
                _source_from_dict(d["source"]),
                max_ahead=None if ahead == "none" else ahead,
                checks=tuple(d.get("checks", ())),
                punctuate=d.get("punctuate"),
                incarnation=d.get("incarnation", 0),
                **_constraints_from_dict(d, columns),
            )
        case "tagged stream":
            return TaggedEntry(name, d["over"], tuple(d["key"]), d["delete_when"])
        case "table":
            columns = Schema(_columns_from_dict(d["columns"]))
            return TableEntry(
                name,
                columns,
                tuple(d["key"]),
                d["retroactive"],
                _source_from_dict(d["source"]),
                **_constraints_from_dict(d, columns),
                as_query=d.get("as_query"),
                incarnation=d.get("incarnation", 0),
            )
        case "view":
            history = INFINITY if d["history"] == "forever" else d["history"]
            names = tuple(d.get("column_names", ()))  # older catalogs have none
            return ViewEntry(name, d["sql"], d["complete"], history, tuple(d["depends_on"]), names)
        case "event stream":
            return EventStreamEntry(name, d["sql"], tuple(d["timelines"]), tuple(d["depends_on"]))
    raise StoreError(
        f"the catalog has an entry of an unknown kind: {d['kind']}", next_step="upgrade Everview"
    )


def stream_columns(columns: tuple[Field, ...], timelines: list[str]) -> Schema:
    """Return the schema of a stream, its time lines ranked in the order of their declaration."""
    ranks = {name.casefold(): rank for rank, name in enumerate(timelines)}
    return Schema(tuple(Field(f.name, f.type, timeline=ranks.get(f.name.casefold())) for f in columns))


def _columns_to_dict(columns: Schema) -> list[dict[str, str]]:
    return [{"name": f.name, "type": str(f.type)} for f in columns]


def _columns_from_dict(columns: list[dict[str, str]]) -> tuple[Field, ...]:
    return tuple(Field(c["name"], type_from_name(c["type"])) for c in columns)


def _constraints_to_dict(entry: StreamEntry | TableEntry) -> dict[str, Any]:
    """Return NOT NULL and DEFAULT of the columns, and the incarnation; leave out what is empty."""
    out: dict[str, Any] = {"not_null": list(entry.not_null)} if entry.not_null else {}
    out |= {"incarnation": entry.incarnation} if entry.incarnation else {}
    if entry.defaults:
        types = {f.name: f.type for f in entry.columns}
        out["defaults"] = {name: _value_to_json(value, types[name]) for name, value in entry.defaults}
    return out


def _constraints_from_dict(d: dict[str, Any], columns: Schema) -> dict[str, Any]:
    types = {f.name: f.type for f in columns}
    defaults = d.get("defaults", {}).items()
    return {
        "not_null": tuple(d.get("not_null", ())),
        "defaults": tuple((name, _value_from_json(value, types[name])) for name, value in defaults),
    }


def _value_to_json(value: object, type_: DataType) -> object:
    """Return a value as readable JSON: as text if JSON has no such value."""
    if isinstance(value, bytes):
        return value.hex()
    return convert(value, type_, STRING) if _as_text(type_) else value


def _value_from_json(value: Any, type_: DataType) -> object:
    if type_ == BINARY:
        return bytes.fromhex(value)
    return convert(value, STRING, type_) if _as_text(type_) else value


def _as_text(type_: DataType) -> bool:
    return type_.is_float or type_.is_decimal or type_.is_temporal


def type_from_name(name: str) -> DataType:
    """Return the type of this name.

    >>> type_from_name("DECIMAL(10,2)") == DataType("DECIMAL", 10, 2)
    True
    """
    if name.startswith("DECIMAL("):
        precision, scale = name[len("DECIMAL(") : -1].split(",")
        return DataType("DECIMAL", int(precision), int(scale))
    return SIMPLE_TYPES[name]


def _source_to_dict(source: Source | None) -> dict[str, Any] | None:
    if source is None:
        return None
    return {"format": source.format, "path": source.path, "options": dict(source.options)}


def _source_from_dict(d: dict[str, Any] | None) -> Source | None:
    return None if d is None else Source(d["format"], d["path"], tuple(d["options"].items()))
