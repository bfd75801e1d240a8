"""The plain meaning of an expression: what it yields for a record. Slow, and the oracle for Spark.

Everything follows Spark with ANSI mode off. NULL is None; NaN is always the one object `NAN`.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import singledispatch
from typing import Any

from everview.algebra.changes import Record
from everview.algebra.convert import canonical, checked_micros, convert, try_convert
from everview.algebra.expressions import (
    And,
    Arithmetic,
    Call,
    Case,
    Cast,
    Column,
    Comparison,
    Expression,
    InList,
    IsNull,
    Literal,
    Negate,
    Not,
    Or,
    TryCast,
    common_type,
)
from everview.algebra.functions import function
from everview.algebra.numbers import (
    decimal_arithmetic,
    float_remainder,
    negate_number,
    remainder,
    round_to_single,
    wrap,
)
from everview.algebra.schema import Schema
from everview.algebra.time import DAY
from everview.algebra.types import (
    BIGINT,
    DATE,
    INTERVAL,
    MAX_PRECISION,
    TIMESTAMP,
    VOID,
    DataType,
    as_decimal,
    wider_type,
)
from everview.algebra.values import NAN, ordering

__all__ = ["NAN", "convert", "evaluate", "holds"]


def holds(condition: Expression, schema: Schema, record: Record) -> bool:
    """Return whether the condition is true for the record: neither false nor NULL.

    >>> from everview.algebra.types import INT
    >>> schema = Schema.of(("speed", INT))
    >>> fast = Comparison(">", Column("speed", INT), Literal(50, INT))
    >>> holds(fast, schema, (60,)), holds(fast, schema, (None,))
    (True, False)
    """
    return evaluate(condition, schema, record) is True


@singledispatch
def evaluate(expression: Expression, schema: Schema, record: Record) -> Any:
    """Return the value of the expression for a record of this schema.

    >>> from everview.algebra.types import INT
    >>> schema = Schema.of(("a", INT), ("b", INT))
    >>> ratio = Arithmetic("/", Column("a", INT), Column("b", INT))
    >>> evaluate(ratio, schema, (1, 2)), evaluate(ratio, schema, (1, 0))
    (0.5, None)
    """
    raise TypeError(f"no meaning for {type(expression).__name__}")


def _as(type_: DataType, expression: Expression, schema: Schema, record: Record) -> Any:
    """Return the value of the expression, converted to another type."""
    return convert(evaluate(expression, schema, record), expression.type, type_)


@evaluate.register
def _(e: Column, schema: Schema, record: Record) -> Any:
    return canonical(record[schema.index(schema.find(e.name, e.relation))])


@evaluate.register
def _(e: Literal, schema: Schema, record: Record) -> Any:
    return canonical(e.value)


@evaluate.register
def _(e: Cast, schema: Schema, record: Record) -> Any:
    return _as(e.to, e.operand, schema, record)


@evaluate.register
def _(e: TryCast, schema: Schema, record: Record) -> Any:
    return try_convert(evaluate(e.operand, schema, record), e.operand.type, e.to)


@evaluate.register
def _(e: IsNull, schema: Schema, record: Record) -> Any:
    return evaluate(e.operand, schema, record) is None


@evaluate.register
def _(e: Not, schema: Schema, record: Record) -> Any:
    value = evaluate(e.operand, schema, record)
    return None if value is None else not value


@evaluate.register
def _(e: And, schema: Schema, record: Record) -> Any:
    sides = [evaluate(side, schema, record) for side in (e.left, e.right)]
    return False if False in sides else None if None in sides else True


@evaluate.register
def _(e: Or, schema: Schema, record: Record) -> Any:
    sides = [evaluate(side, schema, record) for side in (e.left, e.right)]
    return True if True in sides else None if None in sides else False


@evaluate.register
def _(e: Case, schema: Schema, record: Record) -> Any:
    chosen = next(
        (result for condition, result in e.branches if holds(condition, schema, record)), e.otherwise
    )
    return _as(e.type, chosen, schema, record)


@evaluate.register
def _(e: Comparison, schema: Schema, record: Record) -> Any:
    common = wider_type(e.left.type, e.right.type) or VOID
    left, right = (_as(common, side, schema, record) for side in (e.left, e.right))
    if e.operator == "<=>":
        return ordering(left) == ordering(right)
    if left is None or right is None:
        return None
    return _COMPARE[e.operator](ordering(left), ordering(right))


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


@evaluate.register
def _(e: InList, schema: Schema, record: Record) -> Any:
    common = common_type("IN", [e.operand, *e.items])
    value, *items = (_as(common, x, schema, record) for x in (e.operand, *e.items))
    if value is None:
        return None
    if any(item is not None and ordering(item) == ordering(value) for item in items):
        return True
    return None if None in items else False


@evaluate.register
def _(e: Call, schema: Schema, record: Record) -> Any:
    called = function(e.name)
    types = tuple(a.type for a in e.arguments)
    parameters = called.parameter_types(types)
    values = [_as(t, a, schema, record) for t, a in zip(parameters, e.arguments, strict=True)]
    if called.strict and None in values:
        return None
    return canonical(called.meaning(types)(*values))


@evaluate.register
def _(e: Negate, schema: Schema, record: Record) -> Any:
    value = evaluate(e.operand, schema, record)
    if value is None:
        return None
    if e.type == INTERVAL:
        return checked_micros(-value)
    return negate_number(value, e.type)


@evaluate.register
def _(e: Arithmetic, schema: Schema, record: Record) -> Any:
    a, b = e.left.type, e.right.type
    if DATE in (a, b) and TIMESTAMP in (a, b, e.type):
        a, b = (TIMESTAMP if t == DATE else t for t in (a, b))
    left, right = _as(a, e.left, schema, record), _as(b, e.right, schema, record)
    if left is None or right is None:
        return None
    if e.operator == "DIV":
        return None if right == 0 else _whole_quotient(left, right, a, b)
    if e.type in (TIMESTAMP, INTERVAL, DATE):
        return _time_arithmetic(e.operator, left, right, a, e.type)
    if e.type.is_decimal:
        if e.operator in "/%" and right == 0:
            return None
        return decimal_arithmetic(e.operator, Decimal(left), Decimal(right), e.type)
    return _number_arithmetic(e.operator, convert(left, a, e.type), convert(right, b, e.type), e.type)


def _whole_quotient(left: Any, right: Any, a: DataType, b: DataType) -> int | None:
    """Return the quotient cut towards zero, as a BIGINT that wraps; NULL for too many digits of decimals."""
    found = int(Fraction(left) / Fraction(right))
    if a.is_decimal or b.is_decimal:
        a, b = as_decimal(a), as_decimal(b)
        if abs(found) >= 10 ** min(a.precision - a.scale + b.scale, MAX_PRECISION):
            return None
    return wrap(found, BIGINT.bits)


def _number_arithmetic(operator: str, a: Any, b: Any, type_: DataType) -> Any:
    if operator in "/%" and b == 0:
        return None
    match operator:
        case "+":
            value = a + b
        case "-":
            value = a - b
        case "*":
            value = a * b
        case "/":
            value = a / b
        case "&":
            value = a & b
        case "|":
            value = a | b
        case "^":
            value = a ^ b
        case _:
            value = float_remainder(a, b) if type_.is_float else remainder(a, b)
    if type_.is_integer:
        return wrap(value, type_.bits)
    return canonical(round_to_single(value) if type_.name == "FLOAT" else value)


def _time_arithmetic(operator: str, left: int, right: int, a: DataType, result: DataType) -> int | None:
    """Add or subtract: days to and from dates, microseconds to and from everything else.

    A date wraps; a timestamp or an interval out of its range is NULL.
    """
    if operator == "*":
        return checked_micros(left * right)
    if operator == "-" and (result, right) == (TIMESTAMP, -(2**63)):
        return None  # Spark adds the negated value, which overflows
    value = left + right if operator == "+" else left - right
    if result == DATE:
        return wrap(value, 32)
    return checked_micros(value * DAY if a == DATE else value)
