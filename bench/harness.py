"""Measurement of ours against a peer, in alternation, so that a busy machine slows both alike."""

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Comparison:
    """The seconds of each run, ours and the peer's."""

    name: str
    ours: tuple[float, ...]
    peer: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """The median time of the peer divided by ours."""
        return median(self.peer) / median(self.ours)


def compare(
    name: str,
    ours: Callable[[], object],
    peer: Callable[[], object],
    *,
    runs: int = 7,
    warm_ups: int = 2,
) -> Comparison:
    """Warm both up, run them in alternation, print the table and return the times."""
    for _ in range(warm_ups):
        ours()
        peer()
    seconds: dict[Callable[[], object], list[float]] = {ours: [], peer: []}
    for turn in range(runs):
        # The second one runs with warm caches: each is second half of the time.
        for run in (ours, peer) if turn % 2 == 0 else (peer, ours):
            seconds[run].append(_time(run))
    comparison = Comparison(name, tuple(seconds[ours]), tuple(seconds[peer]))
    _print(comparison)
    return comparison


def _time(run: Callable[[], object]) -> float:
    gc.collect()
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _print(comparison: Comparison) -> None:
    table = Table("", "median ms", "fastest ms", "slowest ms", title=comparison.name, title_justify="left")
    for name, times in (("ours", comparison.ours), ("peer", comparison.peer)):
        table.add_row(name, *(f"{1000 * seconds:.2f}" for seconds in (median(times), min(times), max(times))))
    table.add_row("ratio", f"{comparison.ratio:.2f} × as fast", "", "")
    Console().print(table)
