"""The join of a stream with the version of a table at the row's own time (paper 2, 4.1 and definition 2).

Later updates of the table leave the result alone, so that the stream is not kept. A row that is taken back
meets the version that it met when it came: that at its own timestamp. So versions are kept as long as the
timestamps of rows to come can lie in them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from everview.kernels.frame import (
    FROM,
    UNTIL,
    Frame,
    N,
    Result,
    State,
    consolidate,
    group_starts,
    record_columns,
    stacked,
)
from everview.kernels.hashing import Ints, hashes
from everview.kernels.keys import arranged, grouped, matches, spread
from everview.kernels.pairs import without_nulls
from everview.kernels.timeline import in_time_order, pieces


def join_version(
    stream: Frame, table: Frame, state: State, timestamp: str, left_on: Sequence[str],
    right_on: Sequence[str], nulls_equal: bool = False,
) -> Result:  # fmt: skip
    """One step of ⋈NRR; its state is the versions of the table.

    >>> from everview.kernels.frame import changes
    >>> stream = changes({"k": [1], "ts": [5]}, [(5, 15, 1)])
    >>> table = changes({"id": [1, 1], "name": ["old", "new"]}, [(0, 6, 1), (6, 99, 1)])
    >>> join_version(stream, table, {"versions": table.clear()}, "ts", ["k"], ["id"]).output.rows()
    [(1, 5, 1, 'old', 5, 15, 1)]
    """
    stream = without_nulls(stream, [timestamp] if nulls_equal else [*left_on, timestamp])
    table = arranged(table if nulls_equal else without_nulls(table, right_on), right_on)
    instants = stream[timestamp].cast(pl.Int64).to_numpy()
    numbers = hashes(stream, left_on)
    met = []
    for versions in (state["versions"], table):
        if left_on:
            there, here = matches(versions, right_on, stream, left_on, numbers)
        else:
            there, here = _during(versions, instants)
        met.append(_versions(stream, here, instants, versions, there))
    output = stacked([rows for rows, _ in met])
    # A version that was put in and taken back again is none: its rows cancel.
    return Result(consolidate(output) if any(ended for _, ended in met) else output, {"versions": table})


def _during(versions: Frame, instants: Ints) -> tuple[Ints, Ints]:
    """All versions with the rows of the stream that come while they hold."""
    order = np.argsort(instants)
    low, high = (np.searchsorted(instants[order], versions[c].to_numpy()) for c in (FROM, UNTIL))
    here, there = spread(low, np.maximum(low, high))
    return there, order[here]


def _versions(stream: Frame, here: Ints, instants: Ints, versions: Frame, there: Ints) -> tuple[Frame, bool]:
    """Of some rows and versions those where the version holds at the row's instant; has any been ended?"""
    found = versions[[FROM, UNTIL, N]][there]
    at = instants[here]
    kept = np.flatnonzero((found[FROM].to_numpy() <= at) & (at < found[UNTIL].to_numpy()))
    rows = stream[here[kept]]
    copies = found[N].to_numpy()[kept]
    table = versions[record_columns(versions)][there[kept]]
    columns = [*rows[record_columns(stream)].get_columns(), *table.get_columns()]
    n = rows[N].to_numpy() * copies
    return pl.DataFrame([*columns, rows[FROM], rows[UNTIL], pl.Series(N, n)]), bool((copies < 0).any())


def compact_versions(rows: Frame, right_on: Sequence[str], horizon: int) -> Frame:
    """The versions as rows that end where they were replaced; before the horizon nobody looks any more.

    >>> from everview.kernels.frame import changes
    >>> table = changes({"id": [1, 1, 1]}, [(0, 99, 1), (6, 99, -1), (8, 99, 1)])
    >>> compact_versions(table, ["id"], 4).drop("_hash").rows(), compact_versions(table, ["id"], 6).height
    ([(1, 4, 6, 1), (1, 8, 99, 1)], 1)
    """
    since = rows[FROM].to_numpy().clip(min=horizon)
    until, n = rows[UNTIL].to_numpy(), rows[N].to_numpy()
    held = np.flatnonzero(since < until)
    rows, since, until, n = rows[held], since[held], until[held], n[held]
    columns = record_columns(rows)
    groups = grouped(rows, columns, hashes(rows, columns))
    ids = np.concatenate([groups.ids, groups.ids])
    times, counts = np.concatenate([since, until]), np.concatenate([n, -n])
    order, firsts = in_time_order(ids, times)
    copies = np.cumsum(np.add.reduceat(counts[order], firsts)) if len(order) else counts
    ids, times = ids[order][firsts], times[order][firsts]
    closed = pieces(rows[groups.firsts], columns, ids, times, copies, group_starts(ids))
    return arranged(closed, right_on)


def without_version(stream: Frame, met: Frame) -> Result:
    """The rows of a stream that met no version, in the step in which they come; nothing is kept.

    Whether a row meets one depends on its record alone, and is never different later.

    >>> from everview.kernels.frame import changes
    >>> stream = changes({"k": [1, 2], "ts": [5, 6]}, [(5, 15, 1), (6, 16, 1)])
    >>> without_version(stream, stream[:1]).output.rows()
    [(2, 6, 6, 16, 1)]
    """
    columns = record_columns(stream)
    known = arranged(met, columns)
    _, here = matches(known, columns, stream, columns, hashes(stream, columns))
    alone = np.ones(stream.height, dtype=bool)
    alone[here] = False
    return Result(stream.filter(alone))
