"""Random well-typed expressions and records, for the tests that hold `evaluate` against other engines."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from everview.algebra import types as T
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
)
from everview.algebra.functions import FUNCTIONS
from everview.algebra.schema import Schema
from everview.algebra.signatures import KINDS, Signature
from everview.errors import AlgebraError

Values = dict[T.DataType, Sequence[object]]

# What gives a time when it is added or subtracted.
_TIMES: dict[T.DataType, Sequence[tuple[T.DataType, ...]]] = {
    T.TIMESTAMP: ((T.TIMESTAMP, T.INTERVAL), (T.DATE, T.INTERVAL), (T.INTERVAL, T.TIMESTAMP)),
    T.INTERVAL: ((T.TIMESTAMP, T.TIMESTAMP), (T.DATE, T.DATE), (T.DATE, T.TIMESTAMP), (T.INTERVAL, T.INT)),
    T.DATE: ((T.DATE, T.INT), (T.DATE, T.SMALLINT)),
}


@dataclass(frozen=True)
class Vocabulary:
    """What random expressions are made of.

    `values`: interesting values of each type, for columns and literals. `hints`: the constants that a
    function takes at a position (a pattern, a unit, a length that fits into memory). `casts`: which types
    may be cast to which, openly or implicitly; `leaf_casts`: the same for columns and literals.
    """

    values: Values
    functions: frozenset[str] = frozenset(FUNCTIONS)
    hints: dict[str, dict[int, tuple[object, ...]]] = field(default_factory=dict)
    operators: tuple[str, ...] = ("+", "-", "*", "/", "%", "DIV", "&", "|", "^")
    comparisons: tuple[str, ...] = COMPARISONS
    casts: Callable[[T.DataType, T.DataType], bool] = T.can_cast
    leaf_casts: Callable[[T.DataType, T.DataType], bool] = T.can_cast
    per_type: int = 2

    @property
    def types(self) -> list[T.DataType]:
        return list(self.values)

    @property
    def schema(self) -> Schema:
        """So many columns of each type: `int_0`, `int_1`, …"""
        return Schema.of(
            *(
                (f"{t.name.lower()}{t.precision or ''}_{i}", t)
                for t in self.types
                for i in range(self.per_type)
            )
        )

    @property
    def signatures(self) -> list[Signature]:
        return [s for f in FUNCTIONS.values() if f.name in self.functions for s in f.signatures]


class Maker:
    """Makes expressions and records over a vocabulary, from one source of chance."""

    def __init__(self, chance: random.Random, vocabulary: Vocabulary) -> None:
        self.chance = chance
        self.vocabulary = vocabulary
        self.schema = vocabulary.schema
        self.types = vocabulary.types
        self.signatures = vocabulary.signatures
        self._columns = {t: [Column.to(f) for f in self.schema if f.type == t] for t in self.types}

    def record(self) -> tuple[object, ...]:
        return tuple(self.value(f.type) for f in self.schema)

    def value(self, type_: T.DataType) -> object:
        return None if self.chance.random() < 0.1 else self.chance.choice(self.vocabulary.values[type_])

    def expression(self, type_: T.DataType, depth: int) -> Expression:
        """An expression of this type, at most so deep."""
        if depth > 0:
            for _ in range(3):
                made = self.chance.choice(self._makers(type_))(type_, depth)
                if made is not None and made.type == type_:
                    return made
        return self._leaf(type_)

    def _makers(self, type_: T.DataType) -> list[Callable[[T.DataType, int], Expression | None]]:
        makers = [self._call, self._call, self._cast, self._case]
        if type_ == T.BOOLEAN:
            makers += [self._condition] * 3
        elif type_.is_numeric or type_ in _TIMES:
            makers += [self._arithmetic, self._arithmetic, self._negate]
        return makers

    def call(self, signature: Signature, depth: int, type_: T.DataType | None = None) -> Expression | None:
        """A call by this signature, perhaps of this type; None if chance chose arguments that do not fit."""
        count = next(n for n in range(10) if signature.kinds(n) is not None)
        while self.chance.random() < 0.5 and signature.kinds(count + 1) is not None:
            count += 1
        shared = type_ or self._type()
        arguments = tuple(
            self._argument(signature, position, kind, depth, shared)
            for position, kind in enumerate(signature.kinds(count) or [])
        )
        called = FUNCTIONS[signature.name]
        types = tuple(a.type for a in arguments)
        if signature.converted(types) is None or called.signature(types) is not signature:
            return None
        if not all(map(self._may_become, arguments, called.parameter_types(types))):
            return None
        return built(lambda: Call(signature.name, arguments))

    def _argument(
        self, signature: Signature, at: int, kind: str, depth: int, type_: T.DataType
    ) -> Expression:
        """An argument of this kind; where it can decide on the type of the call, mostly one of that type."""
        hints = self.vocabulary.hints.get(signature.name, {})
        if at in hints:
            return _literal(self.chance.choice(hints[at]))
        fitting = [t for t in self.types if KINDS[kind].takes(t)]
        if type_ in fitting and (kind == "T" or callable(signature.result)) and self.chance.random() < 0.8:
            fitting = [type_]
        chosen = self.chance.choice(fitting or self.types)
        return self.expression(chosen, self.chance.randrange(depth) if depth else 0)

    def _may_become(self, operand: Expression, type_: T.DataType) -> bool:
        """Whether the vocabulary lets this operand be cast, openly or implicitly."""
        leaf = isinstance(operand, (Column, Literal))
        casts = self.vocabulary.leaf_casts if leaf else self.vocabulary.casts
        return operand.type in (type_, T.VOID) or casts(operand.type, type_)

    def _leaf(self, type_: T.DataType) -> Expression:
        if self.chance.random() < 0.7:
            return self.chance.choice(self._columns[type_])
        return Literal(self.value(type_), type_)

    def _type(self) -> T.DataType:
        return self.chance.choice(self.types)

    def _any(self, depth: int) -> Expression:
        return self.expression(self._type(), depth - 1)

    def arithmetic(self, depth: int) -> Expression | None:
        """Two operands of any types that go together, and whatever type comes out."""
        numbers = [t for t in self.types if t.is_numeric]
        pairs = [tuple(self.chance.choices(numbers, k=2)), *(p for ps in _TIMES.values() for p in ps)]
        return self._operation(pairs[0] if self.chance.random() < 0.8 else self.chance.choice(pairs), depth)

    def _arithmetic(self, type_: T.DataType, depth: int) -> Expression | None:
        numbers = [t for t in self.types if t.is_numeric]
        pairs = [(type_, type_), (type_, self.chance.choice(numbers)), (self.chance.choice(numbers), type_)]
        return self._operation(self.chance.choice(_TIMES.get(type_, pairs)), depth)

    def _operation(self, pair: tuple[T.DataType, ...], depth: int) -> Expression | None:
        if not set(pair) <= set(self.types):
            return None
        left, right = (self.expression(t, depth - 1) for t in pair)
        return built(lambda: Arithmetic(self.chance.choice(self.vocabulary.operators), left, right))

    def _negate(self, type_: T.DataType, depth: int) -> Expression | None:
        operand = self.expression(type_, depth - 1)
        # Parsers read the minus before a number as part of it.
        return None if isinstance(operand, Literal) else built(lambda: Negate(operand))

    def _cast(self, type_: T.DataType, depth: int) -> Expression | None:
        operand = self._any(depth)
        if T.INTERVAL in (operand.type, type_) or not self._may_become(operand, type_):
            return None
        return Cast(operand, type_)

    def _call(self, type_: T.DataType, depth: int) -> Expression | None:
        signatures = [s for s in self.signatures if s.result in (type_.name, "T") or callable(s.result)]
        return self.call(self.chance.choice(signatures), depth, type_) if signatures else None

    def _case(self, type_: T.DataType, depth: int) -> Expression | None:
        branches = tuple(
            (self.expression(T.BOOLEAN, depth - 1), self.expression(type_, depth - 1))
            for _ in range(self.chance.randint(1, 2))
        )
        return Case(branches, self.expression(type_, depth - 1))

    def _condition(self, type_: T.DataType, depth: int) -> Expression | None:
        def truth() -> Expression:
            return self.expression(T.BOOLEAN, depth - 1)

        def comparison() -> Expression | None:
            left = self._any(depth)
            right = self.expression(left.type, depth - 1) if self.chance.random() < 0.7 else self._any(depth)
            return built(lambda: Comparison(self.chance.choice(self.vocabulary.comparisons), left, right))

        def in_list() -> Expression:
            operand = self._any(depth)
            return InList(operand, tuple(self._leaf(operand.type) for _ in range(self.chance.randint(1, 3))))

        forms: list[Callable[[], Expression | None]] = [
            comparison, comparison, in_list, lambda: And(truth(), truth()), lambda: Or(truth(), truth()),
            lambda: Not(truth()), lambda: IsNull(self._any(depth)),
        ]  # fmt: skip
        return self.chance.choice(forms)()


def built(build: Callable[[], Expression]) -> Expression | None:
    """The expression, or None where its operands do not fit."""
    try:
        return build()
    except AlgebraError:
        return None


def _literal(value: object) -> Literal:
    if value is None:
        return Literal(None, T.VOID)
    names = {bool: T.BOOLEAN, int: T.INT, str: T.STRING, float: T.DOUBLE}
    return Literal(value, names[type(value)])


def same(ours: object, theirs: object, tolerance: float = 0.0, signed_zero: bool = True) -> bool:
    """Whether two engines agree on a value: NaN is NaN, types count."""
    if ours is None or theirs is None:
        return ours is theirs
    if isinstance(ours, float) and isinstance(theirs, float):
        if math.isnan(ours) or math.isnan(theirs):
            return math.isnan(ours) and math.isnan(theirs)
        if ours == theirs:
            return not signed_zero or math.copysign(1, ours) == math.copysign(1, theirs)
        return math.isclose(ours, theirs, rel_tol=tolerance, abs_tol=tolerance and 1e-300)
    if isinstance(ours, Decimal) and isinstance(theirs, Decimal):
        return ours == theirs
    return type(ours) is type(theirs) and ours == theirs
