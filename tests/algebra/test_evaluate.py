"""What expressions yield: little tables, then random expressions against DuckDB."""

from __future__ import annotations

import math
import random
from decimal import Decimal

import duckdb
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from everview.algebra import types as T
from everview.algebra.evaluate import NAN, convert, evaluate, holds
from everview.algebra.expressions import (
    NULL,
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
)
from everview.algebra.numbers import round_to_single
from everview.algebra.schema import Schema
from everview.algebra.types import decimal
from tests.algebra.random_expressions import Maker, Vocabulary, same

DAY = 86_400_000_000


def yields(expression: Expression) -> object:
    return evaluate(expression, Schema(()), ())


@pytest.mark.parametrize(
    ("a", "b", "both", "either"),
    [
        (True, True, True, True),
        (True, False, False, True),
        (True, None, None, True),
        (False, False, False, False),
        (False, None, False, None),
        (None, None, None, None),
    ],
)
def test_truth_has_three_values(
    a: bool | None, b: bool | None, both: bool | None, either: bool | None
) -> None:
    x, y = Literal(a, T.BOOLEAN), Literal(b, T.BOOLEAN)
    assert yields(And(x, y)) is yields(And(y, x)) is both
    assert yields(Or(x, y)) is yields(Or(y, x)) is either
    assert yields(Not(x)) is (None if a is None else not a)
    assert holds(x, Schema(()), ()) is (a is True)


@pytest.mark.parametrize(
    ("type_", "left", "operator", "right", "result"),
    [
        (T.TINYINT, 127, "+", 1, -128),
        (T.INT, 2**31 - 1, "+", 1, -(2**31)),
        (T.BIGINT, -(2**63), "-", 1, 2**63 - 1),
        (T.INT, 7, "/", 2, 3.5),
        (T.INT, 7, "/", 0, None),
        (T.INT, -7, "%", 3, -1),
        (T.INT, 7, "%", 0, None),
        (T.INT, -7, "DIV", 2, -3),
        (T.BIGINT, -(2**63), "DIV", -1, -(2**63)),
        (T.INT, 6, "&", 3, 2),
        (T.INT, 6, "|", 3, 7),
        (T.INT, 6, "^", -1, -7),
        (
            T.FLOAT,
            round_to_single(0.1),
            "+",
            round_to_single(0.2),
            round_to_single(round_to_single(0.1) + round_to_single(0.2)),
        ),
        (T.DOUBLE, 1.0, "/", 0.0, None),
        (T.DOUBLE, math.inf, "-", math.inf, NAN),
        (T.DOUBLE, -7.5, "%", 2.0, -1.5),
        (decimal(3, 2), Decimal("1.25"), "*", Decimal("0.50"), Decimal("0.6250")),
        (decimal(3, 2), Decimal("1.00"), "/", Decimal("3.00"), Decimal("0.333333")),
        (decimal(3, 2), Decimal("1.00"), "/", Decimal("0.00"), None),
        (decimal(38, 0), Decimal(10**37), "*", Decimal(10**37), None),
        (T.DATE, 5, "-", 3, 2 * DAY),
        (T.TIMESTAMP, 5, "-", 3, 2),
        (T.INTERVAL, 5, "+", 3, 8),
    ],
)
def test_arithmetic(type_: T.DataType, left: object, operator: str, right: object, result: object) -> None:
    found = yields(Arithmetic(operator, Literal(left, type_), Literal(right, type_)))
    assert found is result if result is NAN or result is None else found == result


