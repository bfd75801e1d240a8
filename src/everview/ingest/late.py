"""Late rows: a timestamp of such a row is not after the bound of its stream.

That is decided when they arrive, by the bound before the step. They are stored in stream$late, with the
step, the reason and the row as text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from everview.algebra.time import instant_words
from everview.catalog import StreamEntry, TableEntry
from everview.ingest.bounds import LAST
from everview.ingest.reading import PART, PUNCTUATES
from everview.ingest.refused import row_text
from everview.operators.base import column
from everview.operators.columnar.frame import BEFORE_ALL, FROM, UNTIL, Frame, N
from everview.storage.arrivals import Arrived, PartTimes
from everview.storage.manifest import Manifest


def split_late(
    frame: Frame, entry: StreamEntry | TableEntry, manifest: Manifest, step: int
) -> tuple[Frame, Frame | None, Arrived]:
    """Return the rows that are taken, those that are late, and the counts.

    A frame has the columns c0, c1, … of its stream, and the change; what else it has stays with the rows
    that are taken.
    """
    if isinstance(entry, TableEntry):
        return frame, None, Arrived(frame.height)
    names = entry.columns.names
    bounds = manifest.bounds.get(entry.name, {})
    lines = {line.column: frame[column(names.index(line.column))].cast(pl.Int64) for line in entry.timelines}
    lates = {
        name: times <= bounds[name]
        for name, times in lines.items()
        if bounds.get(name, BEFORE_ALL) > BEFORE_ALL and _any(times <= bounds[name])
    }
    parts = _part_times(frame, lines)
    late: Frame | None = None
    if lates:
        marked = frame.with_columns(is_late.alias(f"_late_{name}") for name, is_late in lates.items())
        any_late = pl.any_horizontal(f"_late_{name}" for name in lates)
        late = _describe_late(
            marked.filter(any_late), {name: bounds[name] for name in lates}, entry, manifest, step
        )
        frame = marked.filter(~any_late).select(frame.columns)
        lines = {line: frame[column(names.index(line))].cast(pl.Int64) for line in lines}
    newest = _greatest_times(lines)
    oldest = frame[FROM].min()
    counts = frame.height, 0 if late is None else late.height
    punctuated = _greatest_punctuations(frame, lines)
    first = oldest if isinstance(oldest, int) else None
    return frame, late, Arrived(*counts, 0, newest, first, punctuated, parts)


def _part_times(frame: Frame, lines: Mapping[str, pl.Series]) -> dict[str, PartTimes]:
    """Return the times of each part of a source that has parts, of late rows too: the part goes on there."""
    if PART not in frame.columns or frame.is_empty():
        return {}
    found = {}
    for part, places in frame.select(PART).with_row_index().group_by(PART).agg("index").iter_rows():
        own = {line: times.gather(places) for line, times in lines.items()}
        rows = frame.select(c for c in (PART, PUNCTUATES) if c in frame.columns)[places]
        found[str(part)] = PartTimes(_greatest_times(own), _greatest_punctuations(rows, own))
    return found


def _greatest_times(lines: Mapping[str, pl.Series]) -> dict[str, int]:
    """Return the greatest timestamp on each time line; none where there are no rows."""
    return {line: greatest for line, times in lines.items() if isinstance(greatest := times.max(), int)}


def _greatest_punctuations(frame: Frame, lines: Mapping[str, pl.Series]) -> dict[str, int]:
    """Return the greatest timestamp of a punctuation on each time line; none if there is no such row."""
    if PUNCTUATES not in frame.columns:
        return {}
    rows = frame[PUNCTUATES]
    found = {line: times.filter(rows).max() for line, times in lines.items()}
    return {line: greatest for line, greatest in found.items() if isinstance(greatest, int)}


def _any(mask: pl.Series) -> bool:
    return bool(mask.any())


def _describe_late(
    late: Frame, bounds: Mapping[str, int], entry: StreamEntry, manifest: Manifest, step: int
) -> Frame:
    """Return late rows with the step, the reason and the row as text; known from the next slice on."""
    reason = pl.coalesce(
        pl.when(pl.col(f"_late_{name}")).then(pl.lit(why_late(name, bound))) for name, bound in bounds.items()
    )
    own = [column(i) for i in range(len(entry.columns))]
    said: Sequence[pl.Expr] = [pl.lit(step, pl.Int64), reason, pl.lit(row_text(late, entry.columns.names))]
    extra = [e.alias(column(len(own) + i)) for i, e in enumerate(said)]
    begin = pl.lit(known_from(manifest), pl.Int64).alias(FROM)
    return late.select(*own, *extra, begin, UNTIL, N)


def known_from(manifest: Manifest) -> int:
    """Return the instant from which late and rejected rows of this step are visible."""
    return min(manifest.bound + 1, LAST)


def why_late(line: str, bound: int) -> str:
    """Return the reason for a late row.

    >>> why_late("ts", 0)
    'ts is not after 1970-01-01T00:00:00.000000, up to where all was known'
    """
    return f"{line} is not after {instant_words(bound)}, up to where all was known"
