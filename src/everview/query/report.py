"""A report: text for people, records for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from everview.algebra.time import INFINITY, UNDATED, Chronon, format_timestamp

ReportRow = Mapping[str, object]


@dataclass(frozen=True, repr=False)
class Report:
    """Information about a store. `records` are for JSON; `table`, if it differs, for CSV."""

    text: str
    records: tuple[ReportRow, ...] = ()
    table: tuple[ReportRow, ...] = field(default=())

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    @property
    def rows(self) -> tuple[ReportRow, ...]:
        """Return flat records, all with the same fields."""
        found = self.table or self.records
        fields = dict.fromkeys(name for record in found for name in record)
        return tuple({name: record.get(name) for name in fields} for record in found)


def table_lines(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as aligned lines below their header.

    >>> table_lines(["a", "b"], [["long", "1"]])
    ['a     b', 'long  1']
    """
    lines = [list(header), *map(list, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines]


def show_names(names: Sequence[str], aside: Mapping[str, str]) -> Report:
    """Return names, one a line; with each that was set aside, the reason.

    >>> print(show_names(["sums", "odd"], {"odd": "no memory"}))
    sums
    odd (set aside: no memory)
    """
    lines = [f"{name} (set aside: {aside[name]})" if name in aside else name for name in names]
    told = [{"name": name, **({"set_aside": aside[name]} if name in aside else {})} for name in names]
    return Report("\n".join(lines), tuple(told))


def watermark(t: Chronon) -> str | None:
    """Return a watermark for a record: None if nothing is known yet, ∞ at the end of time."""
    if t < UNDATED:
        return None
    return "∞" if t >= INFINITY - 1 else format_timestamp(t)
