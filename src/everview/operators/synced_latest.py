"""SYNC EVERY over a tagged stream: of the rows of a key between two points only the last one counts.

Paper 5, section 8 puts a synchronizer above the tagger, which sums what comes of each update. Here rows wait
below it: those that a later row of their key and point replaces are dropped before they are tagged. Between
two points nothing is read of the latest rows, and nothing is emitted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from everview.algebra.time import INFINITY, Grid
from everview.operators.base import StatePart, column
from everview.operators.columnar.frame import FROM, UNTIL, Frame, Increment, N, Slice, State, stack_frames
from everview.operators.columnar.latest import latest_per_key
from everview.operators.columnar.lazy import pl
from everview.operators.latest_per_key import LatestPerKeyOperator
from everview.operators.summed_sync import next_points


@dataclass(frozen=True, eq=False)
class SyncedLatestOperator(LatestPerKeyOperator):
    """As a tagged stream that is synchronized on a grid: what is latest at a point holds until the next.

    State: the latest row of each key at the last point, and the last row of each key for a point to come.

    >>> from everview.algebra.types import BOOLEAN, INT
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.scan import ScanOperator
    >>> latest = SyncedLatestOperator(ScanOperator("s", (INT, INT, BOOLEAN)), (0,), (1,), grid=Grid(10))
    >>> times = [(3, INFINITY, 1), (4, INFINITY, 1)]
    >>> rows = make_frame({"c0": [1, 1], "c1": [3, 4], "c2": [False, False]}, times)
    >>> step = latest.increment([rows], latest.empty_state([rows]), Slice(0, 8))
    >>> step.output.rows(), step.added["waiting"].rows()
    ([], [(1, 4, False, 0, 10, 1)])
    >>> state = {**latest.empty_state([rows]), **step.added}
    >>> latest.increment([rows.clear()], state, Slice(8, 12)).output.rows()
    [(1, 4, 10, 9223372036854775807, 1)]
    """

    grid: Grid = field(kw_only=True)

    @property
    def state(self) -> tuple[StatePart, ...]:
        text = "the last row per key that waits for a point"
        waiting = StatePart("waiting", text, self.grid.step, until="until the next point", queue=True, fan=2)
        return (*super().state, waiting)

    def empty_state(self, new: Sequence[Frame]) -> dict[str, Frame]:
        return {**super().empty_state(new), "waiting": new[0].clear()}

    def reads_part(self, part: str, slice_: Slice) -> bool:
        return part != "open" or self.grid.after(slice_.b0) <= slice_.b1

    def increment(self, new: Sequence[Frame], state: State, slice_: Slice) -> Increment:
        [rows] = new
        at = pl.Series(UNTIL, next_points(self.grid, rows[FROM].to_numpy()))
        waiting = self._last_of_each_point(rows.with_columns(at, pl.lit(0, pl.Int64).alias(FROM)))
        waited = state["waiting"].filter((pl.col(UNTIL) > slice_.b0) & (pl.col(UNTIL) <= slice_.b1))
        due = waiting.filter(pl.col(UNTIL) <= slice_.b1)
        later = waiting.filter(pl.col(UNTIL) > slice_.b1)
        if not waited.is_empty():
            due = self._last_of_each_point(stack_frames([waited, due]))
        deletes = column(len(self.types))
        if due.is_empty():
            return Increment(rows.clear().drop(deletes), {"waiting": later})
        due = due.with_columns(pl.col(UNTIL).alias(FROM), pl.lit(INFINITY, pl.Int64).alias(UNTIL))
        key, order = ([column(i) for i in part] for part in (self.key, self.order))
        found = latest_per_key(due, state, slice_, key, order, deletes)
        return Increment(found.output.drop(deletes), {**found.added, "waiting": later})

    def compact(self, part: str, rows: Frame, bound: int) -> Frame:
        return self._last_of_each_point(rows) if part == "waiting" else super().compact(part, rows, bound)

    def _last_of_each_point(self, rows: Frame) -> Frame:
        """Return the last row of each key for each point, by the order of their arrival.

        Of most rows the first column of the order decides; only those that it does not are sorted.
        """
        key, order = ([column(i) for i in part] for part in (self.key, self.order))
        group, first = [*key, UNTIL], pl.col(order[0])
        if rows[order[0]].is_sorted():
            candidates = rows.unique(group, keep="last", maintain_order=True)
            ties = rows.join(candidates.select(*group, order[0]), on=[*group, order[0]], nulls_equal=True)
        else:
            ties = rows.filter(first.eq_missing(first.max().over(group)))
        ordered = ties.sort(order, nulls_last=False, maintain_order=True)
        last = ordered.unique(group, keep="last", maintain_order=True)
        return last.with_columns(pl.lit(1, pl.Int64).alias(N))
