"""σ_p(S1 ⟕ S2) is σ_p(S1 ⋈ S2) where p is not true for NULLs in place of S2: the padded rows go anyway."""

from __future__ import annotations

from dataclasses import replace

from everview.algebra import nodes as N
from everview.algebra.expressions import (
    And,
    Arithmetic,
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


def outer_to_inner(node: N.Node) -> N.Node | None:
    """Preserve no rows that a filter above the join drops.

    A side that is padded has no time lines; it must not get any by this, as windows go by the first one.
    """
    if not isinstance(node, N.Filter):
        return None
    join = node.input
    if isinstance(join, N.TableJoin) and join.outer:
        inner = _rejects_padding(node.condition, join.right.schema)
        return N.Filter(replace(join, outer=False), node.condition) if inner else None
    if not isinstance(join, N.OuterJoin):
        return None
    keeps_left = join.kind in ("LEFT", "FULL") and not _rejects_padding(node.condition, join.right.schema)
    keeps_right = join.kind in ("RIGHT", "FULL") and not _rejects_padding(node.condition, join.left.schema)
    kinds = {(True, True): "FULL", (True, False): "LEFT", (False, True): "RIGHT"}
    kind = kinds.get((keeps_left, keeps_right))
    if kind == join.kind:
        return None
    if kind is None:
        return N.Filter(N.Join(join.left, join.right, join.condition), node.condition)
    return N.Filter(replace(join, kind=kind), node.condition)


def _rejects_padding(condition: Expression, padded: Schema) -> bool:
    """Return whether a condition is not true for NULLs in place of a side, which has no time lines."""
    columns = frozenset(Column.to(field) for field in padded)
    return padded.timeline is None and _is_never_true(condition, columns)


def _is_never_true(condition: Expression, nulls: frozenset[Column]) -> bool:
    match condition:
        case And(left, right):
            return _is_never_true(left, nulls) or _is_never_true(right, nulls)
        case Or(left, right):
            return _is_never_true(left, nulls) and _is_never_true(right, nulls)
        case Not(IsNull(operand)):
            return _is_null(operand, nulls)
    return _is_null(condition, nulls)


def _is_null(e: Expression, nulls: frozenset[Column]) -> bool:
    """Return whether an expression is NULL if these columns are; False: perhaps not."""
    match e:
        case Column():
            return e in nulls
        case Literal(value):
            return value is None
        case Comparison(operator, left, right):
            return operator != "<=>" and (_is_null(left, nulls) or _is_null(right, nulls))
        case Arithmetic(_, left, right):
            return _is_null(left, nulls) or _is_null(right, nulls)
        case Negate(operand) | Not(operand) | Cast(operand) | InList(operand):
            return _is_null(operand, nulls)
        case And(left, right) | Or(left, right):
            return _is_null(left, nulls) and _is_null(right, nulls)
    return False
