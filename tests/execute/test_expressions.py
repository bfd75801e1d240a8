"""Spark is the judge: random expressions over all functions and casts mean what `evaluate` says."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from decimal import Decimal

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from everview.algebra import types as T
from everview.algebra.evaluate import evaluate
from everview.algebra.expressions import (
    Arithmetic,
    Call,
    Case,
    Cast,
    Column,
    Comparison,
    Expression,
    Literal,
    TryCast,
)
from everview.algebra.functions import FUNCTIONS, NONDETERMINISTIC
from everview.algebra.numbers import round_to_single
from everview.algebra.schema import Schema
from everview.algebra.types import DataType
from everview.errors import AlgebraError
from everview.execute.guards import catalyst_sql
from tests.algebra.random_expressions import Maker, Values, Vocabulary, same

pytestmark = pytest.mark.spark

Records = Sequence[tuple[object, ...]]

DAY = 86_400_000_000
MONEY, LONG_DECIMAL = T.decimal(9, 2), T.decimal(38, 10)

INTEGERS = (0, 1, -1, 2, 3, 7, -10, 12, 100)
DOUBLES = (
    0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -3.5, 0.1, 1e10, 1.5e-5, 123.456, 1e300, 5e-324,
    math.inf, -math.inf, math.nan,
)  # fmt: skip
TEXTS = (
    "", " ", "a", "abc", "ABC", "Hello World foo-bar", "  padded  ", "\ttab\n", "añb€𝄞", "ß", "a.b.c",
    "a,b,ab", "%_\\", "$1", "0", "12", "-7", "+3.9", "1e3", " 42 ", ".", "1.", "-.5",
    "99999999999", "1d", "0x1p3",
    "NaN", "-inf", "Infinity", "true", " T ", "no",
    "2020", "2020-07", "2020-02-29", "2020-02-30", "0001-01-01", "12345-01-01", "-0044-03-15",
    "1969-12-31 23:59:59.999999", "2020-1-1T1:2:3Z", "2021-06-01 12:30:00+02:00",
    "2021-06-01 12:30:00 Europe/Berlin",
)  # fmt: skip

VALUES: Values = {
    T.BOOLEAN: (True, False),
    T.TINYINT: (*INTEGERS, 127, -128),
    T.SMALLINT: (*INTEGERS, 2**15 - 1, -(2**15)),
    T.INT: (*INTEGERS, 2**31 - 1, -(2**31), 12345),
    T.BIGINT: (*INTEGERS, 2**63 - 1, -(2**63), 2**53 + 1, 1_600_000_000),
    T.FLOAT: tuple(map(round_to_single, DOUBLES)),
    T.DOUBLE: DOUBLES,
    MONEY: tuple(
        map(Decimal, ("0.00", "1.00", "-1.50", "0.05", "2.50", "-0.01", "9999999.99", "-9999999.99"))
    ),
    LONG_DECIMAL: tuple(
        Decimal(f"{whole}.{digits}")
        for whole in ("0", "-1", "1234567890", "-9999999999999999999999999999")
        for digits in ("0000000000", "0000000001", "5000000000", "9876543210")
    ),
    T.STRING: TEXTS,
    T.BINARY: (b"", b"a", b"hello", b"\x00\x01\x7f"),
    T.DATE: (0, -1, 1, 18262, 18321, -25567, 11016, -719162, 2932896, 19000),
    T.TIMESTAMP: (0, -1, 1, -500_000, 18262 * DAY, 11016 * DAY, -719162 * DAY, 1_600_000_000_123_456),
    T.INTERVAL: (0, 1, -1, 1_500_000, -90_000_000, DAY, -400 * DAY + 1, 3_600_000_000),
}


def more_values(chance: random.Random) -> Values:
    """The interesting values and some that are merely random."""

    def integers(bits: int) -> list[int]:
        return [chance.getrandbits(chance.randint(1, bits - 1)) * chance.choice((1, -1)) for _ in range(9)]

    def decimals(digits: int, scale: int) -> list[Decimal]:
        found = [chance.randrange(10 ** chance.randint(1, digits)) * chance.choice((1, -1)) for _ in range(9)]
        return [Decimal(f"{n}e-{scale}") for n in found]

    def texts(characters: str) -> list[str]:
        return ["".join(chance.choices(characters, k=chance.randint(0, 9))) for _ in range(9)]

    days = [chance.randint(-800_000, 3_000_000) for _ in range(9)]
    doubles = [chance.gauss(0, 10) * 10.0 ** chance.choice((0, 0, 3, -9, 200)) for _ in range(9)]
    doubles += [n / 8 for n in integers(12)]
    dates = [
        f"{chance.randint(0, 9999):04}-{chance.randint(0, 13)}-{chance.randint(0, 32)}" for _ in range(9)
    ]
    zones = ("", ".5", ".1234567", "Z", "+1:00", "-08:30", "UTC", "GMT+2", " America/New_York", ".123 UTC")
    more: Values = {
        **{t: integers(t.bits) for t in (T.TINYINT, T.SMALLINT, T.INT, T.BIGINT)},
        T.DOUBLE: doubles,
        T.FLOAT: [round_to_single(d) for d in doubles],
        MONEY: decimals(9, 2),
        LONG_DECIMAL: decimals(38, 10),
        T.DATE: days,
        T.TIMESTAMP: [d * DAY + chance.randrange(DAY) for d in days],
        T.INTERVAL: integers(50),
        T.BINARY: [chance.randbytes(chance.randint(0, 9)) for _ in range(9)],
        T.STRING: [
            *texts("ab AB.,%_\\$01-:é€𝄞ßσΣς\t\n'\"ñ"),
            *texts("0123456789.-+eE xdfnai"),
            *dates,
            *(f"{d} {chance.randint(0, 24)}:{chance.randint(0, 60)}:7{chance.choice(zones)}" for d in dates),
        ],
    }
    return {t: (*values, *more.get(t, ())) for t, values in VALUES.items()}


PATTERNS = ("a%", "%b_", "", "_", "%", "abc", "\\%\\_%", "A%")
REGEXES = ("a", "^a.*c$", "[0-9]+", "(\\d+)\\.?(\\d*)", "\\s", "b|c", "(a)(b)?")
UNITS = (
    "year",
    "yy",
    "QUARTER",
    "month",
    "week",
    "DAY",
    "dd",
    "hour",
    "Minute",
    "second",
    "MILLISECOND",
    "nonsense",
)
SMALL = (-1, 0, 1, 2, 5, 7)
HINTS: dict[str, dict[int, tuple[object, ...]]] = {
    "like": {1: PATTERNS, 2: ("\\",)},
    "ilike": {1: PATTERNS, 2: ("\\",)},
    "rlike": {1: REGEXES},
    "regexp_replace": {1: REGEXES, 2: ("", "x", "<$0>", "\\$")},
    "regexp_extract": {1: ("(a)(b)?", "(\\d+)(\\.\\d+)?", "([a-z]+)"), 2: (0, 1)},
    "regexp_count": {1: REGEXES},
    "split_part": {1: (".", ",", "", "b"), 2: (1, 2, -1, 9)},
    "substring_index": {1: (".", "a", "", " "), 2: SMALL},
    "repeat": {1: SMALL},
    "space": {0: SMALL},
    "lpad": {1: SMALL, 2: ("", "x", "yz")},
    "rpad": {1: SMALL, 2: ("", "x", "yz")},
    "getbit": {1: (0, 1, 7)},
    "sha2": {1: (0, 224, 256, 384, 512, 1)},
    "round": {1: (-2, -1, 0, 1, 2, 3)},
    "bround": {1: (-2, -1, 0, 1, 2, 3)},
    "trunc": {1: UNITS},
    "date_trunc": {0: UNITS},
    "next_day": {1: ("MO", "tue", "Sunday", "x")},
    "make_date": {0: (1969, 2020, 0, -1), 1: (0, 1, 2, 12, 13), 2: (0, 1, 29, 31)},
    "make_timestamp": {
        0: (1969, 2020), 1: (0, 1, 2, 12), 2: (1, 29, 31), 3: (0, 23, 24), 4: (0, 59, 60),
        5: (0, 1.5, 59.999999, 60),
    },
    "add_months": {1: (-13, -1, 0, 1, 11, 240)},
    # Spark reads what is left in memory where a separator that was computed is NULL.
    "concat_ws": {0: ("", "-", ", ")},
    "locate": {2: (*SMALL, None)},
}  # fmt: skip

# Java's and C's libraries may differ in the last bit of these; nothing else is built on top of them.
INEXACT = frozenset(
    (
        "cbrt", "exp", "expm1", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh",
        "acosh", "atanh", "cot", "sec", "csc", "ln", "log", "log2", "log10", "log1p", "power", "atan2",
        "hypot", "degrees", "radians",
    )
)  # fmt: skip


def _cast(source: DataType, target: DataType) -> bool:
    """Which casts may stand anywhere. Java before 19 prints some doubles with a digit too many."""
    prints = source.is_float and (target == T.STRING or target.is_decimal)
    return T.can_cast(source, target) and not prints and (source, target) != (T.BINARY, T.STRING)


ALL = Vocabulary(VALUES, hints=HINTS)
EXACT_FUNCTIONS = frozenset(FUNCTIONS) - INEXACT


def spark_frame(spark: SparkSession, schema: Schema, records: Records) -> DataFrame:
    """The records as a DataFrame. Times go in as numbers: Python's own do not reach as far as Spark's."""
    plain = {"DATE": "INT", "TIMESTAMP": "BIGINT", "INTERVAL": "BIGINT", "FLOAT": "DOUBLE"}
    forms = {
        "DATE": "date_from_unix_date({})",
        "TIMESTAMP": "timestamp_micros({})",
        "INTERVAL": "timestamp_micros({}) - timestamp_micros(0)",
        "FLOAT": "CAST({} AS FLOAT)",
    }
    frame = spark.createDataFrame(
        list(records), ", ".join(f"{f.name} {plain.get(f.type.name, f.type)}" for f in schema)
    )
    return frame.selectExpr(*(f"{forms.get(f.type.name, '{}').format(f.name)} AS {f.name}" for f in schema))


def spark_sql(expression: Expression) -> str:
    """The expression as Spark evaluates it."""
    return catalyst_sql(expression).replace("--0.0D", "-(-0.0D)")


def readable(sql: str, type_: DataType) -> str:
    """The SQL of a result in a form that Python can hold."""
    forms = {
        "DATE": "unix_date({})",
        "TIMESTAMP": "unix_micros({})",
        "INTERVAL": "unix_micros(timestamp_micros(0) + ({}))",
    }
    return forms.get(type_.name, "{}").format(sql)


def spark_types(frame: DataFrame) -> list[str]:
    names = [f.dataType.simpleString().upper() for f in frame.schema.fields]
    return ["INTERVAL" if n.startswith("INTERVAL") else n for n in names]


def disagreements(
    spark: SparkSession, schema: Schema, records: Records, expressions: Sequence[Expression]
) -> list[str]:
    """Where `evaluate` and Spark differ, one line each; but for patterns that only Java can read."""
    kept, ours = [], []
    for expression in expressions:
        try:
            ours.append([evaluate(expression, schema, record) for record in records])
            kept.append(expression)
        except AlgebraError:
            continue
    frame = spark_frame(spark, schema, records)
    texts = [spark_sql(e) for e in kept]
    typed = frame.selectExpr(*(f"{text} AS c{i}" for i, text in enumerate(texts)))
    found = [
        f"{text}: {e.type} here, {theirs} in Spark"
        for e, text, theirs in zip(kept, texts, spark_types(typed), strict=True)
        if str(e.type) != theirs
    ]
    rows = frame.selectExpr(*(readable(t, e.type) for t, e in zip(texts, kept, strict=True))).collect()
    for i, e in enumerate(kept):
        tolerance = 1e-13 if isinstance(e, Call) and e.name in INEXACT else 0.0
        # Spark's optimizer takes the constants 0.0 and -0.0 to be the same.
        signed_zero = all(isinstance(c, Column) for c in e.children)
        for record, mine, row in zip(records, ours[i], rows, strict=True):
            theirs = bytes(row[i]) if isinstance(row[i], bytearray) else row[i]
            if not same(mine, theirs, tolerance, signed_zero):
                read = {c.name: record[schema.index(schema.find(c.name))] for c in e.columns()}
                found.append(f"{texts[i]} with {read}: {mine!r} here, {theirs!r} in Spark")
                break
    return found


def _is_left_out(e: Expression) -> bool:
    """Where Spark is not to be followed, or the type depends on more than types."""
    match e:
        case Comparison(_, left, right) if {left.type.is_integer, right.type.is_integer} == {True, False}:
            # Spark takes a SMALLINT to be greater than -99999.5, even if it is NULL.
            return any(isinstance(side, Literal) and side.type.is_decimal for side in (left, right))
        case Arithmetic(_, left, right) if {left.type, right.type} == {T.DATE, T.INTERVAL}:
            # With an interval of whole days Spark yields a DATE; only a column is surely no such thing.
            return not isinstance(right, Column)
        case Arithmetic(_, left, right) if e.type.is_decimal:
            # Spark counts the digits of an integer constant to find the type, but not if it is a TINYINT.
            return any(isinstance(side, Literal) and side.type == T.TINYINT for side in (left, right))
        case Call("to_timestamp", (operand,)) | Cast(operand, T.TIMESTAMP) if operand.type == T.STRING:
            # A part of a text may be a time alone, to which Spark adds the present day.
            return not isinstance(operand, (Column, Literal))
        case Cast() | Call() | Case() if e.type == T.FLOAT:
            # Spark's optimizer forgets the rounding in CAST(CAST(an INT AS FLOAT) AS DOUBLE).
            return any(c.type in (T.INT, T.BIGINT) for c in e.children)
        case Call("upper" | "lower", (Call("upper" | "lower"),)):
            return True  # Spark's optimizer forgets the inner one, which matters for ß
        case _:
            return False


def batch(seed: int, count: int) -> tuple[Schema, Records, list[Expression]]:
    """Random expressions, half of them calls of a function, and random records."""
    chance = random.Random(seed)
    maker = Maker(
        chance, Vocabulary(more_values(chance), EXACT_FUNCTIONS, HINTS, casts=_cast, leaf_casts=_cast)
    )
    makers: list[Callable[[], Expression | None]] = [
        lambda: maker.call(chance.choice(ALL.signatures), 2),
        lambda: maker.call(chance.choice(ALL.signatures), 2),
        lambda: maker.expression(chance.choice(maker.types), 3),
        lambda: maker.arithmetic(2),
    ]
    expressions: list[Expression] = []
    while len(expressions) < count:
        made = chance.choice(makers)()
        if made is not None and not any(map(_is_left_out, made.walk())):
            expressions.append(made)
    return maker.schema, [maker.record() for _ in range(25)], expressions


# A seed cannot be made simpler, so nothing is shrunk.
@settings(max_examples=settings.default.max_examples // 10, phases=(Phase.generate,))
@given(seed=st.integers(0, 2**32))
def test_random_expressions_mean_what_spark_says(spark: SparkSession, seed: int) -> None:
    assert not disagreements(spark, *batch(seed, 120))


def test_every_cast_means_what_spark_says(spark: SparkSession) -> None:
    """Every type to every other, on all interesting values."""
    schema = Schema.of(*((f"c{i}", t) for i, t in enumerate(VALUES)))
    longest = max(map(len, VALUES.values()))
    records = [tuple(v[i] if i < len(v) else None for v in VALUES.values()) for i in range(longest)]
    targets = [t for t in VALUES if t != T.INTERVAL]
    casts = [Cast(Column.to(f), t) for f in schema for t in targets if T.can_cast(f.type, t)]
    assert not disagreements(spark, schema, records, casts)


def test_every_try_cast_means_what_spark_says(spark: SparkSession) -> None:
    schema = Schema.of(*((f"c{i}", t) for i, t in enumerate(VALUES)))
    longest = max(map(len, VALUES.values()))
    records = [tuple(v[i] if i < len(v) else None for v in VALUES.values()) for i in range(longest)]
    targets = [t for t in VALUES if t != T.INTERVAL]
    casts = [TryCast(Column.to(f), t) for f in schema for t in targets if T.can_cast(f.type, t)]
    assert not disagreements(spark, schema, records, casts)


def test_every_function_means_what_spark_says(spark: SparkSession) -> None:
    """Every signature of every function, on columns and constants only."""
    maker = Maker(random.Random(1), ALL)
    calls = [maker.call(s, 0) for s in ALL.signatures for _ in range(3)]
    kept = [c for c in calls if c is not None and not _is_left_out(c)]
    assert {c.name for c in kept if isinstance(c, Call)} == FUNCTIONS.keys()
    assert not disagreements(spark, maker.schema, [maker.record() for _ in range(25)], kept)


def test_every_name_is_one_of_sparks(spark: SparkSession) -> None:
    known = {row[0] for row in spark.sql("SHOW SYSTEM FUNCTIONS").collect()}
    aliases = {alias for f in FUNCTIONS.values() for s in f.signatures for alias in s.aliases}
    assert FUNCTIONS.keys() | aliases | NONDETERMINISTIC.keys() <= known
