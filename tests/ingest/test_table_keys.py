"""The key of a table that files feed, against a plain oracle: over batches, files, blocks and partitions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from everview.algebra.time import INFINITY
from everview.ingest.table_keys import _ROW_POSITION, settle_versions
from everview.operators.columnar.frame import CHANGE, FROM, UNTIL, N

Row = tuple[int, str | None]  # the key, and the rest of the row
SCHEMA = {"c0": pl.Int32, "c1": pl.String}


@dataclass(frozen=True)
class File:
    """A file with its rows in order."""

    time: int
    name: str
    rows: tuple[Row, ...]


rows = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["x", "y", None])), max_size=6).map(tuple)


@st.composite
def batches(draw: st.DrawFn) -> list[list[File]]:
    """Batches of files with names of their own; their times may be equal."""
    names = (f"{i}.csv" for i in draw(st.permutations(range(8))))
    sizes = draw(st.lists(st.integers(0, 2), max_size=4))
    return [[File(draw(st.integers(0, 2)), next(names), draw(rows)) for _ in range(size)] for size in sizes]


def loaded(history: list[list[File]]) -> tuple[list[dict[int, Row]], Counter[tuple[str, Row]]]:
    """What the table is after each batch, and which rows are rejected: file by file, row by row."""
    table: dict[int, Row] = {}
    rejected: Counter[tuple[str, Row]] = Counter()
    after = []
    for batch in history:
        for file in sorted(batch, key=lambda f: (f.time, f.name)):
            seen: set[int] = set()
            for row in file.rows:
                if row[0] in seen:
                    rejected[file.name, row] += 1
                else:
                    seen.add(row[0])
                    table[row[0]] = row
        after.append(dict(table))
    return after, rejected


def placed(batch: list[File], block: int) -> pl.DataFrame:
    """The rows of a batch as tasks set them aside, each file in blocks of so many rows."""
    made = [
        (*row, file.name, file.time, i - i % block, i % block, ",".join(map(str, row)), 0, INFINITY, 1)
        for file in batch
        for i, row in enumerate(file.rows)
    ]
    kinds = {**SCHEMA, **_ROW_POSITION, **dict.fromkeys(CHANGE, pl.Int64)}
    return pl.DataFrame(made, schema=kinds, orient="row")


@given(batches(), st.integers(1, 3), st.integers(1, 3), st.randoms())
def test_against_the_oracle(history: list[list[File]], block: int, partitions: int, rng: object) -> None:
    held = pl.DataFrame(schema={**SCHEMA, **dict.fromkeys(CHANGE, pl.Int64)})
    rejected: Counter[tuple[str, Row]] = Counter()
    after, expected = loaded(history)
    for step, (batch, table) in enumerate(zip(history, after, strict=True)):
        came = placed(batch, block)
        order = list(range(came.height))
        rng.shuffle(order)  # type: ignore[attr-defined]
        came = came[order] if order else came
        parts = []
        for part in range(partitions):
            mine = pl.col("c0") % partitions == part
            changed, twice = settle_versions(held.filter(mine), came.filter(mine), ["c0"], step)
            parts.append(changed)
            rejected.update(
                (name, (k, v)) for k, v, name in twice.select("c0", "c1", "_everview_file").rows()
            )
        changes = pl.concat(parts)
        assert changes.select(pl.col(FROM).eq(step).all() & pl.col(UNTIL).eq(INFINITY).all()).item()
        held = pl.concat([held, changes])
        now = held.group_by("c0", "c1").agg(pl.col(N).sum()).filter(pl.col(N) != 0).rows()
        assert Counter(now) == Counter((*row, 1) for row in table.values())
    assert rejected == expected


def test_rows_that_loaded_twice_before_keys_were_checked_are_one_again() -> None:
    held = pl.DataFrame(
        [(1, "x", 0, INFINITY, 2), (1, "y", 0, INFINITY, 1)],
        schema={**SCHEMA, **dict.fromkeys(CHANGE, pl.Int64)},
        orient="row",
    )
    changed, _ = settle_versions(held, placed([File(0, "a", ((1, "x"),))], 1), ["c0"], 5)
    assert sorted(changed.rows()) == [(1, "x", 5, INFINITY, -1), (1, "y", 5, INFINITY, -1)]


def test_records_of_another_source_count_one_by_one() -> None:
    """Without files, the later record is the greater one of its partition and offset, then of its values."""
    came = placed([File(0, "a", ((1, "x"), (1, "z"), (1, "y")))], 1).with_columns(
        pl.lit(None, pl.String).alias("_everview_file"), pl.lit(0, pl.Int64).alias("_index")
    )
    by_offset, twice = settle_versions(None, came, ["c0"], 5)
    assert by_offset["c1"].to_list() == ["y"]
    by_value, _ = settle_versions(
        None, came.with_columns(pl.lit(None, pl.Int64).alias("_everview_block")), ["c0"], 5
    )
    assert by_value["c1"].to_list() == ["z"]
    assert twice.is_empty()
