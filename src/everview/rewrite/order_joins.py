"""S1 ⋈ S2 is S2 ⋈ S1, and (S1 ⋈ S2) ⋈ S3 is S1 ⋈ (S2 ⋈ S3): the order of joins is free (paper 1, 5.3).

The order that costs least (`cost.py`) is chosen over the whole graph of joins, by dynamic programming; above
eight inputs greedily. All orders of a FROM clause give the same plan.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from everview.algebra import nodes as N
from everview.algebra.explain import explain
from everview.algebra.expressions import Column, Comparison, Expression, conjunction, conjuncts
from everview.algebra.text import expression_sql
from everview.rewrite.cost import Costs, Flow, assume_alike, join_flow, join_work

_MOST_IN_ALL_ORDERS = 8
_MOST_COMPARED = 4  # inputs of which EXPLAIN shows the orders that were rejected
_OTHER_PAIRS = 0.4  # the part of all pairs that fulfil a condition other than an equality

_ReadingCondition = tuple[Expression, frozenset[int]]  # with the numbers of the inputs that it reads


def order_joins(node: N.Node, costs: Costs | None = None) -> N.Node | None:
    """Order the joins below a node that reads columns by name, so that their order does not show."""
    if not isinstance(node, (N.Project, N.Aggregate)):
        return None
    return N.with_inputs(node, [_reorder(node.input, _first_time_line(node), costs or Costs())])


def _reorder(node: N.Node, line: Column | None, costs: Costs) -> N.Node:
    match node:
        case N.Filter() | N.SemiJoin() | N.AntiJoin() | N.Synchronize():
            return N.with_inputs(node, [_reorder(node.inputs[0], line, costs), *node.inputs[1:]])
        case N.OuterJoin():
            return N.with_inputs(node, [_reorder(side, line, costs) for side in node.inputs])
        case N.Join():
            return _ordered(node, line, costs)
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


def _ordered(join: N.Join, line: Column | None, costs: Costs) -> N.Node:
    graph = JoinGraph.of(join, costs)
    best = graph.best()
    if len(graph.leaves) > 2:
        compared = {graph.text(tree): tree.cost for tree in graph.every_order()}
        subject = tuple(map(explain, map(_uncut, graph.leaves)))
        costs.record("join order", subject, {**compared, graph.text(best): best.cost}, graph.text(best))
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
    """A join of two smaller trees, or a leaf: the rows that it yields, and the cost of all joins in it."""

    leaves: frozenset[int]
    flow: Flow
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
class JoinGraph:
    """The inputs of inner joins, in an order of their own, and what each condition reads of them."""

    leaves: tuple[N.Node, ...]
    conditions: tuple[_ReadingCondition, ...]
    flows: tuple[Flow, ...]
    values: Mapping[Column, float]

    @classmethod
    def of(cls, join: N.Join, costs: Costs) -> JoinGraph:
        leaves = tuple(sorted(_leaves(join), key=lambda leaf: explain(_uncut(leaf))))
        owner = {Column.to(f): i for i, leaf in enumerate(leaves) for f in leaf.schema}
        parts = sorted(dict.fromkeys(_conditions(join)), key=expression_sql)
        every = frozenset(range(len(leaves)))
        reads = [frozenset(owner[c] for c in p.columns()) for p in parts]
        # Two inputs have one order, and need no estimates.
        ask = costs.flow_of if len(leaves) > 2 else assume_alike
        flows = tuple(map(ask, leaves))
        values = {
            Column.to(f): count if math.isfinite(count) else max(flow.holds, 1.0)
            for leaf, flow in zip(leaves, flows, strict=True)
            for f, count in zip(leaf.schema, flow.values, strict=True)
        }
        # What reads one input or none is no matter of their order: it stays at the top.
        conditions = tuple((p, r if len(r) > 1 else every) for p, r in zip(parts, reads, strict=True))
        return cls(leaves, conditions, flows, values)

    def best(self) -> _Tree:
        """Return the tree that costs least."""
        single = self._single
        return self._in_any_order(single) if len(single) <= _MOST_IN_ALL_ORDERS else self._greedily(single)

    @property
    def _single(self) -> list[_Tree]:
        return [_Tree(frozenset([i]), flow, 0.0) for i, flow in enumerate(self.flows)]

    def every_order(self) -> Iterator[_Tree]:
        """Yield the trees of all orders of a few inputs; of many, none."""
        single = self._single
        if len(single) <= _MOST_COMPARED:
            yield from self._orders(frozenset(range(len(single))), single)

    def _orders(self, chosen: frozenset[int], single: Sequence[_Tree]) -> Iterator[_Tree]:
        if len(chosen) == 1:
            yield single[min(chosen)]
        for half in _halves(chosen):
            for left in self._orders(half, single):
                yield from (self._join(left, right) for right in self._orders(chosen - half, single))

    def text(self, tree: _Tree) -> str:
        """Return a tree as text: (s ⋈ r) ⋈ q."""
        if tree.sides is None:
            (leaf,) = tree.leaves
            return self._names[leaf]
        return " ⋈ ".join(f"({self.text(side)})" if side.sides else self.text(side) for side in tree.sides)

    @cached_property
    def _names(self) -> list[str]:
        named = [next(iter(leaf.schema), None) for leaf in self.leaves]
        return [
            f"input {i}" if f is None or f.relation is None else f.relation for i, f in enumerate(named, 1)
        ]

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
            best, one, other = min(pairs, key=lambda pair: (pair[0].flow.rate, pair[0].order))
            trees = [tree for tree in trees if tree not in (one, other)] + [best]
        return trees[0]

    def _join(self, left: _Tree, right: _Tree) -> _Tree:
        """Return the join of two trees; equalities decide which pairs are probed, all conditions the rest."""
        equal, others = 1.0, 1.0
        for condition, read in self.between(left.leaves, right.leaves):
            if _is_equality(condition, read):
                equal /= max(self.values[column] for column in condition.columns())
            else:
                others *= _OTHER_PAIRS
        probed = join_flow(left.flow, right.flow, equal)
        cost = left.cost + right.cost + join_work(left.flow, right.flow, probed).total
        return _Tree(left.leaves | right.leaves, probed.thin(others), cost, (left, right))

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
