"""Paper 4's scope functions, written as the paper writes them (section 3.3).

A scope function maps an instant τ to the closed interval of timestamps that a window covers at τ,
or to None for ∅. It is slow and literal on purpose: `windows.py` is tested against it.
"""

from __future__ import annotations

from collections.abc import Sequence

from everview.algebra.time import LEAST, Chronon
from everview.algebra.windows import Band, Fixed, Range, TimeWindow

ScopeInterval = tuple[Chronon, Chronon] | None


def scope(window: TimeWindow, tau: Chronon, tau0: Chronon) -> ScopeInterval:
    """Return the scope at τ of a window that was applied at τ0; no row is older than τ0.

    >>> scope(Range(2, slide=1, lag=1), 6, 0), scope(Range(4), 1, 0), scope(Band(upper=3), 9, 0)
    ((4, 5), (0, 1), (0, 3))
    """
    match window:
        case Range(extent, slide, lag, origin):
            # The paper's grid begins at τ0; an ORIGIN asks for the latest grid point up to τ0.
            return sliding(tau, tau0 - (tau0 - origin) % slide, extent, slide, lag)
        case Fixed(extent, origin):
            return fixed(tau, extent, origin)
        case Band(None, None):
            return tau0, tau
        case Band(lower, None) if lower is not None:
            return lower_landmark(tau, lower)
        case Band(None, upper) if upper is not None:
            return upper_landmark(tau, tau0, upper)
        case Band(lower, upper):
            return fixed_band(tau, lower if lower is not None else LEAST, upper if upper is not None else tau)


def sliding(tau: Chronon, tau0: Chronon, extent: int, step: int, lag: int) -> ScopeInterval:
    """scope_s(τ): time-based sliding and tumbling windows, half-filled at first (paper 4, 3.3)."""
    # scope_s(τ) = scope_s(τ - 1) between two steps: that recursion, all of it at once.
    if (between := (tau - tau0) % step) != 0 and tau >= tau0 + lag:
        return sliding(tau - between, tau0, extent, step, lag)
    if tau < tau0 + lag:
        return None
    if tau - lag < tau0 + extent:
        return tau0, tau - lag
    return tau - lag - extent + 1, tau - lag


def fixed(tau: Chronon, extent: int, origin: Chronon) -> ScopeInterval:
    """Return the section of a fixed window that τ lies in, up to τ (paper 1, 2.6, as a scope)."""
    return tau - (tau - origin) % extent, tau


def lower_landmark(tau: Chronon, lower: Chronon) -> ScopeInterval:
    """scope_l(τ): from the landmark on (paper 4, 3.3)."""
    return None if tau < lower else (lower, tau)


def upper_landmark(tau: Chronon, tau0: Chronon, upper: Chronon) -> ScopeInterval:
    """scope_u(τ): up to the landmark, then frozen (paper 4, 3.3)."""
    return (tau0, tau) if tau < upper else (tau0, upper)


def fixed_band(tau: Chronon, lower: Chronon, upper: Chronon) -> ScopeInterval:
    """scope_b(τ): between two landmarks (paper 4, 3.3)."""
    if tau < lower:
        return None
    return (lower, tau) if tau <= upper else (lower, upper)


def session(tau: Chronon, stamps: Sequence[Chronon], gap: int) -> ScopeInterval:
    """Return the scope at τ of a session window, for the timestamps of one key: the session that is open.

    It began with the first of the rows up to τ between which no pause is as long as the gap.

    >>> session(8, [1, 5, 7], 3), session(10, [1, 5, 7], 3), session(8, [], 3)
    ((5, 8), None, None)
    """
    come = sorted(ts for ts in stamps if ts <= tau)
    if not come or tau >= come[-1] + gap:
        return None
    start = come[-1]
    for ts in reversed(come):
        if start - ts >= gap:
            break
        start = ts
    return start, tau


def assigned_windows(ts: Chronon, size: int, slide: int, origin: Chronon) -> list[tuple[Chronon, Chronon]]:
    """Return the windows that TUMBLE and HOP assign a row to: all [start, end) on the grid that hold ts.

    >>> assigned_windows(7, 10, 5, 0), assigned_windows(10, 10, 10, 0)
    ([(0, 10), (5, 15)], [(10, 20)])
    """
    starts = [start for start in range(ts - size + 1, ts + 1) if (start - origin) % slide == 0]
    return [(start, start + size) for start in starts]


def whole_window(tau: Chronon, size: int, slide: int, origin: Chronon) -> ScopeInterval:
    """Return the scope of TUMBLE and HOP at τ: the last of their windows that is over, without its end.

    >>> whole_window(20, 10, 10, 0), whole_window(19, 10, 5, 0)
    ((10, 19), (5, 14))
    """
    end = max(end for end in range(tau - slide + 1, tau + 1) if (end - size - origin) % slide == 0)
    return end - size, end - 1
