"""The catalog: the entries of a store by name, and the dependencies between them.

It is stored as readable JSON. The definition of a view is stored as the SQL text that the user wrote.

>>> from everview.algebra.schema import Schema
>>> from everview.algebra.types import INT, TIMESTAMP
>>> from everview.catalog import Lateness, StreamEntry, ViewEntry
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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from dataclasses import replace as replace_fields

import msgspec

from everview.algebra.nodes import Node
from everview.algebra.schema import Field
from everview.algebra.text import name_sql
from everview.algebra.time import SECOND
from everview.catalog.alter import (
    Alteration,
    readers,
    renamed_entry,
    require_free_name,
    step_to_definition,
    with_columns,
    with_last_addition,
    with_read_columns,
)
from everview.catalog.encoding import decode_entry, encode_entry
from everview.catalog.entries import (
    CLOCK,
    CLOCK_ENTRY,
    Defaults,
    Entry,
    QueryEntry,
    StreamEntry,
    TableEntry,
    kind_with_article,
)
from everview.catalog.sinks import SinkEntry, decode_sink, encode_sink
from everview.errors import AlgebraError, CatalogError, StoreError, format_count, nearest

# 2: queries may be `stamped`; a release that reads 1 would leave their instants out. 3: streams may have
# computed columns, which a release that reads 2 would look for in their files.
# 4: there may be sinks; a release that reads 3 would leave them out, and drop the views below them.
# 5: sources may have a FORMAT; a release that reads 4 would not decode their records.
CATALOG_FORMAT = 5


@dataclass
class Catalog:
    """All entries by name, in the order of their creation; names are compared without regard to case.

    `dropped` counts the streams and tables that were dropped or renamed; it is the incarnation of the next
    new one. `alterations` are those that steps of the store have made. `sinks` have names of their own.
    """

    entries: dict[str, Entry] = field(default_factory=dict)
    clock_grain: int = SECOND
    dropped: int = 0
    alterations: tuple[Alteration, ...] = ()
    sinks: dict[str, SinkEntry] = field(default_factory=dict)
    _bound: dict[str, tuple[Entry, Node]] = field(default_factory=dict, repr=False, compare=False)
    _written: dict[str, tuple[Entry, str]] = field(default_factory=dict, repr=False, compare=False)

    def copy(self) -> Catalog:
        """Return an independent catalog with the same entries."""
        entries, bound = dict(self.entries), dict(self._bound)
        # What was written is known by the entry itself, so that copies can share it.
        sinks = dict(self.sinks)
        return Catalog(entries, self.clock_grain, self.dropped, self.alterations, sinks, bound, self._written)

    def take_over(self, other: Catalog) -> None:
        """Replace all entries with those of another catalog."""
        entries = dict(other.entries)
        if entries != self.entries:
            self._bound.clear()
        self.entries.clear()
        self.entries.update(entries)
        self.sinks = dict(other.sinks)
        self.clock_grain, self.dropped, self.alterations = (
            other.clock_grain,
            other.dropped,
            other.alterations,
        )

    def remember_definitions_of(self, copy: Catalog) -> None:
        """Remember the definitions that were bound in a copy, which still has the same entries."""
        if copy.entries == self.entries:
            self._bound.update(copy._bound)

    def bound_definition(self, entry: Entry) -> Node | None:
        """Return the plan that was remembered for an entry; None if there is none, or for another entry."""
        known = self._bound.get(entry.name.casefold())
        return known[1] if known is not None and (known[0] is entry or known[0] == entry) else None

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
                else step_to_definition(before, entry)
                or f"DROP it first, or choose another name (DESCRIBE {before.name} shows what it is)",
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
        sinks = [sink for each in gone for sink in self.sinks_of(each)]
        if sinks and not cascade:
            raise CatalogError(
                f"the {entry.kind} '{entry.name}' is still written by "
                f"{format_count(len(sinks), 'sink').split()[1]} {', '.join(s.name for s in sinks)}",
                next_step=f"DROP SINK {name_sql(sinks[0].name)} first, "
                f"or DROP {entry.kind.split()[-1].upper()} {entry.name} CASCADE",
            )
        for sink in sinks:
            del self.sinks[sink.name.casefold()]
        for each in gone:
            self._bound.pop(each.casefold(), None)
            self.dropped += isinstance(self.entries.pop(each.casefold()), (StreamEntry, TableEntry))
        return gone

    def sinks_of(self, view: str) -> list[SinkEntry]:
        """Return the sinks that write a view."""
        return [sink for sink in self.sinks.values() if sink.view.casefold() == view.casefold()]

    def get_sink(self, name: str) -> SinkEntry:
        """Return the sink of this name; raise CatalogError if there is none."""
        found = self.sinks.get(name.casefold())
        if found is not None:
            return found
        known = [sink.name for sink in self.sinks.values()]
        raise CatalogError(
            f"there is no sink '{name}'",
            meant=nearest(name, known),
            choices=known,
            next_step=None if known else "make one with CREATE SINK",
        )

    def add_sink(self, sink: SinkEntry) -> bool:
        """Add a sink; return False if the catalog already had exactly this one."""
        before = self.sinks.get(sink.name.casefold())
        if before is not None and before == replace_fields(sink, name=before.name):
            return False
        if before is not None:
            raise CatalogError(
                f"there is already a sink '{before.name}' with another definition",
                next_step="DROP SINK it first, or choose another name "
                f"(DESCRIBE SINK {name_sql(before.name)} shows what it is)",
            )
        self.sinks[sink.name.casefold()] = sink
        return True

    def drop_sink(self, name: str) -> SinkEntry:
        """Remove a sink, and return it."""
        return self.sinks.pop(self.get_sink(name).name.casefold())

    def date_drops(self, names: Iterable[str], step: int, oldest: int) -> None:
        """Record the step in which entries were dropped; `oldest` is the step of the oldest manifest.

        Only a repair reads this, to go on from an earlier manifest: older drops are forgotten.
        """
        known = [a for a in self.alterations if not a.drops or a.step > oldest]
        self.alterations = (*known, *(Alteration(step, name) for name in names))

    def add_columns(self, name: str, fields: Sequence[Field], defaults: Defaults) -> None:
        """Add columns to a stream or a table; the views that read it go on to read those that there were."""
        entry = self.get(name)
        assert isinstance(entry, (StreamEntry, TableEntry))
        if not fields:
            return
        self._change(with_columns(entry, fields, defaults))
        for view in readers(entry.name, self):
            self._change(with_read_columns(view, entry.name, len(entry.columns)))

    def date_columns(self, name: str, step: int, read: int) -> None:
        """Record in which step the last columns of a stream or table were added, and what was read then."""
        entry = self.get(name)
        assert isinstance(entry, (StreamEntry, TableEntry))
        self._change(with_last_addition(entry, step, read))

    def rename(self, name: str, new_name: str, rewritten: Iterable[Entry] = ()) -> None:
        """Rename an entry; `rewritten` are the entries with SQL that names it so.

        These are entries that depend on it, and perhaps itself under its new name.
        """
        entry = self.get(name)
        require_free_name(entry, new_name, self.entries.get(new_name.casefold()))
        after = {e.name: e for e in rewritten}
        if new_name in after:
            after[entry.name] = after[new_name]
        changed = [after.get(e.name) or renamed_entry(e, entry.name, new_name) for e in self]
        for gone in (entry.name, *self.dependants(entry.name)):
            self._bound.pop(gone.casefold(), None)
        self.entries = {e.name.casefold(): e for e in changed}
        self.sinks = {
            key: replace_fields(sink, view=new_name) if sink.view == entry.name else sink
            for key, sink in self.sinks.items()
        }
        self.dropped += isinstance(entry, (StreamEntry, TableEntry))

    def _change(self, entry: Entry) -> None:
        self.entries[entry.name.casefold()] = entry
        self._bound.pop(entry.name.casefold(), None)

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
        head = {
            "format": self._format(),
            "clock_grain": self.clock_grain,
            **({"dropped": self.dropped} if self.dropped else {}),
            **({"alterations": [asdict(a) for a in self.alterations]} if self.alterations else {}),
            **({"sinks": [encode_sink(sink) for sink in self.sinks.values()]} if self.sinks else {}),
        }
        # A catalog is saved for each name: the text of an entry is made once. The encoder of the standard
        # library is slow where it indents.
        if len(self._written) > 2 * len(self.entries) + 100:  # most have been dropped
            self._written.clear()
        entries = ",".join(map(self._entry_text, self))
        text = f'{json.dumps(head, ensure_ascii=False)[:-1]}, "entries": [{entries}]}}'
        try:
            return msgspec.json.format(text, indent=2)
        except UnicodeEncodeError:  # a lone surrogate in a name
            return json.dumps(json.loads(text), indent=2, ensure_ascii=False)

    def _format(self) -> int:
        """Return the least format of which a reader misses nothing."""
        return max([4 if self.sinks else 1, *map(_format_of, self)])

    def _entry_text(self, entry: Entry) -> str:
        """Return an entry as JSON text."""
        key = entry.name.casefold()
        known = self._written.get(key)
        if known is None or known[0] is not entry:
            known = self._written[key] = entry, json.dumps(encode_entry(entry), ensure_ascii=False)
        return known[1]

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
            entries = [decode_entry(e) for e in body["entries"]]
            named = {e.name.casefold(): e for e in entries}
            altered = tuple(
                Alteration(**{**a, "added": tuple(a["added"])}) for a in body.get("alterations", ())
            )
            dropped = body.get("dropped", 0)  # older catalogs have no counter
            sinks = {sink.name.casefold(): sink for sink in map(decode_sink, body.get("sinks", ()))}
            return cls(named, body["clock_grain"], dropped, altered, sinks)
        except (ValueError, KeyError, TypeError, AttributeError, AlgebraError) as error:
            raise StoreError(
                f"the catalog is damaged: {error}", next_step="restore it from a copy of the store"
            ) from None


def _format_of(entry: Entry) -> int:
    """Return the format of a catalog that has an entry: the least that says all of it."""
    if isinstance(entry, (StreamEntry, TableEntry)) and entry.source and entry.source.decoding:
        return 5
    if isinstance(entry, StreamEntry) and entry.computed:
        return 3
    return 2 if isinstance(entry, QueryEntry) and entry.stamped else 1
