"""Expressions as SQL that Catalyst evaluates for every row: where it would raise an error, NULL.

With ANSI mode off Spark still raises errors for single values: for a broken pattern, a date that is no
timestamp, an interval that grows too long. `try_add`, `try_subtract`, `try_multiply` and `try_to_binary` turn
whatever their operands raise into NULL (Catalyst's TryEval). What may raise is wrapped in one of them right
where it stands: Catalyst evaluates parts that occur twice beforehand, and a part that is always wrapped is
moved as a whole.
"""

from __future__ import annotations

from collections.abc import Callable

from everview.algebra import types as T
from everview.algebra.dates import BLANK
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
from everview.algebra.functions_text import LONGEST_SEARCHED, LONGEST_TEXT
from everview.algebra.text import Written, expression_sql, string_sql, type_sql
from everview.algebra.text_patterns import (
    is_surely_valid,
    like_problem,
    parse_replacement,
    regex,
    regex_problem,
)

_SPARK_DIGITS = 34  # a decimal with more may lose some when its sign changes, and then not fit its type
_MOST_DIGITS = 400  # no double has a digit further from the point

# A pattern such as (a|b)* needs a stack as deep as the text that it searches: 1 MB overflows after 1,684
# characters, and a quarter of them are safe. With 128 MB all that Everview searches is.
_MEGABYTE = 2**20
_SEARCHED_PER_MEGABYTE = 400
_ENOUGH = 128 * _MEGABYTE


def catalyst_sql(expression: Expression) -> str:
    """Return the expression as SQL for Spark, which yields NULL where it would raise an error.

    >>> ts, hours = Column("ts", T.TIMESTAMP), Column("hours", T.INT)
    >>> catalyst_sql(Arithmetic("+", ts, Arithmetic("*", Literal(3_600_000_000, T.INTERVAL), hours)))
    "try_add(ts, try_multiply(INTERVAL '1' HOUR, hours))"
    >>> catalyst_sql(Call("split_part", (Column("a", T.STRING), Literal(",", T.STRING), Column("n", T.INT))))
    "CAST(try_to_binary(split_part(a, ',', n), 'UTF-8') AS STRING)"
    """
    return expression_sql(_guard(expression))


def _guard(e: Expression) -> Expression:
    match e:
        case Column() | Literal():
            return e
        case Cast(operand, to):
            return _as(operand, to) if operand.type != T.VOID else Cast(_guard(operand), to)
        case TryCast(operand, to):
            return TryCast(_dated(_guard(operand), to), to)
        case IsNull(operand):
            return IsNull(_guard(operand))
        case Not(operand):
            return Not(_as_operand(operand, T.BOOLEAN))
        case And(left, right):
            return And(_as_operand(left, T.BOOLEAN), _as_operand(right, T.BOOLEAN))
        case Or(left, right):
            return Or(_as_operand(left, T.BOOLEAN), _as_operand(right, T.BOOLEAN))
        case Comparison(operator, left, right):
            common = T.wider_type(left.type, right.type) or T.VOID
            return Comparison(operator, _as_operand(left, common), _as_operand(right, common))
        case InList(operand, items):
            common = common_type("IN", [operand, *items])
            return InList(_as_operand(operand, common), tuple(_as_operand(i, common) for i in items))
        case Case(branches, otherwise):
            chosen = tuple((_as_operand(c, T.BOOLEAN), _as_operand(r, e.type)) for c, r in branches)
            return Case(chosen, _as_operand(otherwise, e.type))
        case Negate(operand):
            raises = e.type == T.INTERVAL or e.type.precision > _SPARK_DIGITS
            return _tried(Negate(_guard(operand))) if raises else Negate(_guard(operand))
        case Arithmetic():
            return _guard_arithmetic(e)
        case Call(name, arguments):
            wanted = function(name).parameter_types(tuple(a.type for a in arguments))
            converted = tuple(_as_operand(a, t) for a, t in zip(arguments, wanted, strict=True))
            return _CALLS.get(name, _plain)(Call(name, converted))
    raise TypeError(f"no SQL for {type(e).__name__}")


def _as_operand(operand: Expression, type_: T.DataType) -> Expression:
    """Return an operand that Spark converts by itself; cast it where Spark would fail or refuse a NULL."""
    if operand.type == T.VOID and type_ != T.VOID:
        return Literal(None, type_)
    if type_ == T.TIMESTAMP and operand.type in (T.DATE, T.STRING):
        return _as(operand, type_)
    return _guard(operand)


def _as(operand: Expression, type_: T.DataType) -> Expression:
    cast = Cast(_dated(_guard(operand), type_), type_)
    return _tried(cast) if (operand.type, type_) == (T.DATE, T.TIMESTAMP) else cast


