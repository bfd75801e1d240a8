"""What passes through physical nodes unchanged: which rows must meet, and which columns are carried.

A node that only carries columns is light: a task does it on whole columns, without Catalyst.
"""

from __future__ import annotations

from functools import singledispatch

from everview.algebra.expressions import (
    Cast,
    Column,
    Expression,
    IsNull,
    Literal,
    Not,
    conjuncts,
    substitute,
)
from everview.algebra.types import DOUBLE, FLOAT, DataType
from everview.spark import physical as P

Carried = tuple[int | None, ...]  # for each column of the output the column of the input that it is


def is_light(node: P.Physical) -> bool:
    """Whether the node only carries columns, adds constants, turns the sign, or leaves out NULLs."""
    match node:
        case P.Merge() | P.Negative():
            return True
        case P.Compute(outputs=outputs):
            return all(isinstance(e, Literal) or source(e) is not None for e in outputs)
        case P.Select(condition=condition):
            return all(_is_present(part) for part in conjuncts(condition))
    return False


def _is_present(part: Expression) -> bool:
    return (
        isinstance(part, Not)
        and isinstance(part.operand, IsNull)
        and source(part.operand.operand) is not None
    )


def source(expression: Expression) -> int | None:
    """The column that an expression is, be it widened; equal values of both have equal hashes."""
    match expression:
        case Column(name):
            return int(name[1:])
        case Cast(operand, to) if _widens(operand.type, to):
            return source(operand)
    return None


def _widens(from_: DataType, to: DataType) -> bool:
    """Whether the hash stays: integers are hashed as BIGINT, floats as DOUBLE."""
    if from_.is_integer and to.is_integer:
        return from_.bits <= to.bits
    return from_ == to or (from_ == FLOAT and to == DOUBLE)


def root(node: P.Physical) -> tuple[P.Physical, tuple[Expression, ...], int]:
    """The plan below those that only carry columns, the columns as expressions over it, and the sign.

    >>> from everview.algebra.types import INT
    >>> scan = P.Scan("s", (INT, INT))
    >>> below, outputs, sign = root(P.Negative(P.Compute(scan, (scan.columns[1],))))
    >>> below == scan, outputs == (scan.columns[1],), sign
    (True, True, -1)
    """
    outputs: tuple[Expression, ...] = node.columns
    sign = 1
    while isinstance(node, (P.Compute, P.Negative)) and is_light(node):
        if isinstance(node, P.Negative):
            sign = -sign
        else:
            below = dict[Expression, Expression](zip(node.columns, node.outputs, strict=True))
            outputs = tuple(substitute(e, below) for e in outputs)
        node = node.input
    return node, outputs, sign


@singledispatch
def carried(node: P.Physical) -> tuple[Carried, ...]:
    """For each input, which of its columns the columns of the output are; most nodes carry them all."""
    every = tuple(range(len(node.types)))
    return tuple(every for _ in node.inputs)


@carried.register
def _(node: P.Compute) -> tuple[Carried, ...]:
    return (tuple(source(e) for e in node.outputs),)


@carried.register(P.JoinKernel)
@carried.register(P.BandKernel)
@carried.register(P.VersionKernel)
def _(node: P.JoinKernel | P.BandKernel | P.VersionKernel) -> tuple[Carried, ...]:
    left, right = len(node.left.types), len(node.right.types)
    return (*range(left), *[None] * right), (*[None] * left, *range(right))


@carried.register
def _(node: P.SweepKernel) -> tuple[Carried, ...]:
    return ((*range(node.keys), *[None] * len(node.results)),)


@carried.register(P.PointsKernel)
@carried.register(P.WithoutVersionKernel)
def _(node: P.PointsKernel | P.WithoutVersionKernel) -> tuple[Carried, ...]:
    return tuple(range(len(node.types))), (None,) * len(node.types)


@singledispatch
def keys(node: P.Physical) -> tuple[tuple[int, ...], ...]:
    """The keys of a kernel: for each the column on every input. Rows that are equal in all of them must meet.

    Where rows are worked on alone, they could be anywhere; but then what was kept of them would be, too.
    """
    return tuple((i,) * len(node.inputs) for i in range(len(node.inputs[0].types)))


@keys.register(P.JoinKernel)
@keys.register(P.VersionKernel)
def _(node: P.JoinKernel | P.VersionKernel) -> tuple[tuple[int, ...], ...]:
    pairs = tuple(zip(node.left_keys, node.right_keys, strict=True))
    return pairs or tuple((i,) for i in range(len(node.left.types)))


@keys.register
def _(node: P.SweepKernel) -> tuple[tuple[int, ...], ...]:
    return tuple((i,) for i in range(node.keys))


@keys.register
def _(node: P.RowsKernel) -> tuple[tuple[int, ...], ...]:
    return tuple((i,) for i in node.partition)


@keys.register
def _(node: P.LatestKernel) -> tuple[tuple[int, ...], ...]:
    return tuple((i,) for i in node.key)


@keys.register(P.BandKernel)
@keys.register(P.PointsKernel)
def _(node: P.BandKernel | P.PointsKernel) -> tuple[tuple[int, ...], ...]:
    return tuple((i,) for i in range(len(node.inputs[0].types)))


def goes_everywhere(node: P.Physical, number: int) -> bool:
    """Whether all partitions need all rows of an input: the right side of a join without keys, points."""
    match node:
        case P.JoinKernel() | P.VersionKernel():
            return number == 1 and not node.left_keys
    return number == 1 and isinstance(node, (P.BandKernel, P.PointsKernel))
