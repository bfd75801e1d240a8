"""Time in expressions: the clocks of a statement, days beside dates, the seconds of EXTRACT."""

from __future__ import annotations

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


def seconds_of(instant: Expression) -> Expression:
    """Return EXTRACT(SECOND FROM …) with the fraction, as in Spark: a DECIMAL(8,6)."""
    if instant.type == T.DATE:
        instant = Cast(instant, T.TIMESTAMP)
    micros = Call("pmod", (Call("unix_micros", (instant,)), Literal(MINUTE, T.INT)))
    return Cast(Arithmetic("/", Cast(micros, T.decimal(8, 0)), Literal(SECOND, T.INT)), T.decimal(8, 6))
