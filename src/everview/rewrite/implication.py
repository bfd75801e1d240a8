"""Whether conditions that hold together imply another one: by ranges of values, with SQL's three truths.

A condition of WHERE lets a row pass if it is true, not if it is NULL: so that is what is implied, and what it
is implied by.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from everview.algebra.evaluate import evaluate
from everview.algebra.expressions import (
    And,
    Cast,
    Comparison,
    Expression,
    InList,
    IsNull,
    Literal,
    Not,
    Or,
    conjuncts,
)
from everview.algebra.schema import Schema
from everview.algebra.types import DataType, wider_type
from everview.rewrite.fold_constants import fold

_OPPOSITE = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_SYMMETRIC = ("=", "<>", "<=>")
_MOST_ITEMS = 100  # of an IN list that is compared item by item
_NOTHING = Schema(())


def normal_conjuncts(conditions: Iterable[Expression]) -> tuple[Expression, ...]:
    """Return the parts of a conjunction, each once, in a form in which equal ones are written alike."""
    folded = (part for condition in conditions for part in conjuncts(fold(condition)))
    return tuple(dict.fromkeys(p for part in folded for p in conjuncts(normal_condition(part))))


def normal_condition(condition: Expression) -> Expression:
    """Return a condition that is true for the same rows: constants to the right, NOT on the inside.

    >>> from everview.algebra.expressions import Column
    >>> from everview.algebra.text import expression_sql
    >>> from everview.algebra.types import INT
    >>> v, three = Column("v", INT), Literal(3, INT)
    >>> expression_sql(normal_condition(Not(Comparison("<", three, v))))
    'v <= 3'
    """
    match condition:
        case Not(Not(inner)):
            return normal_condition(inner)
        case Not(Comparison(operator, left, right)) if operator in _OPPOSITE:
            return normal_condition(Comparison(_OPPOSITE[operator], left, right))
        case Not(And(left, right)):
            return Or(normal_condition(Not(left)), normal_condition(Not(right)))
        case Not(Or(left, right)):
            return And(normal_condition(Not(left)), normal_condition(Not(right)))
        case And(left, right):
            return And(normal_condition(left), normal_condition(right))
        case Or(left, right):
            return Or(normal_condition(left), normal_condition(right))
        case Comparison(operator, left, right):
            return _turned(operator, left, right)
        case InList(operand, (item,)):
            return _turned("=", operand, item)
    return condition


def _turned(operator: str, left: Expression, right: Expression) -> Expression:
    constants = isinstance(left, Literal), isinstance(right, Literal)
    if constants == (True, False) or (constants[0] == constants[1] and repr(right) < repr(left)):
        if operator in _SYMMETRIC:
            return Comparison(operator, right, left)
        if operator in _TURNED:
            return Comparison(_TURNED[operator], right, left)
    return Comparison(operator, left, right)


def implies(known: Sequence[Expression], wanted: Expression) -> bool:
    """Return whether a condition is certainly true where all of the known ones are. All are normal.

    >>> from everview.algebra.expressions import Column
    >>> from everview.algebra.types import INT
    >>> v = Column("v", INT)
    >>> above_5, above_3 = (Comparison(">", v, Literal(n, INT)) for n in (5, 3))
    >>> implies([above_5], above_3), implies([above_3], above_5), implies([above_5], Not(IsNull(v)))
    (True, False, True)
    """
    if wanted in known:
        return True
    match wanted:
        case And(left, right):
            return implies(known, left) and implies(known, right)
        case Or(left, right) if implies(known, left) or implies(known, right):
            return True
        case InList(operand, items) if _alike(items) and any(_equals(known, operand, i) for i in items):
            return True
    return any(_implied_by(part, wanted) for part in known)


def _alike(items: tuple[Expression, ...]) -> bool:
    """Return whether an IN list is the same as a comparison with each of its items, and not too long."""
    return len({item.type for item in items}) == 1 and len(items) <= _MOST_ITEMS


def _equals(known: Sequence[Expression], operand: Expression, item: Expression) -> bool:
    return isinstance(item, Literal) and implies(known, normal_condition(Comparison("=", operand, item)))


def _implied_by(part: Expression, wanted: Expression) -> bool:
    """Return whether one condition that is true makes another one true."""
    if part == wanted:
        return True
    match part, wanted:
        case Or(left, right), _:
            return implies(conjuncts(left), wanted) and implies(conjuncts(right), wanted)
        case InList(operand, items), _ if _alike(items):
            each = [normal_condition(Comparison("=", operand, item)) for item in items]
            return all(implies([one], wanted) for one in each)
        case Comparison(operator, left, right), Not(IsNull(operand)) if operator != "<=>":
            return operand in (left, right)
        case Comparison("<=>", left, Literal(value)), Not(IsNull(operand)):
            return operand == left and value is not None
        case Comparison(one, left, Literal() as a), Comparison(other, right, Literal() as b):
            return left == right and _range_within(one, a, other, b, left.type)
    return False


def _range_within(one: str, a: Literal, other: str, b: Literal, type_: DataType) -> bool:
    """Return whether every x with `x one a` also has `x other b`, as x is compared: in the wider type.

    >>> from everview.algebra.types import DOUBLE, INT
    >>> _range_within(">=", Literal(4, INT), ">", Literal(3, INT), DOUBLE)
    True
    """
    kind = wider_type(type_, a.type)
    if kind is None or kind != wider_type(type_, b.type):
        return False
    low, high = (evaluate(Cast(constant, kind), _NOTHING, ()) for constant in (a, b))
    if low is None or high is None:
        return False

    def compares(operator: str) -> bool:
        return evaluate(Comparison(operator, Literal(low, kind), Literal(high, kind)), _NOTHING, ()) is True

    match "=" if one == "<=>" else one, other:
        case "=", ("=" | "<=>"):
            return compares("=")
        case "=", _:
            return compares(other)
        case (">", ">") | (">", ">=") | (">=", ">="):
            return compares(">=")
        case (">=", ">") | (">=", "<>"):
            return compares(">")
        case ("<", "<") | ("<", "<=") | ("<=", "<="):
            return compares("<=")
        case ("<=", "<") | ("<=", "<>"):
            return compares("<")
        case ">", "<>":
            return compares(">=")
        case "<", "<>":
            return compares("<=")
        case "<>", "<>":
            return compares("=")
    return False
