"""The join of a stream with the version of a table at the row's own time (paper 2, 4.1 and definition 2).

Later updates of the table leave the result alone, so that the stream is not kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from everview.kernels.frame import FROM, UNTIL, Frame, N, Result, State, comparable, record_columns, stacked

_ROW, _SINCE, _TO, _COPIES = "_row", "_since", "_to", "_copies"


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
    versions = stacked([state["versions"], table])
    there = versions.rename({FROM: _SINCE, UNTIL: _TO, N: _COPIES})
    keys = [f"_key{i}" for i in range(len(left_on))]
    here = stream.with_columns(comparable(stream, c).alias(k) for c, k in zip(left_on, keys, strict=True))
    there = there.with_columns(comparable(there, c).alias(k) for c, k in zip(right_on, keys, strict=True))
    at = pl.col(timestamp).cast(pl.Int64)
    if keys:
        pairs = here.join(there, on=keys, how="inner").filter((pl.col(_SINCE) <= at) & (at < pl.col(_TO)))
    else:
        pairs = here.join_where(there, pl.col(_SINCE) <= at, at < pl.col(_TO))
    output = pairs.with_columns((pl.col(N) * pl.col(_COPIES)).alias(N)).select(
        *record_columns(stream), *record_columns(table), FROM, UNTIL, N
    )
    return Result(output, {"versions": table})
