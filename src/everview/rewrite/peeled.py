"""The peeled form of a query: what it reads, keeps, groups and shows, and apart from that its points (7.1).

Paper 5 peels the synchronizations off an expression, so that data and points are compared separately. Here
each relation that is read has its points beside it: theorem 3 holds between points only where all of them are
equal (docs/findings.md), and that is seen when two forms are compared. Subqueries, aliases, and views where
that is wanted, are opened; what has no peeled form (an outer join, a window of rows, a set operation) is read
as it is, like a relation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from everview.algebra import nodes as N
from everview.algebra.aggregates import AggregateCall
from everview.algebra.expressions import NULL, Column, Expression, conjunction, conjuncts, substitute
from everview.algebra.windows import Rows
from everview.rewrite.conditions import substitute_computed, tells_equal_rows_apart
from everview.rewrite.fold_constants import fold
from everview.rewrite.implication import normal_conjuncts
from everview.temporal.synchronization import EVERY, Points

_COUNT = AggregateCall("count")


@dataclass(frozen=True)
class GroupKey(Column):
    """The value of a key in a row of a group: a column without a name."""

    key: Expression = NULL

    @classmethod
    def of_key(cls, key: Expression) -> GroupKey:
        return cls("", key.type, None, key)


@dataclass(frozen=True)
class AggregateValue(Column):
    """The value of an aggregate in a row of a group: a column without a name."""

    call: AggregateCall = _COUNT

    @classmethod
    def of_call(cls, call: AggregateCall) -> AggregateValue:
        return cls("", call.type, None, call)


@dataclass(frozen=True)
class PeeledRelation:
    """A relation that a query reads, without its SYNC, and the points of that."""

    node: N.Node
    points: Points = EVERY

    def column(self, number: int, position: int) -> Column:
        """Return a column of the relation, which is the one with this number in its query."""
        return Column(str(position), self.node.schema.fields[position].type, f"#{number}")


@dataclass(frozen=True)
class Grouping:
    """GROUP BY: the keys, and the conditions of HAVING that read aggregates."""

    keys: tuple[Expression, ...]
    having: tuple[Expression, ...] = ()


@dataclass(frozen=True)
class PeeledQuery:
    """The peeled form: columns of relations are known by number and position, conditions are normal."""

    relations: tuple[PeeledRelation, ...]
    conditions: tuple[Expression, ...]
    columns: tuple[Expression, ...]
    grouping: Grouping | None = None
    distinct: bool = False

    @cached_property
    def bases(self) -> tuple[int, ...]:
        """The hashes of the relations: forms that differ in them need no closer look."""
        return tuple(hash(relation.node) for relation in self.relations)

    def renumbered(self, numbers: Sequence[int]) -> PeeledQuery:
        """Return the form with other numbers for its relations; these stay in their order."""
        if tuple(numbers) == tuple(range(len(numbers))):
            return self  # as in most comparisons
        names = {f"#{old}": f"#{new}" for old, new in enumerate(numbers)}
        return replace(
            self,
            conditions=normal_conjuncts(_renamed(c, names) for c in self.conditions),
            columns=tuple(_renamed(c, names) for c in self.columns),
            grouping=self.grouping
            and Grouping(
                tuple(_renamed(k, names) for k in self.grouping.keys),
                normal_conjuncts(_renamed(h, names) for h in self.grouping.having),
            ),
        )


class _NoPeeledForm(Exception):
    """An expression would not be the same above what it is computed from."""


def peel(node: N.Node, through_views: bool = False) -> PeeledQuery:
    """Return the peeled form of a query; with `through_views`, views that it reads are opened as well."""
    peeling = _Peeling(through_views)
    distinct = isinstance(node, N.Distinct)
    below = node.input if isinstance(node, N.Distinct) else node
    try:
        form = peeling.groups(below) or peeling.rows(below).form()
    except _NoPeeledForm:
        form = _read_as_it_is(below).form()
    return replace(form, distinct=distinct)


@dataclass(frozen=True)
class _Rows:
    """Rows of joined relations that fulfil some conditions; `plain`: no column was projected yet."""

    relations: tuple[PeeledRelation, ...]
    conditions: tuple[Expression, ...]
    columns: tuple[Expression, ...]
    plain: bool = True

    def form(self) -> PeeledQuery:
        folded = tuple(map(fold, self.columns))
        return PeeledQuery(self.relations, normal_conjuncts(self.conditions), folded)


def _read_as_it_is(node: N.Node) -> _Rows:
    while isinstance(node, N.Alias):
        node = node.input
    relation = PeeledRelation(node)
    return _Rows((relation,), (), tuple(relation.column(0, i) for i in range(len(node.schema))))


@dataclass(frozen=True)
class _Peeling:
    through_views: bool

    def rows(self, node: N.Node) -> _Rows:
        """Return a node as rows of joined relations; at least itself, as one relation."""
        try:
            return self._rows(node)
        except _NoPeeledForm:
            return _read_as_it_is(node)

    def _rows(self, node: N.Node) -> _Rows:
        match node:
            case N.Alias(below):
                return self._rows(below)
            case N.View(_, definition) if self.through_views and not isinstance(definition, N.Tagged):
                return self._rows(definition)
            case N.Filter(below, condition):
                rows = self.rows(below)
                return replace(
                    rows, conditions=(*rows.conditions, *_above(conjuncts(condition), below, rows))
                )
            case N.Project(below, columns):
                rows = self.rows(below)
                shown = tuple(_above([e for _, e in columns], below, rows))
                return replace(rows, columns=shown, plain=False)
            case N.Join(left, right, condition):
                return self._joined(left, right, condition)
            case N.TableJoin(left, right, condition, retroactive=True, outer=False, as_of=None):
                return self._joined(left, right, condition)
            case N.Window(below, window) if not isinstance(window, Rows):
                rows = self.rows(below)
                if rows.plain and len(rows.relations) == 1 and rows.relations[0].points == EVERY:
                    return replace(
                        rows, relations=(PeeledRelation(N.Window(rows.relations[0].node, window)),)
                    )
            case N.Synchronize(below, grid):
                return _synchronized(self.rows(below), Points(grid))
            case N.SynchronizeOn(below, points):
                return _synchronized(self.rows(below), Points(on=(points,)))
        return _read_as_it_is(node)

    def _joined(self, left: N.Node, right: N.Node, condition: Expression) -> _Rows:
        one, other = self.rows(left), self.rows(right)
        names = {f"#{i}": f"#{i + len(one.relations)}" for i in range(len(other.relations))}
        both = _Rows(
            one.relations + other.relations,
            (*one.conditions, *(_renamed(c, names) for c in other.conditions)),
            (*one.columns, *(_renamed(c, names) for c in other.columns)),
            one.plain and other.plain,
        )
        fields = [*left.schema, *right.schema]
        known: dict[Expression, Expression] = dict(zip(map(Column.to, fields), both.columns, strict=True))
        added = (_substituted(part, known, both.plain) for part in conjuncts(condition))
        return replace(both, conditions=(*both.conditions, *added))

    def groups(self, node: N.Node) -> PeeledQuery | None:
        """Return a node as the rows of groups; None if it has others."""
        match node:
            case N.Alias(below):
                return self.groups(below)
            case N.View(_, definition) if self.through_views and not isinstance(definition, N.Tagged):
                return self.groups(definition)
            case N.Aggregate(below):
                return self._aggregated(node, self.rows(below))
            case N.Filter(below, condition):
                form = self.groups(below)
                return None if form is None else _having(form, _over_form(conjuncts(condition), below, form))
            case N.Project(below, columns):
                form = self.groups(below)
                if form is None:
                    return None
                shown = _over_form([e for _, e in columns], below, form)
                return replace(form, columns=tuple(map(fold, shown)))
        return None

    def _aggregated(self, node: N.Aggregate, rows: _Rows) -> PeeledQuery:
        keys = tuple(map(fold, _above([e for _, e in node.keys], node.input, rows)))
        calls = []
        for _, call in node.calls:
            argument, where = (
                None if e is None else fold(next(_above([e], node.input, rows)))
                for e in (call.argument, call.where)
            )
            where = None if where is None else conjunction(list(normal_conjuncts([where])))
            found = replace(call, argument=argument, where=where)
            if found.type != call.type:
                raise _NoPeeledForm
            calls.append(found)
        columns = (*map(GroupKey.of_key, keys), *map(AggregateValue.of_call, calls))
        return PeeledQuery(rows.relations, normal_conjuncts(rows.conditions), columns, Grouping(keys))


def _synchronized(rows: _Rows, points: Points) -> _Rows:
    """Return the rows synchronized to some points: so are the relations below (theorem 3, equal points)."""
    if any(relation.points != EVERY for relation in rows.relations):
        raise _NoPeeledForm
    return replace(rows, relations=tuple(replace(r, points=points) for r in rows.relations))


def _having(form: PeeledQuery, conditions: Iterable[Expression]) -> PeeledQuery:
    """Return groups that fulfil more conditions; those on the keys alone are conditions on rows."""
    assert form.grouping is not None
    kept, on_rows = list(form.grouping.having), list(form.conditions)
    for condition in conditions:
        keys = [part for part in condition.walk() if isinstance(part, GroupKey)]
        reads = any(isinstance(part, AggregateValue) for part in condition.walk())
        if reads or not keys or tells_equal_rows_apart(condition):
            kept.append(condition)
        else:
            on_rows.append(substitute(condition, {key: key.key for key in keys}))
    grouping = replace(form.grouping, having=normal_conjuncts(kept))
    return replace(form, conditions=normal_conjuncts(on_rows), grouping=grouping)


def _above(expressions: Iterable[Expression], below: N.Node, rows: _Rows) -> Iterator[Expression]:
    """Yield expressions over a node as expressions over the relations that it reads."""
    known: dict[Expression, Expression] = dict(zip(map(Column.to, below.schema), rows.columns, strict=True))
    return (_substituted(expression, known, rows.plain) for expression in expressions)


def _over_form(expressions: Iterable[Expression], below: N.Node, form: PeeledQuery) -> list[Expression]:
    known: dict[Expression, Expression] = dict(zip(map(Column.to, below.schema), form.columns, strict=True))
    return [_substituted(expression, known, False) for expression in expressions]


def _substituted(expression: Expression, known: dict[Expression, Expression], plain: bool) -> Expression:
    """Return an expression over what its columns are computed from; _NoPeeledForm if that may differ."""
    if not plain and tells_equal_rows_apart(expression):
        raise _NoPeeledForm
    found = substitute_computed(expression, known)
    if found is None or found.type != expression.type:
        raise _NoPeeledForm
    return found


def _renamed(expression: Expression, names: dict[str, str]) -> Expression:
    """Return an expression with other numbers of relations, also inside aggregates."""
    inside: dict[Expression, Expression] = {
        part: AggregateValue.of_call(
            replace(
                part.call,
                argument=None if part.call.argument is None else _renamed(part.call.argument, names),
                where=None if part.call.where is None else _renamed(part.call.where, names),
            )
        )
        for part in expression.walk()
        if isinstance(part, AggregateValue)
    }
    own: dict[Expression, Expression] = {
        column: replace(column, relation=names[column.relation])
        for column in expression.columns()
        if column.relation in names
    }
    return substitute(expression, {**own, **inside})