def _dated(text: Expression, type_: T.DataType) -> Expression:
    """Return a text to cast to a timestamp, NULL if it has no date: Spark would add the current day."""
    if text.type != T.STRING or type_ != T.TIMESTAMP:
        return text
    return Written(without_date_null(expression_sql(text)), T.STRING)


def without_date_null(text: str) -> str:
    """Return the SQL of a text that is NULL if it is a time of day: with a date, the first colon comes later.

    Spark also takes what begins with a T for a time of day.
    """
    bare = f"btrim({text}, {string_sql(BLANK)})"
    return f"IF(instr({bare}, ':') BETWEEN 1 AND 5 OR startswith({bare}, 'T'), NULL, {text})"


def try_cast_sql(value: str, type_: T.DataType, is_text: bool) -> str:
    """Return the SQL of a cast that is NULL where the other type has no such value; all input uses it.

    Spark takes a time without a day for one of today, so that the answer would change with the clock.
    """
    dated = without_date_null(value) if is_text and type_ == T.TIMESTAMP else value
    return f"try_cast({dated} AS {type_sql(type_)})"


_TRIES = {"+": "try_add", "-": "try_subtract", "*": "try_multiply"}


def _guard_arithmetic(e: Arithmetic) -> Expression:
    """Return guarded arithmetic: dates and integers wrap, decimals become NULL; timestamps are tried."""
    a, b = e.left.type, e.right.type
    if T.VOID in (a, b):
        a, b = (b, b) if a == T.VOID else (a, a)
    if T.DATE in (a, b) and T.TIMESTAMP in (a, b, e.type):
        a, b = (T.TIMESTAMP if t == T.DATE else t for t in (a, b))
    left, right = _as_operand(e.left, a), _as_operand(e.right, b)
    if e.type not in (T.TIMESTAMP, T.INTERVAL):
        return Arithmetic(e.operator, left, right)
    if e.operator == "-" and (a, b) == (T.TIMESTAMP, T.INTERVAL):
        # Spark adds what is negated, and may negate beforehand what two differences have in common.
        return Written(f"try_add({expression_sql(left)}, {expression_sql(_tried(Negate(right)))})", e.type)
    return Written(f"{_TRIES[e.operator]}({expression_sql(left)}, {expression_sql(right)})", e.type)


_DAY_0 = "DATE '1970-01-01'"


def _tried(e: Expression) -> Expression:
    """Return an expression that is NULL where it would raise an error, by a function that catches it."""
    text = expression_sql(e)
    match e.type.name:
        case "TIMESTAMP" | "INTERVAL":
            tried = f"try_add({text}, INTERVAL '0' SECOND)"
        case "DATE":
            tried = f"try_add({text}, 0)"
        case "BOOLEAN":
            tried = f"(try_add({_DAY_0}, CAST({text} AS INT)) = DATE '1970-01-02')"
        case "TINYINT" | "INT":
            tried = f"CAST(unix_date(try_add({_DAY_0}, CAST({text} AS INT))) AS {e.type})"
        case "STRING":
            tried = f"CAST(try_to_binary({text}, 'UTF-8') AS STRING)"
        case _:
            tried = (
                f"CAST(CAST(try_to_binary(CAST({text} AS STRING), 'UTF-8') AS STRING) AS {type_sql(e.type)})"
            )
    return Written(tried, e.type)


def _plain(call: Call) -> Expression:
    return call


def _guard_decimal(call: Call) -> Expression:
    return _tried(call) if call.type.precision > _SPARK_DIGITS else call


def _guard_like(call: Call) -> Expression:
    pattern, escapes = call.arguments[1], call.arguments[2:]
    if not isinstance(pattern, Literal):
        return _tried(call)
    escape = escapes[0].value if escapes and isinstance(escapes[0], Literal) else "\\"
    text = str(pattern.value).lower() if call.name == "ilike" else str(pattern.value)
    broken = like_problem(text, str(escape)) is not None
    return Literal(None, T.BOOLEAN) if broken and pattern.value is not None else call


def _guard_regex(call: Call) -> Expression:
    """Return a pattern; only a valid one stays constant, because Spark compiles those when it plans."""
    text, pattern, *more = call.arguments
    text = _short_enough(text, pattern)
    call = Call(call.name, (text, pattern, *more))
    if not isinstance(pattern, Literal):
        return _tried(call)
    if pattern.value is None:
        return call
    if regex_problem(str(pattern.value)) is not None:
        return Literal(None, call.type)
    if is_surely_valid(str(pattern.value)):
        return call if _fits_groups(call, str(pattern.value)) else _tried(call)
    varying = Written(f"nvl2({expression_sql(text)}, {expression_sql(pattern)}, NULL)", T.STRING)
    return _tried(Call(call.name, (text, varying, *more)))


