"""S1 ⋈ S2 is S2 ⋈ S1, and (S1 ⋈ S2) ⋈ S3 is S1 ⋈ (S2 ⋈ S3): the order of joins is free (paper 1, 5.3).

The order with the fewest intermediate rows is chosen over the whole graph of joins, by dynamic programming
over its connected parts; above eight inputs greedily. All orders of a FROM clause give the same plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from everview.algebra import nodes as N
from everview.algebra.explain import explain
from everview.algebra.expressions import Column, Comparison, Expression, conjunction, conjuncts
from everview.algebra.text import expression_sql
from everview.rewrite.estimates import EQUAL_KEYS, OTHER_PAIRS, estimate_rows

_MOST_IN_ALL_ORDERS = 8

_ReadingCondition = tuple[Expression, frozenset[int]]  # with the numbers of the inputs that it reads


def order_joins(node: N.Node) -> N.Node | None:
    """Order the joins below a node that reads columns by name, so that their order does not show."""
    if not isinstance(node, (N.Project, N.Aggregate)):
        return None
    return N.with_inputs(node, [_reorder(node.input, _first_time_line(node))])


def _reorder(node: N.Node, line: Column | None) -> N.Node:
    match node:
        case N.Filter() | N.SemiJoin() | N.AntiJoin() | N.Synchronize():
            return N.with_inputs(node, [_reorder(node.inputs[0], line), *node.inputs[1:]])
        case N.OuterJoin():
            return N.with_inputs(node, [_reorder(side, line) for side in node.inputs])
        case N.Join():
            return _ordered(node, line)
    return node


def _first_time_line(node: N.Project | N.Aggregate) -> Column | None:
    """Return the column of the input that is the time line of the output.

    The input with that column stays the leftmost: the ages of rows are known by the first time line of a join
    (`temporal/ages.py`), and by these how long versions of a table are kept.
    """
    line = node.schema.timeline
    if line is None:
        return None
    columns = node.columns if isinstance(node, N.Project) else node.keys
    source = columns[node.schema.index(line)][1]
    return source if isinstance(source, Column) else None


def _ordered(join: N.Join, line: Column | None) -> N.Node:
    graph = _JoinGraph.of(join)
    best = graph.best()
    pinned = next((i for i, leaf in enumerate(graph.leaves) if line in [*map(Column.to, leaf.schema)]), None)
    tree = graph.build(best, pinned)
    return join if tree == _without_cuts(join) else tree


def _without_cuts(node: N.Node) -> N.Node:
    """Return a tree of joins without the projections that only leave out columns."""
    if isinstance(_uncut(node), N.Join):
        join = _uncut(node)
        return N.with_inputs(join, [_without_cuts(side) for side in join.inputs])
    return node


def _uncut(node: N.Node) -> N.Node:
    return _uncut(node.input) if isinstance(node, N.Project) and node.qualified else node


@dataclass(frozen=True)
class _Tree:
    """A join of two smaller trees, or a leaf: the rows that it yields, and those of all joins in it."""

    leaves: frozenset[int]
    rows: float
    cost: float
    sides: tuple[_Tree, _Tree] | None = None

    @cached_property
    def key(self) -> tuple[object, ...]:
        """What trees are compared by: their cost, then their leaves in order, so that one is the least."""
        return (self.cost, self.order)

    @cached_property
    def order(self) -> tuple[int, ...]:
        if self.sides is None:
            return tuple(self.leaves)
        return self.sides[0].order + self.sides[1].order


@dataclass(frozen=True)
class _JoinGraph:
    """The inputs of inner joins, in an order of their own, and what each condition reads of them."""

    leaves: tuple[N.Node, ...]
    conditions: tuple[_ReadingCondition, ...]

    @classmethod
    def of(cls, join: N.Join) -> _JoinGraph:
        leaves = tuple(sorted(_leaves(join), key=lambda leaf: explain(_uncut(leaf))))
        owner = {Column.to(f): i for i, leaf in enumerate(leaves) for f in leaf.schema}
        parts = sorted(dict.fromkeys(_conditions(join)), key=expression_sql)
        every = frozenset(range(len(leaves)))
        reads = [frozenset(owner[c] for c in p.columns()) for p in parts]
        # What reads one input or none is no matter of their order: it stays at the top.
        return cls(leaves, tuple((p, r if len(r) > 1 else every) for p, r in zip(parts, reads, strict=True)))

    def best(self) -> _Tree:
        """Return the tree with the fewest intermediate rows."""
        single = [_Tree(frozenset([i]), estimate_rows(leaf), 0.0) for i, leaf in enumerate(self.leaves)]
        return self._in_any_order(single) if len(single) <= _MOST_IN_ALL_ORDERS else self._greedily(single)

    def _in_any_order(self, single: Sequence[_Tree]) -> _Tree:
        found = {tree.leaves: tree for tree in single}
        for size in range(2, len(single) + 1):
            for chosen in map(frozenset, combinations(range(len(single)), size)):
                trees = [self._join(found[a], found[chosen - a]) for a in _halves(chosen)]
                found[chosen] = min(trees, key=lambda tree: tree.key)
        return found[frozenset(range(len(single)))]

    def _greedily(self, single: Sequence[_Tree]) -> _Tree:
        trees = list(single)
        while len(trees) > 1:
            pairs = [(self._join(a, b), a, b) for a, b in combinations(trees, 2)]
            best, one, other = min(pairs, key=lambda pair: (pair[0].rows, pair[0].order))
            trees = [tree for tree in trees if tree not in (one, other)] + [best]
        return trees[0]

    def _join(self, left: _Tree, right: _Tree) -> _Tree:
        rows = left.rows * right.rows
        for condition, read in self.between(left.leaves, right.leaves):
            rows *= EQUAL_KEYS if _is_equality(condition, read) else OTHER_PAIRS
        return _Tree(left.leaves | right.leaves, rows, left.cost + right.cost + rows, (left, right))

    def between(self, left: frozenset[int], right: frozenset[int]) -> Iterator[_ReadingCondition]:
        """Yield the conditions that can be evaluated where two trees meet, and not before."""
        for condition, read in self.conditions:
            if read <= left | right and not read <= left and not read <= right:
                yield condition, read

    def build(self, tree: _Tree, first: int | None) -> N.Node:
        """Return the joins of a tree; the input with the number `first` is the leftmost."""
        if tree.sides is None:
            (leaf,) = tree.leaves
            return self.leaves[leaf]
        left, right = tree.sides
        if first in right.leaves or (first not in left.leaves and min(right.leaves) < min(left.leaves)):
            left, right = right, left
        parts = [condition for condition, _ in self.between(left.leaves, right.leaves)]
        return N.Join(self.build(left, first), self.build(right, first), conjunction(parts))


def _is_equality(condition: Expression, read: frozenset[int]) -> bool:
    return isinstance(condition, Comparison) and condition.operator in ("=", "<=>") and len(read) == 2


def _halves(chosen: frozenset[int]) -> Iterator[frozenset[int]]:
    """Yield one half of each way to cut a set into two; the one with the least element."""
    first, *rest = sorted(chosen)
    for size in range(len(rest)):
        for more in combinations(rest, size):
            yield frozenset([first, *more])


def _leaves(node: N.Node) -> Iterator[N.Node]:
    node = _without_cuts(node)
    if isinstance(node, N.Join):
        yield from _leaves(node.left)
        yield from _leaves(node.right)
    else:
        yield node


def _conditions(node: N.Node) -> Iterator[Expression]:
    node = _without_cuts(node)
    if isinstance(node, N.Join):
        yield from conjuncts(node.condition)
        yield from _conditions(node.left)
        yield from _conditions(node.right)
