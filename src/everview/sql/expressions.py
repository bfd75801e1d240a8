"""Scalar expressions: from sqlglot's tree to the algebra's, with names and types resolved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from sqlglot import exp

from everview.algebra import types as T
from everview.algebra.aggregates import (
    AGGREGATES,
    aggregate_function,
    is_aggregate,
    is_other_aggregate,
)
from everview.algebra.convert import canonical, convert
from everview.algebra.expressions import (
    NULL,
    And,
    Arithmetic,
    Call,
    Case,
    Column,
    Comparison,
    Expression,
    InList,
    IsNull,
    Literal,
    Negate,
    Not,
    Or,
)  # fmt: skip
from everview.algebra.functions import FUNCTIONS, LIKE_A_SLIP, function, function_names
from everview.algebra.numbers import negate_number
from everview.algebra.text import string_sql
from everview.algebra.time import DAY, Chronon
from everview.errors import AlgebraError, EverviewError, SqlError, nearest
from everview.sql import ast
from everview.sql.aggregate_calls import bind_aggregate, bind_filtered
from everview.sql.constants import find_wrong_constant
from everview.sql.grouping_sets import bind_grouping
from everview.sql.literals import EXAMPLES, cast, data_type, duration, number, try_cast
from everview.sql.over import bind_over
from everview.sql.over_functions import ONLY_OVER
from everview.sql.promotion import as_text_if_mixed, is_text_literal, text_targets
from everview.sql.query_grammar import STREAM_FUNCTIONS
from everview.sql.scope import Scope
from everview.sql.script import Script
from everview.sql.times import CLOCKS, add_months_to, as_days, months_of, seconds_of
from everview.sql.windows import is_now


@dataclass(frozen=True)
class ExpressionBinder:
    """Binds expressions in a scope; where aggregates may not stand, `no_aggregates` says why.

    The arguments of aggregates are bound in a scope of their own, where one is given. `now` is the instant
    of an ad hoc query; elsewhere there is none. `timeline` is that of the rows of FROM. `subqueries` has the
    values of subqueries, by the identity of their syntax.
    """

    script: Script
    scope: Scope
    no_aggregates: str | None = None
    arguments: Scope | None = None
    now: Chronon | None = None
    timeline: Column | None = None
    subqueries: Mapping[int, Expression] = field(default_factory=dict)

    def bind(self, node: exp.Expr) -> Expression:
        """Bind a syntax tree; an error has the place of the smallest tree that is wrong."""
        if id(node) in self.subqueries:
            return self.subqueries[id(node)]
        handler = _HANDLERS.get(type(node))
        if handler is None:
            raise self._refusal(node)
        with self.script.blame(node):
            return handler(self, node)

    def condition(self, node: exp.Expr, what: str) -> Expression:
        """Bind an expression that must be true or false."""
        bound = self.bind(node)
        if bound.type not in (T.BOOLEAN, T.VOID):
            raise self.script.error(
                f"{what} needs a condition, not {bound.type.a}",
                node,
                next_step="compare the value with something",
            )
        return bound

    def _refusal(self, node: exp.Expr) -> EverviewError:
        if isinstance(node, (exp.Any, exp.All)) and not isinstance(node.this, exp.Query):
            return self.script.error(
                "values of ANY and ALL follow LIKE and ILIKE only, without ESCAPE",
                node,
                next_step="use IN (…), or join conditions by OR or AND",
            )
        if isinstance(node, (exp.Select, exp.Subquery, exp.SetOperation, exp.Exists, exp.Any, exp.All)):
            return self.script.error(
                "a subquery cannot stand here",
                node,
                next_step="use it in FROM, in WHERE or in the SELECT list",
            )
        if isinstance(node, exp.SimilarTo):
            return self.script.error("SIMILAR TO is not available", node, next_step="use RLIKE")
        return self.script.error("this kind of expression is not available", node)

    # One small function per kind of node

    def column(self, node: exp.Column) -> Expression:
        if is_now(node):
            raise self.script.error(
                "NOW may only stand in a predicate window",
                node,
                next_step="write it as NOW - INTERVAL '5' SECOND < s.ts AND s.ts <= NOW in WHERE",
            )
        if node.args.get("db") is not None:
            raise self.script.error("a column is written as relation.column at most", node)
        if isinstance(node.this, exp.Star):
            raise self.script.error("* may only stand in a SELECT list or in COUNT(*)", node)
        return self.scope.column(node.name, node.table or None)

    def literal(self, node: exp.Literal) -> Expression:
        return Literal(node.this, T.STRING) if node.is_string else number(node.this)

    def negation(self, node: exp.Neg) -> Expression:
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return number("-" + node.this.this)
        operand = self.beside(self.bind(node.this), T.DOUBLE, node.this)
        if isinstance(operand, Literal) and operand.value is not None and _changes_sign(operand.type):
            return Literal(canonical(negate_number(operand.value, operand.type)), operand.type)
        return Negate(operand)

    def arithmetic(self, node: exp.Binary) -> Expression:
        operator = _ARITHMETIC[type(node)]
        if operator in "+-":
            shifted = self._months_later(node, operator)
            if shifted is not None:
                return shifted
        left, right = self._operands(node, operator)
        both = {left.type, right.type}
        if operator in "+-" and both == {T.DATE, T.INTERVAL}:
            left, right = as_days(left, node.this), as_days(right, node.expression)
        if operator in "+-" and both == {T.TIMESTAMP, T.INT}:
            raise AlgebraError(
                f"{left.type} {operator} {right.type} has no meaning", next_step="add an INTERVAL '5' SECOND"
            )
        return Arithmetic(operator, left, right)

    def _months_later(self, node: exp.Binary, operator: str) -> Expression | None:
        """Bind a date or timestamp with INTERVAL '1' MONTH beside it; None if no such interval is there."""
        time, months = node.this, months_of(node.expression)
        if months is None and operator == "+":
            time, months = node.expression, months_of(node.this)
        if months is None or node.find_ancestor(ast.CreateEventStreamSyntax) is not None:
            return None  # an event query waits for fixed lengths of time, and refuses the months elsewhere
        bound = self.bind(time)
        if bound.type not in (T.DATE, T.TIMESTAMP):
            raise self.script.error(
                f"months are added to a DATE or a TIMESTAMP, not to {bound.type.a}",
                time,
                next_step="CAST it to DATE or TIMESTAMP",
            )
        return add_months_to(bound, months if operator == "+" else -months)

    def _operands(self, node: exp.Binary, operator: str) -> tuple[Expression, Expression]:
        """Bind two operands; a string constant beside a number counts as a DOUBLE, as in Spark."""
        left, right = self.bind(node.this), self.bind(node.expression)
        if operator in "+-*/%" and all(is_text_literal(e) or e.type.is_numeric for e in (left, right)):
            return self.beside(left, T.DOUBLE, node.this), self.beside(right, T.DOUBLE, node.expression)
        return self.beside(left, right.type, node.this), self.beside(right, left.type, node.expression)

    def comparison(self, node: exp.Binary) -> Expression:
        left, right = self.pair(node.this, node.expression)
        return Comparison(_COMPARISONS[type(node)], left, right)

    def pair(self, left: exp.Expr, right: exp.Expr) -> tuple[Expression, Expression]:
        """Bind two operands; a string constant beside a value of another type is read as that type."""
        a, b = self.bind(left), self.bind(right)
        return self.beside(a, b.type, left), self.beside(b, a.type, right)

    def beside(self, operand: Expression, type_: T.DataType, node: exp.Expr) -> Expression:
        """Bind an operand next to a value of a type: a string constant is read as that type."""
        if not is_text_literal(operand) or type_ in (T.STRING, T.VOID):
            return operand
        with self.script.blame(node):
            return _read_as(operand, type_)

    def different(self, node: exp.NullSafeNEQ) -> Expression:
        left, right = self.pair(node.this, node.expression)
        return Not(Comparison("<=>", left, right))

    def negated(self, node: exp.Not) -> Expression:
        return Not(self.bind(node.this))

    def is_(self, node: exp.Is) -> Expression:
        operand = self.bind(node.this)
        if isinstance(node.expression, exp.Null):
            return IsNull(operand)
        if isinstance(node.expression, exp.Boolean):
            return Comparison("<=>", operand, Literal(bool(node.expression.this), T.BOOLEAN))
        raise self.script.error("IS takes NULL, TRUE or FALSE", node)

    def between(self, node: exp.Between) -> Expression:
        low_of, low = self.pair(node.this, node.args["low"])
        high_of, high = self.pair(node.this, node.args["high"])
        return And(Comparison(">=", low_of, low), Comparison("<=", high_of, high))

    def in_list(self, node: exp.In) -> Expression:
        if node.args.get("query") is not None:
            raise self._refusal(node.args["query"])
        if not node.expressions:
            raise self.script.error("IN takes values in brackets, or a SELECT", node)
        operand = self.bind(node.this)
        items = tuple(self.beside(self.bind(item), operand.type, item) for item in node.expressions)
        return InList(operand, items)

    def case(self, node: exp.Case) -> Expression:
        subject = node.this
        branches = []
        for branch in node.args["ifs"]:
            if subject is None:
                condition = self.condition(branch.this, "WHEN")
            else:
                left, right = self.pair(subject, branch.this)
                condition = Comparison("=", left, right)
            branches.append((condition, self.bind(branch.args["true"])))
        default = node.args.get("default")
        otherwise = NULL if default is None else self.bind(default)
        *results, otherwise = as_text_if_mixed([*(result for _, result in branches), otherwise])
        return Case(tuple(zip((c for c, _ in branches), results, strict=True)), otherwise)

    def cast(self, node: exp.Cast) -> Expression:
        operand, target = self.bind(node.this), data_type(node.to, self.script)
        return try_cast(operand, target) if node.args.get("safe") else cast(operand, target)

    def binary(self, node: exp.HexString) -> Expression:
        digits = str(node.this)
        return Literal(bytes.fromhex("0" * (len(digits) % 2) + digits), T.BINARY)

    def pattern(self, node: exp.Binary) -> Expression:
        if isinstance(node.expression, (exp.Any, exp.All)):
            return self._patterns(node, node.expression)
        matched = self._called(_PATTERNS[type(node)], [node.this, node.expression])
        return Not(matched) if node.args.get("negate") else matched

    def _patterns(self, node: exp.Binary, several: exp.Any | exp.All) -> Expression:
        """Bind LIKE ANY ('a%', 'b%') and LIKE ALL (…); NOT applies to each pattern."""
        if type(node) not in (exp.Like, exp.ILike) or not isinstance(several.this, (exp.Tuple, exp.Paren)):
            raise self._refusal(several)
        parts = several.this.expressions if isinstance(several.this, exp.Tuple) else [several.this.this]
        if not parts:
            raise self.script.error("LIKE ANY and LIKE ALL take patterns in brackets", node)
        matched: list[Expression] = [self._called(_PATTERNS[type(node)], [node.this, p]) for p in parts]
        if node.args.get("negate"):
            matched = [Not(m) for m in matched]
        return reduce(Or if isinstance(several, exp.Any) else And, matched)

    def escape(self, node: exp.Escape) -> Expression:
        inner = node.this
        if type(inner) not in _PATTERNS:
            raise self._refusal(inner)
        matched = self._called(_PATTERNS[type(inner)], [inner.this, inner.expression, node.expression])
        return Not(matched) if inner.args.get("negate") else matched

    def _called(self, name: str, nodes: Sequence[exp.Expr], bound: Sequence[Expression] = ()) -> Expression:
        """Return a call of a function; refuse an invalid constant, with its place."""
        called = Call(name, tuple(bound or map(self.bind, nodes)))
        wrong = find_wrong_constant(called)
        if wrong is None:
            return called
        with self.script.blame(nodes[wrong[0]]):
            raise wrong[1]

    def concat(self, node: exp.DPipe) -> Expression:
        return Call("concat", (self.bind(node.this), self.bind(node.expression)))

    def extract(self, node: exp.Extract) -> Expression:
        field = node.name.upper()
        if field not in EXTRACTED:
            raise SqlError(
                f"there is no field '{node.name}' in a time",
                place=self.script.place(node),
                meant=nearest(field, EXTRACTED),
                choices=EXTRACTED,
            )
        operand = self.bind(node.expression)
        return seconds_of(operand) if field == "SECOND" else Call(EXTRACTED[field], (operand,))

    def trim(self, node: exp.Trim) -> Expression:
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(
            (node.args.get("position") or "").upper(), "trim"
        )
        text = self.bind(node.this)
        if node.expression is None:
            return Call(name, (text,))
        characters = self.bind(node.expression)  # ltrim and rtrim take them first, btrim last
        return Call("btrim", (text, characters)) if name == "trim" else Call(name, (characters, text))

    def substring(self, node: exp.Substring) -> Expression:
        parts = (node.this, node.args.get("start"), node.args.get("length"))
        return Call("substring", tuple(self.bind(p) for p in parts if p is not None))

    def position(self, node: exp.StrPosition) -> Expression:
        parts = (node.args["substr"], node.this, node.args.get("position"))
        return Call("locate", tuple(self.bind(p) for p in parts if p is not None))

    def complement(self, node: exp.BitwiseNot) -> Expression:
        operand = self.bind(node.this)
        return Arithmetic("^", operand, Literal(-1, operand.type if operand.type.is_integer else T.INT))

    def shift(self, node: exp.Binary) -> Expression:
        return Call(_SHIFTS[type(node)], (self.bind(node.this), self.bind(node.expression)))

    def clock(self, node: exp.Expr) -> Expression:
        """Bind CURRENT_TIMESTAMP, CURRENT_DATE, now() …: one instant for a whole ad hoc query."""
        name = node.name if isinstance(node, exp.Anonymous) else node.sql().rstrip("()")
        if self.now is None:
            function(name)  # raises, and says why
            raise AssertionError
        if node.expressions:
            raise self.script.error(f"{name} takes no arguments", node)
        days = CLOCKS[name.casefold()] == T.DATE
        return Literal(self.now // DAY if days else self.now, CLOCKS[name.casefold()])

    def call(self, node: exp.Anonymous) -> Expression:
        name = node.name.casefold()
        if name in CLOCKS:
            return self.clock(node)
        if name == "grouping" and self.no_aggregates is None:
            return bind_grouping(self, node)
        if is_aggregate(name):
            return bind_aggregate(self, node, None)
        if name in ONLY_OVER:
            raise self.script.error(
                f"{name.upper()} needs OVER (…)",
                node,
                next_step=f"write {name.upper()}(…) OVER (PARTITION BY … ORDER BY …)",
            )
        if name.upper() in STREAM_FUNCTIONS:
            raise self.script.error(
                f"{name.upper()} stands around a whole SELECT",
                node,
                next_step=f"write {name.upper()}(SELECT … FROM …)",
            )
        aggregates = any(isinstance(a, (exp.Star, exp.Distinct)) for a in node.expressions)
        if aggregates and name in FUNCTIONS:
            raise self.script.error(f"{node.name} is no aggregate and takes neither * nor DISTINCT", node)
        if aggregates or is_other_aggregate(name):
            aggregate_function(name)  # raises, and says which there are
        queries = [a for a in node.expressions if isinstance(a, (exp.Query, ast.StreamFunctionSyntax))]
        if queries and id(queries[0]) not in self.subqueries:
            raise self._refusal(queries[0])
        self._require_function(node)
        arguments = tuple(self.bind(a) for a in node.expressions)
        if len(arguments) > 1 and name in _COMPARING:
            kinds = [a.type for a in arguments if not is_text_literal(a) and a.type != T.VOID]
            if kinds:
                pairs = zip(arguments, node.expressions, strict=True)
                arguments = tuple(self.beside(a, kinds[0], syntax) for a, syntax in pairs)
        if name in _CHOOSING:
            first = _CHOOSING[name]
            arguments = (*arguments[:first], *as_text_if_mixed(arguments[first:]))
        wanted = text_targets(node.name, arguments)
        read = zip(arguments, wanted, node.expressions, strict=True)
        arguments = tuple(self.beside(a, t or T.STRING, syntax) for a, t, syntax in read)
        return self._called(node.name, node.expressions, arguments)

    def _require_function(self, node: exp.Anonymous) -> None:
        """Refuse a name that no function has; an aggregate may have been meant as well."""
        try:
            function(node.name)
        except AlgebraError as error:
            if error.next_step is None:  # it is unknown, not refused for a reason
                error.meant = nearest(node.name, [*function_names(), *AGGREGATES], LIKE_A_SLIP)
            raise


def _changes_sign(type_: T.DataType) -> bool:
    """Return whether a minus is applied to a constant of this type at once; for a decimal Spark keeps it."""
    return type_.is_integer or type_.is_float or type_ == T.INTERVAL


def _read_as(e: Expression, type_: T.DataType) -> Expression:
    if not isinstance(e, Literal) or type_ == T.INTERVAL:
        return e
    value = convert(e.value, T.STRING, type_)
    if value is None:
        raise AlgebraError(
            f"{string_sql(str(e.value))} is no {type_}",
            next_step=f"write it as {EXAMPLES[type_]}" if type_ in EXAMPLES else f"write {type_.a} here",
        )
    return Literal(value, type_)


EXTRACTED = {
    "YEAR": "year", "QUARTER": "quarter", "MONTH": "month", "WEEK": "weekofyear", "DAY": "day",
    "DAYOFWEEK": "dayofweek", "DOY": "dayofyear", "HOUR": "hour", "MINUTE": "minute", "SECOND": "second",
}  # fmt: skip
"""The fields of EXTRACT, each with the function that yields it."""

_ARITHMETIC = {
    exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%", exp.IntDiv: "DIV",
    exp.BitwiseAnd: "&", exp.BitwiseOr: "|", exp.BitwiseXor: "^",
}  # fmt: skip
_COMPARISONS = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.NullSafeEQ: "<=>",
}  # fmt: skip
_PATTERNS = {exp.Like: "like", exp.ILike: "ilike", exp.RegexpLike: "rlike"}
_SHIFTS = {exp.BitwiseLeftShift: "shiftleft", exp.BitwiseRightShift: "shiftright"}
_CHOOSING = {"if": 1, "nvl2": 1, "coalesce": 0, "nvl": 0, "ifnull": 0}
"""The functions that yield one of their arguments, and the first that they choose from."""
_COMPARING = ("nullif", "greatest", "least")

Handler = Callable[[ExpressionBinder, Any], Expression]
B = ExpressionBinder

_HANDLERS: dict[type, Handler] = {
    exp.Column: B.column,
    exp.Literal: B.literal,
    exp.Null: lambda self, node: NULL,
    exp.Boolean: lambda self, node: Literal(bool(node.this), T.BOOLEAN),
    exp.Paren: lambda self, node: self.bind(node.this),
    exp.Interval: lambda self, node: Literal(duration(node, self.script), T.INTERVAL),
    exp.Neg: B.negation,
    exp.Not: B.negated,
    exp.And: lambda self, node: And(self.bind(node.this), self.bind(node.expression)),
    exp.Or: lambda self, node: Or(self.bind(node.this), self.bind(node.expression)),
    exp.Is: B.is_,
    exp.NullSafeNEQ: B.different,
    exp.Between: B.between,
    exp.In: B.in_list,
    exp.Case: B.case,
    exp.Cast: B.cast,
    exp.TryCast: B.cast,
    exp.HexString: B.binary,
    exp.RawString: lambda self, node: Literal(node.this, T.STRING),
    exp.DPipe: B.concat,
    exp.Escape: B.escape,
    exp.Extract: B.extract,
    exp.Trim: B.trim,
    exp.Substring: B.substring,
    exp.StrPosition: B.position,
    exp.Anonymous: B.call,
    exp.Filter: bind_filtered,
    exp.Window: bind_over,
    exp.CurrentTimestamp: B.clock,
    exp.CurrentDate: B.clock,
    **dict.fromkeys(_ARITHMETIC, B.arithmetic),
    **dict.fromkeys(_COMPARISONS, B.comparison),
    **dict.fromkeys(_PATTERNS, B.pattern),
    **dict.fromkeys(_SHIFTS, B.shift),
    exp.BitwiseNot: B.complement,
}
