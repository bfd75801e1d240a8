"""ALTER of streams, tables and views in a catalog: added columns and new names.

A view that reads a stream when columns are added to it goes on to read the columns that there were: its
answer, its plan and its state stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from everview.algebra.schema import Field, Schema
from everview.algebra.text import literal_sql, name_sql, type_sql
from everview.catalog.entries import (
    CLOCK,
    CLOCK_ENTRY,
    AddedColumns,
    Defaults,
    Entry,
    EventStreamEntry,
    FedEntry,
    QueryEntry,
    StreamEntry,
    TableEntry,
    TaggedEntry,
    ViewEntry,
    kind_with_article,
)
from everview.errors import CatalogError

_OF_THE_SYSTEM = ("$late", "$rejected", "$next")


@dataclass(frozen=True)
class Alteration:
    """A change that a step of a store has made to a name.

    Either the new name, or the columns that were added, and how many there were before; if neither, the
    entry was dropped. Files and manifests of earlier steps know the entry as it was before.
    """

    step: int
    name: str
    new_name: str = ""
    columns: int = 0
    added: tuple[str, ...] = ()

    @property
    def drops(self) -> bool:
        """Whether the entry was dropped: another one may have its name since."""
        return not self.new_name and not self.added


def with_columns(entry: FedEntry, fields: Sequence[Field], defaults: Defaults) -> FedEntry:
    """Return a stream or table with further columns; its first rows no longer say which columns it has."""
    wide = replace(
        entry,
        columns=Schema((*entry.columns.fields, *fields)),
        defaults=(*entry.defaults, *defaults),
        additions=(*entry.additions, AddedColumns(len(entry.columns))),
    )
    return replace(wide, as_query=None) if isinstance(wide, TableEntry) else wide


def with_last_addition(entry: FedEntry, step: int, read: int) -> FedEntry:
    """Return a stream or table with the step in which its last columns were added, and what was read."""
    *earlier, last = entry.additions
    return replace(entry, additions=(*earlier, replace(last, step=step, read=read)))


def with_read_columns(view: QueryEntry, name: str, number: int) -> QueryEntry:
    """Return an entry that reads so many columns of a stream or table, unless it already reads fewer."""
    known = dict(view.read_columns)
    return view if name in known else replace(view, read_columns=(*view.read_columns, (name, number)))


def readers(name: str, entries: Iterable[Entry]) -> list[QueryEntry]:
    """Return the entries that read a stream or table themselves, also by a tagged stream over it."""
    every = list(entries)
    tagged = {e.name for e in every if isinstance(e, TaggedEntry) and e.over == name}
    return [e for e in every if isinstance(e, QueryEntry) and not {name, *tagged}.isdisjoint(e.depends_on)]


def require_free_name(entry: Entry, new_name: str, used: Entry | None) -> None:
    """Refuse a new name for an entry that is taken, or that it already has."""
    if entry is CLOCK_ENTRY:
        raise CatalogError("'clock' is built in and cannot be renamed")
    if new_name == entry.name:
        raise CatalogError(
            f"the {entry.kind} is already called '{entry.name}'", next_step="give it another name"
        )
    if new_name.casefold() == CLOCK:
        raise CatalogError("'clock' is the built-in clock stream", next_step="choose another name")
    if new_name.casefold().endswith(_OF_THE_SYSTEM):
        raise CatalogError(
            f"a name that ends like '{new_name}' is one of Everview's own", next_step="choose another name"
        )
    if used is not None and used.name != entry.name:
        raise CatalogError(
            f"there is already {kind_with_article(used)} '{used.name}'",
            next_step=f"choose another name, or rename '{used.name}' or drop it first",
        )


def renamed_entry(entry: Entry, old: str, new: str) -> Entry:
    """Return an entry with a new name for itself or for what it depends on; SQL texts stay as they are."""

    def name(known: str) -> str:
        return new if known == old else known

    match entry:
        case StreamEntry() | TableEntry() if entry.name == old:
            return replace(entry, name=new, created_as=entry.created_as or old)
        case TaggedEntry():
            return replace(entry, name=name(entry.name), over=name(entry.over))
        case ViewEntry() | EventStreamEntry():
            return replace(
                entry,
                name=name(entry.name),
                depends_on=tuple(map(name, entry.depends_on)),
                read_columns=tuple((name(n), number) for n, number in entry.read_columns),
            )
    return entry


def declared_column_sql(field: Field, defaults: Defaults) -> str:
    """Return a column as ALTER … ADD COLUMN declares it.

    >>> from everview.algebra.types import INT
    >>> declared_column_sql(Field("b", INT), (("b", 3),))
    'b INT DEFAULT 3'
    """
    known = dict(defaults)
    default = f" DEFAULT {literal_sql(known[field.name], field.type)}" if field.name in known else ""
    return f"{name_sql(field.name)} {type_sql(field.type)}{default}"


def add_columns_sql(entry: FedEntry, fields: Sequence[Field], defaults: Defaults) -> str:
    """Return the statement that adds columns to a stream or table."""
    shown = ", ".join(declared_column_sql(field, defaults) for field in fields)
    columns = f"COLUMN {shown}" if len(fields) == 1 else f"COLUMNS ({shown})"
    return f"ALTER {entry.kind.upper()} {name_sql(entry.name)} ADD {columns}"


def step_to_definition(before: Entry, entry: Entry) -> str | None:
    """Return the next step if two definitions differ by added columns only, else None."""
    if not isinstance(before, (StreamEntry, TableEntry)) or not isinstance(entry, type(before)):
        return None
    there, given = before.columns.fields, entry.columns.fields
    names = {f.name.casefold() for f in there}
    new = [f for f in given if f.name.casefold() not in names]
    old = tuple(f for f in given if f.name.casefold() in names)
    added = before.columns.names[len(there) - before.added :]
    missing = [f for f in there if f.name in added and f not in old]
    left = tuple(f for f in there if f not in missing)
    kept = {f.name for f in left}
    alike = replace(
        before,
        columns=Schema(left),
        defaults=tuple(pair for pair in before.defaults if pair[0] in kept),
        name=entry.name,
    )
    if isinstance(alike, TableEntry) and before.added:
        alike = replace(alike, as_query=entry.as_query)  # type: ignore[union-attr]
    own = {f.name for f in old}
    without = replace(
        entry, columns=Schema(old), defaults=tuple(pair for pair in entry.defaults if pair[0] in own)
    )
    if alike != without or not (new or missing):
        return None
    if new and not missing:
        if any(f.name in entry.not_null for f in new):
            return None
        alter = add_columns_sql(before, new, entry.defaults)
        last = given[len(there) :] == tuple(new)
        return alter if last else f"write the new columns after the others, then {alter}"
    return _given_again(missing, before) if not new else None


def _given_again(missing: Sequence[Field], before: FedEntry) -> str:
    """Return the next step for a CREATE that lacks columns which were added since."""
    shown = ", ".join(declared_column_sql(field, before.defaults) for field in missing)
    return (
        f"ALTER {before.kind.upper()} has added to it: {shown}; write that after the other columns, "
        f"or CREATE {before.kind.upper()} IF NOT EXISTS"
    )
