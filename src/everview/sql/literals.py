"""Types and constants: from SQL's words to the algebra's values."""

from __future__ import annotations

import math
import re
from decimal import Decimal

from sqlglot import exp

from everview.algebra import types as T
from everview.algebra.convert import convert, try_convert
from everview.algebra.expressions import Cast, Expression, Literal, TryCast
from everview.algebra.text import string_sql
from everview.algebra.time import DAY, HOUR, MINUTE, SECOND, UNITS, Chronon, parse_timestamp
from everview.errors import AlgebraError, SqlError, nearest
from everview.sql.places import TYPE_NAMES
from everview.sql.script import Script

D = exp.DataType.Type
_TOO_LONG = 2**62  # half of the time line
EXAMPLES = {T.TIMESTAMP: "'2026-01-31 23:59:59'", T.DATE: "'2026-01-31'"}
_DIGITS = re.compile(r"[0-9]{1,18}")
_NUMERAL = re.compile(r"-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)")
_PART = re.compile(rf"({_NUMBER.pattern})\s+([A-Za-z]+)\s*")
_PHRASE = re.compile(rf"(?:{_PART.pattern})+")

_TYPES = {
    D.BOOLEAN: T.BOOLEAN, D.TINYINT: T.TINYINT, D.SMALLINT: T.SMALLINT, D.INT: T.INT, D.BIGINT: T.BIGINT,
    D.FLOAT: T.FLOAT, D.DOUBLE: T.DOUBLE, D.TEXT: T.STRING, D.VARCHAR: T.STRING, D.CHAR: T.STRING,
    D.BINARY: T.BINARY, D.VARBINARY: T.BINARY, D.DATE: T.DATE, D.TIMESTAMP: T.TIMESTAMP,
    D.TIMESTAMPTZ: T.TIMESTAMP, D.TIMESTAMPNTZ: T.TIMESTAMP, D.TIMESTAMPLTZ: T.TIMESTAMP,
    D.INTERVAL: T.INTERVAL, D.NULL: T.VOID,
}  # fmt: skip


def data_type(node: exp.Expr, script: Script) -> T.DataType:
    """Return a type as it is written in SQL."""
    if isinstance(node, exp.DataType) and node.this == D.DECIMAL:
        sizes = [whole_number(p.name) for p in node.expressions]
        precision, scale, *more = sizes + [10, 0][len(sizes) :]
        if more or not precision or scale is None or not scale <= precision <= T.MAX_PRECISION:
            raise script.error(
                f"{node.sql()} is not a type",
                node,
                next_step=f"use 1 to {T.MAX_PRECISION} digits, and no more after the point than in all",
            )
        return T.decimal(precision, scale)
    if isinstance(node, exp.DataType) and isinstance(node.this, exp.Interval):
        span = node.this.args.get("unit")
        if isinstance(span, exp.IntervalSpan) and (span.this.name, span.expression.name) == ("DAY", "SECOND"):
            return T.INTERVAL
    found = _TYPES.get(node.this) if isinstance(node, exp.DataType) else None
    if found is None:
        word = node.sql()
        raise SqlError(f"the type {word} is not available", place=script.place(node), choices=TYPE_NAMES)
    if node.expressions:
        raise script.error(f"the type {found} takes no size", node, next_step=f"write {found}")
    return found


def number(text: str) -> Literal:
    """Return a number as Spark reads it: INT, BIGINT, DECIMAL; with an exponent DOUBLE.

    >>> str(number("5").type), str(number("1.50").type), str(number("1e3").type)
    ('INT', 'DECIMAL(3,2)', 'DOUBLE')
    """
    if not _NUMERAL.fullmatch(text):
        raise AlgebraError(f"'{text}' is no number")
    if "e" in text.lower():
        if math.isinf(float(text)):
            raise AlgebraError(f"{text} is too large for a number")
        return Literal(float(text), T.DOUBLE)
    whole, point, fraction = text.lstrip("-").partition(".")
    precision = max(1, len(whole.lstrip("0")) + len(fraction))
    if precision > T.MAX_PRECISION:
        raise AlgebraError(
            f"a number of {precision} digits is too long", next_step="write it with an exponent"
        )
    value = int(Decimal(text))
    if not point and -(2**63) <= value < 2**63:
        return Literal(value, T.INT if -(2**31) <= value < 2**31 else T.BIGINT)
    return Literal(Decimal(text), T.decimal(precision, len(fraction)))


def cast(operand: Expression, target: T.DataType) -> Expression:
    """Return a CAST; that of a constant is evaluated at once."""
    made = Cast(operand, target)
    if not isinstance(operand, Literal):
        return made
    value = convert(operand.value, operand.type, target)
    if value is None and operand.value is not None and target.is_temporal:
        raise AlgebraError(
            f"{string_sql(str(operand.value))} is no {target}", next_step=f"write it as {EXAMPLES[target]}"
        )
    return Literal(value, target)


