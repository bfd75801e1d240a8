"""The row-by-row part of a physical plan as Spark expressions: Catalyst evaluates them, no Python does."""

from __future__ import annotations

from functools import singledispatch

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as S

from everview.algebra import types as T
from everview.algebra.text import expression_sql
from everview.algebra.time import INFINITY, LEAST, Grid
from everview.algebra.windows import Band, Fixed, Range, TimeWindow
from everview.spark import physical as P

FROM, UNTIL, N = CHANGE = ("_from", "_until", "_n")

_TYPES: dict[T.DataType, S.DataType] = {
    T.BOOLEAN: S.BooleanType(), T.TINYINT: S.ByteType(), T.SMALLINT: S.ShortType(), T.INT: S.IntegerType(),
    T.BIGINT: S.LongType(), T.FLOAT: S.FloatType(), T.DOUBLE: S.DoubleType(), T.STRING: S.StringType(),
    T.BINARY: S.BinaryType(), T.DATE: S.DateType(), T.TIMESTAMP: S.TimestampType(),
    T.INTERVAL: S.DayTimeIntervalType(), T.VOID: S.IntegerType(),
}  # fmt: skip


def spark_type(type_: T.DataType) -> S.DataType:
    """The Spark type of one of ours; an untyped NULL is carried as an INT."""
    return S.DecimalType(type_.precision, type_.scale) if type_.is_decimal else _TYPES[type_]


def spark_schema(types: tuple[T.DataType, ...]) -> S.StructType:
    """The columns c0, c1, … and those of the change."""
    record = [S.StructField(P.column(i), spark_type(t)) for i, t in enumerate(types)]
    return S.StructType(record + [S.StructField(name, S.LongType()) for name in CHANGE])


@singledispatch
def row_by_row(node: P.Physical, below: DataFrame) -> DataFrame:
    """The node's rows from those of its input."""
    raise TypeError(f"{type(node).__name__} is not evaluated row by row")


@row_by_row.register
def _(node: P.Select, below: DataFrame) -> DataFrame:
    return below.filter(F.expr(expression_sql(node.condition)))


@row_by_row.register
def _(node: P.Compute, below: DataFrame) -> DataFrame:
    outputs = [
        F.expr(expression_sql(e)).cast(spark_type(e.type)).alias(P.column(i))
        for i, e in enumerate(node.outputs)
    ]
    return below.select(*outputs, *CHANGE)


@row_by_row.register
def _(node: P.Negative, below: DataFrame) -> DataFrame:
    return below.withColumn(N, -F.col(N))


@row_by_row.register
def _(node: P.Restrict, below: DataFrame) -> DataFrame:
    ts = F.unix_micros(F.col(P.column(node.timestamp)))
    begin, end, inside = _interval(node.window, ts)
    shown = below if inside is None else below.filter(inside)
    return _proper(shown, F.greatest(F.col(FROM), begin), F.least(F.col(UNTIL), end))


@row_by_row.register
def _(node: P.Warp, below: DataFrame) -> DataFrame:
    return _proper(below, _point(node.grid, F.col(FROM)), _point(node.grid, F.col(UNTIL)))


def _proper(rows: DataFrame, begin: SparkColumn, end: SparkColumn) -> DataFrame:
    return rows.withColumns({FROM: begin, UNTIL: end}).filter(F.col(FROM) < F.col(UNTIL))


def _point(grid: Grid, t: SparkColumn) -> SparkColumn:
    """The first grid point at or after t; the ends of the line stay."""
    return F.when(t.isin(INFINITY, LEAST), t).otherwise(_ceil(grid, t))


def _ceil(grid: Grid, x: SparkColumn) -> SparkColumn:
    return x if grid.step == 1 else x + F.pmod(F.lit(grid.origin) - x, F.lit(grid.step))


def _interval(window: TimeWindow, ts: SparkColumn) -> tuple[SparkColumn, SparkColumn, SparkColumn | None]:
    """The closed form of a window (DESIGN section 4): from, until, and a condition on the timestamp."""
    match window:
        case Range(extent, _, lag, _):
            begin = ts + F.lit(lag)
            return _ceil(window.grid, begin), _ceil(window.grid, begin + F.lit(extent)), None
        case Fixed():
            return ts, _ceil(window.grid, ts + F.lit(1)), None
        case Band(lower, upper):
            inside = ts.isNotNull()
            if lower is not None:
                inside = inside & (ts >= F.lit(lower))
            if upper is not None:
                inside = inside & (ts <= F.lit(upper))
            return ts, F.lit(INFINITY), inside
