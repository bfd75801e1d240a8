"""Nodes that only carry columns take every value there is, as a column and as a constant."""

from __future__ import annotations

import polars as pl
import pytest

from everview import operators as P
from everview.algebra import types as T
from everview.algebra.expressions import Cast, Expression, IsNull, Literal, Not
from everview.operators.columnar.frame import CHANGE
from everview.operators.columnar.types import column_type
from tests.algebra.hostile import VALUES

TIMES = {T.TIMESTAMP: pl.Int64, T.INTERVAL: pl.Int64, T.DATE: pl.Int32}


def physical(column: pl.Series) -> list[object]:
    """The values as the algebra has them: times as numbers."""
    return (column.to_physical() if column.dtype.is_temporal() else column).to_list()


def frame_of(type_: T.DataType) -> pl.DataFrame:
    values = [None, *VALUES[type_]]
    wanted = column_type(type_)
    column = pl.Series("c0", values, dtype=TIMES.get(type_, wanted)).cast(wanted)
    return pl.DataFrame([column]).with_columns(*(pl.lit(1, pl.Int64).alias(c) for c in CHANGE))


@pytest.mark.parametrize("type_", VALUES, ids=str)
def test_every_value_is_carried(type_: T.DataType) -> None:
    rows = frame_of(type_)
    given = P.RegisterOperator(0, (type_,))
    wider = [t for t in VALUES if t != type_ and T.can_cast(type_, t)]
    outputs: list[Expression] = [given.columns[0], *(Cast(given.columns[0], t) for t in wider)]
    outputs += [Literal(v, type_) for v in VALUES[type_]] + [Literal(None, type_)]
    light = tuple(e for e in outputs if P.ProjectOperator(given, (e,)).is_light)
    found = P.ProjectOperator(given, light).apply([rows])
    values = physical(rows["c0"])
    for i, e in enumerate(light):
        wanted = [e.value] * len(rows) if isinstance(e, Literal) else values
        assert repr(physical(found[f"c{i}"])) == repr(
            [float(v) if _is_real(e.type, v) else v for v in wanted]
        )


def _is_real(type_: T.DataType, value: object) -> bool:
    return type_.is_float and value is not None


@pytest.mark.parametrize("type_", VALUES, ids=str)
def test_every_null_is_left_out(type_: T.DataType) -> None:
    given = P.RegisterOperator(0, (type_,))
    found = P.FilterOperator(given, Not(IsNull(given.columns[0]))).apply([frame_of(type_)])
    assert len(found) == len(VALUES[type_])
