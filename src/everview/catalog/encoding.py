"""The entries of a catalog as readable JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from everview.algebra.convert import convert
from everview.algebra.schema import Field, Schema
from everview.algebra.time import INFINITY
from everview.algebra.types import BINARY, SIMPLE_TYPES, STRING, DataType
from everview.catalog.entries import (
    MAX_AHEAD,
    AddedColumns,
    Decoding,
    Entry,
    EventStreamEntry,
    Expected,
    Lateness,
    Source,
    StreamEntry,
    TableEntry,
    TaggedEntry,
    ViewEntry,
    stream_columns,
)
from everview.errors import StoreError

_PAST = ("incarnation", "created_as")  # of a stream or a table

# Written by hand, not by msgspec: people read this file, so types stand in it as in SQL, `forever` as a word,
# values as their columns have them; what is not set is left out. Each would need a hook of its own.


def encode_entry(entry: Entry) -> dict[str, Any]:
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
            out |= {"computed": dict(entry.computed)} if entry.computed else {}
            out |= {} if entry.expected.rate is None else {"rate": entry.expected.rate}
            out |= {"distinct": dict(entry.expected.distinct)} if entry.expected.distinct else {}
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
            out |= {"least_changes": entry.least_changes} if entry.least_changes else {}
            out["depends_on"] = list(entry.depends_on)
            out |= {"read_columns": dict(entry.read_columns)} if entry.read_columns else {}
            out |= {"stamped": True} if entry.stamped else {}
        case EventStreamEntry():
            history = "forever" if entry.history == INFINITY else entry.history
            out |= {"sql": entry.sql, "timelines": list(entry.timelines), "history": history}
            out |= {"least_changes": entry.least_changes} if entry.least_changes else {}
            out["depends_on"] = list(entry.depends_on)
            out |= {"read_columns": dict(entry.read_columns)} if entry.read_columns else {}
            out |= {"stamped": True} if entry.stamped else {}
    return out


def decode_entry(d: dict[str, Any]) -> Entry:
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
                expected=Expected(d.get("rate"), tuple(d.get("distinct", {}).items())),
                computed=tuple(d.get("computed", {}).items()),
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
            )
        case "view":
            history = INFINITY if d["history"] == "forever" else d["history"]
            names = tuple(d.get("column_names", ()))  # older catalogs have none
            read = tuple(d.get("read_columns", {}).items())
            return ViewEntry(
                name,
                d["sql"],
                d["complete"],
                history,
                tuple(d["depends_on"]),
                names,
                read,
                d.get("least_changes", 0),
                d.get("stamped", False),
            )
        case "event stream":
            history = d.get("history", "forever")
            return EventStreamEntry(
                name,
                d["sql"],
                tuple(d["timelines"]),
                tuple(d["depends_on"]),
                INFINITY if history == "forever" else history,
                d.get("least_changes", 0),
                tuple(d.get("read_columns", {}).items()),
                d.get("stamped", False),
            )
    raise StoreError(
        f"the catalog has an entry of an unknown kind: {d['kind']}", next_step="upgrade Everview"
    )


def _columns_to_dict(columns: Schema) -> list[dict[str, str]]:
    return [{"name": f.name, "type": str(f.type)} for f in columns]


def _columns_from_dict(columns: list[dict[str, str]]) -> tuple[Field, ...]:
    return tuple(Field(c["name"], type_from_name(c["type"])) for c in columns)


def _constraints_to_dict(entry: StreamEntry | TableEntry) -> dict[str, Any]:
    """Return NOT NULL and DEFAULT of the columns, and the past of the entry; leave out what is empty."""
    out: dict[str, Any] = {"not_null": list(entry.not_null)} if entry.not_null else {}
    out |= {name: value for name in _PAST if (value := getattr(entry, name))}
    out |= {"additions": [asdict(a) for a in entry.additions]} if entry.additions else {}
    if entry.defaults:
        types = {f.name: f.type for f in entry.columns}
        out["defaults"] = {name: _value_to_json(value, types[name]) for name, value in entry.defaults}
    return out


def _constraints_from_dict(d: dict[str, Any], columns: Schema) -> dict[str, Any]:
    types = {f.name: f.type for f in columns}
    defaults = d.get("defaults", {}).items()
    return {
        **{name: d[name] for name in _PAST if name in d},
        "additions": tuple(AddedColumns(**a) for a in d.get("additions", ())),
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
    out: dict[str, Any] = {"format": source.format, "path": source.path, "options": dict(source.options)}
    if (decoding := source.decoding) is not None:
        out["decoding"] = {"format": decoding.format}
        out["decoding"] |= {"options": dict(decoding.options)} if decoding.options else {}
        out["decoding"] |= {"metadata": dict(decoding.metadata)} if decoding.metadata else {}
    return out


def _source_from_dict(d: dict[str, Any] | None) -> Source | None:
    if d is None:
        return None
    decoding = None
    if (found := d.get("decoding")) is not None:
        pairs = (tuple(found.get(name, {}).items()) for name in ("options", "metadata"))
        decoding = Decoding(found["format"], *pairs)
    return Source(d["format"], d["path"], tuple(d["options"].items()), decoding)
