"""Scalar expressions: frozen, typed nodes that refuse operands which do not fit.

A column knows its type; every other node derives its own when it is built. Truth has SQL's three
values. `evaluate.py` defines what an expression yields for a record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields

from everview.algebra.functions import function
from everview.algebra.schema import Field, Schema
from everview.algebra.signatures import VARIABLE
from everview.algebra.types import (
    BIGINT,
    BOOLEAN,
    INTERVAL,
    TINYINT,
    VOID,
    DataType,
    arithmetic_type,
    can_cast,
    decimal,
    wider_type,
)  # fmt: skip
from everview.errors import AlgebraError

Value = object


@dataclass(frozen=True)
class Expression:
    """The root of all expressions; `type` is what it yields."""

    type: DataType = field(init=False, compare=False, repr=False)

    def _typed(self, type_: DataType) -> None:
        object.__setattr__(self, "type", type_)

    @property
    def children(self) -> tuple[Expression, ...]:
        found: list[Expression] = []
        for f in fields(self):
            if f.name != "type":
                found.extend(_expressions_in(getattr(self, f.name)))
        return tuple(found)

    def walk(self) -> Iterator[Expression]:
        """Yield this expression and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()

    def columns(self) -> frozenset[Column]:
        """Return the columns that it reads."""
        return frozenset(e for e in self.walk() if isinstance(e, Column))


def _expressions_in(value: object) -> Iterator[Expression]:
    if isinstance(value, Expression):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _expressions_in(item)


@dataclass(frozen=True)
class Column(Expression):
    """A column of the input."""

    name: str
    of: DataType
    relation: str | None = None

    def __post_init__(self) -> None:
        self._typed(self.of)

    @classmethod
    def to(cls, field: Field) -> Column:
        return cls(field.name, field.type, field.relation)


@dataclass(frozen=True)
class Literal(Expression):
    """A constant; NULL is Literal(None, VOID)."""

    value: Value
    of: DataType

    def __post_init__(self) -> None:
        self._typed(self.of)


@dataclass(frozen=True)
class Arithmetic(Expression):
    """+ - * / % DIV and & | ^; a division by zero is NULL, integers wrap as Java's do."""

    operator: str
    left: Expression
    right: Expression

    def __post_init__(self) -> None:
        a, b = _decimal_literal(self.left, self.right), _decimal_literal(self.right, self.left)
        if self.operator == "DIV":
            whole = all(t.is_integer or t.is_decimal or t == VOID for t in (a, b))
            result = BIGINT if whole else None
        else:
            result = arithmetic_type(self.operator, a, b)
        if result is None:
            raise AlgebraError(
                f"{a} {self.operator} {b} has no meaning",
                next_step="CAST an operand to a type that fits",
            )
        self._typed(result)


def _decimal_literal(operand: Expression, other: Expression) -> DataType:
    """Return the type of an integer literal beside a decimal: its own digits, as in Spark; no TINYINT."""
    if (
        other.type.is_decimal
        and isinstance(operand, Literal)
        and isinstance(operand.value, int)
        and operand.type.is_integer
        and operand.type != TINYINT
    ):
        return decimal(len(str(abs(operand.value))), 0)
    return operand.type


@dataclass(frozen=True)
class Negate(Expression):
    """-x"""

    operand: Expression

    def __post_init__(self) -> None:
        if not (self.operand.type.is_numeric or self.operand.type in (INTERVAL, VOID)):
            raise AlgebraError(f"-{self.operand.type} has no meaning")
        self._typed(self.operand.type)


COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>")


@dataclass(frozen=True)
class Comparison(Expression):
    """= <> < <= > >=, NULL if a side is NULL; <=> is equality in which NULLs are equal."""

    operator: str
    left: Expression
    right: Expression

    def __post_init__(self) -> None:
        if wider_type(self.left.type, self.right.type) is None:
            raise AlgebraError(
                f"{self.left.type} {self.operator} {self.right.type} cannot be compared",
                next_step="CAST one side to the other's type",
            )
        self._typed(BOOLEAN)


@dataclass(frozen=True)
class And(Expression):
    """Both; false wins over NULL."""

    left: Expression
    right: Expression

    def __post_init__(self) -> None:
        _require_boolean("AND", self.left, self.right)
        self._typed(BOOLEAN)


@dataclass(frozen=True)
class Or(Expression):
    """Either; true wins over NULL."""

    left: Expression
    right: Expression

    def __post_init__(self) -> None:
        _require_boolean("OR", self.left, self.right)
        self._typed(BOOLEAN)


@dataclass(frozen=True)
class Not(Expression):
    """The opposite; NULL stays NULL."""

    operand: Expression

    def __post_init__(self) -> None:
        _require_boolean("NOT", self.operand)
        self._typed(BOOLEAN)


