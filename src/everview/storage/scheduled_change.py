"""A change of a table for a later instant, as the manifest keeps it until the bound passes it."""

from __future__ import annotations

from dataclasses import dataclass

from everview.algebra.time import Chronon, format_timestamp
from everview.algebra.types import DataType
from everview.catalog import TableEntry
from everview.storage.runs import TraceId


@dataclass(frozen=True)
class MatchCondition:
    """The condition that a row has a match in the relation of this name, or none; `on` is SQL over both."""

    relation: str
    on: str
    negated: bool


@dataclass(frozen=True)
class Change:
    """An UPDATE or DELETE: which rows it takes, and what they become; `new` is None where they go.

    Relations have their types by name; column i of the relation m0 is called m0_i. `refused` has conditions
    under which a new row is refused, each with SQL for the reason.
    """

    at: Chronon
    number: int
    where: str
    new: tuple[str, ...] | None = None
    conditions: tuple[MatchCondition, ...] = ()
    relations: tuple[tuple[str, tuple[DataType, ...]], ...] = ()
    refused: tuple[tuple[str, str], ...] = ()

    @property
    def statement(self) -> str:
        """The statement as messages name it."""
        return f"the {'DELETE' if self.new is None else 'UPDATE'} AT {format_timestamp(self.at)}"

    def trace(self, entry: TableEntry, relation: str) -> TraceId:
        """Return the trace with the rows of one of its relations."""
        return TraceId("scheduled", entry.name, relation, change=self.number)
