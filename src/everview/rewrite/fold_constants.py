"""An expression without columns is its value; TRUE in a conjunction, and a filter of TRUE, are nothing."""

from __future__ import annotations

from dataclasses import fields, replace

from everview.algebra import nodes as N
from everview.algebra.aggregates import AggregateCall
from everview.algebra.evaluate import evaluate
from everview.algebra.expressions import (
    TRUE,
    And,
    Column,
    Expression,
    Literal,
    Or,
)
from everview.algebra.schema import Schema
from everview.algebra.types import BOOLEAN

_FALSE = Literal(False, BOOLEAN)
_NOTHING = Schema(())
_LONGEST = 1_000  # characters of a folded text


def fold_constants(node: N.Node) -> N.Node | None:
    """Evaluate what is constant in the conditions and columns of a node."""
    match node:
        case N.Filter(below, condition):
            folded = fold(condition)
            return below if folded == TRUE else N.Filter(below, folded)
        case N.Join() | N.SemiJoin() | N.AntiJoin() | N.OuterJoin():
            return replace(node, condition=fold(node.condition))
        case N.Project():
            return replace(node, columns=tuple((name, fold(e)) for name, e in node.columns))
        case N.Aggregate():
            return replace(node, calls=tuple((name, _fold_call(call)) for name, call in node.calls))
    return None


def _fold_call(call: AggregateCall) -> AggregateCall:
    argument = None if call.argument is None else fold(call.argument)
    where = None if call.where is None else fold(call.where)
    by = None if call.by is None else fold(call.by)
    folded = replace(call, argument=argument, where=None if where == TRUE else where, by=by)
    return folded if folded.type == call.type else call


def fold(expression: Expression) -> Expression:
    """Return the expression with all parts that read no column evaluated; its type stays.

    >>> from everview.algebra.expressions import Arithmetic, Column, Comparison
    >>> from everview.algebra.text import expression_sql
    >>> from everview.algebra.types import INT
    >>> two = Arithmetic("+", Literal(1, INT), Literal(1, INT))
    >>> condition = And(Comparison("=", two, Literal(2, INT)), Comparison(">", Column("v", INT), two))
    >>> expression_sql(condition), expression_sql(fold(condition))
    ('1 + 1 = 2 AND v > 1 + 1', 'v > 2')
    """
    return _fold(expression)[0]


def _fold(expression: Expression) -> tuple[Expression, bool]:
    """Return the folded expression, and whether it reads columns."""
    if isinstance(expression, Column) or not expression.children:
        return expression, isinstance(expression, Column)
    reads = False

    def fold_part(value: object) -> object:
        nonlocal reads
        if isinstance(value, Expression):
            folded, reads_columns = _fold(value)
            reads = reads or reads_columns
            return folded
        return tuple(map(fold_part, value)) if isinstance(value, tuple) else value

    parts = {f.name: fold_part(getattr(expression, f.name)) for f in fields(expression) if f.init}
    folded = type(expression)(**parts)
    # The type of a parent may depend on whether an operand is a literal: then the operand stays as it is.
    folded = folded if folded.type == expression.type else expression
    if not reads:
        return _value(folded), False
    simple = _simplify(folded)
    return simple, not isinstance(simple, Literal)  # FALSE AND k = 1 reads no column


def _value(constant: Expression) -> Expression:
    """Return the value of an expression without columns; a long text stays as it is written."""
    value = evaluate(constant, _NOTHING, ())
    is_long = isinstance(value, (str, bytes)) and len(value) > _LONGEST
    return constant if is_long else Literal(value, constant.type)


def _simplify(expression: Expression) -> Expression:
    """Return a conjunction without TRUE and a disjunction without FALSE; FALSE and TRUE decide them."""
    match expression:
        case And(left, right):
            for one, other in ((left, right), (right, left)):
                if one == TRUE and other.type == expression.type:
                    return other
                if one == _FALSE:
                    return _FALSE
        case Or(left, right):
            for one, other in ((left, right), (right, left)):
                if one == _FALSE and other.type == expression.type:
                    return other
                if one == TRUE:
                    return TRUE
    return expression
