"""The changes of a view between two instants, as tags or as what an upsert writes, on Polars frames.

The meaning is that of `query/output.py`, which computes it on Spark for readers of changes. A step has few
changes; here they are worked out in the driver, without a job.

>>> from everview.operators.columnar.frame import make_frame
>>> rows = make_frame({"c0": [1, 1, 1], "c1": [5, 5, 6]}, [(0, 9, 1), (4, 9, -1), (4, 9, 1)])
>>> tagged_frame(rows, 2, (0,), -1, 9).drop("old").rows()
[('+', 0, 1, 5), ('u', 4, 1, 6), ('-', 9, 1, 6)]
>>> gone, come = upsert_frames(rows, 2, (0,), 0, 8)
>>> gone.rows(), come.rows()
([], [(1, 6)])
>>> gone, come = net_frames(rows, 2, (0,), 4, 9)
>>> gone.rows(), come.rows()
([(1,)], [])
"""

from __future__ import annotations

from collections.abc import Sequence

from everview import operators as P
from everview.algebra.time import Chronon
from everview.ingest.bounds import LAST
from everview.operators.columnar.frame import FROM, UNTIL, Frame, N
from everview.operators.columnar.lazy import pl

_AT, _OLD, _PLACE = "at", "old", "_place"
_ORDER = {"-": 0, "u": 1, "+": 2}


def position_columns(columns: int | Sequence[int]) -> list[str]:
    """Return the names of the columns at these positions, or of the first ones."""
    return [P.column(i) for i in (range(columns) if isinstance(columns, int) else columns)]


def held_frame(rows: Frame, columns: int, t: Chronon) -> Frame:
    """Return the records that hold at an instant, each with its number `_n`, which is positive."""
    held = rows.filter((pl.col(FROM) <= t) & (pl.col(UNTIL) > t))
    return _summed(held, position_columns(columns)).filter(pl.col(N) > 0)


def tagged_frame(
    rows: Frame, columns: int, key: tuple[int, ...] | None, after: Chronon, upto: Chronon
) -> Frame:
    """Return the changes with after < t ≤ upto: `tag`, `at` (a chronon), the record, and `old` for a u.

    Ordered by time; at one instant - before u before +, then by columns.
    """
    names = position_columns(columns)
    events = _summed(_events(rows, names, after, min(upto, LAST)), [_AT, *names])
    copies = _copied(events)
    order = [pl.col(name) for name in names]
    gone, come = (copies.filter(pl.col(N) < 0).drop(N), copies.filter(pl.col(N) > 0).drop(N))
    if key is None:
        parts = [_with_tag(gone, "-", names), _with_tag(come, "+", names)]
    else:
        by = [_AT, *position_columns(key)]
        gone, come = (_placed(side.sort(*order), by) for side in (gone, come))
        old = gone.select(*by, _PLACE, pl.struct(names).alias(_OLD))
        both = come.join(old, on=[*by, _PLACE], how="left", nulls_equal=True)
        tag = pl.when(pl.col(_OLD).is_null()).then(pl.lit("+")).otherwise(pl.lit("u"))
        alone = gone.join(come.select(*by, _PLACE), on=[*by, _PLACE], how="anti", nulls_equal=True)
        shown = both.select(tag.alias("tag"), _AT, *names, _OLD)
        parts = [_with_tag(alone.drop(_PLACE), "-", names), shown]
    tagged = pl.concat(parts)
    rank = pl.col("tag").replace_strict(_ORDER, return_dtype=pl.Int8)
    return tagged.sort(pl.col(_AT), rank, *order, pl.col(_OLD))


def net_frames(
    rows: Frame, columns: int, key: tuple[int, ...], after: Chronon, upto: Chronon
) -> tuple[Frame, Frame]:
    """Return the keys to delete and the records to write, by what changed alone: the key must be one."""
    names, keys = position_columns(columns), position_columns(key)
    changed = _summed(_events(rows, names, after, min(upto, LAST)), names)
    come = _copied(changed.filter(pl.col(N) > 0)).drop(N)
    gone = changed.filter(pl.col(N) < 0).select(keys).unique()
    return gone.join(come, on=keys, how="anti", nulls_equal=True).sort(keys), come.sort(names)


