"""Headers of CSV files: records are split as Python's csv module writes them, columns are found by name."""

from __future__ import annotations

import csv
import io
import re

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.ingest.csv_header import (
    EMPTY,
    FIELD_COUNT,
    RECORD,
    REFUSED,
    Dialect,
    HeaderTask,
    header_in_file,
    text_column,
)
from everview.ingest.reading import BLOCK, FILE

FIELDS = st.lists(st.text('ab" ,;\n\té'), min_size=1, max_size=6)


def written(fields: list[str], quoting: int, delimiter: str = ",") -> str:
    out = io.StringIO()
    csv.writer(out, quoting=quoting, delimiter=delimiter, lineterminator="").writerow(fields)  # type: ignore[arg-type]
    return out.getvalue()


@given(FIELDS, st.sampled_from((csv.QUOTE_MINIMAL, csv.QUOTE_ALL)), st.sampled_from(",;\t|"))
def test_a_record_is_split_as_it_was_written(fields: list[str], quoting: int, delimiter: str) -> None:
    dialect = Dialect(separator=delimiter)
    record = written(fields, quoting, delimiter)
    assert dialect.split(record) == fields
    # What Catalyst counts: separators, where quoted fields are taken out.
    bare = re.sub(dialect.quoted, r"\1", record)
    assert bare.count(delimiter) + 1 == len(fields)


@given(st.data())
def test_texts_are_found_by_the_header_of_their_file(data: st.DataObject) -> None:
    """Whatever the order and number of columns; also beyond those that Spark was asked for."""
    names = ("a", "b", "c")
    task = HeaderTask(names, frozenset({"a"}), Dialect(), wide := 4)
    batches, expected = [], []
    for number in range(data.draw(st.integers(1, 3))):
        header = data.draw(st.permutations([*data.draw(st.sets(st.sampled_from(names))), "x", "y", "z"]))
        rows = data.draw(
            st.lists(st.lists(st.sampled_from(("", "v", 'w"')), min_size=1, max_size=8), max_size=3)
        )
        path = f"file:/in/{number}.csv"
        batches.append(_batch([header, *rows], path, wide))
        refused = None if "a" in header else f"a: /in/{number}.csv has no such column"
        for row in rows:
            texts = dict(zip(header, row, strict=False))
            expected.append(([texts.get(n) or None for n in names], len(header), refused))
    found = [
        ([row[text_column(i)] for i in range(3)], row[FIELD_COUNT], row[REFUSED])
        for batch in task(batches)
        for row in batch.to_pylist()
    ]
    assert found == expected


def _batch(rows: list[list[str]], path: str, wide: int) -> pa.RecordBatch:
    """What Catalyst gives: texts up to a position, and the record."""
    texts = [[(row[i] or None) if i < len(row) else None for row in rows] for i in range(wide)]
    records = [written(row, csv.QUOTE_MINIMAL) for row in rows]
    arrays = [*(pa.array(t, pa.string()) for t in texts), pa.array(records, pa.string())]
    arrays += [pa.array([path] * len(rows)), pa.array([0] * len(rows), pa.int64())]
    return pa.RecordBatch.from_arrays(arrays, names=[*map(text_column, range(wide)), RECORD, FILE, BLOCK])


def test_far_columns_in_quotes() -> None:
    task = HeaderTask(("k",), frozenset(), Dialect(), 1)
    record = pa.array(["a,k", 'x,"y, ""z"""', 'x,""', "x,"], pa.string())
    arrays = [pa.array(["a", "x", "x", "x"]), record, pa.array(["file:/a"] * 4), pa.array([0] * 4)]
    [batch] = task([pa.RecordBatch.from_arrays(arrays, names=[text_column(0), RECORD, FILE, BLOCK])])
    assert batch.column(text_column(0)).to_pylist() == ['y, "z"', EMPTY, None]


@pytest.mark.parametrize(
    ("content", "dialect"),
    [
        (b"\xef\xbb\xbfk,v\r\n1,2\r\n", Dialect()),
        (b"\n# no\n\n'k';v\n", Dialect(separator=";", quote="'", escape="'", comment="#")),
    ],
)
def test_the_header_in_a_file(tmp_path, content: bytes, dialect: Dialect) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "a.csv").write_bytes(content)
    assert header_in_file(f"file:{tmp_path}/a.csv", dialect) == ["k", "v"]
