"""Of equal columns one is compared with a constant: so are the others (a = b ∧ a = 3 implies b = 3).

`s.k = r.k AND s.k = 3` filters both sides of a join. The rule looks at conditions where they are written,
above the joins or in their ON; other rules then move them down at once, so that nothing is inferred twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from everview.algebra import nodes as N
from everview.algebra.expressions import (
    Column,
    Comparison,
    Expression,
    InList,
    Literal,
    conjunction,
    conjuncts,
    substitute,
)
from everview.rewrite.conditions import filter_plan, reads_only


def close_equalities(node: N.Node) -> N.Node | None:
    """Add what the conditions of a join, or of a filter above it, imply for equal columns."""
    match node:
        case N.Join():
            parts = conjuncts(node.condition)
            more = _implied(parts, parts)
            return replace(node, condition=conjunction([*parts, *more])) if more else None
        case N.Filter(N.Join() as join):
            parts = conjuncts(node.condition)
            more = _implied(parts, [*parts, *_inner_conditions(join)])
            return N.Filter(join, conjunction([*parts, *more])) if more else None
        case N.Filter(N.OuterJoin() as join):
            return _with_outer_join(node, join)
        case N.Filter(N.SemiJoin() | N.AntiJoin() as join):
            more = _implied(conjuncts(node.condition), conjuncts(join.condition))
            known = conjuncts(join.right.condition) if isinstance(join.right, N.Filter) else []
            more = [p for p in more if reads_only(p, join.right.schema) and p not in known]
            if more:
                right = filter_plan(join.right, more)
                return N.Filter(N.with_inputs(join, [join.left, right]), node.condition)
    return None


def _with_outer_join(node: N.Filter, join: N.OuterJoin) -> N.Node | None:
    """Rows of the preserved side that stay have partners as implied; the others are dropped anyway."""
    if join.kind == "FULL":
        return None
    sides = (join.left, join.right)
    preserved, padded = sides if join.kind == "LEFT" else sides[::-1]
    parts = conjuncts(join.condition)
    # A condition on the padded side may be true for padded rows, and stays above the join.
    given = [p for p in conjuncts(node.condition) if reads_only(p, preserved.schema)]
    more = [p for p in _implied(given, parts) if reads_only(p, padded.schema) and p not in parts]
    if not more:
        return None
    return N.Filter(replace(join, condition=conjunction([*parts, *more])), node.condition)


def _inner_conditions(node: N.Node) -> Iterator[Expression]:
    """Yield the conditions of a tree of inner joins."""
    if isinstance(node, N.Join):
        yield from conjuncts(node.condition)
        yield from _inner_conditions(node.left)
        yield from _inner_conditions(node.right)


def _implied(given: Iterable[Expression], parts: Iterable[Expression]) -> list[Expression]:
    """Return the comparisons with constants that follow from given ones by the equalities among parts."""
    known = dict.fromkeys(part for part in given if _is_with_constants(part))
    pairs = [pair for part in parts for pair in _equal_columns(part)]
    found = dict(known)
    waiting = list(known)
    while waiting:
        condition = waiting.pop()
        for one, other in pairs:
            if condition.columns() == {one}:
                implied = substitute(condition, {one: other})
                if implied not in found:
                    found[implied] = None
                    waiting.append(implied)
    return [condition for condition in found if condition not in known]


def _equal_columns(part: Expression) -> Iterator[tuple[Column, Column]]:
    """Yield equal columns, both ways; of one type, so that a constant means the same for both."""
    match part:
        case Comparison("=", Column() as a, Column() as b) if a.type == b.type:
            yield a, b
            yield b, a


def _is_with_constants(part: Expression) -> bool:
    match part:
        case Comparison(_, Column(), Literal()) | Comparison(_, Literal(), Column()):
            return True
        case InList(Column(), items):
            return all(isinstance(item, Literal) for item in items)
    return False