@dataclass(frozen=True)
class IsNull(Expression):
    """x IS NULL: never NULL itself."""

    operand: Expression

    def __post_init__(self) -> None:
        self._typed(BOOLEAN)


@dataclass(frozen=True)
class InList(Expression):
    """x IN (a, b, …): x = a OR x = b OR …"""

    operand: Expression
    items: tuple[Expression, ...]

    def __post_init__(self) -> None:
        for item in self.items:
            Comparison("=", self.operand, item)
        self._typed(BOOLEAN)


@dataclass(frozen=True)
class Case(Expression):
    """CASE WHEN … THEN … ELSE … END; without an ELSE, NULL."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression

    def __post_init__(self) -> None:
        for condition, _ in self.branches:
            _require_boolean("WHEN", condition)
        results = [result for _, result in self.branches] + [self.otherwise]
        self._typed(common_type("CASE", results))


@dataclass(frozen=True)
class Cast(Expression):
    """CAST(x AS type): a value that does not fit becomes NULL."""

    operand: Expression
    to: DataType

    def __post_init__(self) -> None:
        if not can_cast(self.operand.type, self.to):
            raise AlgebraError(f"{self.operand.type.a} cannot be cast to {self.to}")
        self._typed(self.to)


@dataclass(frozen=True)
class TryCast(Expression):
    """TRY_CAST(x AS type): a value that does not fit becomes NULL, where CAST would cut it."""

    operand: Expression
    to: DataType

    def __post_init__(self) -> None:
        if not can_cast(self.operand.type, self.to):
            raise AlgebraError(f"{self.operand.type.a} cannot be cast to {self.to}")
        self._typed(self.to)


@dataclass(frozen=True)
class Call(Expression):
    """A scalar function by name, from the table in `functions.py`."""

    name: str
    arguments: tuple[Expression, ...]

    def __post_init__(self) -> None:
        called = function(self.name)
        object.__setattr__(self, "name", called.name)
        constants = [a.value if isinstance(a, Literal) else VARIABLE for a in self.arguments]
        self._typed(called.result_type(tuple(a.type for a in self.arguments), constants))


TRUE = Literal(True, BOOLEAN)
NULL = Literal(None, VOID)


def common_type(what: str, operands: list[Expression]) -> DataType:
    """Return the narrowest type that all operands fit."""
    result = VOID
    for operand in operands:
        widened = wider_type(result, operand.type)
        if widened is None:
            raise AlgebraError(f"{what} mixes {result} and {operand.type}", next_step="CAST one of them")
        result = widened
    return result


def _require_boolean(what: str, *operands: Expression) -> None:
    for operand in operands:
        if operand.type not in (BOOLEAN, VOID):
            raise AlgebraError(
                f"{what} needs a condition, not {operand.type.a}",
                next_step="compare the value with something",
            )


def require_columns(expression: Expression, schema: Schema) -> None:
    """Refuse an expression that reads a column which the schema does not have."""
    for column in sorted(expression.columns(), key=lambda c: c.name):
        found = schema.find(column.name, column.relation)
        if found.type != column.type:
            raise AlgebraError(f"the column '{found.qualified}' is {found.type}, not {column.type}")


def conjunction(conditions: list[Expression]) -> Expression:
    """Return the AND of the conditions, nested conjunctions flattened; TRUE if there are none."""
    result: Expression | None = None
    for condition in [c for joined in conditions for c in conjuncts(joined)]:
        result = condition if result is None else And(result, condition)
    return TRUE if result is None else result


def conjuncts(condition: Expression) -> list[Expression]:
    """Return the conditions that a conjunction joins; TRUE has none."""
    if isinstance(condition, And):
        return conjuncts(condition.left) + conjuncts(condition.right)
    return [] if condition == TRUE else [condition]


@dataclass(frozen=True)
class SortKey:
    """What rows are ordered by: an expression, its direction, and whether NULL comes first."""

    expression: Expression
    descending: bool
    nulls_first: bool


def substitute(expression: Expression, replacement: Mapping[Expression, Expression]) -> Expression:
    """Return the expression with every occurrence of a key replaced by its value."""
    if expression in replacement:
        return replacement[expression]
    changed = {
        f.name: _substituted(getattr(expression, f.name), replacement) for f in fields(expression) if f.init
    }
    return type(expression)(**changed)


def _substituted(value: object, replacement: Mapping[Expression, Expression]) -> object:
    if isinstance(value, Expression):
        return substitute(value, replacement)
    if isinstance(value, tuple):
        return tuple(_substituted(item, replacement) for item in value)
    return value
