"""Expiry buckets: the state buffer partitioned by expiration time (paper 2, 5.3.2 and figure 7).

Where rows do not expire in the order in which they come (WK), a buffer sorted by either order makes the
other one slow. Partitioned by expiry, a row is stored with the rows that expire at about the same time.
"""

from __future__ import annotations

from dataclasses import dataclass

from everview.errors import TemporalError


@dataclass(frozen=True)
class ExpiryBuckets:
    """A circular array of `count` buckets over rows that expire at most `window` after now.

    Each bucket takes a stretch of `width` expiration times, and after one turn of the array the next. In the
    paper's figure 7 a window of 50 lies in five buckets, of which the leftmost holds 51 … 60 at time 50, and
    101 … 110 at time 60.

    >>> ExpiryBuckets(window=50, count=5).width
    10
    """

    window: int
    count: int

    def __post_init__(self) -> None:
        if not 0 < self.count <= self.window:
            raise TemporalError(f"a window of {self.window} cannot be cut into {self.count} buckets")

    @property
    def width(self) -> int:
        return -(-self.window // self.count)
