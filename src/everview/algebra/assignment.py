"""Windows as columns: each row with the beginning and the end of the window that it is in (TUMBLE, HOP).

The windows are [o + k·slide, o + k·slide + size), without their end. A row is shown with a window when that
is over, until the next one is over: from window_end until window_end + slide. So an instant shows one
window, the last whole one. It is [RANGE size SLIDE slide LAG 1 µs], which shows the same rows, with its two
ends as columns. The literal meaning is `assigned_windows` in `reference/scope.py`.
"""

from __future__ import annotations

from everview.algebra import nodes as N
from everview.algebra.expressions import Arithmetic, Call, Column, Comparison, Expression, Literal
from everview.algebra.schema import Field
from everview.algebra.text import name_sql
from everview.algebra.time import MICROSECOND, Chronon, duration_text
from everview.algebra.types import BIGINT
from everview.algebra.windows import tumble
from everview.errors import AlgebraError

WINDOW_START, WINDOW_END = "window_start", "window_end"
MOST_WINDOWS = 60  # of a row; a plan has a branch for each


def assign_windows(node: N.Node, size: int, slide: int, origin: Chronon = 0) -> N.Node:
    """Return the rows of a node with window_start and window_end, once for each window that they are in.

    >>> from everview.algebra.schema import Schema
    >>> from everview.algebra.types import TIMESTAMP
    >>> s = N.Stream("s", Schema.of(("ts", TIMESTAMP), timeline="ts"))
    >>> assign_windows(s, 10, 10).schema.names
    ('ts', 'window_start', 'window_end')
    """
    line = node.schema.timeline
    if line is None:
        raise AlgebraError("windows go by a time line, and these rows have none")
    _require_lengths(size, slide)
    for name in (WINDOW_START, WINDOW_END):
        if name in (n.casefold() for n in node.schema.names):
            raise AlgebraError(
                f"the window adds the column '{name}', and there is one already",
                next_step=f"give that one another name with AS: SELECT {name_sql(name)} AS …",
            )
    branches = [_branch(node, line, size, slide, origin, number) for number in range(-(-size // slide))]
    while len(branches) > 1:  # pairs of pairs: a union of many is not deep
        pairs = [N.Union(*branches[i : i + 2]) for i in range(0, len(branches) - 1, 2)]
        branches = pairs + branches[len(pairs) * 2 :]
    return branches[0]


def _require_lengths(size: int, slide: int) -> None:
    if size <= 0 or slide <= 0:
        raise AlgebraError(
            f"a window of {duration_text(size)} that moves by {duration_text(slide)} holds nothing",
            next_step="give lengths of at least one microsecond",
        )
    if slide > size:
        raise AlgebraError(
            f"windows of {duration_text(size)} that move by {duration_text(slide)} leave rows out",
            next_step="the slide comes first in HOP(…, slide, size), and last in window(ts, size, slide)",
        )
    if -(-size // slide) > MOST_WINDOWS:
        raise AlgebraError(
            f"each row would be in {-(-size // slide):,} windows, and {MOST_WINDOWS} is the most",
            next_step=f"[RANGE {duration_text(size)} SLIDE {duration_text(slide)}] keeps each row once",
        )


def _branch(node: N.Node, line: Field, size: int, slide: int, origin: Chronon, number: int) -> N.Node:
    """Return the rows with the window that is the `number`-th to end after them."""
    ends = (origin + size) % slide  # the windows end on this grid
    shown = N.Window(node, tumble(slide, lag=MICROSECOND + number * slide, origin=ends))
    ts = Column.to(line)
    ended = _last_point(ts, slide, ends)
    start, end = (
        Call("timestamp_micros", (_plus(ended, length),))
        for length in ((number + 1) * slide - size, (number + 1) * slide)
    )
    columns = tuple((f.name, Column.to(f)) for f in node.schema)
    rows = N.Project(shown, (*columns, (WINDOW_START, start), (WINDOW_END, end)))
    if (number + 1) * slide <= size:
        return rows
    # The size is no multiple of the slide: not all rows are in the window that ends last.
    return N.Filter(rows, Comparison("<=", Column(WINDOW_START, start.type), Column(ts.name, ts.type)))


def _last_point(ts: Expression, slide: int, origin: Chronon) -> Expression:
    """Return the last grid point up to a timestamp, in microseconds."""
    micros = Call("unix_micros", (ts,))
    return Arithmetic("-", micros, Call("pmod", (_plus(micros, -origin), Literal(slide, BIGINT))))


def _plus(value: Expression, length: int) -> Expression:
    if length == 0:
        return value
    return Arithmetic("+" if length > 0 else "-", value, Literal(abs(length), BIGINT))