def try_cast(operand: Expression, target: T.DataType) -> Expression:
    """Return a TRY_CAST; that of a constant is evaluated at once."""
    made = TryCast(operand, target)
    if not isinstance(operand, Literal):
        return made
    return Literal(try_convert(operand.value, operand.type, target), target)


def duration(node: exp.Expr, script: Script) -> int:
    """Return a length of time in microseconds: 15 MINUTES, INTERVAL '1' DAY, or a sum of such."""
    if isinstance(node, exp.Paren):
        return duration(node.this, script)
    if isinstance(node, exp.Neg):
        return -duration(node.this, script)
    if isinstance(node, exp.Add):
        return duration(node.this, script) + duration(node.expression, script)
    if not isinstance(node, exp.Interval):
        raise script.error("this is no length of time", node, next_step="write it as INTERVAL '15' MINUTE")
    unit = node.args.get("unit")
    if isinstance(unit, exp.IntervalSpan):
        return _span(node, script)
    amount = node.this
    sign = -1 if isinstance(amount, exp.Neg) else 1
    amount = amount.this if isinstance(amount, exp.Neg) else amount
    text = amount.name.strip() if isinstance(amount, exp.Literal) else ""
    if unit is None and _PHRASE.fullmatch(text):  # INTERVAL '1 day 2 hours'
        parts = [Decimal(number) * _unit(word, node, script) for number, word in _PART.findall(text)]
        exact = sign * sum(parts, Decimal(0))
    else:
        size = _unit(unit.name if unit is not None else "", node, script)
        if not _NUMBER.fullmatch(text):
            raise script.error("a length of time is a constant number of units", node)
        exact = sign * Decimal(text) * size
    if exact != int(exact):
        raise script.error("time is counted in whole microseconds", node)
    if abs(exact) >= _TOO_LONG:
        raise script.error("this length of time is too long", node)
    return int(exact)


def _unit(word: str, node: exp.Expr, script: Script) -> int:
    name = word.upper().removesuffix("S") if word.upper() not in UNITS else word.upper()
    if name in ("MONTH", "YEAR", "QUARTER"):
        raise script.error(f"a {name} has no fixed length", node, next_step="write it as a number of DAYS")
    if name not in UNITS:
        raise SqlError(
            f"there is no unit of time '{word}'" if word else "a length of time needs a unit",
            place=script.place(node),
            meant=nearest(name, UNITS),
            choices=UNITS,
        )
    return UNITS[name]


def _span(node: exp.Interval, script: Script) -> int:
    """Return the length of INTERVAL '1 02:03:04.5' DAY TO SECOND and its shorter forms."""
    unit = node.args["unit"]
    names = ["DAY", "HOUR", "MINUTE", "SECOND"]
    first, last = unit.this.name.upper(), unit.expression.name.upper()
    if first not in names or last not in names or names.index(first) >= names.index(last):
        raise script.error(f"{first} TO {last} is no length of time", node, next_step="use DAY TO SECOND")
    sizes = [DAY, HOUR, MINUTE, SECOND][names.index(first) : names.index(last) + 1]
    text = node.this.name.strip()
    words = text.removeprefix("-").replace(" ", ":").split(":")
    digits = [r"\d{1,12}"] * (len(sizes) - 1) + [r"\d{1,12}(\.\d{1,6})?" if last == "SECOND" else r"\d{1,12}"]
    if len(words) != len(sizes) or not all(map(re.fullmatch, digits, words)):
        raise script.error(f"'{text}' does not fit {first} TO {last}", node)
    total = int(sum(Decimal(w) * size for w, size in zip(words, sizes, strict=True)))
    if total >= _TOO_LONG:
        raise script.error("this length of time is too long", node)
    return -total if text.startswith("-") else total


def bind_instant(node: exp.Expr, script: Script) -> Chronon:
    """Return a constant instant: TIMESTAMP '2026-01-01 00:00:00'."""
    literal = node.this if isinstance(node, exp.Cast) else node
    at = parse_timestamp(literal.name) if isinstance(literal, exp.Literal) and literal.is_string else None
    if at is None:
        raise script.error(
            "this is no instant", node, next_step="write it as TIMESTAMP '2026-01-31 23:59:59'"
        )
    return at


def constant_int(node: exp.Expr, script: Script, what: str) -> int:
    """Return a constant whole number, as in ROWS 5."""
    inner = node.this if isinstance(node, exp.Neg) else node
    value = whole_number(inner.name) if isinstance(inner, exp.Literal) and not inner.is_string else None
    if value is None:
        raise script.error(f"{what} needs a whole number", node)
    return -value if isinstance(node, exp.Neg) else value


def whole_number(text: str) -> int | None:
    """Return the number that digits denote; None if they are no digits, or too many.

    >>> whole_number("12"), whole_number("-1"), whole_number("9" * 99)
    (12, None, None)
    """
    return int(text) if _DIGITS.fullmatch(text) else None
