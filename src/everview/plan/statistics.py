"""What is known of the inputs of a store: rows a second, rows of tables, different values of columns.

Before the first run it is declared (`WITH (rate => …)`) or assumed, after it measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field, replace

from everview.algebra.schema import Schema
from everview.algebra.time import DAY, SECOND
from everview.algebra.types import BOOLEAN, DOUBLE, FLOAT, TIMESTAMP, DataType
from everview.catalog import Catalog, StreamEntry, TableEntry

ASSUMED_RATE = 1.0
ASSUMED_ROWS = 1_000.0  # of a table
ASSUMED_VALUES = 100.0  # of a column


@dataclass(frozen=True)
class RelationStatistics:
    """Of a stream its rows a second, of a table its rows; `values` has the different values of each column.

    None: each row has a value of its own. `known` says where the rate or the rows are from: assumed,
    declared or measured. `declared` says that a rate was declared, whatever has been measured since.
    """

    rate: float = ASSUMED_RATE
    rows: float | None = None
    values: tuple[float | None, ...] = ()
    known: str = "assumed"
    declared: bool = False


@dataclass(frozen=True)
class Statistics:
    """The statistics of the streams and tables of a store, by name.

    A step takes `step` seconds of a stream. Rows that never end have come for `span` seconds.
    """

    relations: Mapping[str, RelationStatistics] = field(default_factory=dict)
    step: float = 1.0
    span: float = DAY / SECOND

    def of(self, relation: str, types: tuple[DataType, ...]) -> RelationStatistics:
        """Return what is known of a relation; assumptions by the types of its columns if nothing is."""
        found = self.relations.get(relation.casefold())
        return RelationStatistics(values=tuple(map(assume_values, types))) if found is None else found

    def only(self, relations: Container[str]) -> Statistics:
        """Return the statistics of some relations."""
        return replace(self, relations={n: r for n, r in self.relations.items() if n in relations})

    def renamed(self, names: Mapping[str, str]) -> Statistics:
        """Return the statistics under the new names of some relations."""
        folded = {old.casefold(): new.casefold() for old, new in names.items()}
        return replace(self, relations={folded.get(n, n): r for n, r in self.relations.items()})

    def rounded(self) -> Statistics:
        """Return what is measured rounded to powers of two: small changes change no plan of a new view."""
        return replace(
            self,
            relations={
                name: replace(found, rate=_rounded(found.rate), rows=found.rows and _rounded(found.rows))
                if found.known == "measured"
                else found
                for name, found in self.relations.items()
            },
            step=_rounded(self.step),
            span=_rounded(self.span),
        )


def _rounded(number: float) -> float:
    """Return the nearest power of two.

    >>> _rounded(1000.0), _rounded(0.0)
    (1024.0, 0.0)
    """
    return 2.0 ** round(math.log2(number)) if number > 0 else 0.0


def assume_values(type_: DataType) -> float | None:
    """Return how many different values a column is assumed to have: an instant or a measured value is unique.

    >>> from everview.algebra.types import STRING
    >>> assume_values(STRING), assume_values(BOOLEAN), assume_values(TIMESTAMP)
    (100.0, 2.0, None)
    """
    if type_ == BOOLEAN:
        return 2.0
    return None if type_ in (TIMESTAMP, DOUBLE, FLOAT) else ASSUMED_VALUES


def declared_statistics(catalog: Catalog) -> Statistics:
    """Return what the statements of a catalog declare of its streams and tables, and assume the rest."""
    return Statistics({entry.name.casefold(): _declared(entry) for entry in catalog
                       if isinstance(entry, (StreamEntry, TableEntry))})  # fmt: skip


def _declared(entry: StreamEntry | TableEntry) -> RelationStatistics:
    if isinstance(entry, TableEntry):
        key = entry.key if len(entry.key) == 1 else ()
        return RelationStatistics(0.0, ASSUMED_ROWS, _values(entry.columns, dict.fromkeys(key, ASSUMED_ROWS)))
    expected = entry.expected
    values = _values(entry.columns, {name: float(count) for name, count in expected.distinct})
    if expected.rate is None:
        return RelationStatistics(values=values)
    return RelationStatistics(expected.rate, values=values, known="declared", declared=True)


def _values(columns: Schema, known: Mapping[str, float]) -> tuple[float | None, ...]:
    return tuple(known.get(f.name, assume_values(f.type)) for f in columns)


StatisticsOf = Callable[[Catalog], Statistics]  # what a store knows of the inputs in a catalog
