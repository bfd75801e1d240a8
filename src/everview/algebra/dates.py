"""Dates and timestamps as Spark reads and prints them: proleptic Gregorian, UTC, any year.

Python's own dates end at the years 1 and 9999; the calendar repeats every 400 years, so that the
others are reckoned from one that it has.
"""

from __future__ import annotations

import re
from datetime import date, datetime
from zoneinfo import ZoneInfo

from everview.algebra.numbers import wrap
from everview.algebra.time import DAY, HOUR, MINUTE, SECOND

_DAYS_OF_400_YEARS = 146_097
_EPOCH = date(1970, 1, 1).toordinal()

# What Spark trims from both ends of a text before it parses a value.
BLANK = "".join(map(chr, range(0x21))) + "\x7f"

_DATE = re.compile(r"([+-]?)(\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_TIMESTAMP = re.compile(
    r"([+-]?)(\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})"
    r"(?:[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?([^\d.].*)?)?)?)?)?)?",
    re.ASCII | re.DOTALL,
)
_OFFSET = re.compile(r"([+-])(\d{1,2})(?::?(\d{2})(?::?(\d{2}))?|:(\d))?", re.ASCII)
_MOST_OFFSET = 18 * HOUR


def civil(days: int) -> tuple[int, int, int]:
    """Return year, month and day of a day count since 1970-01-01.

    >>> civil(0), civil(-1), civil(-719529)
    ((1970, 1, 1), (1969, 12, 31), (-1, 12, 31))
    """
    era, day = divmod(days, _DAYS_OF_400_YEARS)
    found = date.fromordinal(_EPOCH + day)
    return found.year + 400 * era, found.month, found.day


def days_of(year: int, month: int, day: int) -> int | None:
    """Return the day count of a date, or None if there is no such date.

    >>> days_of(1970, 1, 2), days_of(2023, 2, 29)
    (1, None)
    """
    era, offset = divmod(year - 1970, 400)
    try:
        return date(1970 + offset, month, day).toordinal() - _EPOCH + era * _DAYS_OF_400_YEARS
    except ValueError:
        return None


def parse_date(text: str) -> int | None:
    """Return the day count that CAST(text AS DATE) reads, or None.

    >>> parse_date(" 1970-1-2"), parse_date("1971"), parse_date("1970-01-02T noon"), parse_date("2/1/1970")
    (1, 365, 1, None)
    """
    match = _DATE.fullmatch(text.strip(BLANK))
    if match is None:
        return None
    sign, year, month, day = match.groups()
    days = days_of(_sign_year(sign, year), int(month or 1), int(day or 1))
    return None if days is None or wrap(days, 32) != days else days


def parse_instant(text: str) -> int | None:
    """Return the microseconds since the epoch that CAST(text AS TIMESTAMP) reads, or None.

    A time of day without a date has no meaning here: Spark would add the day on which it runs.

    >>> parse_instant("1970-01-01 00:00:01.5"), parse_instant("1970-01-01T01:00:00+01:00")
    (1500000, 0)
    >>> parse_instant("12:00") is None
    True
    """
    match = _TIMESTAMP.fullmatch(text.strip(BLANK))
    if match is None:
        return None
    sign, year, month, day, hour, minute, second, fraction, zone = match.groups()
    days = days_of(_sign_year(sign, year), int(month or 1), int(day or 1))
    clock = time_of_day(int(hour or 0), int(minute or 0), int(second or 0))
    if days is None or clock is None:
        return None
    local = days * DAY + clock + int((fraction or "").ljust(6, "0")[:6])
    offset = 0 if zone is None else _offset(zone.strip(BLANK), local)
    return None if offset is None or wrap(local - offset, 64) != local - offset else local - offset


def time_of_day(hour: int, minute: int, second: int) -> int | None:
    """Return the microseconds since midnight, or None if there is no such time.

    >>> time_of_day(1, 0, 0), time_of_day(24, 0, 0)
    (3600000000, None)
    """
    if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60):
        return None
    return hour * HOUR + minute * MINUTE + second * SECOND


def _sign_year(sign: str, digits: str) -> int:
    return -int(digits) if sign == "-" else int(digits)


def _offset(zone: str, local: int) -> int | None:
    """Return how far a zone is east of UTC at a local time; None if there is no such zone."""
    for prefix in ("UTC", "GMT", "UT", "Z"):
        if zone == prefix:
            return 0
        if zone.startswith(prefix) and prefix != "Z" and zone[len(prefix)] in "+-":
            zone = zone[len(prefix) :]
            break
    match = _OFFSET.fullmatch(zone)
    if match is not None:
        sign, hours, minutes, seconds, minute = match.groups()
        if int(minutes or 0) > 59 or int(seconds or 0) > 59:
            return None
        offset = int(hours) * HOUR + int(minutes or minute or 0) * MINUTE + int(seconds or 0) * SECOND
        return None if offset > _MOST_OFFSET else (-offset if sign == "-" else offset)
    try:
        year, month, day = civil(local // DAY)
        seconds_of_day = local % DAY // SECOND
        moment = datetime(
            year, month, day, seconds_of_day // 3600, seconds_of_day // 60 % 60, seconds_of_day % 60,
            tzinfo=ZoneInfo(zone),
        )  # fmt: skip
    except (ValueError, OSError, LookupError):
        return None
    found = moment.utcoffset()
    return None if found is None else found.days * DAY + found.seconds * SECOND


def date_text(days: int) -> str:
    """Return a date as Spark prints it.

    >>> date_text(0), date_text(3_000_000), date_text(-800_000)
    ('1970-01-01', '+10183-09-21', '-0221-09-04')
    """
    year, month, day = civil(days)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{month:02}-{day:02}"


def clock_text(micros: int) -> str:
    """Return a time of day as Spark prints it, with the shortest fraction.

    >>> clock_text(3_600_000_000), clock_text(1_500_000)
    ('01:00:00', '00:00:01.5')
    """
    seconds, fraction = divmod(micros, SECOND)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{fraction:06}".rstrip("0") if fraction else text


def instant_text(micros: int) -> str:
    """Return a timestamp as Spark prints it in UTC.

    >>> instant_text(-500_000)
    '1969-12-31 23:59:59.5'
    """
    return f"{date_text(micros // DAY)} {clock_text(micros % DAY)}"


def interval_text(micros: int) -> str:
    """Return a day-time interval as Spark prints it.

    >>> interval_text(-90_000_000)
    "INTERVAL '-0 00:01:30' DAY TO SECOND"
    """
    days, clock = divmod(abs(micros), DAY)
    return f"INTERVAL '{'-' if micros < 0 else ''}{days} {clock_text(clock)}' DAY TO SECOND"
