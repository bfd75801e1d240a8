"""Expressions as SQL text: what EXPLAIN shows, and what parses back to the same expression."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import singledispatch
from typing import Any

from everview.algebra import types as T
from everview.algebra.aggregates import AggregateCall
from everview.algebra.dates import date_text, instant_text
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
    SortKey,
    TryCast,
)  # fmt: skip
from everview.algebra.time import interval_sql

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Words that the parser would not read as a name without quotes.
_RESERVED = {
    *(
        "all",
        "and",
        "anti",
        "any",
        "array",
        "as",
        "asc",
        "at",
        "between",
        "both",
        "by",
        "case",
        "cast",
        "clock",
    ),
    *("create", "cross", "date", "desc", "distinct", "else", "end", "escape", "except", "exists", "false"),
    *(
        "filter",
        "for",
        "from",
        "full",
        "group",
        "having",
        "if",
        "in",
        "inner",
        "intersect",
        "interval",
        "into",
    ),
    *("is", "join", "left", "like", "limit", "map", "natural", "not", "now", "null", "on", "or", "order"),
    *("outer", "over", "partition", "range", "right", "rows", "select", "semi", "since", "slide", "some"),
    *("struct", "sync", "table", "then", "timestamp", "to", "true", "tumble", "unbounded", "union", "until"),
    *("using", "values", "when", "where", "window", "with"),
}


def name_sql(name: str) -> str:
    """Return a name, quoted where it must be.

    >>> name_sql("speed"), name_sql("order"), name_sql("a`b")
    ('speed', '`order`', '`a``b`')
    """
    if _PLAIN_NAME.fullmatch(name) and name.lower() not in _RESERVED:
        return name
    return "`" + name.replace("`", "``") + "`"


def column_sql(name: str, relation: str | None) -> str:
    """Return a column with the relation that it is read from."""
    return name_sql(name) if relation is None else f"{name_sql(relation)}.{name_sql(name)}"


def string_sql(text: str) -> str:
    """Return a string literal.

    >>> string_sql("it's"), string_sql("two\\nlines")
    ("'it\\\\'s'", "'two\\\\nlines'")
    """
    for character, escaped in (("\\", "\\\\"), ("'", "\\'"), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        text = text.replace(character, escaped)
    return f"'{text}'"


@singledispatch
def expression_sql(expression: Expression) -> str:
    """Return the expression as SQL; operators are bracketed wherever the order could be misread.

    >>> x = Column("x", T.INT)
    >>> expression_sql(Comparison(">", Arithmetic("+", x, Literal(1, T.INT)), Literal(5, T.INT)))
    'x + 1 > 5'
    """
    raise TypeError(f"no text for {type(expression).__name__}")


@expression_sql.register
def _(e: Column) -> str:
    return column_sql(e.name, e.relation)


class Written(Column):
    """A part of an expression that is already text; it replaces a column."""


@expression_sql.register
def _(e: Written) -> str:
    return e.name


@expression_sql.register
def _(e: Literal) -> str:
    return literal_sql(e.value, e.type)


def literal_sql(value: object, type_: T.DataType) -> str:
    """Return a value of a type as a literal of just that type."""
    if value is None:
        return "NULL" if type_ == T.VOID else f"CAST(NULL AS {type_sql(type_)})"
    if isinstance(value, Decimal):
        return _decimal_sql(value, type_)
    if isinstance(value, float):
        return _float_sql(value, type_)
    return _LITERALS[type_.name](value)


def _decimal_sql(value: Decimal, type_: T.DataType) -> str:
    """Return a decimal as plain digits if these denote the same type."""
    text = f"{value:.{type_.scale}f}"
    whole = text.lstrip("-").partition(".")[0].lstrip("0")
    said = T.DataType("DECIMAL", max(1, len(whole) + type_.scale), type_.scale)
    return text if said == type_ and type_.scale else f"CAST('{text}' AS {type_})"


def _float_sql(value: float, type_: T.DataType) -> str:
    if type_ != T.DOUBLE or not math.isfinite(value):
        return f"CAST('{value!r}' AS {type_})"
    text = repr(value)
    return text if "e" in text else f"{text}D"


_LITERALS: dict[str, Callable[[Any], str]] = {
    "BOOLEAN": lambda v: "TRUE" if v else "FALSE",
    "INT": str,
    "TINYINT": lambda v: f"{v}Y",
    "SMALLINT": lambda v: f"{v}S",
    "BIGINT": lambda v: f"{v}L",
    "STRING": string_sql,
    "TIMESTAMP": lambda v: f"TIMESTAMP '{instant_text(v)}'",
    "DATE": lambda v: f"DATE '{date_text(v)}'",
    "INTERVAL": interval_sql,
    "BINARY": lambda v: f"X'{v.hex().upper()}'",
}


@expression_sql.register
def _(e: Arithmetic) -> str:
    return f"{_tight(e.left)} {e.operator} {_tight(e.right)}"


@expression_sql.register
def _(e: Negate) -> str:
    return f"-{_tight(e.operand)}"


@expression_sql.register
def _(e: Comparison) -> str:
    return f"{_loose(e.left)} {e.operator} {_loose(e.right)}"


@expression_sql.register
def _(e: And) -> str:
    left = expression_sql(e.left) if isinstance(e.left, And) else _condition(e.left)
    return f"{left} AND {_condition(e.right)}"


@expression_sql.register
def _(e: Or) -> str:
    left = expression_sql(e.left) if isinstance(e.left, Or) else _condition(e.left)
    return f"{left} OR {_condition(e.right)}"


@expression_sql.register
def _(e: Not) -> str:
    if isinstance(e.operand, IsNull):
        return f"{_loose(e.operand.operand)} IS NOT NULL"
    return f"NOT ({expression_sql(e.operand)})"


@expression_sql.register
def _(e: IsNull) -> str:
    return f"{_loose(e.operand)} IS NULL"


@expression_sql.register
def _(e: InList) -> str:
    return f"{_loose(e.operand)} IN ({', '.join(map(expression_sql, e.items))})"


@expression_sql.register
def _(e: Case) -> str:
    branches = " ".join(f"WHEN {expression_sql(c)} THEN {expression_sql(r)}" for c, r in e.branches)
    return f"CASE {branches} ELSE {expression_sql(e.otherwise)} END"


@expression_sql.register
def _(e: Cast) -> str:
    return f"CAST({expression_sql(e.operand)} AS {type_sql(e.to)})"


@expression_sql.register
def _(e: TryCast) -> str:
    return f"TRY_CAST({expression_sql(e.operand)} AS {type_sql(e.to)})"


def type_sql(type_: T.DataType) -> str:
    """Return a type as Spark reads it too."""
    return "INTERVAL DAY TO SECOND" if type_ == T.INTERVAL else str(type_)


@expression_sql.register
def _(e: Call) -> str:
    return f"{e.name}({', '.join(map(expression_sql, e.arguments))})"


def aggregate_sql(call: AggregateCall) -> str:
    """Return an aggregate as SQL: `count(DISTINCT x) FILTER (WHERE y > 0)`."""
    argument = "*" if call.argument is None else expression_sql(call.argument)
    argument += "" if call.by is None else f", {expression_sql(call.by)}"
    argument += "" if call.fraction is None else f", {_float_sql(call.fraction, T.DOUBLE)}"
    text = f"{call.function}({'DISTINCT ' if call.distinct else ''}{argument})"
    return text if call.where is None else f"{text} FILTER (WHERE {expression_sql(call.where)})"


def name_rank(function: str, partition: Sequence[Expression], order: Sequence[SortKey]) -> str:
    """Return a rank as SQL: `rank() OVER (PARTITION BY k ORDER BY v DESC)`."""
    return f"{function}() OVER ({over_sql(partition, order)})"


def over_sql(partition: Sequence[Expression], order: Sequence[SortKey]) -> str:
    """Return what stands in OVER (…)."""
    parts = [f"PARTITION BY {', '.join(map(expression_sql, partition))}"] if partition else []
    return " ".join([*parts, *([f"ORDER BY {order_sql(order)}"] if order else [])])


def order_sql(order: Sequence[SortKey]) -> str:
    """Return the keys of an ORDER BY as SQL; NULLs come first, descending last, where nothing is written."""
    return ", ".join(
        expression_sql(key.expression)
        + (" DESC" if key.descending else "")
        + ("" if key.nulls_first != key.descending else f" NULLS {'FIRST' if key.nulls_first else 'LAST'}")
        for key in order
    )


_ATOMS = (Column, Call, Cast, TryCast, Case)


def _tight(e: Expression) -> str:
    """Return an operand of arithmetic."""
    simple = isinstance(e, _ATOMS) or (isinstance(e, Literal) and not _negative(e))
    return expression_sql(e) if simple else f"({expression_sql(e)})"


def _loose(e: Expression) -> str:
    """Return an operand of a comparison: arithmetic binds more tightly and needs no brackets."""
    return (
        expression_sql(e)
        if isinstance(e, (Arithmetic, Negate, Literal, *_ATOMS))
        else f"({expression_sql(e)})"
    )


def _condition(e: Expression) -> str:
    """Return an operand of AND or OR."""
    return f"({expression_sql(e)})" if isinstance(e, (And, Or)) else expression_sql(e)


def _negative(e: Literal) -> bool:
    if isinstance(e.value, float):
        return math.copysign(1.0, e.value) < 0
    return isinstance(e.value, (int, Decimal)) and not isinstance(e.value, bool) and e.value < 0
