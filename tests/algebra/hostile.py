"""Values that break things, and expressions of every kind over them.

The rows are an orthogonal array: whichever two columns of different positions an expression reads, every
pair of their values meets in a row. A column is named by its type and its position, `int_0`, `int_1`, …; an
expression reads its first operand from position 0, its second from position 1, and so on.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from decimal import Decimal

from everview.algebra import types as T
from everview.algebra.evaluate import evaluate
from everview.algebra.expressions import (
    COMPARISONS,
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
    substitute,
)
from everview.algebra.functions import FUNCTIONS
from everview.algebra.numbers import round_to_single
from everview.algebra.schema import Schema
from everview.algebra.signatures import KINDS, Signature
from tests.algebra.random_expressions import Values, built

DAY = 86_400_000_000
PRIME = 23  # no type has more values; a prime, so that each pair of positions sees each pair of values
POSITIONS = 6  # as many arguments as make_timestamp takes

MONEY, WIDEST, FINEST = T.decimal(9, 2), T.decimal(38, 0), T.decimal(38, 38)
_SMALL = (0, 1, -1, 2, 7, 12, 31, 99)
_DOUBLES = (
    0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 59.999999, 1e308, -1e308, 5e-324, -5e-324, 2.2250738585072014e-308,
    2.0**63, -(2.0**63), 3e9, 1e-300, math.inf, -math.inf, math.nan,
)  # fmt: skip
_PATTERNS = ("a\\", "(", "[", "*", "%\\", "(?<", "\\", "(a)|b", "$1", "$", "a{99999999999}", "%_")
_TEXTS = (
    "", "a", "abc", "𝄞x", "\x00", "1e400", "-9223372036854775809", "294247-01-10 04:00:54.775808", "MONTH",
    "ab" * 200, "12:30", " T1:2:3",
)  # fmt: skip


def _integers(bits: int) -> tuple[int, ...]:
    ends = (2 ** (bits - 1) - 1, -(2 ** (bits - 1)), 2 ** (bits - 1) - 2)
    return (*_SMALL, 8, 16, 63, 64, 32, *ends)


VALUES: Values = {
    T.BOOLEAN: (True, False),
    T.TINYINT: _integers(8),
    T.SMALLINT: _integers(16),
    T.INT: (*_integers(32), 100_000, 2_000_000),
    T.BIGINT: (*_integers(64), 2**31, 10**15),
    T.FLOAT: tuple(map(round_to_single, _DOUBLES)),
    T.DOUBLE: _DOUBLES,
    MONEY: tuple(map(Decimal, ("0.00", "1.00", "-0.01", "0.50", "60.00", "9999999.99", "-9999999.99"))),
    WIDEST: tuple(map(Decimal, (0, 1, -1, 10**38 - 1, 1 - 10**38, 5 * 10**37, 10**18))),
    FINEST: tuple(Decimal(f"{n}E-38") for n in (0, 1, -1, 10**37, 10**38 - 1)),
    T.STRING: (*_TEXTS, *_PATTERNS),
    T.BINARY: (b"", b"a", b"\x00", b"\xff\xfe", b"a" * 100),
    T.DATE: (0, -1, 18321, -719162, 2932896, 2**31 - 1, -(2**31), 106_751_991, -106_751_992, 31),
    T.TIMESTAMP: (
        0, -1, 18321 * DAY, -719162 * DAY, 2932897 * DAY - 1, 2**63 - 1, -(2**63), 2**63 - DAY, DAY - 2**63,
    ),
    T.INTERVAL: (0, 1, -1, DAY, -DAY, 2**63 - 1, -(2**63), 2**62, 400 * DAY),
}  # fmt: skip
"""What a column of each type may hold; NULL comes on top."""

TYPES = list(VALUES)


def _name(type_: T.DataType) -> str:
    return f"decimal_{type_.precision}_{type_.scale}" if type_.is_decimal else type_.name.lower()


SCHEMA = Schema.of(*((f"{_name(t)}_{i}", t) for t in TYPES for i in range(POSITIONS)))


def column(type_: T.DataType, position: int) -> Column:
    """The column from which an operand of this type is read at this position."""
    return Column(f"{_name(type_)}_{position}", type_)


def records() -> list[tuple[object, ...]]:
    """All pairs of values for each pair of positions, in PRIME² rows."""
    levels = {t: [None, *values] for t, values in VALUES.items()}
    rows = []
    for i in range(PRIME):
        for j in range(PRIME):
            at = [(i + k * j) % PRIME for k in range(POSITIONS)]
            rows.append(tuple(levels[t][at[k] % len(levels[t])] for t in TYPES for k in range(POSITIONS)))
    return rows


def calls() -> Iterator[Expression]:
    """Every signature of every function, with every type that fits each of its parameters."""
    for function in FUNCTIONS.values():
        for signature in function.signatures:
            for count in range(POSITIONS + 1):
                yield from _calls(signature, count)


def _calls(signature: Signature, count: int) -> Iterator[Expression]:
    kinds = signature.kinds(count)
    if kinds is None or ("..." in signature.parameters and count > 3):
        return
    fitting = [_fitting(k) for k in kinds]
    seen = set()
    for turn in range(max(map(len, fitting), default=1)):
        for stride in (1, 3):
            shared = TYPES[turn % len(TYPES)]
            types = tuple(
                shared if k == "T" else ts[(turn + i * stride) % len(ts)]
                for i, (k, ts) in enumerate(zip(kinds, fitting, strict=True))
            )
            if types not in seen:
                seen.add(types)
                for at in _CONSTANTS.get(signature.name, {}).get(count, [{}]):
                    arguments = tuple(at.get(i) or column(t, i) for i, t in enumerate(types))
                    made = built(lambda a=arguments: Call(signature.name, a))  # type: ignore[misc]
                    if made is not None:
                        yield made


def _fitting(kind: str) -> list[T.DataType]:
    """The types that a parameter takes: of those that become another type, two will do."""
    takes = [t for t in TYPES if KINDS[kind].takes(t)]
    as_they_are = [t for t in takes if KINDS[kind].becomes(t) == t]
    return as_they_are + [t for t in takes if t not in as_they_are][-4::3]


def _digits() -> list[dict[int, Expression]]:
    ends = (0, 1, -1, 2, -2, 37, 38, 39, -37, -38, -39, 400, 2**31 - 1, -(2**31))
    return [{1: Literal(n, T.INT)} for n in ends]


_ESCAPES = [{2: Literal(c, T.STRING)} for c in ("\\", "#", "%", "_", "a")]
# Where Spark wants a constant.
_CONSTANTS: dict[str, dict[int, list[dict[int, Expression]]]] = {
    "round": {2: _digits()},
    "bround": {2: _digits()},
    "like": {3: _ESCAPES},
    "ilike": {3: _ESCAPES},
}


def operations() -> Iterator[Expression]:
    """Every operator on every pair of types for which it has a meaning."""
    for left in TYPES:
        a = column(left, 0)
        yield from filter(None, [built(lambda a=a: Negate(a)), built(lambda a=a: Not(a)), IsNull(a)])  # type: ignore[misc]
        for right in TYPES:
            b = column(right, 1)
            for operator in ("+", "-", "*", "/", "%", "DIV", "&", "|", "^"):
                made = built(lambda a=a, b=b, o=operator: Arithmetic(o, a, b))  # type: ignore[misc]
                if made is not None:
                    yield made
            if T.wider_type(left, right) is None:
                continue
            yield from (Comparison(o, a, b) for o in (COMPARISONS if left == right else ("<", "<=>")))
            yield InList(a, (b, column(right, 2), Literal(None, T.VOID)))
            yield Case(((Comparison("<", a, b), a),), b)
            yield Case(((Literal(None, T.VOID), a), (column(T.BOOLEAN, 2), b)), Literal(None, T.VOID))
    truths = column(T.BOOLEAN, 0), column(T.BOOLEAN, 1)
    yield from (And(*truths), Or(*truths), And(truths[0], Literal(None, T.VOID)), Not(Literal(None, T.VOID)))


def casts() -> Iterator[Expression]:
    """Every type to every other."""
    for source in TYPES:
        for target in [*TYPES, T.decimal(1, 0), T.decimal(1, 1), T.decimal(38, 18)]:
            if T.can_cast(source, target) and source != target:
                yield Cast(column(source, 0), target)


def with_constants(
    chance: random.Random, expressions: Sequence[Expression], each: int
) -> Iterator[Expression]:
    """The expressions with some or all of their columns replaced by constants, NULL among them."""
    for expression in expressions:
        columns = sorted(expression.columns(), key=lambda c: c.name)
        for turn in range(each):
            chosen = columns if turn % 2 else chance.sample(columns, chance.randint(0, len(columns)))
            values = {c: _constant(chance, c.type) for c in chosen}
            made = built(lambda e=expression, v=values: substitute(e, v))  # type: ignore[misc]
            if made is not None and values:
                yield made


def _constant(chance: random.Random, type_: T.DataType) -> Literal:
    pick = chance.random()
    if pick < 0.1:
        return Literal(None, T.VOID)
    values = [v for v in VALUES[type_] if (type_, v) != (T.INTERVAL, -(2**63))]  # SQL has no such constant
    return Literal(None if pick < 0.2 else chance.choice(values), type_)


def answers(expression: Expression, rows: Sequence[tuple[object, ...]]) -> list[object]:
    """What `evaluate` says for each row; each different operand is worked out once."""
    names = sorted({c.name for c in expression.columns()})
    places = [SCHEMA.names.index(n) for n in names]
    schema = Schema.of(*((SCHEMA.names[i], SCHEMA.types[i]) for i in places))
    known: dict[str, object] = {}
    found = []
    for row in rows:
        record = tuple(row[i] for i in places)
        key = repr(record)
        if key not in known:
            known[key] = evaluate(expression, schema, record)
        found.append(known[key])
    return found
