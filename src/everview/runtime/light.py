"""Nodes that only carry columns, on whole columns of a frame: what a task does between two kernels.

No rows at all are None here: whoever gets none from all its inputs has nothing to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_
from types import MappingProxyType

import polars as pl

from everview.algebra import types as T
from everview.algebra.expressions import Cast, Column, Expression, IsNull, Literal, Not, conjuncts
from everview.kernels.frame import CHANGE, FROM, UNTIL, Frame, N, stacked
from everview.runtime.rows import frame_type
from everview.spark import physical as P
from everview.spark.lanes import Carried


def column_type(type_: T.DataType) -> pl.DataType:
    """The type of a column in a frame that came through Spark; an untyped NULL is carried as an INT."""
    return pl.Int32() if type_ == T.VOID else frame_type(type_)


def empty_frame(types: Sequence[T.DataType]) -> Frame:
    """No rows, with the columns c0, c1, … and the change."""
    record = {P.column(i): column_type(t) for i, t in enumerate(types)}
    return pl.DataFrame(schema={**record, **dict.fromkeys(CHANGE, pl.Int64())})


def shaped(frame: Frame, types: Sequence[T.DataType]) -> Frame:
    """The frame with its columns in order, each of just the type that the plan says."""
    wanted = {P.column(i): column_type(t) for i, t in enumerate(types)}
    if frame.schema == {**wanted, **dict.fromkeys(CHANGE, pl.Int64())}:
        return frame
    columns = [pl.col(c) if frame.schema[c] == t else pl.col(c).cast(t) for c, t in wanted.items()]
    return frame.select(*columns, *CHANGE)


def picked(frame: Frame, columns: Mapping[str, str]) -> Frame:
    """Columns of a frame under new names, and the change; for a few rows faster than to ask for a query."""
    record = [frame.get_column(old).alias(new) for new, old in columns.items()]
    return pl.DataFrame([*record, *(frame.get_column(c) for c in CHANGE)])


def wanted(rows: Frame, carried: Carried) -> Frame:
    """Of rows that bring along what ports take, those that one takes."""
    return rows if carried.condition is None else rows.filter(pl.col(carried.condition))


def taken(rows: Frame, carried: Carried, more: Mapping[str, str] = MappingProxyType({})) -> Frame:
    """What a port takes of such rows: the columns c0, c1, …, the change, and perhaps more."""
    columns = {P.column(i): c for i, c in enumerate(carried.columns)}
    columns |= {FROM: carried.begin, UNTIL: carried.end, N: carried.n, **more}
    return pl.DataFrame([rows.get_column(old).alias(new) for new, old in columns.items()])


def run_light(node: P.Physical, below: Sequence[Frame | None]) -> Frame | None:
    """What a node that only carries columns yields.

    >>> from everview.kernels.frame import changes
    >>> rows = changes({"c0": [1, None], "c1": ["a", "b"]}, [(0, 5, 1), (3, 9, 1)])
    >>> given = P.Register(0, (T.INT, T.STRING))
    >>> run_light(P.Negative(given), [rows]).rows()
    [(1, 'a', 0, 5, -1), (None, 'b', 3, 9, -1)]
    >>> run_light(P.Compute(given, (given.columns[1], Literal(7, T.INT))), [rows]).rows()
    [('a', 7, 0, 5, 1), ('b', 7, 3, 9, 1)]
    """
    frames = [frame for frame in below if frame is not None]
    if not frames:
        return None
    match node:
        case P.Merge():
            return stacked(frames)
        case P.Negative():
            return frames[0].with_columns(-pl.col(N))
        case P.Compute(outputs=outputs) if all(isinstance(e, Column) for e in outputs):
            return picked(
                frames[0], {P.column(i): e.name for i, e in enumerate(outputs) if isinstance(e, Column)}
            )
        case P.Compute(outputs=outputs):
            return frames[0].select(*(_column(e).alias(P.column(i)) for i, e in enumerate(outputs)), *CHANGE)
        case P.Select(condition=condition):
            return frames[0].filter(reduce(and_, map(_present, conjuncts(condition))))
    raise TypeError(f"{type(node).__name__} does more than carry columns")


def _column(expression: Expression) -> pl.Expr:
    match expression:
        case Column(name):
            return pl.col(name)
        case Cast(operand, to):
            return _column(operand).cast(column_type(to))
        case Literal(value, type_):
            return _constant(value, type_)
    raise TypeError(f"{expression} is no column")


def _constant(value: object, type_: T.DataType) -> pl.Expr:
    """Times are integers in a plan; here they get their type."""
    wanted = column_type(type_)
    counts = {T.TIMESTAMP: pl.Int64, T.INTERVAL: pl.Int64, T.DATE: pl.Int32}.get(type_)
    return pl.lit(value, wanted) if counts is None or value is None else pl.lit(value, counts).cast(wanted)


def _present(part: Expression) -> pl.Expr:
    match part:
        case Not(IsNull(operand)):
            return _column(operand).is_not_null()
    raise TypeError(f"{part} asks for more than NULLs")