def touched_keys(rows: Frame, columns: int, key: tuple[int, ...], after: Chronon, upto: Chronon) -> Frame:
    """Return the keys of records that came or went."""
    changed = _summed(
        _events(rows, position_columns(columns), after, min(upto, LAST)), position_columns(columns)
    )
    return changed.select(position_columns(key)).unique()


def answer_frame(rows: Frame, columns: int, t: Chronon) -> Frame:
    """Return the records that hold at an instant, each as often as it occurs."""
    return _copied(held_frame(rows, columns, t)).drop(N)


def upsert_frames(
    rows: Frame, columns: int, key: tuple[int, ...], after: Chronon, upto: Chronon
) -> tuple[Frame, Frame]:
    """Return the keys to delete, and the records to write, so that a target of `after` is one of `upto`.

    A record is written if any record of its key came or went in between. With a key that is none, several
    records of one key are returned.
    """
    names, keys = position_columns(columns), position_columns(key)
    changed = _summed(_events(rows, names, after, min(upto, LAST)), names)
    touched = changed.select(keys).unique()
    held = held_frame(rows, columns, min(upto, LAST))
    come = _copied(held).drop(N).join(touched, on=keys, how="semi", nulls_equal=True)
    gone = touched.join(come.select(keys), on=keys, how="anti", nulls_equal=True)
    return gone.sort(keys), come.sort(names)


def repeated_key(come: Frame, key: tuple[int, ...]) -> tuple[object, ...] | None:
    """Return a key that several records have; None if there is no such."""
    keys = position_columns(key)
    twice = come.group_by(keys).len().filter(pl.col("len") > 1)
    return None if twice.is_empty() else twice.sort(keys).select(keys).row(0)


def may_change(
    least_from: int, greatest_from: int, least_until: int, greatest_until: int, after: int, upto: int
) -> bool:
    """Return whether rows with these least and greatest times may begin or end with after < t ≤ upto.

    >>> may_change(0, 5, 99, 99, 5, 9), may_change(0, 6, 99, 99, 5, 9)
    (False, True)
    """
    begins = greatest_from > after and least_from <= upto
    return begins or (greatest_until > after and least_until <= upto)


def _events(rows: Frame, names: list[str], after: int, upto: int) -> Frame:
    """Return begins and ends as events with after < at ≤ upto, and the change of the multiplicity."""
    parts = []
    for time, sign in ((FROM, 1), (UNTIL, -1)):
        there = rows.filter((pl.col(time) > after) & (pl.col(time) <= upto))
        parts.append(there.select(pl.col(time).alias(_AT), *names, (sign * pl.col(N)).alias(N)))
    return pl.concat(parts)


def _summed(events: Frame, by: list[str]) -> Frame:
    """Return how the number of each record changes in all, without those of which it does not."""
    if not by:
        total = int(events[N].sum())
        return pl.DataFrame({N: [total] if total else []}, schema={N: pl.Int64})
    return events.group_by(by).agg(pl.col(N).sum()).filter(pl.col(N) != 0)


def _copied(rows: Frame) -> Frame:
    """Repeat each row as often as its number says; the numbers become 1 and -1."""
    if (rows[N].abs() != 1).any():
        rows = rows.select(pl.all().repeat_by(pl.col(N).abs())).explode(rows.columns)
    return rows.with_columns(pl.col(N).sign())


def _placed(rows: Frame, by: list[str]) -> Frame:
    """Number the rows of each group in their order."""
    return rows.with_columns(pl.int_range(pl.len()).over(by).alias(_PLACE))


def _with_tag(rows: Frame, tag: str, names: list[str]) -> Frame:
    record = pl.struct(names) if names else pl.struct(pl.lit(None).alias("_"))
    old = pl.when(pl.lit(False)).then(record).otherwise(None)
    return rows.select(pl.lit(tag).alias("tag"), _AT, *names, old.alias(_OLD))
