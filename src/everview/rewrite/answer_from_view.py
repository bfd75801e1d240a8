"""A query, or a part of it, that a view contains is computed from the view: F(V) (paper 5, section 7).

The peeled forms are compared: the data (the same relations, conditions that imply those of the view, columns
that the view has, the same groups or coarser ones) and the points at which the relations are read. What the
view does not do is the residual above it: conditions, columns, groups, SYNC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice

from everview.algebra import nodes as N
from everview.algebra.aggregates import AggregateCall
from everview.algebra.expressions import (
    Arithmetic,
    Call,
    Cast,
    Column,
    Comparison,
    Expression,
    Literal,
    substitute,
)
from everview.algebra.text import aggregate_sql, expression_sql
from everview.algebra.types import BIGINT, DOUBLE, SMALLINT, TINYINT, DataType
from everview.rewrite.conditions import filter_plan, tells_equal_rows_apart
from everview.rewrite.implication import implies
from everview.rewrite.peeled import AggregateValue, GroupKey, PeeledQuery, peel
from everview.temporal.synchronization import EVERY, Points

_MOST_RELATIONS = 6
_MOST_ASSIGNMENTS = 24  # ways to find the relations of a view in a query
_MOST_EXACT_DIGITS = 28  # of a DECIMAL: its sum has ten more, which 10^10 rows of a group cannot fill


@dataclass(frozen=True)
class PeeledView:
    """The definition of a view that may answer queries, and its peeled forms: as it is, and through views."""

    definition: N.Node
    forms: tuple[PeeledQuery, ...]

    @classmethod
    def of(cls, definition: N.Node) -> PeeledView:
        forms = peel(definition), peel(definition, through_views=True)
        return cls(definition, tuple(dict.fromkeys(forms)))


@dataclass(frozen=True)
class Lack:
    """What a view that reads the same relations lacks to answer a query, and how near it comes.

    Of many views only one is shown: text that takes long to make is made then.
    """

    words: str | Callable[[], str]
    nearness: int

    @property
    def what(self) -> str:
        return self.words if isinstance(self.words, str) else self.words()


@dataclass
class Comparing:
    """A query that is compared with views: what each lacks at least; its parts are peeled once."""

    lacks: dict[str, Lack] = field(default_factory=dict)
    _peeled: dict[int, tuple[N.Node, PeeledQuery]] = field(default_factory=dict)  # by the ids of the nodes
    # The parts and the hashes of their relations, by the id of the query.
    _parts: dict[int, tuple[N.Node, list[PeeledQuery], set[int]]] = field(default_factory=dict)

    def add(self, view: str, lack: Lack) -> None:
        if view not in self.lacks or self.lacks[view].nearness < lack.nearness:
            self.lacks[view] = lack

    def has_relations_of(self, view: PeeledView, query: N.Node) -> bool:
        """Return whether a part of a query reads the relations of a view; most views are done with here."""
        if id(query) not in self._parts:
            parts = [self.peel(part) for part in _parts_like_views(query)]
            self._parts[id(query)] = query, parts, {base for part in parts for base in part.bases}
        _, parts, bases = self._parts[id(query)]
        for form in view.forms:
            if bases.issuperset(form.bases) and any(True for part in parts for _ in _assignments(form, part)):
                return True
        return False

    def peel(self, node: N.Node) -> PeeledQuery:
        """Return the peeled form of a part of the query."""
        if id(node) not in self._peeled:
            self._peeled[id(node)] = node, peel(node)
        return self._peeled[id(node)][1]


def answer_from_view(
    node: N.Node, name: str, view: PeeledView, comparing: Comparing | None = None
) -> N.Node | None:
    """Return a query with the largest parts that a view contains read from it, by its name; None if none are.

    `comparing` receives what the view lacks.
    """
    if isinstance(node, N.View):
        return None  # it is read by name
    if _may_be_a_view(node):
        found = _answer(node, name, view, comparing)
        if found is not None:
            return found
    below = [answer_from_view(part, name, view, comparing) for part in node.inputs]
    if not any(below):
        return None
    return N.with_inputs(node, [new or old for new, old in zip(below, node.inputs, strict=True)])


def _parts_like_views(node: N.Node) -> Iterator[N.Node]:
    """Yield the parts of a query that have the shape of a view; what it reads by name stays."""
    if isinstance(node, N.View):
        return
    if _may_be_a_view(node):
        yield node
    for below in node.inputs:
        yield from _parts_like_views(below)


def _may_be_a_view(node: N.Node) -> bool:
    """Return whether a part of a query has the shape of a view."""
    shapes = (N.Project, N.Distinct, N.Aggregate, N.Filter)
    return isinstance(node, shapes) and all(f.relation is None for f in node.schema)


class _Lacking(Exception):
    """The view does not contain the query."""

    def __init__(self, words: str | Callable[[], str], nearness: int) -> None:
        super().__init__()
        self.lack = Lack(words, nearness)


def _answer(node: N.Node, name: str, view: PeeledView, comparing: Comparing | None) -> N.Node | None:
    query = peel(node) if comparing is None else comparing.peel(node)
    for form in view.forms:
        for numbers in _assignments(form, query):
            try:
                found = _Matching(
                    node, query, N.View(name, view.definition), form.renumbered(numbers), numbers
                ).answer()
            except _Lacking as lacking:
                if comparing is not None:
                    comparing.add(name, lacking.lack)
                continue
            if found.schema == node.schema:
                return found
            if comparing is not None:
                comparing.add(name, Lack("the time line of the query", 6))
    return None


def _assignments(form: PeeledQuery, query: PeeledQuery) -> Iterator[tuple[int, ...]]:
    """Yield the ways in which the relations of a view are relations of a query: the numbers that they have.

    A view of groups or different rows must have them all.
    """
    size = len(form.relations)
    if size > len(query.relations) or len(query.relations) > _MOST_RELATIONS:
        return
    if any(base not in query.bases for base in form.bases):
        return
    if size < len(query.relations) and (form.grouping is not None or form.distinct):
        return

    def extend(chosen: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(chosen) == size:
            yield chosen
            return
        wanted, base = form.relations[len(chosen)].node, form.bases[len(chosen)]
        for number, relation in enumerate(query.relations):
            if number not in chosen and query.bases[number] == base and relation.node == wanted:
                yield from extend((*chosen, number))

    yield from islice(extend(()), _MOST_ASSIGNMENTS)


@dataclass
class _Matching:
    """A query and a view with the same relations; the relations of the view have those `numbers`."""

    node: N.Node
    query: PeeledQuery
    view: N.View
    form: PeeledQuery
    numbers: tuple[int, ...]

    def answer(self) -> N.Node:
        """Return the query over the view; _Lacking if the view does not contain it."""
        points = self._residual_points()
        for condition in self.form.conditions:
            if not implies(self.query.conditions, condition):
                raise _Lacking(partial(self._lacks, "rows other than those with", condition), 2)
        self.source: N.Node = self.view
        if points is not None:
            self.source = _synchronized(self.source, points)
        shown = zip(self.form.columns, self.source.schema, strict=True)
        self.columns: dict[Expression, Expression] = {}
        for expression, column in shown:
            if not isinstance(expression, Literal):
                self.columns.setdefault(expression, Column.to(column))
        self._close_equalities()
        if self.form.grouping is not None:
            return self._over_groups()
        if self.form.distinct and not self.query.distinct:
            raise _Lacking("how often each row occurs", 3)
        return self._over_rows()

    # Points

    def _residual_points(self) -> Points | None:
        """Return the points to synchronize the view to; None if it has those of the query already.

        Relations with equal points need none, whatever these are. Else theorem 1 needs one set of points on
        each side, the query's among those of the view; an aggregate without keys has a row before the first
        point, and its synchronization has none.
        """
        pairs = [
            (relation.points, self.query.relations[number].points)
            for relation, number in zip(self.form.relations, self.numbers, strict=True)
        ]
        if all(own == wanted for own, wanted in pairs):
            return None
        own, wanted = ({pair[side] for pair in pairs} for side in (0, 1))
        keyless = self.form.grouping is not None and not self.form.grouping.keys
        if len(own) > 1 or len(wanted) > 1 or not pairs[0][1].within(pairs[0][0]) or keyless:
            raise _Lacking(f"the points of the query: it is up to date at {_points_text(own)}", 4)
        return pairs[0][1]

    # Rows

    def _over_rows(self) -> N.Node:
        query = self.query
        rest = [n for n in range(len(query.relations)) if n not in self.numbers]
        plan = self.source
        for number in rest:
            relation = query.relations[number]
            other = (
                relation.node if relation.points == EVERY else _synchronized(relation.node, relation.points)
            )
            named = N.Alias(other, self._new_name(number))
            names = {f.name.casefold() for f in named.schema}
            if len(names) < len(named.schema):
                raise _Lacking("a relation of the query", 0)
            plan = N.Join(plan, named)
            for position, column in enumerate(named.schema):
                self.columns[relation.column(number, position)] = Column.to(column)
        missing = [c for c in query.conditions if not implies(self.form.conditions, c)]
        plan = filter_plan(plan, [self._computed(c, "condition") for c in missing])
        if query.grouping is None:
            return self._shown(plan, [self._computed(c, "column") for c in query.columns])
        keys = [self._computed(k, "key") for k in query.grouping.keys]
        calls = {}
        for call in self._calls():
            argument, where = (
                None if e is None else self._computed(e, "argument") for e in (call.argument, call.where)
            )
            calls[call] = replace(call, argument=argument, where=where)
        return self._aggregated(plan, keys, {call: _Derived((own,)) for call, own in calls.items()})

    def _new_name(self, number: int) -> str:
        return f"{self.view.name}#{number}"

    # Groups

    def _over_groups(self) -> N.Node:
        query, grouping, finer = self.query, self.query.grouping, self.form.grouping
        assert finer is not None
        missing = [c for c in query.conditions if not implies(self.form.conditions, c)]
        self.columns = {
            **{e.key: column for e, column in self.columns.items() if isinstance(e, GroupKey)},
            **{e: column for e, column in self.columns.items() if not isinstance(e, GroupKey)},
        }
        on_keys = [self._computed(c, "condition on its groups") for c in missing]
        if grouping is None:
            if not query.distinct or not finer.keys or finer.having:
                raise _Lacking("the rows of its groups", 1)
            return self._shown(
                filter_plan(self.source, on_keys), [self._computed(c, "column") for c in query.columns]
            )
        keys = [self._computed(k, "key") for k in grouping.keys]
        same = {*map(self._class, grouping.keys)} == {*map(self._class, finer.keys)}
        if self.form.distinct and not (same and query.distinct):
            raise _Lacking("each of its groups", 3)
        if same:
            return self._same_groups(on_keys, finer.having)
        if finer.having:
            raise _Lacking("the groups that its HAVING leaves out", 3)
        if not finer.keys:
            raise _Lacking("groups", 1)
        derived = {call: self._derive(call, bool(keys)) for call in self._calls()}
        return self._aggregated(filter_plan(self.source, on_keys), keys, derived)

    def _same_groups(self, on_keys: list[Expression], left_out: Sequence[Expression]) -> N.Node:
        """Return rows of the view's own groups."""
        query = self.query
        assert query.grouping is not None
        for condition in left_out:
            if not implies(query.grouping.having, condition):
                raise _Lacking("the groups that its HAVING leaves out", 3)
        having = [h for h in query.grouping.having if not implies(left_out, h)]
        values = {call: self._same_value(call) for call in self._calls()}
        plan = filter_plan(self.source, [*on_keys, *(self._of_group(h, values) for h in having)])
        return self._shown(plan, [self._of_group(c, values) for c in query.columns])

    def _same_value(self, call: AggregateCall) -> Expression:
        """Return an aggregate of the view's own groups: one of its columns, or the mean of two."""
        known = self.columns.get(AggregateValue.of_call(call))
        if known is not None:
            return known
        total, count = (self.columns.get(AggregateValue.of_call(c)) for c in _sum_and_count(call))
        if total is not None and count is not None and _has_exact_mean(call):
            return _mean(total, count)
        raise _Lacking(_words(self._named_call(call)), 5)

    def _of_group(self, expression: Expression, values: Mapping[AggregateCall, Expression]) -> Expression:
        known: dict[Expression, Expression] = {AggregateValue.of_call(c): e for c, e in values.items()}
        for part in expression.walk():
            if isinstance(part, GroupKey):
                known[part] = self._computed(part.key, "key")
        return self._replaced(expression, known)

    def _derive(self, call: AggregateCall, keyed: bool) -> _Derived:
        """Return how an aggregate of coarser groups is computed from those of the finer ones."""
        own = self.columns.get(AggregateValue.of_call(call))
        by_value = call.function in ("min", "max") or (call.function == "count" and call.distinct)
        if by_value and call.argument is not None and call.where is None:
            argument = self._find(call.argument)
            if argument is not None:  # a value of the keys: each group has at least one row with it
                return _Derived((replace(call, argument=argument),))
        if call.distinct:
            raise _Lacking(_words(self._named_call(call)), 5)
        if call.function in ("min", "max") and own is not None:
            return _Derived((AggregateCall(call.function, own),))
        if call.function == "count" and own is not None:
            summed = AggregateCall("sum", own)
            return _Derived((summed,), count=not keyed)
        if call.function == "sum" and own is not None:
            if not _has_exact_sum(call.type, call.argument):
                raise _Lacking(
                    f"an exact {_words(self._named_call(call))} of its groups: sums would be rounded twice", 6
                )
            return _Derived((AggregateCall("sum", own),), cast=call.type)
        if call.function == "avg" and _has_exact_mean(call):
            total, count = (self.columns.get(AggregateValue.of_call(c)) for c in _sum_and_count(call))
            if total is not None and count is not None:
                return _Derived((AggregateCall("sum", total), AggregateCall("sum", count)), mean=True)
        raise _Lacking(_words(self._named_call(call)), 5)

    # What both have in common

    def _calls(self) -> list[AggregateCall]:
        assert self.query.grouping is not None
        wanted = (*self.query.columns, *self.query.grouping.having)
        return list(dict.fromkeys(p.call for e in wanted for p in e.walk() if isinstance(p, AggregateValue)))

    def _aggregated(
        self, plan: N.Node, keys: list[Expression], derived: Mapping[AggregateCall, _Derived]
    ) -> N.Node:
        """Return the groups of a plan, with the aggregates of the query computed from their parts."""
        grouping = self.query.grouping
        assert grouping is not None
        parts = list(dict.fromkeys(part for each in derived.values() for part in each.parts))
        names = {part: f"a{i}" for i, part in enumerate(parts)}
        named = tuple((f"k{i}", key) for i, key in enumerate(keys))
        groups = N.Aggregate(plan, named, tuple((names[part], part) for part in parts))
        known: dict[Expression, Expression] = {
            GroupKey.of_key(key): Column.to(groups.schema.fields[i]) for i, key in enumerate(grouping.keys)
        }
        for call, each in derived.items():
            columns = [Column(names[part], part.type) for part in each.parts]
            known[AggregateValue.of_call(call)] = each.value(columns)
        kept = filter_plan(groups, [self._replaced(h, known) for h in grouping.having])
        return self._shown(kept, [self._replaced(c, known) for c in self.query.columns])

    def _replaced(self, expression: Expression, known: Mapping[Expression, Expression]) -> Expression:
        found = substitute(expression, known)
        if found.type != expression.type:
            raise _Lacking(f"a value of the type {expression.type}", 6)
        return found

    def _lacks(self, what: str, expression: Expression) -> str:
        return f"{what} {_sql(self._named(expression))}"

    def _shown(self, plan: N.Node, columns: list[Expression]) -> N.Node:
        names = self.node.schema.names
        shown = N.Project(plan, tuple(zip(names, columns, strict=True)))
        return N.Distinct(shown) if self.query.distinct else shown

    def _computed(self, expression: Expression, what: str) -> Expression:
        """Return an expression computed from the columns of the view."""
        found = self._find(expression)
        if found is None:
            missing = next((c for c in sorted(expression.columns(), key=repr) if self._find(c) is None), None)
            shown = expression if missing is None else missing
            kind = "column" if missing is not None else what
            raise _Lacking(partial(self._lacks, f"the {kind}", shown), 4)
        return found

    def _find(self, expression: Expression) -> Expression | None:
        if isinstance(expression, Literal):
            return expression
        known: dict[Expression, Expression] = {}

        def walk(part: Expression) -> bool:
            if part in self.columns:
                known[part] = self.columns[part]
                return True
            if isinstance(part, Column):
                return False
            return all(map(walk, part.children))

        if not walk(expression):
            return None
        found = substitute(expression, known)
        if found.type != expression.type:
            return None
        if not isinstance(found, Column) and tells_equal_rows_apart(found):
            return None
        return found

    def _close_equalities(self) -> None:
        """Let columns that a condition of the view makes equal stand for each other."""
        grouped = self.form.grouping is not None
        for _ in self.form.conditions:
            before = len(self.columns)
            for condition in self.form.conditions:
                match condition:
                    case Comparison("=", Column() as one, Column() as other) if (
                        one.type == other.type and not one.type.is_float
                    ):
                        a, b = (GroupKey.of_key(one), GroupKey.of_key(other)) if grouped else (one, other)
                        for known, equal in ((a, b), (b, a)):
                            if known in self.columns:
                                self.columns.setdefault(equal, self.columns[known])
            if len(self.columns) == before:
                return

    def _class(self, key: Expression) -> Expression:
        """Return what stands for a key and all that is equal to it."""
        return self.columns.get(key, key)

    # Words

    def _named(self, expression: Expression) -> Expression:
        """Return an expression with the names that columns have in SQL."""
        names: dict[Expression, Expression] = {}
        for part in expression.walk():
            if isinstance(part, GroupKey):
                names[part] = self._named(part.key)
            elif isinstance(part, Column) and part.relation is not None and part.relation.startswith("#"):
                known = self.query.relations[int(part.relation[1:])].node.schema.fields[int(part.name)]
                names[part] = Column(known.name, known.type)
        return substitute(expression, names)

    def _named_call(self, call: AggregateCall) -> AggregateCall:
        argument, where = (None if e is None else self._named(e) for e in (call.argument, call.where))
        return replace(call, argument=argument, where=where)


