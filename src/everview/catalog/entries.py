"""The entries of a catalog: streams, tagged streams, tables, views and event streams."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from everview.algebra.schema import Field, Schema, names_beside
from everview.algebra.time import DAY, INFINITY
from everview.algebra.types import BIGINT, STRING, TIMESTAMP

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
class Decoding:
    """FORMAT name(option => value, …): how columns come from the value of each record of a source.

    `metadata` has the columns that come from elsewhere in the record, and what they hold.
    """

    format: str
    options: tuple[tuple[str, str], ...] = ()
    metadata: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Source:
    """FROM format(path, option => value, …), and FORMAT if it has one."""

    format: str
    path: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    decoding: Decoding | None = None

    @property
    def full_path(self) -> str:
        """Return the path for messages; a relative path starts at the working directory."""
        path = re.sub(r"^file:/+", "/", self.path or "")
        return path if URI_SCHEME.match(path) else os.path.abspath(os.path.expanduser(path))


@dataclass(frozen=True)
class AddedColumns:
    """ALTER … ADD COLUMNS: how many columns there were before, the step that did it, how far files were read.

    `read` is the number of the last entry in Spark's log of the source at that step.
    """

    before: int
    step: int = 0
    read: int = -1


@dataclass(frozen=True)
class Expected:
    """WITH (rate => …, distinct(column) => …): rows a second, and how many values columns have.

    They change no answer: the optimiser and EXPLAIN use them until the store has measured its own.
    """

    rate: float | None = None
    distinct: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class StreamEntry:
    """An append-only stream; without a source, its rows come from INSERT.

    `max_ahead` says how far ahead of the clock the timestamps of its source may be; None: without a limit.
    A row for which one of the `checks` is false is rejected; one for which `punctuate` holds moves the bound
    to its own timestamp. Both are SQL conditions over the stream's columns. `computed` has the columns that
    are computed from the others when a row is taken in, with their SQL expressions. `expected` is what is
    declared of its rate and values.
    `incarnation` tells it apart from streams of the same name that were dropped or renamed before it was
    made; `created_as` is the name that it was made with, if it was renamed since. `additions` are those of
    columns by ALTER STREAM; they come last. `read_as` is set where files are read again that were first read
    before: only so many columns must have values that can be read.
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
    expected: Expected = Expected()
    computed: tuple[tuple[str, str], ...] = ()
    incarnation: int = field(default=0, compare=False)
    created_as: str | None = field(default=None, compare=False)
    additions: tuple[AddedColumns, ...] = field(default=(), compare=False)
    read_as: int | None = field(default=None, compare=False)
    kind = "stream"

    @property
    def added(self) -> int:
        """How many columns were added."""
        return len(self.columns) - self.additions[0].before if self.additions else 0

    @property
    def stamped(self) -> tuple[str, ...]:
        """The columns that the clock stamps when a row is taken in."""
        return tuple(line.column for line in self.timelines if line.arrival)

    @property
    def made(self) -> tuple[str, ...]:
        """The columns that neither a source nor INSERT gives: stamped by the clock, or computed."""
        return (*self.stamped, *(name for name, _ in self.computed))

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

    `incarnation`, `created_as` and `additions` are as for streams.
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
    created_as: str | None = field(default=None, compare=False)
    additions: tuple[AddedColumns, ...] = field(default=(), compare=False)
    kind = "table"

    @property
    def added(self) -> int:
        """How many columns were added."""
        return len(self.columns) - self.additions[0].before if self.additions else 0

    @property
    def depends_on(self) -> tuple[str, ...]:
        return ()


