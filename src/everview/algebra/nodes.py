"""The operators of the algebra: frozen, typed nodes that refuse bad input when they are built.

The meaning of each one is defined once, in `reference/meaning.py`, with the paper's equation. A node's
`schema` is derived from its inputs; `inputs` are the nodes below it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace

from everview.algebra.aggregates import AggregateCall
from everview.algebra.changes import Record
from everview.algebra.expressions import TRUE, Column, Expression, require_columns
from everview.algebra.schema import Field, Schema
from everview.algebra.time import Grid
from everview.algebra.types import BOOLEAN, TIMESTAMP, VOID
from everview.algebra.windows import AnyWindow, Band, Rows
from everview.errors import AlgebraError


@dataclass(frozen=True)
class Node:
    """The root of all operators."""

    schema: Schema = field(init=False, compare=False, repr=False)

    def _shaped(self, schema: Schema) -> None:
        object.__setattr__(self, "schema", schema)

    @property
    def inputs(self) -> tuple[Node, ...]:
        return tuple(v for f in fields(self) if isinstance(v := getattr(self, f.name, None), Node))

    def walk(self) -> Iterator[Node]:
        """Yield this node and all below it, top down."""
        yield self
        for node in self.inputs:
            yield from node.walk()

    def column(self, name: str, relation: str | None = None) -> Column:
        """Return the column of this name, to build expressions with."""
        return Column.to(self.schema.find(name, relation))


def with_inputs(node: Node, inputs: Sequence[Node]) -> Node:
    """Return the same operator over other inputs."""
    names = [f.name for f in fields(node) if isinstance(getattr(node, f.name, None), Node)]
    return replace(node, **dict(zip(names, inputs, strict=True)))  # type: ignore[arg-type]


# Leaves


@dataclass(frozen=True)
class Stream(Node):
    """An append-only stream; its first time line says when a row arrives.

    With `since`, only its rows after that instant: for a reader that began then.
    """

    name: str
    columns: Schema
    sequence: tuple[str, ...] = ()
    since: int | None = None

    def __post_init__(self) -> None:
        for name in self.sequence:
            self.columns.find(name)
        self._shaped(self.columns.under(self.name))


@dataclass(frozen=True)
class Table(Node):
    """A relation that is updated in place; NON RETROACTIVE: only later rows see an update (paper 2, 4.1)."""

    name: str
    columns: Schema
    key: tuple[str, ...] = ()
    retroactive: bool = True

    def __post_init__(self) -> None:
        for name in self.key:
            self.columns.find(name)
        self._shaped(self.columns.under(self.name))


@dataclass(frozen=True)
class View(Node):
    """A view by its name: the same relation as its definition."""

    name: str
    definition: Node

    def __post_init__(self) -> None:
        self._shaped(self.definition.schema.under(self.name))


@dataclass(frozen=True)
class Values(Node):
    """Constant rows that hold at all times."""

    columns: Schema
    rows: tuple[Record, ...]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise AlgebraError(f"a row of {len(row)} values for {len(self.columns)} columns")
        self._shaped(self.columns)


# Row by row


@dataclass(frozen=True)
class Alias(Node):
    """The same relation under another name."""

    input: Node
    name: str

    def __post_init__(self) -> None:
        self._shaped(self.input.schema.under(self.name))


@dataclass(frozen=True)
class Filter(Node):
    """σ: the rows for which the condition is true."""

    input: Node
    condition: Expression

    def __post_init__(self) -> None:
        _require_condition("WHERE", self.condition, self.input.schema)
        self._shaped(self.input.schema)


@dataclass(frozen=True)
class Project(Node):
    """μ: every row mapped to new columns; a time line that is passed through stays one.

    With `qualified`, columns that are passed through are still read from their relations.
    """

    input: Node
    columns: tuple[tuple[str, Expression], ...]
    qualified: bool = False

    def __post_init__(self) -> None:
        for _, expression in self.columns:
            require_columns(expression, self.input.schema)
        below = self.input.schema
        self._shaped(Schema(tuple(_output_field(n, e, below, self.qualified) for n, e in self.columns)))


@dataclass(frozen=True)
class GroupMember(Node):
    """π_j(γ_f): the rows whose grouping function yields this value (paper 1, 3.2.6)."""

    input: Node
    by: Expression
    value: object

    def __post_init__(self) -> None:
        require_columns(self.by, self.input.schema)
        self._shaped(self.input.schema)


# Time


@dataclass(frozen=True)
class Window(Node):
    """ω: restricts when a row counts, by the time line of its relation."""

    input: Node
    window: AnyWindow

    def __post_init__(self) -> None:
        if self.input.schema.timeline is None and self.window != Band():
            raise AlgebraError(
                f"[{self.window}] needs rows that carry a time line, and these have none",
                next_step="project the time line column of the stream below",
            )
        if isinstance(self.window, Rows):
            for key in self.window.partition_by:
                self.input.schema.find(key)
        self._shaped(self.input.schema)


@dataclass(frozen=True)
class Coalesce(Node):
    """Joins adjacent intervals of equal rows; no snapshot changes (paper 1, 4.2.4)."""

    input: Node
    limit: int | None = None

    def __post_init__(self) -> None:
        self._shaped(self.input.schema)


@dataclass(frozen=True)
class Split(Node):
    """Cuts intervals into pieces; no snapshot changes (paper 1, 4.2.4)."""

    input: Node
    step: int

    def __post_init__(self) -> None:
        if self.step <= 0:
            raise AlgebraError(f"an interval cannot be split into pieces of {self.step}")
        self._shaped(self.input.schema)


@dataclass(frozen=True)
class Tagged(Node):
    """An update stream: a row replaces the one of the same key, or removes it (paper 5, 4.1)."""

    input: Node
    key: tuple[str, ...]
    delete_when: Expression | None = None

    def __post_init__(self) -> None:
        for name in self.key:
            self.input.schema.find(name)
        if not self.key:
            raise AlgebraError("a tagged stream needs a KEY")
        if stream_of(self.input) is None:
            raise AlgebraError("a tagged stream is made over a stream, not over a view or a table")
        if self.delete_when is not None:
            _require_condition("DELETE WHEN", self.delete_when, self.input.schema)
        self._shaped(self.input.schema)


@dataclass(frozen=True)
class Synchronize(Node):
    """ℜ_Sync with a grid: the input's changes appear at the grid's points only (paper 5, 5.1)."""

    input: Node
    grid: Grid

    def __post_init__(self) -> None:
        self._shaped(self.input.schema)


@dataclass(frozen=True)
class SynchronizeOn(Node):
    """ℜ_Sync with a stream: changes appear when a row is inserted into `points` (paper 5, 5.3)."""

    input: Node
    points: Node

    def __post_init__(self) -> None:
        if self.points.schema.types != (TIMESTAMP,):
            raise AlgebraError(
                f"a synchronization stream has one TIMESTAMP column, not ({self.points.schema})"
            )
        self._shaped(self.input.schema)


INSTANT = "at"  # the column of the three streams for the instant of a row


@dataclass(frozen=True)
class IStream(Node):
    """A row for every insertion into the relation (CQL; paper 5, 1.2).

    With `stamped`, its instant is one more column and a time line; in stores of earlier releases it is not.
    """

    input: Node
    stamped: bool = False

    def __post_init__(self) -> None:
        self._shaped(_streamed(self.input, self.stamped))


@dataclass(frozen=True)
class DStream(Node):
    """A row for every deletion from the relation (CQL; paper 5, 1.2); `stamped` as for IStream."""

    input: Node
    stamped: bool = False

    def __post_init__(self) -> None:
        self._shaped(_streamed(self.input, self.stamped))


@dataclass(frozen=True)
class RStream(Node):
    """The whole relation, once at every point of the grid (CQL; paper 5, 1.2); `stamped` as for IStream."""

    input: Node
    grid: Grid
    stamped: bool = False

    def __post_init__(self) -> None:
        self._shaped(_streamed(self.input, self.stamped))


def _streamed(input_: Node, stamped: bool) -> Schema:
    return input_.schema.stamped(INSTANT) if stamped else input_.schema


# One input, with state


@dataclass(frozen=True)
class Distinct(Node):
    """δ: every record once."""

    input: Node

    def __post_init__(self) -> None:
        self._shaped(self.input.schema)


@dataclass(frozen=True)
class Aggregate(Node):
    """γ and α: one row per group; without keys always exactly one row."""

    input: Node
    keys: tuple[tuple[str, Expression], ...]
    calls: tuple[tuple[str, AggregateCall], ...]

    def __post_init__(self) -> None:
        for _, key in self.keys:
            require_columns(key, self.input.schema)
        for _, call in self.calls:
            for expression in call.expressions:
                require_columns(expression, self.input.schema)
        keys = tuple(_output_field(n, e, self.input.schema) for n, e in self.keys)
        self._shaped(Schema(keys + tuple(Field(n, c.type) for n, c in self.calls)))


# Two inputs


@dataclass(frozen=True)
class Join(Node):
    """⋈θ, and × where the condition is TRUE."""

    left: Node
    right: Node
    condition: Expression = TRUE

    def __post_init__(self) -> None:
        self._shaped(self.left.schema.concat(self.right.schema))
        _require_condition("ON", self.condition, self.schema)


@dataclass(frozen=True)
class SemiJoin(Node):
    """⋉: the left rows that have a match on the right."""

    left: Node
    right: Node
    condition: Expression

    def __post_init__(self) -> None:
        _require_condition("ON", self.condition, self.left.schema.concat(self.right.schema))
        self._shaped(self.left.schema)


@dataclass(frozen=True)
class AntiJoin(Node):
    """▷: the left rows that have no match on the right."""

    left: Node
    right: Node
    condition: Expression

    def __post_init__(self) -> None:
        _require_condition("ON", self.condition, self.left.schema.concat(self.right.schema))
        self._shaped(self.left.schema)


@dataclass(frozen=True)
class OuterJoin(Node):
    """LEFT, RIGHT, FULL: the join, and the rows without a match padded with NULLs."""

    left: Node
    right: Node
    condition: Expression
    kind: str

    def __post_init__(self) -> None:
        if self.kind not in ("LEFT", "RIGHT", "FULL"):
            raise AlgebraError(f"there is no {self.kind} outer join", choices=("LEFT", "RIGHT", "FULL"))
        both = self.left.schema.concat(self.right.schema)
        _require_condition("ON", self.condition, both)
        self._shaped(
            Schema(
                _nullable(self.left.schema, self.kind in ("RIGHT", "FULL"))
                + _nullable(self.right.schema, self.kind in ("LEFT", "FULL"))
            )
        )


@dataclass(frozen=True)
class TableJoin(Node):
    """A stream with a table: retroactive ⋈R, or ⋈NRR as of the stream row's own time (paper 2, 4.1).

    Outer: a stream row without a match is kept, padded with NULLs. `as_of` is another time line of the row
    than the first: in event queries only.
    """

    left: Node
    right: Node
    condition: Expression
    retroactive: bool = True
    outer: bool = False
    as_of: Column | None = None

    def __post_init__(self) -> None:
        if not isinstance(base_of(self.right), Table):
            raise AlgebraError("only a table can be joined as of the time of a row")
        if not self.retroactive and self.left.schema.timeline is None:
            raise AlgebraError(
                "a table is joined as of the time line of the row, and these rows have none",
                next_step="project the time line column of the stream below",
            )
        if self.as_of is not None and self.version_line.timeline is None:
            raise AlgebraError(f"'{self.version_line.qualified}' is no time line")
        self._shaped(Schema(self.left.schema.fields + _nullable(self.right.schema, self.outer)))
        _require_condition("ON", self.condition, self.schema)

    @property
    def version_line(self) -> Field:
        """The time line of the row that says which version of the table it joins."""
        if self.as_of is not None:
            return self.left.schema.find(self.as_of.name, self.as_of.relation)
        line = self.left.schema.timeline
        assert line is not None
        return line


@dataclass(frozen=True)
class Union(Node):
    """∪+: UNION ALL."""

    left: Node
    right: Node

    def __post_init__(self) -> None:
        self._shaped(self.left.schema.merged(self.right.schema, "UNION"))


@dataclass(frozen=True)
class Difference(Node):
    """−: EXCEPT ALL."""

    left: Node
    right: Node

    def __post_init__(self) -> None:
        self._shaped(self.left.schema.merged(self.right.schema, "EXCEPT"))


@dataclass(frozen=True)
class StrictDifference(Node):
    """−strict: the left rows that do not occur on the right at all."""

    left: Node
    right: Node

    def __post_init__(self) -> None:
        self._shaped(self.left.schema.merged(self.right.schema, "EXCEPT"))


@dataclass(frozen=True)
class Intersection(Node):
    """∩: INTERSECT ALL."""

    left: Node
    right: Node

    def __post_init__(self) -> None:
        self._shaped(self.left.schema.merged(self.right.schema, "INTERSECT"))


@dataclass(frozen=True)
class MaxUnion(Node):
    """∪max: every record as often as on the side that has more of it."""

    left: Node
    right: Node

    def __post_init__(self) -> None:
        self._shaped(self.left.schema.merged(self.right.schema, "MAX UNION"))


def base_of(node: Node) -> Node:
    """Return the node below aliases."""
    return base_of(node.input) if isinstance(node, Alias) else node


def stream_of(node: Node) -> Stream | None:
    """Return the stream whose rows a node passes on, all or some of them: below aliases and filters."""
    while isinstance(node, (Alias, Filter)):
        node = node.input
    return node if isinstance(node, Stream) else None


def _output_field(name: str, expression: Expression, schema: Schema, qualified: bool = False) -> Field:
    if isinstance(expression, Column):
        found = schema.find(expression.name, expression.relation)
        return replace(found, name=name, relation=found.relation if qualified else None)
    return Field(name, expression.type)


def _nullable(schema: Schema, padded: bool) -> tuple[Field, ...]:
    """Return the fields of an outer join's side; what may be NULL is no time line any more."""
    return tuple(replace(f, timeline=None) for f in schema) if padded else schema.fields


def _require_condition(what: str, condition: Expression, schema: Schema) -> None:
    if condition.type not in (BOOLEAN, VOID):
        raise AlgebraError(
            f"{what} needs a condition, not {condition.type.a}", next_step="compare the value with something"
        )
    require_columns(condition, schema)
