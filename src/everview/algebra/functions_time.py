"""The table of date and time functions: everything in UTC, dates as days, instants as microseconds."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

from everview.algebra.convert import checked_micros
from everview.algebra.dates import (
    civil,
    clock_text,
    date_text,
    days_of,
    parse_date,
    parse_instant,
    time_of_day,
)
from everview.algebra.numbers import quotient, saturate, wrap
from everview.algebra.signatures import Signature as Row
from everview.algebra.signatures import Types
from everview.algebra.time import DAY, HOUR, MILLISECOND, MINUTE, SECOND

_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DAY_NAMES = {
    name: day
    for day, names in enumerate(
        ("MO MON MONDAY", "TU TUE TUESDAY", "WE WED WEDNESDAY", "TH THU THURSDAY", "FR FRI FRIDAY",
         "SA SAT SATURDAY", "SU SUN SUNDAY")
    )
    for name in names.split()
}  # fmt: skip
_DATE_UNITS = {
    "YEAR": "YEAR", "YYYY": "YEAR", "YY": "YEAR", "QUARTER": "QUARTER",
    "MONTH": "MONTH", "MM": "MONTH", "MON": "MONTH", "WEEK": "WEEK",
}  # fmt: skip
_CLOCK_UNITS = {
    "DAY": DAY, "DD": DAY, "HOUR": HOUR, "MINUTE": MINUTE, "SECOND": SECOND, "MILLISECOND": MILLISECOND,
    "MICROSECOND": 1,
}  # fmt: skip


def weekday(days: int) -> int:
    """Return 0 for Monday to 6 for Sunday.

    >>> weekday(0)
    3
    """
    return (days + 3) % 7


def week_of_year(days: int) -> int:
    """Return the ISO week: the first one has the year's first Thursday.

    >>> week_of_year(days_of(2021, 1, 1) or 0)
    53
    """
    thursday = days - weekday(days) + 3
    return (day_of_year(thursday) - 1) // 7 + 1


def day_of_year(days: int) -> int:
    """Return the day of the year, 1 for the first of January.

    >>> day_of_year(31)
    32
    """
    return days - (days_of(civil(days)[0], 1, 1) or 0) + 1


def last_day(days: int) -> int:
    """Return the last day of the month.

    >>> last_day(0)
    30
    """
    year, month, _ = civil(days)
    return wrap((days_of(year + month // 12, month % 12 + 1, 1) or 0) - 1, 32)


def add_months(days: int, months: int) -> int | None:
    """Return the same day so many months later, or the last one of that month if it is shorter.

    >>> civil(add_months(days_of(2020, 1, 31) or 0, 1) or 0)
    (2020, 2, 29)
    """
    year, month, day = civil(days)
    years, month_index = divmod(month - 1 + months, 12)
    first = days_of(year + years, month_index + 1, 1) or 0
    following = days_of(year + years + month_index // 11, (month_index + 1) % 12 + 1, 1) or 0
    return _date(min(first + day - 1, following - 1))


def months_between(a: int, b: int) -> float | None:
    """Return the months of 31 days from b to a, to eight digits; whole between equal or last days of months.

    NULL on the first day of all timestamps, which has no midnight.

    >>> months_between(parse_instant("1997-02-28 10:30:00") or 0, parse_instant("1996-10-30") or 0)
    3.94959677
    """
    (y1, m1, d1), (y2, m2, d2) = civil(a // DAY), civil(b // DAY)
    months = (y1 - y2) * 12 + m1 - m2
    if checked_micros(a // DAY * DAY) is None or checked_micros(b // DAY * DAY) is None:
        return None
    both_last = last_day(a // DAY) == a // DAY and last_day(b // DAY) == b // DAY
    if d1 == d2 or both_last:
        return float(months)
    seconds = (d1 - d2) * 86400 + a % DAY // SECOND - b % DAY // SECOND
    apart = months + seconds / (31 * 86400)
    return math.floor(apart * 1e8 + 0.5) / 1e8


def next_day(days: int, name: str) -> int | None:
    """Return the first day of this name after a date; NULL if no day has this name.

    >>> next_day(0, "fri"), next_day(0, "Thursday"), next_day(0, "x")
    (1, 7, None)
    """
    day = _DAY_NAMES.get(name.upper())
    if day is None:
        return None
    # Counted from Thursday, the first day of the epoch; wrapped where Java's ints would wrap.
    return wrap(days + 1 + wrap((day + 4) % 7 - 1 - days, 32) % 7, 32)


def trunc(days: int, unit: str) -> int | None:
    """Return the first day of a date's year, quarter, month or week; NULL for any other unit.

    >>> trunc(40, "month"), trunc(40, "WEEK"), trunc(40, "hour")
    (31, 39, None)
    """
    year, month, _ = civil(days)
    match _DATE_UNITS.get(unit.upper()):
        case "YEAR":
            start = days_of(year, 1, 1)
        case "QUARTER":
            start = days_of(year, (month - 1) // 3 * 3 + 1, 1)
        case "MONTH":
            start = days_of(year, month, 1)
        case "WEEK":
            start = days - weekday(days)
        case _:
            start = None
    return None if start is None else wrap(start, 32)


def date_trunc(unit: str, micros: int) -> int | None:
    """Return the first instant of a timestamp's unit; NULL if there is no such unit.

    >>> date_trunc("HOUR", 5_000_000_000) == HOUR, date_trunc("month", 40 * DAY) == 31 * DAY
    (True, True)
    >>> date_trunc("x", 0) is None
    True
    """
    size = _CLOCK_UNITS.get(unit.upper())
    if size is not None:
        return checked_micros(micros - micros % size)
    days = trunc(micros // DAY, unit)
    return None if days is None else checked_micros(days * DAY)


def make_timestamp(year: int, month: int, day: int, hour: int, minute: int, second: Decimal) -> int | None:
    """Return a timestamp from its parts, NULL if there is no such one; second 60 is the next minute.

    >>> make_timestamp(1970, 1, 1, 0, 1, Decimal("1.5")), make_timestamp(1970, 2, 30, 0, 0, Decimal(0))
    (61500000, None)
    """
    days = days_of(year, month, day)
    micros = int(second.scaleb(6))
    carry = micros == MINUTE
    clock = time_of_day(hour, minute, 0 if carry else micros // SECOND)
    if days is None or clock is None:
        return None
    return checked_micros(days * DAY + clock + (MINUTE if carry else micros % SECOND))


def timestamp_seconds(types: Types, seconds: Any) -> int | None:
    """Return the instant so many seconds after the epoch; NULL out of range or between two microseconds.

    >>> from everview.algebra.types import DOUBLE, INT
    >>> timestamp_seconds((INT,), 2), timestamp_seconds((DOUBLE,), 0.5)
    (2000000, 500000)
    """
    if types[0].is_float:
        return saturate(seconds * SECOND, 64) if math.isfinite(seconds) else None
    micros = Fraction(seconds) * SECOND
    return checked_micros(micros.numerator) if micros.denominator == 1 else None


def make_date(year: int, month: int, day: int) -> int | None:
    """Return a date from its parts, NULL if there is no such date.

    >>> make_date(1970, 1, 2), make_date(1970, 13, 1)
    (1, None)
    """
    days = days_of(year, month, day)
    return None if days is None else _date(days)


def _date(days: int) -> int | None:
    return days if wrap(days, 32) == days else None


def _seconds_text(seconds: int) -> str:
    micros = wrap(seconds * SECOND, 64)
    return f"{date_text(micros // DAY)} {clock_text(micros % DAY // SECOND * SECOND)}"


TIME_FUNCTIONS = (
    Row("year", "DATE", "INT", lambda d: civil(d)[0]),
    Row("quarter", "DATE", "INT", lambda d: (civil(d)[1] + 2) // 3),
    Row("month", "DATE", "INT", lambda d: civil(d)[1]),
    Row("day", "DATE", "INT", lambda d: civil(d)[2], ("dayofmonth",)),
    Row("dayofyear", "DATE", "INT", day_of_year),
    Row("dayofweek", "DATE", "INT", lambda d: (weekday(d) + 1) % 7 + 1),
    Row("weekday", "DATE", "INT", weekday),
    Row("weekofyear", "DATE", "INT", week_of_year),
    Row("dayname", "DATE", "STRING", lambda d: _WEEKDAYS[weekday(d)]),
    Row("monthname", "DATE", "STRING", lambda d: _MONTHS[civil(d)[1] - 1]),
    Row("hour", "TIMESTAMP", "INT", lambda t: t % DAY // HOUR),
    Row("minute", "TIMESTAMP", "INT", lambda t: t % HOUR // MINUTE),
    Row("second", "TIMESTAMP", "INT", lambda t: t % MINUTE // SECOND),
    Row("date_add", "DATE, DAYS", "DATE", lambda d, n: wrap(d + n, 32), ("dateadd",)),
    Row("date_sub", "DATE, DAYS", "DATE", lambda d, n: wrap(d - n, 32)),
    Row("datediff", "DATE, DATE", "INT", lambda a, b: wrap(a - b, 32), ("date_diff",)),
    Row("add_months", "DATE, INT", "DATE", add_months),
    Row("months_between", "TIMESTAMP, TIMESTAMP", "DOUBLE", months_between),
    Row("last_day", "DATE", "DATE", last_day),
    Row("next_day", "DATE, STRING", "DATE", next_day),
    Row("trunc", "DATE, STRING", "DATE", trunc),
    Row("date_trunc", "STRING, TIMESTAMP", "TIMESTAMP", date_trunc),
    Row("make_date", "INT, INT, INT", "DATE", make_date),
    Row("make_timestamp", "INT, INT, INT, INT, INT, SECONDS", "TIMESTAMP", make_timestamp),
    Row("to_date", "STRING", "DATE", parse_date),
    Row("to_date", "DATE", "DATE", lambda d: d),
    Row("to_timestamp", "STRING", "TIMESTAMP", parse_instant),
    Row("to_timestamp", "TIMESTAMP", "TIMESTAMP", lambda t: t),
    Row("unix_timestamp", "TIMESTAMP", "BIGINT", lambda t: quotient(t, SECOND), ("to_unix_timestamp",)),
    Row("unix_seconds", "INSTANT", "BIGINT", lambda t: t // SECOND),
    Row("unix_millis", "INSTANT", "BIGINT", lambda t: t // MILLISECOND),
    Row("unix_micros", "INSTANT", "BIGINT", lambda t: t),
    Row("unix_date", "CIVIL", "INT", lambda d: d),
    Row("timestamp_seconds", "NUMBER", "TIMESTAMP", timestamp_seconds, typed=True),
    Row("timestamp_millis", "INTEGER", "TIMESTAMP", lambda n: checked_micros(n * MILLISECOND)),
    Row("timestamp_micros", "INTEGER", "TIMESTAMP", lambda n: n),
    Row("date_from_unix_date", "INT", "DATE", lambda n: n),
    Row("from_unixtime", "BIGINT", "STRING", _seconds_text),
)
