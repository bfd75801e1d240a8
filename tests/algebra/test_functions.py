"""The table of functions: what each yields, what it refuses, and what the refusal says."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest

from everview.algebra import types as T
from everview.algebra.evaluate import evaluate
from everview.algebra.expressions import Call, Literal
from everview.algebra.functions import FUNCTIONS, NONDETERMINISTIC, function
from everview.algebra.schema import Schema
from everview.algebra.signatures import KINDS, VARIABLE
from everview.algebra.types import decimal
from everview.errors import AlgebraError

NAN = math.nan
FEBRUARY = 18321  # 2020-02-29
NOON = FEBRUARY * 86_400_000_000 + 43_200_000_000

TYPES = {bool: T.BOOLEAN, int: T.INT, float: T.DOUBLE, str: T.STRING, bytes: T.BINARY, type(None): T.VOID}


def literal(value: object) -> Literal:
    """A literal of the type that its Python value suggests; (value, type) says it."""
    if isinstance(value, tuple):
        return Literal(*value)
    if isinstance(value, Decimal):
        _, digits, exponent = value.as_tuple()
        return Literal(value, decimal(max(len(digits), -int(exponent)), -int(exponent)))
    return Literal(value, TYPES[type(value)])


def value_of(name: str, *arguments: object) -> object:
    return evaluate(Call(name, tuple(map(literal, arguments))), Schema(()), ())


TEXT = [
    ("upper('abc')", "ABC", ("upper", "abc")),
    ("initcap('hELLO foo-bar')", "Hello Foo-bar", ("initcap", "hELLO foo-bar")),
    ("trim takes blanks only", "\ta", ("trim", "  \ta ")),
    ("trim(what, from)", "a", ("trim", "x", "xax")),
    ("btrim(from, what)", "a", ("btrim", "xax", "x")),
    ("length counts characters", 5, ("length", "añb€𝄞")),
    ("length of a number", 3, ("length", 123)),
    ("length of bytes", 2, ("length", b"ab")),
    ("octet_length counts bytes", 2, ("octet_length", "ñ")),
    ("substring from 0", "he", ("substring", "hello", 0, 2)),
    ("substring from the end", "lo", ("substring", "hello", -2)),
    ("substring from before the beginning", "h", ("substring", "hello", -7, 3)),
    ("substring of nothing", "", ("substring", "hello", 2, -1)),
    ("left of a negative length", "", ("left", "abc", -1)),
    ("right", "bc", ("right", "abc", 2)),
    ("concat converts", "1atrue", ("concat", 1, "a", True)),
    ("concat with NULL", None, ("concat", "a", None)),
    ("concat_ws skips NULL", "a-b", ("concat_ws", "-", "a", None, "b")),
    ("replace of nothing", "abc", ("replace", "abc", "", "x")),
    ("instr", 2, ("instr", "abc", "b")),
    ("locate without a position", 0, ("locate", "a", "ba", None)),
    ("locate from 3", 4, ("locate", "b", "abcb", 3)),
    ("lpad", "007", ("lpad", "7", 3, "0")),
    ("lpad cuts", "ab", ("lpad", "abc", 2)),
    ("reverse", "cba", ("reverse", "abc")),
    ("repeat", "", ("repeat", "a", -1)),
    ("like", True, ("like", "a%b", "a\\%_")),
    ("like with an escape", True, ("like", "a%b", "a#%_", "#")),
    ("ilike", True, ("ilike", "ABC", "a%")),
    ("ilike", True, ("ilike", "X%", "xA%", "a")),
    ("ilike", False, ("ilike", "x%", "xA%", "A")),
    ("ilike", True, ("ilike", "xaz", "xA%", "A")),
    ("ilike", True, ("ilike", "xaq", "xAq", "A")),
    ("ilike", True, ("ilike", "XAA", "xaa", "A")),
    ("rlike", True, ("rlike", "abc", "^a")),
    ("regexp_replace", "<1>a<22>", ("regexp_replace", "1a22", "(\\d+)", "<$1>")),
    ("regexp_extract of no match", "", ("regexp_extract", "abc", "(\\d+)")),
    ("split_part from the end", "c", ("split_part", "a.b.c", ".", -1)),
    ("substring_index", "www.a", ("substring_index", "www.a.b", ".", 2)),
    ("translate drops", "xc", ("translate", "abc", "ab", "x")),
    ("md5", "0cc175b9c0f1b6a831c399e269772661", ("md5", "a")),
    ("sha2 of no such length", None, ("sha2", "a", 1)),
    ("hex of a number", "FFFFFFFFFFFFFFFF", ("hex", -1)),
    ("hex of a text", "61", ("hex", "a")),
    ("ascii of nothing", 0, ("ascii", "")),
    ("chr", "A", ("chr", 321)),
]

NUMBERS = [
    ("abs wraps", -(2**31), ("abs", -(2**31))),
    ("ceil of a double", 2, ("ceil", 1.5)),
    ("ceil of a decimal", Decimal(2), ("ceil", Decimal("1.5"))),
    ("floor of ∞", 2**63 - 1, ("floor", math.inf)),
    ("round half up", 3.0, ("round", 2.5)),
    ("round before the point", 1300, ("round", 1250, -2)),
    ("round wraps", -126, ("round", (127, T.TINYINT), -1)),
    ("bround half even", 2.0, ("bround", 2.5)),
    ("sqrt", NAN, ("sqrt", -1)),
    ("ln", None, ("ln", 0)),
    ("log of a base", 3.0, ("log", 2, 8)),
    ("power of 1 and NaN", NAN, ("power", 1.0, NAN)),
    ("exp overflows", math.inf, ("exp", 1000)),
    ("mod has the sign of the first", -1, ("mod", -7, 3)),
    ("mod by 0", None, ("mod", 7, 0)),
    ("pmod", 2, ("pmod", -7, 3)),
    ("pmod of decimals", Decimal("0.5"), ("pmod", Decimal("-1.5"), Decimal("1.0"))),
    ("sign", -1.0, ("sign", -3)),
    ("greatest: NaN is", NAN, ("greatest", 1.0, NAN, None)),
    ("least skips NULL", 1.0, ("least", 1.0, NAN, None)),
    ("isnan of NULL", False, ("isnan", None)),
    ("nanvl", 1.0, ("nanvl", NAN, 1.0)),
    ("shiftleft of an INT", 2, ("shiftleft", 1, 33)),
    ("shiftleft of a BIGINT", 2**33, ("shiftleft", (1, T.BIGINT), 33)),
    ("shiftrightunsigned", 2**31 - 4, ("shiftrightunsigned", -8, 1)),
    ("bit_count", 64, ("bit_count", -1)),
    ("factorial", None, ("factorial", 21)),
]

TIMES = [
    ("year before 1970", 1969, ("year", (-1, T.DATE))),
    ("dayofweek of a Saturday", 7, ("dayofweek", (FEBRUARY, T.DATE))),
    ("weekday of a Saturday", 5, ("weekday", (FEBRUARY, T.DATE))),
    ("dayofyear", 60, ("dayofyear", (FEBRUARY, T.DATE))),
    ("weekofyear", 53, ("weekofyear", (18628, T.DATE))),
    ("hour", 12, ("hour", (NOON, T.TIMESTAMP))),
    ("date_add", FEBRUARY + 1, ("date_add", (FEBRUARY, T.DATE), 1)),
    ("datediff", -2, ("datediff", (0, T.DATE), (2, T.DATE))),
    ("add_months to a shorter month", FEBRUARY, ("add_months", (18292, T.DATE), 1)),
    ("last_day", 30, ("last_day", (0, T.DATE))),
    ("trunc", 18293, ("trunc", (FEBRUARY, T.DATE), "MONTH")),
    ("trunc to no unit", None, ("trunc", (FEBRUARY, T.DATE), "hour")),
    ("date_trunc", FEBRUARY * 86_400_000_000, ("date_trunc", "DAY", (NOON, T.TIMESTAMP))),
    ("make_date", None, ("make_date", 2023, 2, 29)),
    ("to_date", FEBRUARY, ("to_date", " 2020-2-29")),
    ("to_timestamp", NOON, ("to_timestamp", "2020-02-29T12:00:00Z")),
    ("to_timestamp of nonsense", None, ("to_timestamp", "noon")),
    ("unix_seconds floors", -1, ("unix_seconds", (-500_000, T.TIMESTAMP))),
    ("unix_timestamp cuts", 0, ("unix_timestamp", (-500_000, T.TIMESTAMP))),
    ("timestamp_millis", 5000, ("timestamp_millis", 5)),
    ("months_between", 1.0, ("months_between", (FEBRUARY, T.DATE), (18292, T.DATE))),
]

CHOICES = [
    ("coalesce", 2, ("coalesce", None, 2, 3)),
    ("coalesce widens", 2.0, ("coalesce", None, 2, 3.0)),
    ("nvl2", "no", ("nvl2", None, "yes", "no")),
    ("nullif keeps its own type", 2, ("nullif", 2, 1.0)),
    ("nullif of equals", None, ("nullif", 1, 1.0)),
    ("if NULL", 2, ("if", None, 1, 2)),
    ("isnull", True, ("isnull", None)),
    ("equal_null", True, ("equal_null", None, None)),
]


@pytest.mark.parametrize(("title", "expected", "call"), TEXT + NUMBERS + TIMES + CHOICES)
def test_a_function_means_what_the_table_says(title: str, expected: object, call: tuple[str, ...]) -> None:
    found = value_of(*call)
    if isinstance(expected, float) and math.isnan(expected):
        assert isinstance(found, float)
        assert math.isnan(found)
    else:
        assert found == expected
        assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("call", "types", "result"),
    [
        ("substr", (T.STRING, T.INT), "STRING"),
        ("substring", (T.BINARY, T.INT), "BINARY"),
        ("ceil", (T.DOUBLE,), "BIGINT"),
        ("ceil", (decimal(5, 2),), "DECIMAL(4,0)"),
        ("round", (T.FLOAT,), "FLOAT"),
        ("round", (decimal(5, 2),), "DECIMAL(4,0)"),
        ("coalesce", (T.INT, decimal(5, 2)), "DECIMAL(12,2)"),
        ("nullif", (T.INT, T.DOUBLE), "INT"),
        ("mod", (T.TINYINT, T.BIGINT), "BIGINT"),
        ("greatest", (T.DATE, T.TIMESTAMP), "TIMESTAMP"),
        ("timestamp_seconds", (T.DOUBLE,), "TIMESTAMP"),
        ("shiftleft", (T.TINYINT, T.INT), "INT"),
    ],
)
def test_a_function_knows_its_result_type(call: str, types: tuple[T.DataType, ...], result: str) -> None:
    assert str(function(call).result_type(types)) == result


def test_a_constant_may_decide_on_the_type() -> None:
    money = decimal(4, 3)
    assert str(function("round").result_type((money, T.INT), (VARIABLE, 2))) == "DECIMAL(4,2)"
    assert str(function("mod").result_type((T.INT, decimal(9, 2)), (3, VARIABLE))) == "DECIMAL(3,2)"


@pytest.mark.parametrize(
    ("call", "types", "converted"),
    [
        ("sqrt", (T.INT,), ["DOUBLE"]),
        ("hour", (T.DATE,), ["TIMESTAMP"]),
        ("year", (T.TIMESTAMP,), ["DATE"]),
        ("concat", (T.INT, T.STRING), ["STRING", "STRING"]),
        ("if", (T.BOOLEAN, T.INT, T.DOUBLE), ["BOOLEAN", "DOUBLE", "DOUBLE"]),
        ("substring", (T.STRING, T.BIGINT), ["STRING", "INT"]),
    ],
)
def test_arguments_are_converted(call: str, types: tuple[T.DataType, ...], converted: list[str]) -> None:
    assert [str(t) for t in function(call).parameter_types(types)] == converted


@pytest.mark.parametrize(
    ("name", "types", "says"),
    [
        ("lpad", (T.DOUBLE, T.INT), "lpad takes (STRING, INT[, STRING]), not (DOUBLE, INT)"),
        ("len", (T.INTERVAL,), "length takes (STRING) or (BINARY), not (INTERVAL)"),
        ("upper", (), "upper takes (STRING), not ()"),
        ("coalesce", (T.INT, T.STRING), "coalesce takes (T...), not (INT, STRING)"),
        ("sqrt", (T.STRING,), "sqrt takes (DOUBLE), not (STRING)"),
        ("date_add", (T.DATE, T.BIGINT), "date_add takes (DATE, INT), not (DATE, BIGINT)"),
    ],
)
def test_what_does_not_fit_is_refused(name: str, types: tuple[T.DataType, ...], says: str) -> None:
    with pytest.raises(AlgebraError) as refusal:
        function(name).result_type(types)
    assert refusal.value.what == says


def test_an_argument_that_must_be_a_constant() -> None:
    with pytest.raises(AlgebraError, match="round needs a constant as argument 2"):
        function("round").result_type((T.DOUBLE, T.INT), (VARIABLE, VARIABLE))


def test_an_unknown_function_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(AlgebraError) as refusal:
        function("substrin")
    assert str(refusal.value) == "there is no function 'substrin'\n  did you mean 'substring'?"


@pytest.mark.parametrize("name", ["rand", "UUID", "current_timestamp", "now", "current_user"])
def test_what_is_no_function_of_its_arguments_is_refused(name: str) -> None:
    with pytest.raises(AlgebraError, match="is not a function of its arguments") as refusal:
        function(name)
    assert refusal.value.next_step == NONDETERMINISTIC[name.lower()]


def test_the_table_is_in_order() -> None:
    """Every word of a signature is a kind; no name is taken twice; what is refused is not offered."""
    names = set(FUNCTIONS) | NONDETERMINISTIC.keys()
    aliases = [alias for f in FUNCTIONS.values() for s in f.signatures for alias in s.aliases]
    assert len(names) == len(FUNCTIONS) + len(NONDETERMINISTIC)
    assert len(set(aliases)) == len(aliases)
    assert not names & set(aliases)
    for f in FUNCTIONS.values():
        assert len({s.strict for s in f.signatures}) == 1
        for s in f.signatures:
            words = next(k for k in map(s.kinds, range(9)) if k is not None)
            assert set(words) <= KINDS.keys()
            assert callable(s.result) or s.result == "T" or s.result in T.SIMPLE_TYPES