@dataclass(frozen=True)
class _Derived:
    """An aggregate of coarser groups: aggregates over the rows of the finer ones, and its value from them."""

    parts: tuple[AggregateCall, ...]
    count: bool = False  # without keys there may be no group: a count is 0 then, and its sum is NULL
    mean: bool = False
    cast: DataType | None = None

    def value(self, columns: Sequence[Column]) -> Expression:
        if self.mean:
            return _mean(columns[0], columns[1])
        if self.count:
            return Call("coalesce", (columns[0], Literal(0, BIGINT)))
        if self.cast is not None and columns[0].type != self.cast:
            return Cast(columns[0], self.cast)
        return columns[0]


def _sum_and_count(call: AggregateCall) -> tuple[AggregateCall, AggregateCall]:
    if call.function != "avg" or call.distinct:
        return call, call
    return replace(call, function="sum"), replace(call, function="count")


def _has_exact_sum(type_: DataType, argument: Expression | None) -> bool:
    """Return whether the sum of sums is the sum: integers wrap alike, floating point is rounded twice."""
    if type_.is_decimal:
        return argument is not None and argument.type.precision <= _MOST_EXACT_DIGITS
    return type_ == BIGINT


def _has_exact_mean(call: AggregateCall) -> bool:
    """Return whether SUM / COUNT is AVG, which is rounded once.

    The sum must be a DOUBLE without rounding, below 2^53. That is so for numbers of 16 bits, of which a group
    would need 2^38 rows, and not for longer ones.
    """
    return call.argument is not None and call.argument.type in (TINYINT, SMALLINT)


def _mean(total: Expression, count: Expression) -> Expression:
    return Arithmetic("/", Cast(total, DOUBLE), Cast(count, DOUBLE))


def _synchronized(node: N.Node, points: Points) -> N.Node:
    if points.on:
        return N.SynchronizeOn(node, points.on[0])
    assert points.grid is not None
    return N.Synchronize(node, points.grid)


def _points_text(points: set[Points]) -> str:
    return " and ".join(sorted(map(str, points)))


def _sql(expression: Expression) -> str:
    return expression_sql(expression)


def _words(call: AggregateCall) -> str:
    return aggregate_sql(call)
