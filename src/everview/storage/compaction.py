"""When runs are merged: chosen by what is known of them, without reading any.

Four reasons. Many runs of one size (size tiers; so their number grows with the logarithm of the rows);
many small ones; too many rows that have ended, in runs that have not ended whole; too many rows that
may cancel. What is kept is at most `slack` times what matters, or `small` rows more than that.

No library is used: what to merge depends on how many rows of a run have ended or may cancel, and a storage
engine does not know that of our rows.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from everview.algebra.time import INFINITY
from everview.errors import StoreError
from everview.operators.columnar.frame import UNTIL, Frame
from everview.operators.columnar.lazy import np, pl
from everview.storage.runs import Run
from everview.temporal.expiry import ExpiryBuckets

_STRETCH = "_stretch"


@dataclass(frozen=True)
class Policy:
    """How a trace is laid out: its expiry buckets, if any, and when its runs are merged.

    `small` is the number of rows below which a file is not worthwhile: smaller runs are one tier, and
    are not split over buckets. `fan` runs of a tier are merged, unless they have `large` numbers of rows:
    that would take long, and save little. `cancelling` says that merging may make rows fewer because some
    cancel or add up (signed inputs, sums, MIN and MAX), not only because they end. `coalescing` says that
    rows extend earlier ones of their record, and become one with them.
    """

    buckets: ExpiryBuckets | None = None
    small: int = 10_000
    fan: int = 4
    slack: float = 1.5
    cancelling: bool = True
    large: int = 500_000
    coalescing: bool = False

    def __post_init__(self) -> None:
        if self.fan < 2 or self.slack <= 1 or self.small < 0:
            raise StoreError(
                f"runs cannot be merged by fan {self.fan}, slack {self.slack}, small {self.small}",
                next_step="take a fan of at least 2, a slack above 1, and no negative number of rows",
            )

    def tier(self, rows: int) -> int:
        """Return the size class of a run.

        >>> [Policy().tier(n) for n in (1, 9_999, 10_000, 39_999, 40_000, 160_000)]
        [0, 0, 1, 1, 2, 3]
        """
        smallest = max(self.small, 1)
        return 0 if rows < smallest else 1 + int(math.log(rows / smallest, self.fan) + 1e-9)

    def bucket(self, run: Run) -> int | None:
        """Return the expiry bucket of all rows of a run (∞ has its own); None if it spans several."""
        if self.buckets is None or self.buckets.count == 1 or run.least_until == INFINITY:
            return INFINITY
        first, last = ((t - 1) // self.buckets.width for t in (run.least_until, run.greatest_until))
        return first if first == last else None

    def split(self, frame: Frame, bound: int) -> list[Frame]:
        """Return the rows by expiry bucket, in the order of their ends; rows that never end have their own.

        What ends later than one turn of the buckets after the bound is one part, too: so there are
        never many more parts than buckets.

        >>> policy = Policy(ExpiryBuckets(window=50, count=5), small=0)
        >>> parts = policy.split(pl.DataFrame({UNTIL: [60, 51, 61, 70, INFINITY, 400, 900]}), 50)
        >>> [p[UNTIL].to_list() for p in parts]
        [[60, 51], [61, 70], [400, 900], [9223372036854775807]]
        """
        if self.buckets is None or self.buckets.count == 1 or frame.height < max(self.small, 2):
            return [frame]
        until = frame[UNTIL].to_numpy()
        stretch = (until - 1) // self.buckets.width
        first = max(bound // self.buckets.width, int(stretch.min()))
        stretch = np.where(until == INFINITY, INFINITY, np.minimum(stretch, first + self.buckets.count + 1))
        marked = frame.with_columns(pl.Series(_STRETCH, stretch))
        parts = marked.partition_by(_STRETCH, as_dict=True, maintain_order=True, include_key=False)
        return [parts[key] for key in sorted(parts)]


def merges(runs: Sequence[Run], policy: Policy, bound: int) -> list[list[Run]]:
    """Return the runs to be merged, in groups; a group of one run only loses rows that have ended.

    >>> runs = [Run(str(i), 5, 90 + i, 99, 0, 0, 0) for i in range(4)]
    >>> [[run.path for run in group] for group in merges(runs, Policy(), 50)]
    [['0', '1', '2', '3']]
    >>> merges(runs[:3], Policy(), 50)
    []
    """
    by_bucket: defaultdict[tuple[object, ...], list[Run]] = defaultdict(list)
    for run in runs:
        by_bucket[_bucket(run, policy)].append(run)
    chosen = {bucket: _worth_merging(group, policy, bound) for bucket, group in by_bucket.items()}
    for run in _mostly_ended(runs, [run for group in chosen.values() for run in group], policy, bound):
        chosen[_bucket(run, policy)].append(run)
    return [group for group in chosen.values() if group]


def _bucket(run: Run, policy: Policy) -> tuple[object, ...]:
    """Return what runs must share to be merged: the bucket of their ends, and the places of their columns."""
    return policy.bucket(run), run.places


def _worth_merging(runs: list[Run], policy: Policy, bound: int) -> list[Run]:
    """Return the runs of one bucket to merge: all, if too many rows may cancel; else those of full tiers.

    Beside a largest run of B rows, others of r rows can cancel r of it: B + r are kept where B - r
    matter. That is more than `slack` times as much when r > B · (slack - 1) / (slack + 1). But no more can
    cancel than there are negative rows, each with another. Of rows that coalesce, all others may.
    """
    sizes = {run: run.alive(bound) for run in runs}
    largest = max(sizes.values())
    others = sum(sizes.values()) - largest
    if not policy.coalescing:
        others = min(others, 2 * sum(run.cancelling for run in runs))
    share = (policy.slack - 1) / (policy.slack + 1)
    # Rows that coalesce are few, whatever came: it is worthwhile to merge smaller runs.
    least = policy.small // 10 if policy.coalescing else policy.small
    shrinks = policy.cancelling or policy.coalescing
    if shrinks and len(runs) > 1 and others > max(least, largest * share):
        return list(runs)
    tiers: defaultdict[int, list[Run]] = defaultdict(list)
    for run in runs:
        if sizes[run] < policy.large:
            tiers[policy.tier(sizes[run])].append(run)
    merged: list[Run] = []
    for tier in sorted(tiers):
        # What was merged below may fill this tier.
        grown = bool(merged) and policy.tier(sum(sizes[run] for run in merged)) == tier
        if len(tiers[tier]) + grown >= policy.fan:
            merged += tiers[tier]
    return merged


def _mostly_ended(runs: Sequence[Run], merged: Sequence[Run], policy: Policy, bound: int) -> list[Run]:
    """Return the runs to rewrite because many of their rows have ended, those that shrink most first."""
    alive = sum(run.alive(bound) for run in runs)
    already = {run.path for run in merged}
    ended = {run: run.rows - run.alive(bound) for run in runs if run.path not in already}
    excess = sum(ended.values()) - max((policy.slack - 1) * alive, policy.small)
    found = []
    for run in sorted(ended, key=lambda run: (-ended[run] / run.rows, run.path)):
        if excess <= 0 or not ended[run]:
            break
        found.append(run)
        excess -= ended[run]
    return found
