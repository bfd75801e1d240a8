"""Change rows: the one form that holds all the papers' streams (DESIGN section 1).

(record, from, until, n): from `from` up to but not including `until` the record occurs n more
times; n may be negative. Two streams are equivalent when all their snapshots are equal, and that
is the only equality that counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from everview.algebra.time import INFINITY, Chronon, Interval
from everview.algebra.values import normal
from everview.errors import AlgebraError

Record = tuple[object, ...]
Snapshot = dict[Record, int]
Logical = dict[tuple[Record, Chronon], int]
Step = tuple[Chronon, Chronon, int]


class ChangeRow(NamedTuple):
    """From `from_` until `until` the record occurs n more times."""

    record: Record
    from_: Chronon
    until: Chronon
    n: int = 1


class Tag(NamedTuple):
    """One operation of a tagged stream (paper 5, 4.1): + inserts, - deletes, u replaces the old record."""

    tag: str
    record: Record
    at: Chronon
    old: Record | None = None


def snapshot(rows: Iterable[ChangeRow], t: Chronon) -> Snapshot:
    """Return the multiset that holds at t: for every record the sum of n (paper 1, equation 17).

    >>> snapshot([ChangeRow(("a",), 0, 9), ChangeRow(("a",), 3, 5), ChangeRow(("a",), 4, 9, -1)], 4)
    {('a',): 1}
    """
    total: Counter[Record] = Counter()
    for row in rows:
        if row.from_ <= t < row.until:
            total[row.record] += row.n
    return {record: n for record, n in total.items() if n}


def profile(rows: Iterable[ChangeRow]) -> dict[Record, list[Step]]:
    """Return per record the maximal pieces (from, until, n) of constant n ≠ 0: the normal form of a stream.

    >>> profile([ChangeRow(("a",), 0, 5), ChangeRow(("a",), 5, 9), ChangeRow(("a",), 2, 4)])
    {('a',): [(0, 2, 1), (2, 4, 2), (4, 9, 1)]}
    """
    deltas: dict[Record, Counter[Chronon]] = defaultdict(Counter)
    for row in rows:
        deltas[row.record][row.from_] += row.n
        deltas[row.record][row.until] -= row.n
    pieces = {record: _pieces(changes) for record, changes in deltas.items()}
    return {record: steps for record, steps in pieces.items() if steps}


def _pieces(changes: Counter[Chronon]) -> list[Step]:
    steps: list[Step] = []
    times = sorted(t for t, n in changes.items() if n)
    n = 0
    for here, there in pairwise(times):
        n += changes[here]
        if n:
            steps.append((here, there, n))
    return steps


def are_equivalent(left: Iterable[ChangeRow], right: Iterable[ChangeRow]) -> bool:
    """Return whether all snapshots of two streams are equal (paper 1, equations 18 and 19)."""
    return profile(left) == profile(right)


def consolidate(rows: Iterable[ChangeRow]) -> list[ChangeRow]:
    """Sum n over equal (record, from, until) and drop zeros; no snapshot changes.

    >>> consolidate([ChangeRow(("a",), 0, 9), ChangeRow(("b",), 0, 9), ChangeRow(("a",), 0, 9, -1)])
    [ChangeRow(record=('b',), from_=0, until=9, n=1)]
    """
    total: Counter[tuple[Record, Chronon, Chronon]] = Counter()
    for row in rows:
        total[row.record, row.from_, row.until] += row.n
    return [ChangeRow(*key, n) for key, n in total.items() if n]


def coalesce(rows: Iterable[ChangeRow], limit: int | None = None) -> list[ChangeRow]:
    """Join adjacent intervals of equal record and sign (paper 1, equation 16 and algorithm 10).

    With a limit, a row that has grown longer than it is not joined to a further one, as ε in the paper.

    >>> coalesce([ChangeRow(("a",), 5, 9), ChangeRow(("a",), 0, 5)])
    [ChangeRow(record=('a',), from_=0, until=9, n=1)]
    """
    waiting: Counter[tuple[Record, Chronon, Chronon, int]] = Counter()
    for row in sorted(consolidate(rows), key=lambda r: (r.from_, r.until)):
        sign = 1 if row.n > 0 else -1
        left = abs(row.n)
        for joined in [k for k in waiting if k[0] == row.record and k[2] == row.from_ and k[3] == sign]:
            if limit is not None and joined[2] - joined[1] > limit:
                continue
            copies = min(left, waiting[joined])
            waiting[joined] -= copies
            waiting[row.record, joined[1], row.until, sign] += copies
            left -= copies
        if left:
            waiting[row.record, row.from_, row.until, sign] += left
    return [ChangeRow(r, f, u, sign * n) for (r, f, u, sign), n in waiting.items() if n]


def split(rows: Iterable[ChangeRow], step: int) -> list[ChangeRow]:
    """Cut every interval into pieces of at most `step` (paper 1, algorithm 11); ∞ is left whole.

    >>> [r[1:3] for r in split([ChangeRow(("a",), 0, 5)], 2)]
    [(0, 2), (2, 4), (4, 5)]
    """
    if step <= 0:
        raise AlgebraError(f"an interval cannot be split into pieces of {step}")
    pieces = []
    for row in rows:
        if row.until == INFINITY:
            pieces.append(row)
            continue
        for from_ in range(row.from_, row.until, step):
            pieces.append(ChangeRow(row.record, from_, min(from_ + step, row.until), row.n))
    return pieces


# Conversions between the forms of the papers, each with its inverse where there is one.


def from_raw(records: Iterable[Record], timestamp: Callable[[Record], Chronon]) -> list[ChangeRow]:
    """Return the change rows of a raw stream: records hold from their timestamp for ever (paper 1, 2.5)."""
    return [ChangeRow(record, timestamp(record), INFINITY) for record in records]


def from_physical(elements: Iterable[tuple[Record, Interval]]) -> list[ChangeRow]:
    """Return the change rows of a physical stream (e, [tS, tE)) (paper 1, definition 2.2)."""
    return [ChangeRow(record, i.from_, i.until) for record, i in elements]


def to_physical(rows: Iterable[ChangeRow]) -> list[tuple[Record, Interval]]:
    """Return the physical stream in its order ≤t, one element per copy; refused while rows are negative."""
    elements: list[tuple[Record, Interval]] = []
    for row in consolidate(rows):
        if row.n < 0:
            raise AlgebraError("a physical stream has no negative rows", next_step="take its snapshots first")
        elements.extend([(row.record, Interval(row.from_, row.until))] * row.n)
    return sorted(elements, key=lambda e: e[1])


def to_logical(rows: Iterable[ChangeRow], domain: Sequence[Chronon]) -> Logical:
    """Return the logical stream: (e, t) → n for the instants of the domain (paper 1, 3.1.1)."""
    logical: Counter[tuple[Record, Chronon]] = Counter()
    for row in rows:
        for t in domain:
            if row.from_ <= t < row.until:
                logical[row.record, t] += row.n
    return {key: n for key, n in logical.items() if n}


def from_logical(logical: Logical) -> list[ChangeRow]:
    """Return a logical stream as change rows: a row per chronon, then coalesced (paper 1, 4.1)."""
    return coalesce(ChangeRow(record, t, t + 1, n) for (record, t), n in logical.items())


def from_tags(tags: Iterable[Tag]) -> list[ChangeRow]:
    """Return the change rows of a tagged stream: + is a row, - a negative one, u both (paper 5, 4.1)."""
    rows = []
    for tag in tags:
        if tag.tag == "u":
            if tag.old is None:
                raise AlgebraError("an update carries the old values")
            rows.append(ChangeRow(tag.old, tag.at, INFINITY, -1))
        rows.append(ChangeRow(tag.record, tag.at, INFINITY, -1 if tag.tag == "-" else 1))
    return consolidate(rows)


def to_tags(
    rows: Sequence[ChangeRow], key: Sequence[int] | None = None, until: Chronon = INFINITY
) -> list[Tag]:
    """Return ξ: the least set of tags that leads from snapshot to snapshot, up to `until` (paper 5, 6.2.2).

    With a key (column positions) a - and a + of the same key and instant are one u.

    >>> room = [ChangeRow(("a", 99), 1, 4), ChangeRow(("a", 95), 4, INFINITY)]
    >>> [(t.tag, t.record, t.at) for t in to_tags(room, key=[0])]
    [('+', ('a', 99), 1), ('u', ('a', 95), 4)]
    """
    changes: dict[Chronon, Counter[Record]] = defaultdict(Counter)
    for record, steps in profile(rows).items():
        for from_, to, n in steps:
            changes[from_][record] += n
            changes[to][record] -= n
    tags: list[Tag] = []
    for at in sorted(t for t in changes if t < until):
        gone = [r for r, n in changes[at].items() for _ in range(-n)]
        come = [r for r, n in changes[at].items() for _ in range(n)]
        if key is not None:
            for new in list(come):
                wanted = [normal(new[i]) for i in key]  # lists find the one NAN equal to itself
                old = next((g for g in gone if [normal(g[i]) for i in key] == wanted), None)
                if old is not None:
                    gone.remove(old)
                    come.remove(new)
                    tags.append(Tag("u", new, at, old))
        tags.extend(Tag("-", record, at) for record in gone)
        tags.extend(Tag("+", record, at) for record in come)
    return tags


def to_pairs(rows: Iterable[ChangeRow]) -> list[ChangeRow]:
    """Return intervals as positive and negative tuples: the negative tuple approach (paper 2, 2.3.1)."""
    pairs = []
    for row in rows:
        pairs.append(ChangeRow(row.record, row.from_, INFINITY, row.n))
        if row.until < INFINITY:
            pairs.append(ChangeRow(row.record, row.until, INFINITY, -row.n))
    return pairs


def from_pairs(pairs: Iterable[ChangeRow]) -> list[ChangeRow]:
    """Return positive and negative tuples as intervals again: each end closes the oldest open row."""
    return [
        ChangeRow(record, from_, until, n)
        for record, steps in profile(pairs).items()
        for from_, until, n in _stack_pieces(steps)
    ]


def _stack_pieces(steps: list[Step]) -> Iterable[Step]:
    """Return pieces of constant n as rows that begin and end in first-in-first-out order."""
    opened: list[Chronon] = []
    last = steps[0][0]
    for from_, until, n in [*steps, (INFINITY, INFINITY, 0)]:
        if n < 0:
            raise AlgebraError(f"a record would occur {n} times at {from_}")
        if from_ > last:
            yield from ((begun, last, 1) for begun in opened)
            opened = []
        while len(opened) > n:
            yield opened.pop(0), from_, 1
        opened.extend([from_] * (n - len(opened)))
        last = until
