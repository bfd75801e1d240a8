"""Statements as the engine gets them: names resolved, types checked, queries as plans."""

from __future__ import annotations

from dataclasses import dataclass, field

from everview.algebra import nodes as N
from everview.algebra.changes import Record
from everview.algebra.expressions import Expression
from everview.algebra.schema import Field
from everview.algebra.time import Chronon
from everview.catalog import Catalog, Defaults, Entry, SinkEntry, TableEntry
from everview.errors import Place
from everview.sql.ad_hoc import Query
from everview.sql.events import EventPlaces


@dataclass(frozen=True)
class Create:
    """A new entry of the catalog; `plan` is the plan of a view or an event stream.

    `places` finds the parts of an event query in its text.
    """

    entry: Entry
    plan: N.Node | None = None
    replace: bool = False
    places: EventPlaces | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class CreateAs:
    """A new table, and the query that its first rows come from."""

    entry: TableEntry
    query: Query


@dataclass(frozen=True)
class CreateSink:
    """A new sink, and the plan of the view that it writes; `of_events`: the rows of an event stream.

    `place` is where its mode stands in the text.
    """

    sink: SinkEntry
    plan: N.Node
    of_events: bool = False
    place: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class DropSink:
    """A sink to drop; None if it is not there."""

    name: str | None


@dataclass(frozen=True)
class ShowSink:
    """The description of a sink; with `sql`, the statement that creates it."""

    name: str
    sql: bool = False


@dataclass(frozen=True)
class ResumeSink:
    """A sink that was set aside and is to go on."""

    name: str


@dataclass(frozen=True)
class Insert:
    """Rows for a stream or a table, each with a value for every column."""

    target: str
    rows: tuple[Record, ...]
    at: Chronon | None = None


@dataclass(frozen=True)
class InsertQuery:
    """The answer of a query, for a stream or a table; `columns` are those that it fills, in its order."""

    target: str
    query: Query
    columns: tuple[str, ...]
    at: Chronon | None = None


@dataclass(frozen=True)
class Match:
    """A condition on a subquery: a row has a match in it or, negated, has none."""

    plan: N.Node
    condition: Expression
    negated: bool = False


@dataclass(frozen=True)
class Selection:
    """Rows of a table, under the name that its columns have here; `beside` is the relation of FROM."""

    relation: str
    where: Expression
    matches: tuple[Match, ...] = ()
    beside: N.Node | None = None


@dataclass(frozen=True)
class Update:
    """New values for some rows of a table."""

    target: str
    assignments: tuple[tuple[str, Expression], ...]
    rows: Selection
    at: Chronon | None = None


@dataclass(frozen=True)
class Delete:
    """Rows of a table to delete."""

    target: str
    rows: Selection
    at: Chronon | None = None


@dataclass(frozen=True)
class Select:
    """An ad hoc query, with the catalog names that it reads."""

    query: Query
    reads: tuple[str, ...]


@dataclass(frozen=True)
class Explain:
    """The plan of a query, to be shown; EXPLAIN COST shows figures."""

    query: Query
    cost: bool = False


@dataclass(frozen=True)
class ExplainCreate:
    """The plan of a view or an event stream as CREATE would make it, to be shown, perhaps with figures."""

    created: Create
    cost: bool = False


@dataclass(frozen=True)
class Show:
    """The names of all streams, tables, views or sinks."""

    kind: str


@dataclass(frozen=True)
class ShowCreate:
    """The statement that creates an entry."""

    name: str


@dataclass(frozen=True)
class Describe:
    """The description of an entry."""

    name: str


@dataclass(frozen=True)
class Drop:
    """An entry to drop, with CASCADE also all that depend on it."""

    name: str | None
    cascade: bool = False


@dataclass(frozen=True)
class Resume:
    """A view that was set aside and is to go on."""

    name: str


@dataclass(frozen=True)
class ReplayRows:
    """Late or rejected rows of a stream that are to count from now on; all without a condition."""

    stream: str
    kind: str
    where: Expression | None = None


@dataclass(frozen=True)
class Rename:
    """A new name for an entry; `rewritten` are those that depend on it, with SQL that names it so."""

    name: str
    new_name: str
    rewritten: tuple[Entry, ...] = ()


@dataclass(frozen=True)
class AddColumns:
    """Columns to add to a stream or a table, and the values that they have in rows without them."""

    name: str
    fields: tuple[Field, ...]
    defaults: Defaults = ()


@dataclass(frozen=True)
class SetClock:
    """The grain of the clock stream."""

    grain: int


@dataclass(frozen=True)
class SetAnswerFromViews:
    """Whether queries are answered from views that contain them, from now on in this session."""

    on: bool


Statement = (
    Create
    | CreateAs
    | CreateSink
    | DropSink
    | ShowSink
    | ResumeSink
    | Insert
    | InsertQuery
    | Update
    | Delete
    | Select
    | Explain
    | ExplainCreate
    | Show
    | ShowCreate
    | Describe
    | Drop
    | Resume
    | ReplayRows
    | Rename
    | AddColumns
    | SetClock
    | SetAnswerFromViews
)


def declare(statement: Statement, catalog: Catalog) -> None:
    """Apply a statement that changes the catalog."""
    match statement:
        case Create(entry, _, replace):
            catalog.add(entry, replace)
        case CreateAs(entry):
            catalog.add(entry)
        case Drop(name, cascade) if name is not None:
            catalog.drop(name, cascade)
        case Rename(name, new_name, rewritten):
            catalog.rename(name, new_name, rewritten)
        case AddColumns(name, fields, defaults):
            catalog.add_columns(name, fields, defaults)
        case SetClock(grain):
            catalog.clock_grain = grain
        case CreateSink(sink):
            catalog.add_sink(sink)
        case DropSink(name) if name is not None:
            catalog.drop_sink(name)
