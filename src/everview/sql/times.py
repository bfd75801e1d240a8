"""Time in expressions: the clocks of a statement, days and months beside times, the seconds of EXTRACT."""

from __future__ import annotations

import re

from sqlglot import exp

from everview.algebra import types as T
from everview.algebra.expressions import Arithmetic, Call, Cast, Expression, Literal
from everview.algebra.time import DAY, MINUTE, SECOND

CLOCKS: dict[str, T.DataType] = {
    "current_timestamp": T.TIMESTAMP, "now": T.TIMESTAMP, "localtimestamp": T.TIMESTAMP,
    "current_date": T.DATE, "curdate": T.DATE,
}  # fmt: skip
"""The functions that tell the time of an ad hoc query, each with its type."""


def is_clock_call(node: exp.Expr) -> bool:
    """Return whether this is CURRENT_TIMESTAMP, now() or another function of the clock."""
    called = isinstance(node, exp.Anonymous) and node.name.casefold() in CLOCKS
    return called or isinstance(node, (exp.CurrentTimestamp, exp.CurrentDate))


def as_days(e: Expression, syntax: exp.Expr) -> Expression:
    """Return INTERVAL '3' DAY beside a date as a number of days, so that the sum is a date, as in Spark."""
    unit = syntax.args.get("unit") if isinstance(syntax, exp.Interval) else None
    in_days = isinstance(unit, exp.Var) and unit.name.upper() in ("DAY", "DAYS")
    if in_days and isinstance(e, Literal) and isinstance(e.value, int) and e.value % DAY == 0:
        return Literal(e.value // DAY, T.INT)
    return e


_MONTHS = {"YEAR": 12, "YEARS": 12, "MONTH": 1, "MONTHS": 1}
_WHOLE = re.compile(r"[+-]?\d{1,6}", re.ASCII)
_PART = re.compile(r"([+-]?\d{1,6})\s+(years?|months?)\s*", re.ASCII | re.IGNORECASE)
_PHRASE = re.compile(rf"(?:{_PART.pattern})+", re.ASCII | re.IGNORECASE)
_SPAN = re.compile(r"([+-]?)(\d{1,6})-(\d{1,2})", re.ASCII)


def months_of(syntax: exp.Expr) -> int | None:
    """Return the months of INTERVAL '1' MONTH, '2' YEAR, '1-6' YEAR TO MONTH or '1 year 6 months', else None.

    >>> import sqlglot
    >>> texts = ("INTERVAL '2' YEAR", "-INTERVAL '3' MONTHS", "INTERVAL '1' DAY")
    >>> [months_of(sqlglot.parse_one(text)) for text in texts]
    [24, -3, None]
    """
    if isinstance(syntax, exp.Paren):
        return months_of(syntax.this)
    if isinstance(syntax, exp.Neg):
        months = months_of(syntax.this)
        return None if months is None else -months
    if not isinstance(syntax, exp.Interval):
        return None
    unit, amount = syntax.args.get("unit"), syntax.this
    sign = -1 if isinstance(amount, exp.Neg) else 1
    amount = amount.this if isinstance(amount, exp.Neg) else amount
    text = amount.name.strip() if isinstance(amount, exp.Literal) else ""
    if isinstance(unit, exp.IntervalSpan):
        span = _SPAN.fullmatch(text)
        if (unit.this.name.upper(), unit.expression.name.upper()) != ("YEAR", "MONTH") or span is None:
            return None
        months = int(span[2]) * 12 + int(span[3])
        return None if int(span[3]) > 11 else -months if span[1] == "-" else months
    if unit is None and _PHRASE.fullmatch(text):
        return sign * sum(int(count) * _MONTHS[word.upper()] for count, word in _PART.findall(text))
    size = _MONTHS.get(unit.name.upper()) if unit is not None else None
    return sign * int(text) * size if size is not None and _WHOLE.fullmatch(text) else None


def add_months_to(time: Expression, months: int) -> Expression:
    """Return a date or timestamp so many months later: the same day, or the last one of a shorter month."""
    count = Literal(months, T.INT)
    if time.type != T.TIMESTAMP:
        return Call("add_months", (time, count))
    day = Cast(Call("add_months", (Cast(time, T.DATE), count)), T.TIMESTAMP)
    time_of_day = Arithmetic("-", time, Call("date_trunc", (Literal("DAY", T.STRING), time)))
    return Arithmetic("+", day, time_of_day)


def seconds_of(instant: Expression) -> Expression:
    """Return EXTRACT(SECOND FROM …) with the fraction, as in Spark: a DECIMAL(8,6)."""
    if instant.type == T.DATE:
        instant = Cast(instant, T.TIMESTAMP)
    micros = Call("pmod", (Call("unix_micros", (instant,)), Literal(MINUTE, T.INT)))
    return Cast(Arithmetic("/", Cast(micros, T.decimal(8, 0)), Literal(SECOND, T.INT)), T.decimal(8, 6))
