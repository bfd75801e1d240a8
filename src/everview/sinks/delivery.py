"""What a sink gets at once: the changes of a step, or the whole answer of its view.

A delivery is known by (sink, step): a target that already has it does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

from everview import operators as P
from everview.algebra.schema import Schema, names_beside
from everview.algebra.time import UNDATED
from everview.catalog import SinkEntry
from everview.errors import StoreError
from everview.operators.columnar.frame import Frame
from everview.operators.columnar.lazy import pl
from everview.sinks.secrets import plain_value, without_secrets

CHANGES, ANSWER, REWRITE = "changes", "answer", "rewrite"


@dataclass(frozen=True)
class SinkLayout:
    """A sink with the columns of its view, and the key that it goes by.

    `view_key` is the key of the view: by it a `u` finds the row that it replaces. None: there is none.
    """

    entry: SinkEntry
    schema: Schema
    key: tuple[str, ...] = ()
    view_key: tuple[str, ...] | None = None

    def text(self, option: str, otherwise: str = "") -> str:
        """Return an option as it is used: a secret as its value."""
        value = self.entry.option(option)
        return otherwise if value is None else plain_value(value)

    def number(self, option: str, otherwise: int) -> int:
        """Return an option that is a whole number."""
        text = self.text(option, str(otherwise))
        if not text.isdecimal():
            raise StoreError(f"{option} => '{text}' is no whole number", next_step=f"write {option} => 5")
        return int(text)

    @property
    def path(self) -> str:
        """The path as it is used."""
        return "" if self.entry.path is None else plain_value(self.entry.path)

    @property
    def change_names(self) -> tuple[str, str, str]:
        """What the columns tag, at and old are called: otherwise, if the view has such columns."""
        tag, at, old = names_beside(self.schema.names, "tag", "at", "old")
        return tag, at, old

    def shown(self, text: str) -> str:
        """Return a text without the secrets of the sink."""
        values = [value for _, value in self.entry.options]
        values += [] if self.entry.path is None else [self.entry.path]
        return without_secrets(text, tuple(values))


@dataclass(frozen=True)
class DeliveryPart:
    """Rows to write, under the names of their columns; in MODE upsert, with the keys that are `gone`.

    In MODE changes the rows have `tag` and `at` before the columns of the view and `old` after them.
    """

    rows: Frame
    gone: Frame | None = None

    @property
    def is_empty(self) -> bool:
        return self.rows.is_empty() and (self.gone is None or self.gone.is_empty())


class RepeatedParts:
    """The parts of a delivery; where there is only one, as nearly always, it is worked out once."""

    def __init__(self, make: Callable[[], Iterator[DeliveryPart]]) -> None:
        self._make = make
        self._only: list[DeliveryPart] = []

    def __call__(self) -> Iterator[DeliveryPart]:
        """Yield the parts."""
        if self._only:
            yield from self._only
            return
        parts = self._make()
        first = list(islice(parts, 2))
        self._only = first if len(first) < 2 else []
        yield from first
        yield from parts


@dataclass(frozen=True)
class Delivery:
    """The changes up to a step, or the answer after it: for a new target, or instead of what it has."""

    layout: SinkLayout
    step: int
    kind: str
    parts: Callable[[], Iterator[DeliveryPart]]
    store_step: int  # the last step of the store: a target that is ahead of it is that of another store


class Target(Protocol):
    """Where a sink writes to. `can_rewrite`: all that it has can be replaced by an answer."""

    can_rewrite: bool

    def prepare(self) -> None:
        """Refuse a target that cannot be written; called once, when the sink is created."""

    def write(self, delivery: Delivery) -> None:
        """Write a delivery, all of it or nothing; once, if it knows what it has."""

    def close(self) -> None:
        """Close connections."""


class TargetAhead(StoreError):
    """A target that has steps which the store does not have: the store is an older copy."""

    @classmethod
    def of(cls, step: int, delivery: Delivery) -> TargetAhead:
        return cls(
            f"the target has step {step} of this sink, and the store is at step {delivery.store_step}: "
            "it was put back from a backup, or another copy of it goes on",
        )


def named_changes(tagged: Frame, layout: SinkLayout) -> Frame:
    """Return tagged changes under the names of their columns, with instants as timestamps."""
    tag, at, old = layout.change_names
    names = layout.schema.names
    own = tagged.columns[2:-1]
    record = pl.col("old")
    if own:
        record = record.struct.rename_fields(list(names))
    instant = pl.when(pl.col("at") >= UNDATED).then(pl.col("at"))
    return tagged.select(
        pl.col("tag").alias(tag),
        pl.from_epoch(instant, "us").dt.replace_time_zone("UTC").alias(at),
        *(pl.col(c).alias(name) for c, name in zip(own, names, strict=True)),
        record.alias(old),
    )


def named_records(rows: Frame, columns: Sequence[int], layout: SinkLayout) -> Frame:
    """Return columns of records under their names."""
    names = layout.schema.names
    return rows.select(pl.col(P.column(i)).alias(names[i]) for i in columns)


def plain_text(frame: Frame) -> Frame:
    """Return a frame for a format of text: times as ISO 8601, decimals as text, bytes as base64.

    >>> from datetime import datetime
    >>> plain_text(pl.DataFrame({"t": [datetime(2026, 1, 2, 3)]})).rows()
    [('2026-01-02T03:00:00.000000',)]
    """
    return frame.select(_text(pl.col(name), type_).alias(name) for name, type_ in frame.schema.items())


def _text(column: pl.Expr, type_: Any) -> pl.Expr:
    match type_:
        case pl.Datetime():
            return column.dt.strftime("%Y-%m-%dT%H:%M:%S%.6f" + ("Z" if type_.time_zone else ""))
        case pl.Decimal():
            return column.cast(pl.String)
        case pl.Struct() if type_.fields:
            fields = (_text(column.struct.field(f.name), f.dtype).alias(f.name) for f in type_.fields)
            return pl.when(column.is_not_null()).then(pl.struct(*fields))
    return column.bin.encode("base64") if type_ == pl.Binary else column
