"""The join of a stream with the version of a table at the row's own time (paper 2, 4.1 and definition 2).

Later updates of the table leave the result alone, so that the stream is not kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from everview.kernels.frame import FROM, UNTIL, Frame, N, Result, State, record_columns, stacked
from everview.kernels.hashing import Ints, hashes
from everview.kernels.keys import arranged, matches, spread
from everview.kernels.pairs import without_nulls


def join_version(
    stream: Frame, table: Frame, state: State, timestamp: str, left_on: Sequence[str], right_on: Sequence[str]
) -> Result:
    """One step of ⋈NRR; its state is the versions of the table.

    >>> from everview.kernels.frame import changes
    >>> stream = changes({"k": [1], "ts": [5]}, [(5, 15, 1)])
    >>> table = changes({"id": [1, 1], "name": ["old", "new"]}, [(0, 6, 1), (6, 99, 1)])
    >>> join_version(stream, table, {"versions": table.clear()}, "ts", ["k"], ["id"]).output.rows()
    [(1, 5, 1, 'old', 5, 15, 1)]
    """
    stream = without_nulls(stream, [*left_on, timestamp])
    table = arranged(without_nulls(table, right_on), right_on)
    instants = stream[timestamp].cast(pl.Int64).to_numpy()
    numbers = hashes(stream, left_on)
    met = []
    for versions in (state["versions"], table):
        if left_on:
            there, here = matches(versions, right_on, stream, left_on, numbers)
        else:
            there, here = _during(versions, instants)
        met.append(_versions(stream, here, instants, versions, there))
    return Result(stacked(met), {"versions": table})


def _during(versions: Frame, instants: Ints) -> tuple[Ints, Ints]:
    """All versions with the rows of the stream that come while they hold."""
    order = np.argsort(instants)
    low, high = (np.searchsorted(instants[order], versions[c].to_numpy()) for c in (FROM, UNTIL))
    here, there = spread(low, np.maximum(low, high))
    return there, order[here]


def _versions(stream: Frame, here: Ints, instants: Ints, versions: Frame, there: Ints) -> Frame:
    """Of some rows and versions those where the version holds at the row's instant."""
    found = versions[[FROM, UNTIL, N]][there]
    at = instants[here]
    kept = np.flatnonzero((found[FROM].to_numpy() <= at) & (at < found[UNTIL].to_numpy()))
    rows = stream[here[kept]]
    n = rows[N].to_numpy() * found[N].to_numpy()[kept]
    table = versions[record_columns(versions)][there[kept]]
    columns = [*rows[record_columns(stream)].get_columns(), *table.get_columns()]
    return pl.DataFrame([*columns, rows[FROM], rows[UNTIL], pl.Series(N, n)])
