"""Answers as text: every type, in every format."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest

from everview.errors import EverviewError
from everview.query.answers import fetch_answer
from everview.ui.output import Sheet, require_format, write_answer

pytestmark = pytest.mark.spark

# name: the value in SQL, in a table, in JSON
VALUES: dict[str, tuple[str, str, Any]] = {
    "int": ("7", "7", 7),
    "long": ("-9223372036854775808L", "-9223372036854775808", -(2**63)),
    "yes": ("true", "true", True),
    "single": ("CAST(18.28 AS FLOAT)", "18.28", 18.28),
    "double": ("59.3D / 3", "19.766666666666666", 59.3 / 3),
    "nan": ("CAST('NaN' AS DOUBLE)", "NaN", "NaN"),
    "endless": ("CAST('-Infinity' AS FLOAT)", "-Infinity", "-Infinity"),
    "exact": ("12345678901234567890.10BD", "12345678901234567890.10", 12345678901234567890.10),
    "text": ("'a, \"b\"\\n\\u001b[31m 道'", 'a, "b"\\n\\x1b[31m 道', 'a, "b"\n\x1b[31m 道'),
    "empty": ("''", "", ""),
    "day": ("DATE'2026-01-31'", "2026-01-31", "2026-01-31"),
    "time": ("TIMESTAMP'2026-01-31 23:59:59.5'", "2026-01-31T23:59:59.500000", "2026-01-31T23:59:59.500000"),
    "far": (
        "timestamp_micros(253402300800000000)",
        "+10000-01-01T00:00:00.000000",
        "+10000-01-01T00:00:00.000000",
    ),
    "bytes": ("X'00ff'", "00FF", "00FF"),
    "nothing": ("CAST(NULL AS INT)", "NULL", None),
    "void": ("NULL", "NULL", None),
    "last": ("'.'", ".", "."),
}


def answer(spark: Any) -> Any:
    return spark.sql(f"SELECT {', '.join(f'{sql} AS {name}' for name, (sql, _, _) in VALUES.items())}")


def written(frame: Any, format: str) -> str:
    out, err = io.StringIO(), io.StringIO()
    write_answer(fetch_answer(frame), format, out, err)
    assert err.getvalue() == ""
    return out.getvalue()


def test_every_type_in_every_format(spark: Any) -> None:
    frame = answer(spark)
    line = written(frame, "json")
    assert line.count("\n") == 1
    assert json.loads(line) == {name: value for name, (_, _, value) in VALUES.items()}
    assert '"exact": 12345678901234567890.10,' in line, "as exact as it is"

    header, row = csv.reader(io.StringIO(written(frame, "csv")))
    assert header == list(VALUES)
    plain = [text for _, text, _ in VALUES.values()]
    assert [v for n, v in zip(header, row, strict=True) if n != "text"] == [
        "" if text == "NULL" else text for n, text in zip(header, plain, strict=True) if n != "text"
    ]
    assert row[header.index("text")] == VALUES["text"][2]

    names, values = written(frame, "table").splitlines()
    places = [names.index(f"{name} ") if name != "last" else names.rindex("last") for name in VALUES]
    for place, (_, text, _) in zip(places, VALUES.values(), strict=True):
        # A wide character takes two places on a terminal, and one in a string.
        moved = 1 if place > places[list(VALUES).index("text")] else 0
        assert values[place - moved :].startswith(text)


def test_a_table_that_goes_on_keeps_its_columns(spark: Any) -> None:
    out = io.StringIO()
    sheet = Sheet("table", out, {0: "-∞"})
    sheet.write(fetch_answer(spark.sql("SELECT CAST(NULL AS TIMESTAMP) AS at, 'a' AS v, 1 AS n")))
    sheet.write(fetch_answer(spark.sql("SELECT TIMESTAMP'2026-01-01' AS at, 'long' AS v, 2 AS n")))
    sheet.write(fetch_answer(spark.sql("SELECT TIMESTAMP'2026-01-01' AS at, 'b' AS v, 3 AS n")))
    assert out.getvalue().splitlines() == [
        "at  v  n",
        "-∞  a  1",
        "2026-01-01T00:00:00.000000  long  2",
        "2026-01-01T00:00:00.000000  b     3",
    ]


def test_a_notebook_shows_an_answer_as_a_table(spark: Any, tmp_path: Any) -> None:
    import everview

    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (7)")
        db.run()
        html = db.query("SELECT a AS `<b>` FROM t")._repr_html_()
    assert "<table" in html
    assert "<td>7</td>" in html
    assert "&lt;b&gt;" in html


def test_a_format_that_is_not_there() -> None:
    with pytest.raises(EverviewError, match="an answer is not shown as 'jsn'") as refused:
        require_format("jsn")
    assert refused.value.meant == "json"
