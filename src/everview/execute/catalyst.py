"""The stateless operators of a physical plan as SQL text, which Catalyst evaluates row by row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch

from pyspark.sql import types as S

from everview import operators as P
from everview.algebra import types as T
from everview.algebra.expressions import Column, Expression, Literal, substitute
from everview.algebra.text import Written, literal_sql, type_sql
from everview.algebra.time import INFINITY, LEAST, UNDATED, UNDATED_VALUE, Grid
from everview.algebra.windows import Band, Fixed, Range, TimeWindow
from everview.execute.guards import catalyst_sql
from everview.operators.columnar.frame import BEFORE_ALL, CHANGE, FROM, UNTIL, N

_TYPES: dict[T.DataType, S.DataType] = {
    T.BOOLEAN: S.BooleanType(), T.TINYINT: S.ByteType(), T.SMALLINT: S.ShortType(), T.INT: S.IntegerType(),
    T.BIGINT: S.LongType(), T.FLOAT: S.FloatType(), T.DOUBLE: S.DoubleType(), T.STRING: S.StringType(),
    T.BINARY: S.BinaryType(), T.DATE: S.DateType(), T.TIMESTAMP: S.TimestampType(),
    T.INTERVAL: S.DayTimeIntervalType(), T.VOID: S.IntegerType(),
}  # fmt: skip


def spark_type(type_: T.DataType) -> S.DataType:
    """Return the Spark type for one of our types; an untyped NULL is carried as an INT."""
    return S.DecimalType(type_.precision, type_.scale) if type_.is_decimal else _TYPES[type_]


def spark_schema(types: tuple[T.DataType, ...]) -> S.StructType:
    """Return the schema of change rows: the columns c0, c1, … and those of the change."""
    record = [S.StructField(P.column(i), spark_type(t)) for i, t in enumerate(types)]
    return S.StructType(record + [S.StructField(name, S.LongType()) for name in CHANGE])


def null_sql(type_: T.DataType) -> str:
    """Return the SQL for a NULL in a column of a type.

    >>> null_sql(T.STRING), null_sql(T.VOID)
    ('CAST(NULL AS STRING)', 'CAST(NULL AS INT)')
    """
    return f"CAST(NULL AS {type_sql(T.INT if type_ == T.VOID else type_)})"


def column_value_sql(value: object, type_: T.DataType) -> str:
    """Return the SQL for a value in a column of a type.

    >>> column_value_sql(None, T.VOID), column_value_sql(5, T.BIGINT)
    ('CAST(NULL AS INT)', '5L')
    """
    return null_sql(type_) if value is None else literal_sql(value, type_)


def long_sql(t: int) -> str:
    """Return the SQL for an instant; the least ones have no literal.

    >>> long_sql(5), long_sql(LEAST), long_sql(LEAST - 1)
    ('5L', '(-9223372036854775807L)', '(-9223372036854775807L - 1L)')
    """
    if t < 0:
        return f"({max(t, LEAST)}L{' - 1L' if t < LEAST else ''})"
    return f"{t}L"


_LONG = 1000  # characters; a longer text gets a name, so that it is not repeated inside other texts


@dataclass(frozen=True)
class Row:
    """A row as SQL over another row: its columns, its change, and the conditions under which it exists.

    `lets` has long texts that were given a name (with the row's name as a prefix), in the order in which they
    must be computed.

    >>> from everview.algebra.types import INT
    >>> scan = P.ScanOperator("s", (INT, INT))
    >>> row = Row.of(["c0", "c1"], scan.types).through(P.NegateOperator(scan))
    >>> row.columns, row.n
    (('c0', 'c1'), '(-_n)')
    """

    columns: tuple[str, ...]
    types: tuple[T.DataType, ...]
    begin: str = FROM
    end: str = UNTIL
    n: str = N
    conditions: tuple[str, ...] = ()
    name: str = "_row"
    lets: tuple[tuple[tuple[str, str], ...], ...] = ()

    @classmethod
    def of(cls, columns: list[str], types: tuple[T.DataType, ...], name: str = "_row") -> Row:
        """Return a row that is its columns, unchanged."""
        return cls(tuple(columns), types, name=name)

    def through(self, node: P.Operator) -> Row:
        """Return the row that an operator makes of this one."""
        row = _through(node, self)
        texts = [row.begin, row.end, *row.columns]
        long = [text for text in dict.fromkeys(texts) if len(text) > _LONG]
        if not long:
            return row
        names = {text: f"{row.name}_{len(row.lets)}_{i}" for i, text in enumerate(long)}
        begin, end, *columns = (names.get(text, text) for text in texts)
        let = tuple((name, text) for text, name in names.items())
        return replace(row, columns=tuple(columns), begin=begin, end=end, lets=(*row.lets, let))

    def text(self, expression: Expression) -> str:
        """Return the SQL of an expression over the columns of the row."""
        written: dict[Expression, Expression] = {
            Column(P.column(i), t): Written(text, t)
            for i, (text, t) in enumerate(zip(self.columns, self.types, strict=True))
        }
        return catalyst_sql(substitute(expression, written))


@singledispatch
def _through(node: P.Operator, row: Row) -> Row:
    raise TypeError(f"{type(node).__name__} is not evaluated row by row")


@_through.register
def _(node: P.FilterOperator, row: Row) -> Row:
    return replace(row, conditions=(*row.conditions, f"({row.text(node.condition)})"))


@_through.register
def _(node: P.ProjectOperator, row: Row) -> Row:
    return replace(row, columns=tuple(_output(e, row) for e in node.outputs), types=node.types)


def _output(expression: Expression, row: Row) -> str:
    """Return the SQL of an output column; a computed one is cast to the type of the plan."""
    if isinstance(expression, Column):
        return row.text(expression)
    if expression == Literal(None, expression.type):
        return null_sql(expression.type)
    wanted = T.INT if expression.type == T.VOID else expression.type
    return f"CAST({row.text(expression)} AS {type_sql(wanted)})"


@_through.register
def _(node: P.NegateOperator, row: Row) -> Row:
    return replace(row, n=f"(-{row.n})")


@_through.register
def _(node: P.StampOperator, row: Row) -> Row:
    dated = f"{row.begin} > {long_sql(UNDATED)}"
    instant = f"timestamp_micros(IF({dated}, {row.begin}, {long_sql(UNDATED_VALUE)}))"
    return replace(row, columns=(*row.columns, instant), types=node.types)


@_through.register
def _(node: P.EventOutputOperator, row: Row) -> Row:
    """Begin the row at its first time line; one that is NULL lies beyond the ends of time."""
    time = f"unix_micros({row.columns[node.first_line]})"
    there = [f"({row.columns[position]} IS NOT NULL)" for position in node.time_columns]
    seen = () if node.after == BEFORE_ALL else (f"({time} > {long_sql(node.after)})",)
    return replace(row, begin=time, end=long_sql(INFINITY), conditions=(*row.conditions, *there, *seen))


@_through.register
def _(node: P.TimeWindowOperator, row: Row) -> Row:
    """Cut the interval to the window's; a row without a timestamp is in no window."""
    column = row.columns[node.timestamp]
    begin, end, inside = _interval(node.window, f"unix_micros({column})")
    shown = (*row.conditions, f"({column} IS NOT NULL)", *inside)
    cut = replace(row, begin=f"greatest({row.begin}, {begin})", end=f"least({row.end}, {end})")
    return _proper(replace(cut, conditions=shown))


@_through.register
def _(node: P.SyncEveryOperator, row: Row) -> Row:
    return _proper(replace(row, begin=_point(node.grid, row.begin), end=_point(node.grid, row.end)))


def _proper(row: Row) -> Row:
    return replace(row, conditions=(*row.conditions, f"({row.begin} < {row.end})"))


def _point(grid: Grid, t: str) -> str:
    """Return the SQL of the first grid point at or after t; the ends of time stay."""
    return f"IF({t} IN ({long_sql(INFINITY)}, {long_sql(LEAST)}), {t}, {_ceil(grid, t)})"


def _ceil(grid: Grid, t: str) -> str:
    if grid.step == 1:
        return t
    return f"({t} + pmod({long_sql(grid.origin)} - {t}, {long_sql(grid.step)}))"


def _interval(window: TimeWindow, ts: str) -> tuple[str, str, list[str]]:
    """Return the closed form of a window (DESIGN section 4): from, until, conditions on the timestamp."""
    match window:
        case Range(extent, _, lag, _):
            begin = f"({ts} + {long_sql(lag)})" if lag else ts
            return _ceil(window.grid, begin), _ceil(window.grid, f"({begin} + {long_sql(extent)})"), []
        case Fixed():
            return ts, _ceil(window.grid, f"({ts} + 1L)"), []
        case Band(lower, upper):
            inside = [] if lower is None else [f"({ts} >= {long_sql(lower)})"]
            inside += [] if upper is None else [f"({ts} <= {long_sql(upper)})"]
            return ts, long_sql(INFINITY), inside
