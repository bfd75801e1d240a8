"""The outputs of a view: its changes as tags or as intervals, and its records at an instant.

The rows are all change rows of the view so far, with the columns c0, c1, … and those of the change. All
three answers come from the snapshots, never from single rows: how a step cut its rows shows nowhere. A later
step only brings rows that begin after its bound; so what happened up to the bound is final, and the outputs
for consecutive cuts (after, upto] are together the output of one cut.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from everview import operators as P
from everview.algebra.time import INFINITY, UNDATED, Chronon
from everview.operators.columnar.frame import FROM, UNTIL, N

_AT, _PLACE, _OLD, _NEW = "_at", "_place", "_old", "_new"
_LAST = INFINITY - 1  # the last instant


def tag_rows(
    rows: DataFrame, columns: int, key: tuple[int, ...] | None, after: Chronon, upto: Chronon
) -> DataFrame:
    """Return ξ: the least set of tuples that leads from snapshot to snapshot, for after < t ≤ upto
    (paper 5, 6.2.2).

    `tag` (+, - or u), `at` (NULL: since ever), c0, c1, …, and `old`, the record that a u replaces. With a key
    (column positions) a - and a + of the same key and instant are one u; where a key occurs several times,
    the least record that goes is paired with the least that comes. Ordered by time, and at one instant -
    before u before +, so that a replay never has too many records; then by columns.

    One exchange, by ranges of time: what is paired is together then, and the parts are in order already.
    """
    names = _names(columns)
    events = _events(rows, names).filter((F.col(_AT) > after) & (F.col(_AT) <= min(upto, _LAST)))
    changed = _changes(events.repartitionByRange(_AT), _AT, *names)
    copies = _copy_rows(changed, F.abs(N))
    record = F.struct(*names)
    gone, come = F.when(F.col(N) < 0, record).alias(_OLD), F.when(F.col(N) > 0, record).alias(_NEW)
    steps = copies.select(_AT, gone, come) if key is None else _pair_records(copies, _names(key), gone, come)
    old, new = F.col(_OLD), F.col(_NEW)
    tag = F.when(old.isNull(), "+").when(new.isNull(), "-").otherwise("u")
    shown = F.coalesce(new, old)
    replaced = F.when(new.isNotNull(), old)
    tagged = steps.select(
        _AT, tag.alias("tag"), *(shown[name].alias(name) for name in names), replaced.alias("old")
    )
    ordered = tagged.orderBy(_AT, F.instr(F.lit("-u+"), F.col("tag")), *names, "old")
    return ordered.select("tag", _instant(F.col(_AT)).alias("at"), *names, "old")


def _pair_records(copies: DataFrame, key: Sequence[str], gone: SparkColumn, come: SparkColumn) -> DataFrame:
    """Pair deleted and inserted records for each key and instant; NULL where one of them has no partner."""
    both = copies.groupBy(_AT, *key).agg(
        F.sort_array(F.collect_list(gone)).alias(_OLD), F.sort_array(F.collect_list(come)).alias(_NEW)
    )
    return both.select(_AT, F.inline(F.arrays_zip(_OLD, _NEW)))


def interval_rows(rows: DataFrame, columns: int, after: Chronon, upto: Chronon, finished: bool) -> DataFrame:
    """Return the maximal pieces of constant n of each record, each once, when it ends: after < until ≤ upto.

    `from` (NULL: since ever), `until`, `n`, c0, c1, …. A piece that ends later may still be cut or prolonged
    by a row to come. Once the input is `finished` none comes: then all that end after `after` are shown, and
    those that never do, with `until` NULL. A piece that ends before there are dates held at no instant that
    has one, and is left out. Ordered by until, from, columns.

    Two exchanges: by record, and into order. The first one is by a hash of the record that is a column, and
    is grouped by: where Spark groups floats it first takes -0.0 for 0.0, and would not see that records are
    together already.
    """
    names = _names(columns)
    events = _events(rows, names).filter(F.col(_AT) <= (_LAST if finished else min(upto, _LAST)))
    placed = events.withColumn(_PLACE, F.xxhash64(*names)).repartition(_PLACE)
    line = Window.partitionBy(_PLACE, *names).orderBy(_AT)
    until, n = F.lead(_AT).over(line), F.sum(N).over(line)
    pieces = _changes(placed, _PLACE, *names, _AT).select(
        _instant(F.col(_AT)).alias("from"), until.alias("until"), n.alias("n"), *names
    )
    closed = F.col("until") > max(after, UNDATED - 1)
    shown = closed | F.col("until").isNull() if finished else closed
    return pieces.filter((F.col("n") != 0) & shown).orderBy(F.asc_nulls_last("until"), "from", *names)


def snapshot_rows(rows: DataFrame, columns: int, t: Chronon) -> DataFrame:
    """Return the records that hold at t, each as often as it occurs (paper 1, equation 17)."""
    names = _names(columns)
    held = rows.filter((F.col(FROM) <= t) & (F.col(UNTIL) > t))
    return _copy_rows(held.groupBy(*names).agg(F.sum(N).alias(N)), F.col(N)).select(*names)


def _events(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return the begins and ends of the rows as events: an instant, and the change of the multiplicity."""
    begin = F.struct(F.col(FROM).alias(_AT), F.col(N).alias(N))
    end = F.struct(F.col(UNTIL).alias(_AT), (-F.col(N)).alias(N))
    return rows.select(*names, F.inline(F.array(begin, end)))


def _changes(events: DataFrame, *by: str) -> DataFrame:
    """Return snap(t) - snap(t-1): begins and ends added up, without those that add up to zero."""
    return events.groupBy(*by).agg(F.sum(N).alias(N)).filter(F.col(N) != 0)


def _copy_rows(rows: DataFrame, count: SparkColumn) -> DataFrame:
    """Repeat every row as often as its multiplicity says."""
    return rows.withColumn("_copy", F.explode(F.array_repeat(F.lit(1), count.cast("int"))))


def _names(columns: int | Sequence[int]) -> list[str]:
    """Return the names of the columns at these positions, or of the first ones."""
    return [P.column(i) for i in (range(columns) if isinstance(columns, int) else columns)]


def _instant(t: SparkColumn) -> SparkColumn:
    """Return the instant as a timestamp; NULL where it has no date."""
    return F.when(t >= UNDATED, t)
