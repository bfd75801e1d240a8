"""Expiry buckets: the state buffer partitioned by expiration time (paper 2, 5.3.2 and figure 7).

Where rows do not expire in the order in which they come (WK), a buffer sorted by either order makes the
other one slow. Partitioned by expiry, a row is stored with the rows that expire at about the same time.
"""

from __future__ import annotations

from dataclasses import dataclass

from everview.errors import TemporalError

_MOST_BUCKETS = 64  # in a window
_MOST_IN_USE = 8  # at once: about as in paper 2, section 6.1; fifty save nothing (docs/performance.md)


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

    @classmethod
    def of_spread(cls, window: int, spread: int, files: int) -> ExpiryBuckets:
        """Return buckets for rows whose ends lie within `spread` of each other, and which fill some files.

        Each bucket has about one file, and none is wider than needed: ends that are close together lie in
        one. Counts are powers of two, as is the window: what lay in two buckets lies in one of half as many.

        >>> ExpiryBuckets.of_spread(100, 100, 9), ExpiryBuckets.of_spread(100, 30, 9)
        (ExpiryBuckets(window=128, count=8), ExpiryBuckets(window=128, count=32))
        >>> ExpiryBuckets.of_spread(100, 1, 9).count, ExpiryBuckets.of_spread(100, 100, 1).count
        (1, 1)
        """
        whole = 1 << max(window - 1, 0).bit_length()
        if files < 2 or spread * _MOST_BUCKETS < whole:
            return cls(whole, 1)
        wanted = min(min(files, _MOST_IN_USE) * whole // max(spread, 1), _MOST_BUCKETS, whole)
        return cls(whole, 1 << (wanted.bit_length() - 1))
