"""Time terms and conditions: from expressions to temporal formulas (paper 3, definition 4, section 5.1).

A condition becomes what it says of times, and TRUE where it says nothing: that only ever weakens it.
Negation is pushed inwards. The opposite of < is ≥; rule Neg4 of the paper prints > (finding 1). A row passes
only where its condition is TRUE, so a comparison that holds, negated or not, has no NULL: the formulas are
right in SQL's three values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from everview.algebra.expressions import (
    And,
    Arithmetic,
    Call,
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
from everview.algebra.schema import Schema
from everview.algebra.time import DAY, HOUR, MILLISECOND, MINUTE, SECOND, WEEK
from everview.algebra.types import DATE, INTERVAL, TIMESTAMP
from everview.temporal.cases import TimeCase
from everview.temporal.distances import ZERO, Attribute
from everview.temporal.formulas import (
    ALWAYS_TRUE,
    NEVER_TRUE,
    AllOf,
    AnyOf,
    Atom,
    Formula,
    Given,
    join_all,
    join_any,
)

# The longest time from the begin of a unit to an instant in it.
_TRUNCATED = {
    "YEAR": 366 * DAY, "YYYY": 366 * DAY, "YY": 366 * DAY, "QUARTER": 92 * DAY,
    "MONTH": 31 * DAY, "MM": 31 * DAY, "MON": 31 * DAY, "WEEK": WEEK,
    "DAY": DAY, "DD": DAY, "HOUR": HOUR, "MINUTE": MINUTE, "SECOND": SECOND, "MILLISECOND": MILLISECOND,
    "MICROSECOND": 1,
}  # fmt: skip
_OPPOSITES = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", "<=": ">", ">": "<="}


@dataclass(frozen=True)
class Shifted:
    """An attribute plus a constant between `low` and `high`; both are equal but for date_trunc and DATE."""

    attribute: Attribute
    low: int = 0
    high: int = 0


@dataclass(frozen=True)
class Extreme:
    """GREATEST or LEAST of terms that are never NULL."""

    greatest: bool
    terms: tuple[Term, ...]


Term = Shifted | Extreme


@dataclass(frozen=True)
class _Span:
    """A length of time: `after` − `before`, where they are, plus a constant."""

    after: Term | None = None
    before: Term | None = None
    low: int = 0
    high: int = 0


@dataclass(frozen=True)
class Reading:
    """Expressions over the rows of one case: what their times are, and which of them are NULL."""

    case: TimeCase
    schema: Schema

    def attribute(self, column: Column) -> Attribute | None:
        """Return the attribute of a column, if it is a time."""
        return self.case.columns[self._position(column)]

    def _position(self, column: Column) -> int:
        return self.schema.index(self.schema.find(column.name, column.relation))

    # Values

    def is_null(self, expression: Expression) -> bool:
        """Return whether the value is NULL in every row."""
        match expression:
            case Literal(value):
                return value is None
            case Column():
                return self._position(expression) in self.case.nulls
            case Arithmetic() | Negate() | Cast():
                return any(self.is_null(child) for child in expression.children)
            case Call(name, arguments) if name in ("coalesce", "greatest", "least"):
                return all(self.is_null(argument) for argument in arguments)
        return False

    def is_present(self, term: Term) -> bool:
        """Return whether a term is never NULL."""
        if isinstance(term, Extreme):
            return all(self.is_present(t) for t in term.terms)
        return term.attribute is ZERO or self.case.is_present(term.attribute)

    def term(self, expression: Expression) -> Term | None:
        """Return the expression as a term, where it is one: a time, or a day by its first instant."""
        match expression:
            case Column() if expression.type == TIMESTAMP:
                found = self.attribute(expression)
                return None if found is None else Shifted(found)
            case Literal(int(value)) if expression.type == TIMESTAMP:
                return Shifted(ZERO, value, value)
            case Literal(int(value)) if expression.type == DATE:
                return Shifted(ZERO, value * DAY, value * DAY)
            case Arithmetic("+" | "-" as sign, left, right) if expression.type == TIMESTAMP:
                if right.type != INTERVAL:
                    left, right = right, left
                by, of = self._span(right), self.term(left)
                if by is None or by.after is not None or by.before is not None or of is None:
                    return None
                return _shift(of, by.low, by.high) if sign == "+" else _shift(of, -by.high, -by.low)
            case Cast(operand, to) if to in (TIMESTAMP, DATE) and operand.type in (TIMESTAMP, DATE):
                return self._cast(operand, days=to == DATE and operand.type == TIMESTAMP)
            case Call("to_timestamp", (operand,)) if operand.type == TIMESTAMP:
                return self.term(operand)
            case Call("date_trunc", (Literal(str(unit)), operand)) if unit.upper() in _TRUNCATED:
                of = self.term(operand)
                return None if of is None else _shift(of, 1 - _TRUNCATED[unit.upper()], 0)
            case Call("greatest" | "least" as name, arguments) if expression.type == TIMESTAMP:
                return self._extreme(name == "greatest", arguments)
            case Call("coalesce", arguments) if expression.type == TIMESTAMP:
                possible = [argument for argument in arguments if not self.is_null(argument)]
                first = self.term(possible[0]) if possible else None
                only = len(possible) == 1 or (first is not None and self.is_present(first))
                return first if only else None
        return None

    def _cast(self, operand: Expression, days: bool) -> Term | None:
        of = self.term(operand)
        return of if of is None or not days else _shift(of, 1 - DAY, 0)

    def _extreme(self, greatest: bool, arguments: tuple[Expression, ...]) -> Term | None:
        """Return GREATEST or LEAST as a term; Spark skips NULLs in both, so no argument may be NULL."""
        terms = [self.term(argument) for argument in arguments if not self.is_null(argument)]
        sure = [term for term in terms if term is not None and self.is_present(term)]
        if not sure or len(sure) < len(terms):
            return None
        return sure[0] if len(sure) == 1 else Extreme(greatest, tuple(sure))

    def _span(self, expression: Expression) -> _Span | None:
        """Return an expression of type INTERVAL as a length of time between two terms."""
        match expression:
            case Literal(int(value)) if expression.type == INTERVAL:
                return _Span(low=value, high=value)
            case Negate(operand):
                found = self._span(operand)
                return None if found is None else _Span(found.before, found.after, -found.high, -found.low)
            case Arithmetic("*", Literal(int(factor)), Literal(int(length))) | Arithmetic(
                "*", Literal(int(length)), Literal(int(factor))
            ) if expression.type == INTERVAL:
                return _Span(low=factor * length, high=factor * length)
            case Arithmetic("-", left, right) if left.type == right.type == TIMESTAMP:
                after, before = self.term(left), self.term(right)
                return None if after is None or before is None else _Span(after, before)
            case Arithmetic("+" | "-" as sign, left, right) if left.type == right.type == INTERVAL:
                one = self._span(left)
                other = self._span(right if sign == "+" else Negate(right))
                return None if one is None or other is None else _add_spans(one, other)
        return None

    # Conditions

    def formula(self, condition: Expression, negated: bool = False) -> Formula:
        """Return what a condition, or its negation, says of the times of a row for which it is true."""
        match condition:
            case Not(operand):
                return self.formula(operand, not negated)
            case And(left, right):
                sides = [self.formula(left, negated), self.formula(right, negated)]
                return join_any(*sides) if negated else join_all(*sides)
            case Or():
                sides = [self.formula(side, negated) for side in _disjuncts(condition)]
                return join_all(*sides) if negated else AnyOf(tuple(sides), tuple(_disjuncts(condition)))
            case Comparison(operator, left, right):
                return self._comparison(operator, left, right, negated)
            case InList(operand, items):
                each = [self._comparison("=", operand, item, negated) for item in items]
                return join_all(*each) if negated else join_any(*each)
            case IsNull(operand):
                return self._is_null(operand, negated)
            case Literal(value):
                return ALWAYS_TRUE if value is (not negated) else NEVER_TRUE
        return NEVER_TRUE if self.is_null(condition) else ALWAYS_TRUE

    def _comparison(self, operator: str, left: Expression, right: Expression, negated: bool) -> Formula:
        if operator == "<=>":
            return self._same(left, right, negated)
        if self.is_null(left) or self.is_null(right):
            return NEVER_TRUE
        operator = _OPPOSITES[operator] if negated else operator
        if left.type == right.type == INTERVAL:
            return self._compare_spans(operator, left, right)
        one, other = self.term(left), self.term(right)
        if one is None or other is None or {left.type, right.type} - {TIMESTAMP, DATE}:
            return join_all(*(Given(t.attribute) for t in (one, other) if isinstance(t, Shifted)
                              and t.attribute is not ZERO))  # fmt: skip
        return compare_terms(operator, one, other)

    def _same(self, left: Expression, right: Expression, negated: bool) -> Formula:
        """Return what x <=> y says: x = y of times that are never NULL, nothing of others."""
        one, other = self.term(left), self.term(right)
        sure = [term is not None and self.is_present(term) for term in (one, other)]
        if one is not None and other is not None and all(sure):
            return compare_terms("<>" if negated else "=", one, other)
        nulls = self.is_null(left), self.is_null(right)
        if any(nulls) and any(sure):
            return ALWAYS_TRUE if negated else NEVER_TRUE
        return NEVER_TRUE if all(nulls) and negated else ALWAYS_TRUE

    def _is_null(self, operand: Expression, negated: bool) -> Formula:
        if self.is_null(operand):
            return NEVER_TRUE if negated else ALWAYS_TRUE
        found = self.term(operand)
        if found is None:
            return ALWAYS_TRUE
        if self.is_present(found):
            return ALWAYS_TRUE if negated else NEVER_TRUE
        return Given(found.attribute) if negated and isinstance(found, Shifted) else ALWAYS_TRUE

    def _compare_spans(self, operator: str, left: Expression, right: Expression) -> Formula:
        """Return a − b ≤ c as a ≤ b + c."""
        one, other = self._span(left), self._span(Negate(right))
        apart = None if one is None or other is None else _add_spans(one, other)
        if apart is None or apart.after is None or apart.before is None:
            return ALWAYS_TRUE
        return compare_terms(operator, _shift(apart.after, apart.low, apart.high), apart.before)


def compare_terms(operator: str, one: Term, other: Term) -> Formula:
    """Return a comparison of terms as a formula; < is ≤ less one microsecond (rule Less).

    >>> a, b = Attribute("a"), Attribute("b")
    >>> compare_terms("<", Shifted(a), Shifted(b, 5, 5))
    Atom(later=a, earlier=b, apart=4)
    """
    match operator:
        case "<=":
            return _at_most(one, other, 0)
        case "<":
            return _at_most(one, other, -1)
        case ">=" | ">":
            return compare_terms("<=" if operator == ">=" else "<", other, one)
        case "=":
            return join_all(_at_most(one, other, 0), _at_most(other, one, 0))
    return join_any(_at_most(one, other, -1), _at_most(other, one, -1))


def _at_most(one: Term, other: Term, slack: int) -> Formula:
    """Return one ≤ other + slack as a formula (rules Arith, Min and Max)."""
    if isinstance(one, Extreme):
        each = [_at_most(term, other, slack) for term in one.terms]
        return join_all(*each) if one.greatest else join_any(*each)
    if isinstance(other, Extreme):
        each = [_at_most(one, term, slack) for term in other.terms]
        return join_any(*each) if other.greatest else join_all(*each)
    apart = other.high - one.low + slack
    if one.attribute is other.attribute:
        return ALWAYS_TRUE if apart >= 0 else NEVER_TRUE
    return Atom(one.attribute, other.attribute, apart)


def _shift(term: Term, low: int, high: int) -> Term:
    if isinstance(term, Extreme):
        return replace(term, terms=tuple(_shift(t, low, high) for t in term.terms))
    return Shifted(term.attribute, term.low + low, term.high + high)


def _add_spans(one: _Span, other: _Span) -> _Span | None:
    """Return the sum of two lengths of time; None if it is not between two terms any more."""
    after = [t for t in (one.after, other.after) if t is not None]
    before = [t for t in (one.before, other.before) if t is not None]
    if len(after) > 1 or len(before) > 1:
        return None
    low, high = one.low + other.low, one.high + other.high
    return _Span(next(iter(after), None), next(iter(before), None), low, high)


def _disjuncts(condition: Expression) -> list[Expression]:
    if isinstance(condition, Or):
        return _disjuncts(condition.left) + _disjuncts(condition.right)
    return [condition]


def define_term(case: TimeCase, attribute: Attribute, term: Term) -> list[TimeCase]:
    """Return the cases in which a new attribute is the value of a term (imbed; paper 3, definition 5)."""
    if isinstance(term, Shifted):
        later = case.distances.restrict(attribute, term.attribute, term.high)
        both = None if later is None else later.restrict(term.attribute, attribute, -term.low)
        return [] if both is None else [replace(case, distances=both)]
    found: list[TimeCase] = []
    for chosen in term.terms:
        others = [t for t in term.terms if t is not chosen]
        beyond = [_at_most(t, chosen, 0) if term.greatest else _at_most(chosen, t, 0) for t in others]
        for chosen_case in case.restrict(AllOf(tuple(beyond))):
            found += define_term(chosen_case, attribute, chosen)
    return found