def test_times_and_intervals() -> None:
    noon, hour = Literal(DAY // 2, T.TIMESTAMP), Literal(DAY // 24, T.INTERVAL)
    assert yields(Arithmetic("+", noon, hour)) == DAY // 2 + DAY // 24
    assert yields(Arithmetic("*", hour, Literal(3, T.INT))) == DAY // 8
    assert yields(Arithmetic("+", Literal(1, T.DATE), hour)) == DAY + DAY // 24
    assert yields(Arithmetic("-", Literal(1, T.DATE), Literal(2, T.INT))) == -1
    assert yields(Arithmetic("+", Literal(2**63 - 1, T.TIMESTAMP), hour)) is None


@pytest.mark.parametrize(
    ("left", "operator", "right", "result"),
    [
        (NAN, "=", NAN, True),
        (NAN, ">", math.inf, True),
        (0.0, "=", -0.0, True),
        (1.0, "=", None, None),
        (1.0, "<=>", None, False),
        (None, "<=>", None, True),
        (1.0, "<>", 2.0, True),
    ],
)
def test_comparisons(left: object, operator: str, right: object, result: object) -> None:
    assert yields(Comparison(operator, Literal(left, T.DOUBLE), Literal(right, T.DOUBLE))) is result


def test_comparisons_happen_in_the_wider_type() -> None:
    big = Literal(2**53 + 1, T.BIGINT)
    assert yields(Comparison("=", big, Literal(float(2**53), T.DOUBLE))) is True
    assert yields(Comparison("<", Literal(0, T.DATE), Literal(1, T.TIMESTAMP))) is True
    assert yields(Comparison("=", Literal(1, T.INT), Literal(Decimal("1.00"), decimal(3, 2)))) is True


def test_in_list() -> None:
    one, two = Literal(1, T.INT), Literal(2, T.INT)
    assert yields(InList(one, (two, one))) is True
    assert yields(InList(one, (two, NULL))) is None
    assert yields(InList(one, (two,))) is False
    assert yields(InList(NULL, (one,))) is None


def test_case_takes_the_first_true_branch_and_the_common_type() -> None:
    unknown, yes = Literal(None, T.BOOLEAN), Literal(True, T.BOOLEAN)
    case = Case(((unknown, Literal(1, T.INT)), (yes, Literal(2, T.INT))), Literal(0.5, T.DOUBLE))
    assert yields(case) == 2.0
    assert isinstance(yields(case), float)
    assert yields(Case(((unknown, Literal(1, T.INT)),), NULL)) is None
    assert yields(IsNull(NULL)) is True
    assert yields(Negate(Literal(-128, T.TINYINT))) == -128


def test_columns_are_found_by_name_and_relation() -> None:
    schema = Schema.of(("x", T.INT)).under("a").concat(Schema.of(("x", T.INT)).under("b"))
    assert evaluate(Column("X", T.INT, "b"), schema, (1, 2)) == 2
    assert evaluate(Column("x", T.DOUBLE), Schema.of(("x", T.DOUBLE)), (float("nan"),)) is NAN


@pytest.mark.parametrize(
    ("value", "source", "target", "result"),
    [
        (" 12.7 ", T.STRING, T.INT, 12),
        ("1e3", T.STRING, T.INT, None),
        ("300", T.STRING, T.TINYINT, None),
        (".", T.STRING, T.INT, 0),
        ("1e3", T.STRING, T.DOUBLE, 1000.0),
        ("-inf", T.STRING, T.DOUBLE, -math.inf),
        ("nan", T.STRING, T.DOUBLE, NAN),
        ("1_000", T.STRING, T.DOUBLE, None),
        ("1.005", T.STRING, decimal(3, 2), Decimal("1.01")),
        (" Yes", T.STRING, T.BOOLEAN, True),
        ("maybe", T.STRING, T.BOOLEAN, None),
        ("2020-2-29 x", T.STRING, T.DATE, 18321),
        ("2020-02-30", T.STRING, T.DATE, None),
        ("1970-01-01 01:00:00.5+01:00", T.STRING, T.TIMESTAMP, 500_000),
        ("2021-06-01 12:30:00 Europe/Berlin", T.STRING, T.TIMESTAMP, 1_622_543_400_000_000),
        (300, T.INT, T.TINYINT, 44),
        (2**31, T.BIGINT, T.INT, -(2**31)),
        (1e20, T.DOUBLE, T.INT, 2**31 - 1),
        (300.7, T.DOUBLE, T.TINYINT, 44),
        (NAN, T.DOUBLE, T.INT, 0),
        (0.1, T.DOUBLE, T.FLOAT, round_to_single(0.1)),
        (1.005, T.DOUBLE, decimal(3, 2), Decimal("1.01")),
        (100.0, T.DOUBLE, decimal(3, 2), None),
        (Decimal("-1.9"), decimal(2, 1), T.INT, -1),
        (Decimal("0.05"), decimal(3, 2), decimal(2, 1), Decimal("0.1")),
        (0.0, T.DOUBLE, T.BOOLEAN, False),
        (True, T.BOOLEAN, T.INT, 1),
        (1.0, T.DOUBLE, T.STRING, "1.0"),
        (1e10, T.DOUBLE, T.STRING, "1.0E10"),
        (1e-5, T.DOUBLE, T.STRING, "1.0E-5"),
        (5e-324, T.DOUBLE, T.STRING, "4.9E-324"),
        (round_to_single(0.1), T.FLOAT, T.STRING, "0.1"),
        (Decimal("0E-10"), decimal(38, 10), T.STRING, "0E-10"),
        (-500_000, T.TIMESTAMP, T.STRING, "1969-12-31 23:59:59.5"),
        (-500_000, T.TIMESTAMP, T.BIGINT, -1),
        (-500_000, T.TIMESTAMP, T.DATE, -1),
        (-500_000, T.TIMESTAMP, T.DOUBLE, -0.5),
        (1, T.DATE, T.TIMESTAMP, DAY),
        (2**40, T.BIGINT, T.TIMESTAMP, 2**40 * 10**6),
        (1.5, T.DOUBLE, T.TIMESTAMP, 1_500_000),
        (None, T.VOID, T.INT, None),
        ("a", T.STRING, T.BINARY, b"a"),
    ],
)  # fmt: skip
def test_casts(value: object, source: T.DataType, target: T.DataType, result: object) -> None:
    found = convert(value, source, target)
    assert found is NAN if result is NAN else (found == result and type(found) is type(result))


# What DuckDB means by the same words; where its words differ, `duckdb_sql` writes its own.
SHARED_FUNCTIONS = frozenset(
    (
        "upper", "lower", "trim", "ltrim", "rtrim", "length", "reverse", "startswith", "endswith", "contains",
        "instr", "left", "right", "lpad", "repeat", "concat", "replace", "translate",
        "coalesce", "nullif", "greatest", "least", "if", "isnull", "isnotnull",
        "abs", "floor", "ceil", "isnan",
        "year", "month", "day", "quarter", "dayofyear", "weekofyear", "last_day", "hour", "minute",
    )
)  # fmt: skip


def _shared_cast(source: T.DataType, target: T.DataType) -> bool:
    return source.is_integer and target in (T.BIGINT, T.DOUBLE, T.STRING)


SHARED = Vocabulary(
    values={
        T.BOOLEAN: (True, False),
        T.INT: tuple(range(-9, 10)),
        T.BIGINT: (0, 1, -1, 5, 2**40),
        T.DOUBLE: (0.0, 1.0, -1.5, 2.5, 1e10, math.inf, -math.inf, NAN),
        T.STRING: ("", "a", "ab", "abc", " a ", "Hello", "b"),
        T.DATE: (0, -1, 18321, -25567, 19000),
        T.TIMESTAMP: (0, -1, 1_577_836_800_000_000, 3_600_000_001),
    },
    functions=SHARED_FUNCTIONS,
    hints={
        "left": {1: (0, 1, 2, 9)},
        "right": {1: (0, 1, 2, 9)},
        "lpad": {1: (0, 1, 5), 2: ("x", "yz")},
        "repeat": {1: (0, 1, 3)},
        "replace": {1: ("a", "b"), 2: ("", "x")},
        "trim": {0: (" a ", "b"), 1: ("x",)},
        "ltrim": {0: (" a ", "b"), 1: ("x",)},
        "rtrim": {0: (" a ", "b"), 1: ("x",)},
        "translate": {1: ("ab",), 2: ("xy",)},
        "instr": {1: ("a", "b")},
    },
    operators=("+", "-", "*", "/", "%"),
    casts=_shared_cast,
    leaf_casts=_shared_cast,
)
RENAMED = {"startswith": "starts_with", "endswith": "ends_with", "lpad": "lpad"}


def duckdb_sql(e: Expression) -> str:
    """The expression in DuckDB's words."""
    match e:
        case Literal(None):
            return "NULL" if e.type == T.VOID else f"CAST(NULL AS {e.type})"
        case Literal(value) if e.type == T.DATE:
            return f"(DATE '1970-01-01' + ({value}))"
        case Literal(value) if e.type == T.TIMESTAMP:
            return f"make_timestamp({value})"
        case Literal(value):
            return f"CAST('{value}' AS {e.type})"
        case Column(name):
            return name
        case Arithmetic("/" | "%" as operator, left, right):
            return f"({duckdb_sql(left)} {operator} nullif({duckdb_sql(right)}, 0))"
        case Arithmetic(operator, left, right):
            return f"({duckdb_sql(left)} {operator} {duckdb_sql(right)})"
        case Negate(operand):
            return f"(-{duckdb_sql(operand)})"
        case Comparison(operator, left, right):
            operator = "IS NOT DISTINCT FROM" if operator == "<=>" else operator
            return f"({duckdb_sql(left)} {operator} {duckdb_sql(right)})"
        case And(left, right):
            return f"({duckdb_sql(left)} AND {duckdb_sql(right)})"
        case Or(left, right):
            return f"({duckdb_sql(left)} OR {duckdb_sql(right)})"
        case Not(operand):
            return f"(NOT {duckdb_sql(operand)})"
        case IsNull(operand) | Call("isnull", (operand,)):
            return f"({duckdb_sql(operand)} IS NULL)"
        case Call("isnotnull", (operand,)):
            return f"({duckdb_sql(operand)} IS NOT NULL)"
        case Call("isnan", (operand,)):
            return f"coalesce(isnan(CAST({duckdb_sql(operand)} AS DOUBLE)), false)"
        case Call("length", (operand,)):
            return f"length(CAST({duckdb_sql(operand)} AS VARCHAR))"
        case Call("concat", arguments):
            return "(" + " || ".join(f"CAST({duckdb_sql(a)} AS VARCHAR)" for a in arguments) + ")"
        case Call("floor" | "ceil" as name, (operand,)):
            return f"CAST({name}({duckdb_sql(operand)}) AS BIGINT)"
        case Call("if", (condition, a, b)):
            return f"CASE WHEN {duckdb_sql(condition)} THEN {duckdb_sql(a)} ELSE {duckdb_sql(b)} END"
        case Call("lpad", (text, length)):
            return f"lpad({duckdb_sql(text)}, {duckdb_sql(length)}, ' ')"
        case Call("replace", (text, old)):
            return f"replace({duckdb_sql(text)}, {duckdb_sql(old)}, '')"
        case Call(name, arguments):
            return f"{RENAMED.get(name, name)}({', '.join(map(duckdb_sql, arguments))})"
        case InList(operand, items):
            return f"({duckdb_sql(operand)} IN ({', '.join(map(duckdb_sql, items))}))"
        case Case(branches, otherwise):
            whens = " ".join(f"WHEN {duckdb_sql(c)} THEN {duckdb_sql(r)}" for c, r in branches)
            return f"CASE {whens} ELSE {duckdb_sql(otherwise)} END"
        case Cast(operand, to):
            return f"CAST({duckdb_sql(operand)} AS {to})"
        case _:
            raise TypeError(e)


def _is_shared(e: Expression) -> bool:
    """Whether DuckDB means the same by it."""
    match e:
        case Call("trim" | "ltrim" | "rtrim", arguments):
            return len(arguments) == 1
        case Call("length" | "concat", arguments):
            return all(a.type in (T.STRING, T.INT, T.BIGINT) for a in arguments)
        case Call("floor" | "ceil", (operand,)):
            return operand.type.is_integer  # DuckDB refuses what is no BIGINT
        case Call("abs", (operand,)):
            return operand.type.is_float
        case Arithmetic(_, left, right):
            return left.type.is_numeric and right.type.is_numeric and T.BIGINT not in (left.type, right.type)
        case _:
            return True


def _readable(sql: str, type_: T.DataType) -> str:
    forms = {"DATE": "({} - DATE '1970-01-01')", "TIMESTAMP": "epoch_us({})", "DOUBLE": "CAST({} AS DOUBLE)"}
    return forms.get(type_.name, "{}").format(sql)


@settings(
    max_examples=settings.default.max_examples // 10, phases=(Phase.generate,)
)  # a seed cannot be made simpler
@given(seed=st.integers(0, 2**32))
def test_random_expressions_mean_what_duckdb_says(seed: int) -> None:
    maker = Maker(random.Random(seed), SHARED)
    made = [maker.expression(maker.chance.choice(maker.types), 3) for _ in range(80)]
    made += [e for e in (maker.arithmetic(2) for _ in range(40)) if e is not None]
    expressions = [e for e in made if all(map(_is_shared, e.walk()))]
    records = [maker.record() for _ in range(20)]
    schema = maker.schema
    with duckdb.connect() as connection:
        rows = ", ".join(
            "("
            + ", ".join(duckdb_sql(Literal(v, f.type)) for v, f in zip((i, *r), fields(schema), strict=True))
            + ")"
            for i, r in enumerate(records)
        )
        connection.execute(f"CREATE TABLE t AS FROM (VALUES {rows}) t(i, {', '.join(schema.names)})")
        selected = ", ".join(_readable(duckdb_sql(e), e.type) for e in expressions)
        theirs = connection.execute(f"SELECT {selected} FROM t ORDER BY i").fetchall()
    for i, e in enumerate(expressions):
        for record, row in zip(records, theirs, strict=True):
            mine = evaluate(e, schema, record)
            assert same(mine, row[i], 1e-12, signed_zero=False), (duckdb_sql(e), record, mine, row[i])


def fields(schema: Schema) -> list[Column]:
    return [Column("i", T.INT), *(Column.to(f) for f in schema)]
