"""Subqueries as values: scalar subqueries, and EXISTS, IN, ANY and ALL anywhere in an expression.

Each is computed from aggregates of the subquery, which the query is joined with: an aggregate of the whole
subquery by a join without a condition, a correlated one by an outer join, so that no row is lost. Where all
that the subquery says of the query around it are equalities, it is grouped by their inner sides. Otherwise it
is joined with the distinct values of the outer columns first, and grouped by these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from everview.algebra import nodes as N
from everview.algebra.aggregates import AggregateCall, is_aggregate
from everview.algebra.expressions import (
    NULL,
    And,
    Call,
    Case,
    Column,
    Comparison,
    Expression,
    IsNull,
    Literal,
    Not,
    Or,
    conjunction,
    substitute,
)
from everview.algebra.types import BIGINT, BOOLEAN
from everview.sql.aggregate_calls import AggregateRef
from everview.sql.aggregation import aggregates_in, name_aggregate_columns
from everview.sql.context import Context
from everview.sql.joins import refuse_non_retroactive
from everview.sql.scope import OuterColumn, Scope
from everview.sql.subqueries import InnerQuery, bind_inner_query, query_without_brackets, with_a_column

_COMPARISONS: dict[type, str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
_COUNTS = ("count", "count_if")
_ZERO = Literal(0, BIGINT)
_YES, _NO = Literal(True, BOOLEAN), Literal(False, BOOLEAN)


@dataclass
class SubqueryValues:
    """The plan of a query joined with its subqueries; `context` binds each of these to its value.

    With `grouped`, the query aggregates: `above` has the subqueries to join with the aggregates.
    """

    plan: N.Node
    scope: Scope
    context: Context
    grouped: bool = False
    above: list[N.Node] = field(default_factory=list)

    def attach(self, syntaxes: Sequence[exp.Expr]) -> SubqueryValues:
        """Join the plan with every subquery in these expressions."""
        for syntax in syntaxes:
            for node, inside in list(_find_subqueries(syntax)):
                value = self._value(node, inside or not self.grouped)
                self.context = replace(self.context, subqueries={**self.context.subqueries, id(node): value})
        return self

    def _value(self, node: exp.Expr, below: bool) -> Expression:
        match node:
            case exp.Exists():
                return self._exists(node, below)
            case exp.In():
                return self._comparison(node, "=", True, below)
            case exp.Subquery():
                return self._scalar(node, below)
        any_of = isinstance(node.expression, exp.Any)
        return self._comparison(node, _COMPARISONS[type(node)], any_of, below)

    def _scalar(self, node: exp.Expr, below: bool) -> Expression:
        """Return the value of a subquery of one row: an aggregate without GROUP BY, or LIMIT 1."""
        query, script = query_without_brackets(node), self.context.script
        inner = bind_inner_query(query, self.scope, self.context, aggregates=True)
        if len(inner.outputs) != 1:
            raise script.error(
                f"a subquery that is a value has one column, and this one has {len(inner.outputs)}", node
            )
        (output,) = inner.outputs
        if not aggregates_in([output]) and not _has_one_row(query, inner):
            raise script.error(
                "a subquery that is a value has one row, and this one may have several",
                node,
                next_step="aggregate it, as SELECT MAX(x) FROM …, or end it with LIMIT 1",
            )
        if not aggregates_in([output]):
            output = AggregateRef(AggregateCall("any_value", output))
        loose = next((e for e in _own_columns(output)), None)
        if loose is not None:
            raise script.error(f"the column '{loose.name}' is not aggregated", node)
        calls = aggregates_in([output])
        found = self._join(node, inner, calls, below)
        values: dict[Expression, Expression] = {AggregateRef(c): e for c, e in zip(calls, found, strict=True)}
        return _unwrap_outer(substitute(output, values))

    def _exists(self, node: exp.Exists, below: bool) -> Expression:
        inner = bind_inner_query(query_without_brackets(node.this), self.scope, self.context)
        (count,) = self._join(node, inner, [AggregateCall("count")], below)
        return Comparison(">", count, _ZERO)

    def _comparison(self, node: exp.Expr, operator: str, any_of: bool, below: bool) -> Expression:
        """Return IN, or a comparison with ANY or ALL of a subquery: TRUE, FALSE or NULL, as SQL has it."""
        context, script = self.context, self.context.script
        syntax = node.args["query"] if isinstance(node, exp.In) else node.expression.this
        inner = bind_inner_query(query_without_brackets(syntax), self.scope, context)
        if isinstance(node.this, exp.Tuple) or len(inner.outputs) != 1:
            raise script.error(
                "one value is compared with a subquery of one column here",
                node,
                next_step="several are compared by (a, b) IN (…) in WHERE, joined to other conditions by AND",
            )
        (output,) = inner.outputs
        binder = context.binder(self.scope, None)
        value = binder.beside(binder.bind(node.this), output.type, node.this)
        with script.blame(node):
            Comparison(operator, value, output)  # refuses types that cannot be compared
        if operator in ("=", "<>") and any_of == (operator == "="):
            member = self._member(node, inner, value, below)
            return member if operator == "=" else Not(member)
        counts = [AggregateCall("count"), AggregateCall("count", output)]
        if operator in ("=", "<>"):  # = ALL and <> ANY: whether all are equal
            ends = [AggregateCall("min", output), AggregateCall("max", output)]
            rows, known, least, greatest = self._join(node, inner, [*counts, *ends], below)
            equal = And(Comparison("=", value, least), Comparison("=", value, greatest))
            every = _for_all(equal, rows, known)
            return every if operator == "=" else Not(every)
        # It holds for one row if it does for the easiest, and for all if it does for the hardest.
        greatest_wanted = (operator in ("<", "<=")) == any_of
        end = AggregateCall("max" if greatest_wanted else "min", output)
        rows, known, extreme = self._join(node, inner, [*counts, end], below)
        holds = Comparison(operator, value, extreme)
        return _for_any(holds, rows, known) if any_of else _for_all(holds, rows, known)

    def _member(self, node: exp.Expr, inner: InnerQuery, value: Expression, below: bool) -> Expression:
        """Return value IN (subquery): NULL where only an unknown value could be equal."""
        (output,) = inner.outputs
        same = Comparison("=", output, OuterColumn(value))
        equal = replace(inner, correlated=[*inner.correlated, same])
        (matches,) = self._join(node, equal, [AggregateCall("count")], below)
        (unknown,) = self._join(node, inner, [AggregateCall("bool_or", IsNull(output))], below)
        undecided = Or(unknown, And(IsNull(value), Not(IsNull(unknown))))
        return Case(((Comparison(">", matches, _ZERO), _YES), (undecided, NULL)), _NO)

    def _join(
        self, node: exp.Expr, inner: InnerQuery, calls: Sequence[AggregateCall], below: bool
    ) -> list[Expression]:
        """Join the plan with aggregates of a subquery; return their values, a count of no rows being 0."""
        name, script = self._fresh(), self.context.script
        outer = _outer_columns([*inner.correlated, *(e for c in calls for e in c.expressions)])
        if any(isinstance(p, OuterColumn) for o in outer for p in o.column.walk()):
            raise script.error(
                "a subquery can speak of the query just around it, not of one further out", node
            )
        if outer and not below:
            raise script.error(
                "a subquery beside GROUP BY cannot speak of single rows of the query around it",
                node,
                next_step="aggregate in a subquery of FROM, and use this one in the query around that",
            )
        named = tuple((f"{name}_{i}", call) for i, call in enumerate(calls, 1))
        with script.blame(node):
            if not outer:
                right: N.Node = _aggregate(inner.plan, (), named, name)
                refuse_non_retroactive(self.plan, right, node, self.context)
                if below:
                    self.plan = N.Join(with_a_column(self.plan), right)
                else:
                    self.above.append(right)
                return [Column(n, c.type, name) for n, c in named]
            right, condition = self._grouped_side(inner, named, outer, name)
            refuse_non_retroactive(self.plan, right, node, self.context)
            self.plan = N.OuterJoin(self.plan, right, condition, "LEFT")
        found = (Column(n, c.type, name) for n, c in named)
        return [
            Call("coalesce", (column, _ZERO)) if call.function in _COUNTS else column
            for column, call in zip(found, calls, strict=True)
        ]

    def _grouped_side(
        self,
        inner: InnerQuery,
        named: tuple[tuple[str, AggregateCall], ...],
        outer: Sequence[OuterColumn],
        name: str,
    ) -> tuple[N.Node, Expression]:
        """Return the aggregates of a correlated subquery, and the condition to join them by."""
        pairs = [_equality(c) for c in inner.correlated]
        plain = not any(_outer_columns(c.expressions) for _, c in named)
        equal = [pair for pair in pairs if pair is not None]
        if plain and len(equal) == len(pairs):
            names = {there: f"k{i}" for i, there in enumerate(dict.fromkeys(e for e, _ in equal), 1)}
            keys = tuple((k, there) for there, k in names.items())
            right = _aggregate(inner.plan, keys, named, name)
            here: list[Expression] = [
                Comparison("=", outside, Column(names[there], there.type, name)) for there, outside in equal
            ]
            return right, conjunction(here)
        columns = {o: Column(f"k{i}", o.type, f"{name}o") for i, o in enumerate(outer, 1)}
        wanted = tuple((columns[o].name, o.column) for o in outer)
        values = N.Alias(N.Distinct(N.Project(self.plan, wanted)), f"{name}o")
        replacement = dict[Expression, Expression](columns.items())
        moved = conjunction([substitute(c, replacement) for c in inner.correlated])
        joined = N.Join(values, with_a_column(inner.plan), moved)
        calls = tuple((n, _substitute_call(c, replacement)) for n, c in named)
        keys = tuple((c.name, c) for c in columns.values())
        right = _aggregate(joined, keys, calls, name)
        same: list[Expression] = [
            Comparison("<=>", o.column, Column(c.name, c.type, name)) for o, c in columns.items()
        ]
        return right, conjunction(same)

    def _fresh(self) -> str:
        taken = {f.relation for node in (self.plan, *self.above) for f in node.schema}
        taken |= {(n or "").casefold() for n, _ in self.scope.relations}
        return next(name for i in range(1, len(taken) + 2) if (name := f"_v{i}") not in taken)


def _aggregate(
    plan: N.Node,
    keys: Sequence[tuple[str, Expression]],
    calls: Sequence[tuple[str, AggregateCall]],
    name: str,
) -> N.Node:
    """Return aggregates under names of their own; below, they are named as in any other query."""
    names = name_aggregate_columns([e for _, e in keys], [c for _, c in calls])
    node = N.Aggregate(plan, tuple((names[e], e) for _, e in keys), tuple((names[c], c) for _, c in calls))
    columns = [(shown, Column(names[e], e.type)) for shown, e in keys]
    columns += [(shown, Column(names[c], c.type)) for shown, c in calls]
    return N.Alias(N.Project(node, tuple(columns)), name)


def _find_subqueries(node: exp.Expr, inside: bool = False) -> Iterator[tuple[exp.Expr, bool]]:
    """Yield the subqueries that are values, and whether each is inside an aggregate; inner ones first."""
    if isinstance(node, exp.Exists) or (isinstance(node, exp.In) and node.args.get("query")):
        if isinstance(node, exp.In):
            yield from _find_subqueries(node.this, inside)
        yield node, inside
    elif type(node) in _COMPARISONS and _is_quantified(node.expression):
        yield from _find_subqueries(node.this, inside)
        yield node, inside
    elif isinstance(node, exp.Subquery):
        yield node, inside
    elif not isinstance(node, exp.Query):
        aggregate = isinstance(node, exp.Anonymous) and is_aggregate(node.name)
        for child in node.iter_expressions():
            yield from _find_subqueries(child, inside or aggregate)


def _is_quantified(node: exp.Expr) -> bool:
    return isinstance(node, (exp.Any, exp.All)) and isinstance(node.this, exp.Query)


def has_aggregates(node: exp.Expr) -> bool:
    """Return whether an expression has an aggregate that is not inside a subquery or an OVER."""
    if isinstance(node, (exp.Query, exp.Window)):
        return False
    if isinstance(node, exp.Anonymous) and is_aggregate(node.name):
        return True
    return any(has_aggregates(child) for child in node.iter_expressions())


def _has_one_row(query: exp.Expr, inner: InnerQuery) -> bool:
    """Return whether a subquery has one row at most: LIMIT 1, no FROM, or a whole key of a table is given."""
    limit = query.args.get("limit")
    if limit is not None and limit.expression.name == "1":
        return True
    if isinstance(inner.plan, N.Values) and len(inner.plan.rows) == 1:
        return True
    table = N.base_of(inner.relation) if inner.relation is not None else None
    if not isinstance(table, N.Table) or not table.key:
        return False
    pairs = [_equality(c) for c in inner.correlated]
    given = {p[0].name.casefold() for p in pairs if p is not None and isinstance(p[0], Column)}
    return {name.casefold() for name in table.key} <= given


def _equality(condition: Expression) -> tuple[Expression, Expression] | None:
    """Return the inner and the outer side of an equality between the two queries."""
    if not isinstance(condition, Comparison) or condition.operator != "=":
        return None
    for there, here in ((condition.left, condition.right), (condition.right, condition.left)):
        if not _outer_columns([there]) and _outer_columns([here]) and not any(_own_columns(here)):
            return there, _unwrap_outer(here)
    return None


def _outer_columns(expressions: Sequence[Expression]) -> list[OuterColumn]:
    found = (p for e in expressions for p in e.walk() if isinstance(p, OuterColumn))
    return list(dict.fromkeys(found))


def _own_columns(expression: Expression) -> Iterator[Column]:
    """Yield the columns of an expression that belong to the subquery itself."""
    if isinstance(expression, Column):
        yield expression
    if not isinstance(expression, OuterColumn):
        for child in expression.children:
            yield from _own_columns(child)


def _unwrap_outer(expression: Expression) -> Expression:
    return substitute(expression, {o: o.column for o in _outer_columns([expression])})


def _substitute_call(call: AggregateCall, values: dict[Expression, Expression]) -> AggregateCall:
    def moved(e: Expression | None) -> Expression | None:
        return None if e is None else substitute(e, values)

    return replace(call, argument=moved(call.argument), where=moved(call.where), by=moved(call.by))


def _for_all(holds: Expression, rows: Expression, known: Expression) -> Expression:
    """Return whether a condition holds for all rows, from whether it holds for the hardest value."""
    empty = Comparison("=", rows, _ZERO)
    certain = And(holds, Comparison("=", rows, known))
    return Case(((empty, _YES), (Not(holds), _NO), (certain, _YES)), NULL)


def _for_any(holds: Expression, rows: Expression, known: Expression) -> Expression:
    empty = Comparison("=", rows, _ZERO)
    certain = And(Not(holds), Comparison("=", rows, known))
    return Case(((empty, _NO), (holds, _YES), (certain, _NO)), NULL)
