"""What state each operator keeps, and for how long (DESIGN section 3; paper 1, 4.3; paper 2, 5.3).

A row of a state is kept until it has ended: for how long follows from how long the rows of the inputs last.
State over rows that never end, of which ever more come, can never be dropped; `grows` says who has such.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import singledispatch

from everview.algebra import nodes as N
from everview.algebra.explain import describe
from everview.algebra.expressions import Column, Comparison, Expression, conjuncts
from everview.algebra.text import name_sql
from everview.algebra.time import INFINITY, unit_of
from everview.algebra.windows import Rows
from everview.temporal.ages import age
from everview.temporal.life import Length, is_known, life
from everview.temporal.patterns import Pattern, edge

_UNITS = {
    "WEEK": "wk",
    "DAY": "d",
    "HOUR": "h",
    "MINUTE": "min",
    "SECOND": "s",
    "MILLISECOND": "ms",
    "MICROSECOND": "µs",
}


def length_text(length: int) -> str:
    """A length of time as it stands behind an operator.

    >>> length_text(10_000_000), length_text(90_000_000), length_text(1)
    ('10 s', '90 s', '1 µs')
    """
    count, unit = unit_of(length)
    return f"{count} {_UNITS[unit]}"


class Growth(IntEnum):
    """With what a state grows for ever: nothing, updates of a table, different records, rows."""

    NO = 0
    BY_UPDATE = 1
    BY_RECORD = 2
    BY_ROW = 3


@dataclass(frozen=True)
class Keeping:
    """A part of an operator's state: what it is, and how long a row of it is kept.

    `until` says what ends it where its time cannot be known; `buckets` that its rows are laid out by their
    ends, so that whole files expire (paper 2, 5.3.2).

    >>> print(Keeping("both sides", 10_000_000)), print(Keeping("both sides", INFINITY))
    both sides, 10 s
    both sides, for ever
    (None, None)
    """

    what: str
    how_long: Length
    until: str = "until taken back"
    buckets: bool = False
    growth: Growth = Growth.NO

    @property
    def duration(self) -> str:
        """How long, in words."""
        match self.how_long:
            case None:
                return self.until
            case length if length == INFINITY:
                return "for ever"
            case length:
                return length_text(length)

    @property
    def manner(self) -> str:
        """How long, and how it is laid out."""
        return f"{self.duration}, in expiry buckets" if self.buckets else self.duration

    def __str__(self) -> str:
        return f"{self.what}, {self.manner}" if self.manner else self.what


def _rows_of(what: str, node: N.Node) -> Keeping:
    """The rows of an input, until they end; consolidated, so that equal ones are one."""
    rows = life(node)
    growth = Growth.NO
    if rows.grows:
        growth = Growth.BY_RECORD if node.schema.timeline is None else Growth.BY_ROW
    return Keeping(what, rows.lasts, buckets=_in_buckets(node), growth=growth)


def _in_buckets(node: N.Node) -> bool:
    """Whether rows are laid out by their ends: where these are known and not in order (paper 2, 5.3.2)."""
    flows = edge(node)
    return flows.pattern == Pattern.WK and not flows.signed and is_known(life(node).lasts)


def _sides(left: Keeping, right: Keeping) -> tuple[Keeping, ...]:
    if (left.how_long, left.buckets) != (right.how_long, right.buckets):
        return left, right
    return (replace(left, what="both sides", growth=max(left.growth, right.growth)),)


@singledispatch
def keeping(node: N.Node) -> tuple[Keeping, ...]:
    """What a node's operator keeps: nothing, if it goes row by row.

    >>> from everview.algebra.schema import Schema
    >>> from everview.algebra.types import TIMESTAMP
    >>> from everview.algebra.windows import Range
    >>> s = N.Stream("s", Schema.of(("ts", TIMESTAMP), timeline="ts"))
    >>> window = N.Window(s, Range(10))
    >>> [str(k) for k in keeping(window)], [str(k) for k in keeping(N.Distinct(window))]
    ([], ['what is covered, 10 µs'])
    """
    return ()


@keeping.register(N.Join)
@keeping.register(N.Difference)
@keeping.register(N.Intersection)
@keeping.register(N.MaxUnion)
def _(node: N.Join) -> tuple[Keeping, ...]:
    return _sides(_rows_of("left side", node.left), _rows_of("right side", node.right))


@keeping.register
def _(node: N.StrictDifference) -> tuple[Keeping, ...]:
    """Of the right side every record once."""
    return _sides(_rows_of("left side", node.left), _rows_of("right side", N.Distinct(node.right)))


@keeping.register(N.SemiJoin)
@keeping.register(N.AntiJoin)
def _(node: N.SemiJoin | N.AntiJoin) -> tuple[Keeping, ...]:
    """Of a pure equality the different keys of the right side are enough."""
    left, met = _rows_of("left side", node.left), _partners(node, left_kept=True)
    if met.what != _MET:
        return left, met
    return (*_sides(left, _rows_of("right side", node.right)), met)


@keeping.register
def _(node: N.OuterJoin) -> tuple[Keeping, ...]:
    """The join, and for each side whose rows all stay, who has a partner."""
    sides = _sides(_rows_of("left side", node.left), _rows_of("right side", node.right))
    kept = {"LEFT": [True], "RIGHT": [False], "FULL": [True, False]}[node.kind]
    return (*sides, *dict.fromkeys(_partners(node, left_kept) for left_kept in kept))


_MET = "rows that met"


def _partners(node: N.SemiJoin | N.AntiJoin | N.OuterJoin, left_kept: bool) -> Keeping:
    """How it is known which rows of a side have a partner: by the keys of the other side, or one by one."""
    side, other = (node.left, node.right) if left_kept else (node.right, node.left)
    if not all(_equates(part, side, other) for part in conjuncts(node.condition)):
        return _rows_of(_MET, N.SemiJoin(side, other, node.condition))
    keys = _rows_of(f"keys of the {'right' if left_kept else 'left'} side", N.Distinct(other))
    return replace(keys, growth=min(keys.growth, Growth.BY_RECORD))


def _equates(part: Expression, left: N.Node, right: N.Node) -> bool:
    if not isinstance(part, Comparison) or part.operator not in ("=", "<=>"):
        return False
    here, there = ({Column.to(f) for f in side.schema} for side in (left, right))
    one, other = set(part.left.columns()), set(part.right.columns())
    return any(a and b and a <= here and b <= there for a, b in ((one, other), (other, one)))


@keeping.register
def _(node: N.TableJoin) -> tuple[Keeping, ...]:
    """⋈R keeps the stream and the table; ⋈NRR the versions of the table only (paper 2, 5.4.2)."""
    if not node.retroactive:
        return (_versions(age(node.left).emitted),)
    kept = _rows_of("left side", node.left), Keeping("the table", None, until="until replaced")
    return (*kept, _rows_of(_MET, N.Distinct(node.left))) if node.outer else kept


def _versions(longest: int) -> Keeping:
    """A version is needed until it is replaced and no row can come whose timestamp lies in it."""
    if longest == INFINITY:
        return Keeping("versions of the table", INFINITY, growth=Growth.BY_UPDATE)
    later = f" and {length_text(longest + 1)} later" if longest else ""
    return Keeping("versions of the table", None, until=f"until replaced{later}")


@keeping.register
def _(node: N.Distinct) -> tuple[Keeping, ...]:
    """δ keeps its input, δ* what it has already said (paper 2, 5.3.1).

    As with a group, a record that is there for ever is kept once. Only where records have a time line
    are there ever more of them.
    """
    rows = _rows_of("its input" if edge(node.input).signed else "what is covered", node.input)
    return (replace(rows, growth=Growth.NO) if rows.growth == Growth.BY_RECORD else rows,)


@keeping.register
def _(node: N.Aggregate) -> tuple[Keeping, ...]:
    """A value per group; the begins and ends to come; and what cannot be subtracted again."""
    below = life(node.input)
    signed = edge(node.input).signed
    per_group = Growth.BY_ROW if life(node).grows else Growth.NO
    value = Keeping("a value per group", below.lasts, growth=per_group)
    parts = [value if node.keys else Keeping("one value", None, until="")]
    if below.ends:
        parts.append(Keeping("ends to come", below.ends, buckets=_in_buckets(node.input)))
    calls = [call for _, call in node.calls]
    grows = below.grows
    if any(call.distinct and call.function not in ("min", "max") for call in calls):
        growth = Growth.BY_RECORD if grows else Growth.NO
        parts.append(Keeping("different values", below.lasts, growth=growth))
    if any(call.function in ("min", "max") for call in calls):
        what = "all rows for MIN and MAX" if signed else "rows that can still be MIN or MAX"
        parts.append(Keeping(what, below.lasts, growth=Growth.BY_ROW if grows and signed else Growth.NO))
    return tuple(parts)


@keeping.register
def _(node: N.Window) -> tuple[Keeping, ...]:
    if not isinstance(node.window, Rows):
        return ()
    count = "the last row" if node.window.count == 1 else f"the last {node.window.count} rows"
    per = f" per {', '.join(map(name_sql, node.window.partition_by))}" if node.window.partition_by else ""
    return (Keeping(count + per, life(node).lasts, until="until pushed out"),)


@keeping.register
def _(node: N.Tagged) -> tuple[Keeping, ...]:
    key = ", ".join(map(name_sql, node.key))
    return (Keeping(f"the latest row per {key}", None, until="until replaced"),)


@keeping.register
def _(node: N.SynchronizeOn) -> tuple[Keeping, ...]:
    return (Keeping("changes that wait", None, until="until the next point"),)


@keeping.register(N.IStream)
@keeping.register(N.DStream)
def _(node: N.IStream | N.DStream) -> tuple[Keeping, ...]:
    ends = life(node.input).ends
    return (Keeping("begins and ends to come", ends),) if ends else ()


@keeping.register
def _(node: N.RStream) -> tuple[Keeping, ...]:
    return (_rows_of("the relation", node.input),)


# What can never be dropped


def grows(plan: N.Node, told: Container[N.Node] = ()) -> tuple[str, ...]:
    """A sentence for each operator whose state can never be dropped while ever more rows come.

    A value per group is one for each group, and not said; neither is what has been told already.

    >>> from everview.algebra.schema import Schema
    >>> from everview.algebra.types import TIMESTAMP
    >>> from everview.algebra.windows import Range
    >>> s = N.Stream("s", Schema.of(("ts", TIMESTAMP), timeline="ts"))
    >>> grows(N.Join(s, N.Alias(N.Window(s, Range(10)), "r")))
    ('grows without bound: Product keeps its left side for ever, put a window on s',)
    """
    return tuple(dict.fromkeys(said for node in plan.walk() if node not in told for said in _grows(node)))


_GROWS = {
    Growth.BY_UPDATE: "with every update of the table",
    Growth.BY_RECORD: "with every different record",
    Growth.BY_ROW: "without bound",
}


def _grows(node: N.Node) -> Iterator[str]:
    parts = [part for part in keeping(node) if part.growth != Growth.NO]
    if not parts:
        return
    how = _GROWS[max(part.growth for part in parts)]
    what = " and ".join(f"its {p.what}" if p.what in ("left side", "right side") else p.what for p in parts)
    windows = " or ".join(dict.fromkeys(_without_window(node)))
    hint = f", put a window on {windows}" if windows else ""
    yield f"grows {how}: {describe(node)} keeps {what} for ever{hint}"


def _without_window(node: N.Node) -> Iterator[str]:
    """The streams below whose rows never end."""
    for below in node.inputs:
        if not life(below).grows:
            continue
        if isinstance(below, N.Stream) and below.schema.timeline is not None:
            yield name_sql(below.name)
        yield from _without_window(below)
