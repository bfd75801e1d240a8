"""Expiry buckets: the state buffer partitioned by expiration time (paper 2, 5.3.2 and figure 7).

Where rows do not expire in the order in which they come (WK), a buffer sorted by either order makes the
other one slow. Partitioned by expiry, a row is stored with the rows that expire at about the same time.
"""

from __future__ import annotations

from dataclasses import dataclass

from everview.algebra.time import Chronon
from everview.errors import TemporalError


@dataclass(frozen=True)
class ExpiryBuckets:
    """A circular array of `count` buckets over rows that expire at most `window` after now.

    Each bucket takes a stretch of `width` expiration times, and after one turn of the array the next.
    The paper's figure 7: a window of 50 in five buckets, of which the leftmost holds 51 … 60 at time 50,
    and 101 … 110 at time 60.

    >>> buckets = ExpiryBuckets(window=50, count=5)
    >>> buckets.expirations(0, now=50), buckets.expirations(0, now=60)
    ((range(51, 61),), (range(101, 111),))
    """

    window: int
    count: int

    def __post_init__(self) -> None:
        if not 0 < self.count <= self.window:
            raise TemporalError(f"a window of {self.window} cannot be cut into {self.count} buckets")

    @property
    def width(self) -> int:
        return -(-self.window // self.count)

    def bucket(self, exp: Chronon) -> int:
        """Return the bucket of a row that expires at `exp`."""
        return (exp - 1) // self.width % self.count

    def expirations(self, bucket: int, now: Chronon) -> tuple[range, ...]:
        """Return the expiration times after `now` that the bucket holds, in order.

        The figure shows the instants at which one range is over and the next has not begun. Between
        them a bucket holds the rest of one range and the begin of the next:

        >>> ExpiryBuckets(window=50, count=5).expirations(0, now=55)
        (range(56, 61), range(101, 106))
        """
        last = now + self.window
        stretches = range(now // self.width, (last - 1) // self.width + 1)
        return tuple(
            range(max(k * self.width, now) + 1, min((k + 1) * self.width, last) + 1)
            for k in stretches
            if k % self.count == bucket
        )