class _Search:
    """The longest text that a pattern with a group searches. A process has one Java, so one limit."""

    longest = LONGEST_SEARCHED


def fit_search(stack: int) -> None:
    """Let patterns with a group search only what a stack of so many bytes has room for."""
    fits = _SEARCHED_PER_MEGABYTE * stack // _MEGABYTE
    _Search.longest = LONGEST_SEARCHED if stack >= _ENOUGH else min(fits, LONGEST_SEARCHED)


def _short_enough(text: Expression, pattern: Expression) -> Expression:
    """Return the text to search, NULL if it is too long for a pattern with a group."""
    if isinstance(pattern, Literal) and "(" not in str(pattern.value):
        return text
    fits = f"length({expression_sql(text)}) <= {_Search.longest}"
    if not isinstance(pattern, Literal):
        fits += f" OR instr({expression_sql(pattern)}, '(') = 0"
    return Written(f"CASE WHEN {fits} THEN {expression_sql(text)} END", T.STRING)


def _fits_groups(call: Call, pattern: str) -> bool:
    """Return whether the pattern of a call certainly has the group that it asks for."""
    compiled = regex(pattern)
    groups = 0 if compiled is None else compiled.groups
    asked = call.arguments[2] if len(call.arguments) > 2 else Literal(1, T.INT)
    match call.name, asked:
        case "regexp_extract", Literal(int(group)):
            return 0 <= group <= groups
        case "regexp_replace", Literal(str(replacement)):
            return parse_replacement(replacement, groups) is not None
    return call.name in ("rlike", "regexp_count")


def _guard_length(call: Call) -> Expression:
    """Guard lpad, rpad and space: the result has at most LONGEST_TEXT characters."""
    at = 0 if call.name == "space" else 1
    length = call.arguments[at]
    if isinstance(length, Literal) and isinstance(length.value, int) and length.value <= LONGEST_TEXT:
        return call
    too_long = LONGEST_TEXT + 1
    text = f"nullif(least(CAST({expression_sql(length)} AS INT), {too_long}), {too_long})"
    arguments = (*call.arguments[:at], Written(text, T.INT), *call.arguments[at + 1 :])
    return Call(call.name, arguments)


def _guard_digits(call: Call) -> Expression:
    """Guard round and bround: a carry may not fit the widest decimal, and Java fails on huge scales."""
    if len(call.arguments) == 2 and isinstance(digits := call.arguments[1], Literal):
        most = None if digits.value is None else max(-_MOST_DIGITS, min(_MOST_DIGITS, int(str(digits.value))))
        call = Call(call.name, (call.arguments[0], Literal(most, T.INT)))
    return _tried(call) if call.type.precision == T.MAX_PRECISION else call


def _guard_nullif(call: Call) -> Expression:
    """Guard a comparison of a date with a timestamp: Spark casts the date, which may have no timestamp."""
    a, b = call.arguments
    if {a.type, b.type} != {T.DATE, T.TIMESTAMP}:
        return call
    return _guard(Case(((Comparison("=", a, b), Literal(None, a.type)),), a))


def _guard_text_to_timestamp(call: Call) -> Expression:
    return Call(call.name, (_dated(call.arguments[0], T.TIMESTAMP), *call.arguments[1:]))


def _guard_repeat(call: Call) -> Expression:
    text, count = map(expression_sql, call.arguments)
    size = f"length({text}) * CAST(CAST({count} AS INT) AS BIGINT)"
    return Written(f"CASE WHEN {size} <= {LONGEST_TEXT} THEN {expression_sql(call)} END", T.STRING)


_CALLS: dict[str, Callable[[Call], Expression]] = {
    **dict.fromkeys(("like", "ilike"), _guard_like),
    **dict.fromkeys(("rlike", "regexp_count", "regexp_extract", "regexp_replace"), _guard_regex),
    **dict.fromkeys(("lpad", "rpad", "space"), _guard_length),
    **dict.fromkeys(("abs", "negative"), _guard_decimal),
    **dict.fromkeys(("round", "bround"), _guard_digits),
    "nullif": _guard_nullif,
    "repeat": _guard_repeat,
    **dict.fromkeys(("to_timestamp", "unix_timestamp"), _guard_text_to_timestamp),
    **dict.fromkeys(
        (
            "split_part", "getbit", "add_months", "months_between", "date_trunc", "make_date",
            "make_timestamp", "timestamp_seconds", "timestamp_millis",
        ),
        _tried,
    ),
}  # fmt: skip
"""The functions that raise errors, and how each is kept from it."""