@dataclass(frozen=True)
class ViewEntry:
    """A view; `history` is how long its changes are retained, in microseconds, or for ever.

    The last `least_changes` are retained however old they are.

    `column_names` are those that CREATE VIEW gives to the columns of the query; without any they keep theirs.
    `read_columns` says how many columns of a stream or table it reads, if columns were added to that since.
    `stamped` says that it has ISTREAM, DSTREAM or RSTREAM with a column for the instant; those of earlier
    releases have none.
    """

    name: str
    sql: str
    complete: bool = False
    history: int = INFINITY
    depends_on: tuple[str, ...] = ()
    column_names: tuple[str, ...] = ()
    read_columns: tuple[tuple[str, int], ...] = ()
    least_changes: int = 0
    stamped: bool = False
    kind = "view"

    def remembers_more(self, other: QueryEntry) -> bool:
        """Return whether this view retains changes that the other one forgets.

        >>> day, year = ViewEntry("v", "", history=1), ViewEntry("v", "", history=365)
        >>> year.remembers_more(day), day.remembers_more(year), day.remembers_more(day)
        (True, False, False)
        >>> ViewEntry("v", "", history=1, least_changes=9).remembers_more(day)
        True
        """
        return _remembers_more(self, other)


@dataclass(frozen=True)
class EventStreamEntry:
    """A stream that an event query defines (paper 3); its rows are retained as the changes of a view are.

    `read_columns` and `stamped` are as for views.
    """

    name: str
    sql: str
    timelines: tuple[str, ...]
    depends_on: tuple[str, ...] = ()
    history: int = INFINITY
    least_changes: int = 0
    read_columns: tuple[tuple[str, int], ...] = ()
    stamped: bool = False
    kind = "event stream"

    @property
    def complete(self) -> bool:
        return False

    def remembers_more(self, other: QueryEntry) -> bool:
        """Return whether this stream retains rows that the other one forgets."""
        return _remembers_more(self, other)


FedEntry = StreamEntry | TableEntry  # an entry that receives rows, from a source or by INSERT
QueryEntry = ViewEntry | EventStreamEntry  # an entry that a query defines
Entry = StreamEntry | TaggedEntry | TableEntry | ViewEntry | EventStreamEntry


def _remembers_more(one: QueryEntry, other: QueryEntry) -> bool:
    return other.history < INFINITY and (
        one.history > other.history or one.least_changes > other.least_changes
    )


def narrowed_entry(entry: FedEntry, number: int) -> FedEntry:
    """Return a stream or table with its first columns only, as it was before others were added."""
    return replace(entry, columns=Schema(entry.columns.fields[:number]))


def given_entry(entry: FedEntry) -> FedEntry:
    """Return a stream or table with the columns that its source or INSERT gives: without those made here.

    >>> ts, at = Field("ts", TIMESTAMP), Field("at", TIMESTAMP)
    >>> s = StreamEntry("s", Schema((at, ts)), (Lateness("ts"), Lateness("at", arrival=True)))
    >>> given_entry(s).columns.names, given_entry(s).timelines
    (('ts',), (Lateness(column='ts', lateness=0, arrival=False),))
    """
    return entry if isinstance(entry, TableEntry) else entry_without(entry, entry.made)


def entry_without(entry: FedEntry, gone: Collection[str]) -> FedEntry:
    """Return a stream or table without some of the columns that it was declared with."""
    if not gone:
        return entry
    columns = Schema(tuple(f for f in entry.columns if f.name not in gone))
    not_null = tuple(name for name in entry.not_null if name not in gone)
    additions = tuple(replace(a, before=a.before - len(gone)) for a in entry.additions)
    if isinstance(entry, TableEntry):
        return replace(entry, columns=columns, not_null=not_null, additions=additions)
    return replace(
        entry,
        columns=columns,
        timelines=tuple(line for line in entry.timelines if line.column not in gone),
        computed=tuple((name, text) for name, text in entry.computed if name not in gone),
        not_null=not_null,
        additions=additions,  # columns that were added since come last
        read_as=None if entry.read_as is None else entry.read_as - len(gone),
    )


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


def stream_columns(columns: tuple[Field, ...], timelines: list[str]) -> Schema:
    """Return the schema of a stream, its time lines ranked in the order of their declaration."""
    ranks = {name.casefold(): rank for rank, name in enumerate(timelines)}
    return Schema(tuple(Field(f.name, f.type, timeline=ranks.get(f.name.casefold())) for f in columns))
