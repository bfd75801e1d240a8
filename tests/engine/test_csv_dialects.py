"""A CSV record has as many columns as it has, in every dialect, also those that Spark says nothing of."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import everview
from everview.algebra.text import string_sql
from tests.engine.reading import put

pytestmark = pytest.mark.spark

DIALECTS = {
    "comma": {},
    "semicolon": {"sep": ";"},
    "tab": {"sep": "\\t"},
    "two": {"sep": "||"},
    "single": {"sep": ";", "quote": "'"},
    "slash": {"sep": ";", "escape": "\\"},
    "bare": {"sep": "|", "quote": ""},
}


def written(field: str, options: dict[str, str]) -> str:
    """A field as a tool writes it in a dialect; with nothing in it that the dialect cannot write."""
    quote, escape = options.get("quote", '"'), options.get("escape", options.get("quote", '"'))
    if not quote:
        return field.replace("S", "-").replace("Q", "-")
    separator = {"\\t": "\t"}.get(options.get("sep", ","), options.get("sep", ","))
    plain = field.replace("S", separator).replace("Q", quote)
    return plain if plain == field else quote + plain.replace(quote, escape + quote) + quote


@pytest.mark.parametrize("header", [False, True])
def test_records_of_any_number_of_columns(spark: SparkSession, tmp_path: Path, header: bool) -> None:
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        for name, options in DIALECTS.items():
            separator = {"\\t": "\t"}.get(options.get("sep", ","), options.get("sep", ","))
            lines = []
            for size in (*range(1, 13), 20):
                for fields in (["a"] * size, [*["b"] * (size - 1), "xSy"], ["QzQ", *["c"] * (size - 1)]):
                    lines.append(separator.join(written(f, options) for f in fields))
            first = [separator.join(["k0", "k1"])] if header else []
            put(tmp_path / name, "1.csv", "\n".join([*first, *lines]) + "\n")
            shown = ", ".join(
                f"{k} => {string_sql(v)}" for k, v in (options | {"header": str(header)}).items()
            )
            path = tmp_path / name
            db.execute(f"CREATE TABLE {name} (k0 STRING, k1 STRING) FROM csv('{path}', {shown})")
        db.run()
        for name in DIALECTS:
            reasons = [r._reason for r in db.query(f"SELECT _reason FROM {name}$rejected").collect()]
            sizes = [1, *range(3, 13), 20]
            said = [f"it has {n} column{'s' * (n > 1)}, not 2" for n in sizes for _ in range(3)]
            assert sorted(reasons) == sorted(said), name
            assert db.manifest().counts[name][0] == 3, name


def test_a_later_file_with_eight_columns_more(spark: SparkSession, tmp_path: Path) -> None:
    more = [f"m{i}" for i in range(8)]
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        for name, options in DIALECTS.items():
            separator = {"\\t": "\t"}.get(options.get("sep", ","), options.get("sep", ","))
            put(tmp_path / name, "1.csv", separator.join(["k0", "k1"]) + "\n" + separator.join("ab") + "\n")
            values = [written("xSQy", options), *["v"] * 8, written("Q", options)]
            content = [separator.join(["k1", *more, "k0"]), separator.join(values)]
            put(tmp_path / name, "2.csv", "\n".join(content) + "\n")
            shown = ", ".join(f"{k} => {string_sql(v)}" for k, v in (options | {"header": "true"}).items())
            path = tmp_path / name
            db.execute(f"CREATE TABLE {name} (k0 STRING, k1 STRING) FROM csv('{path}', {shown})")
        db.run()
        for name, options in DIALECTS.items():
            quote = options.get("quote", '"')
            separator = {"\\t": "\t"}.get(options.get("sep", ","), options.get("sep", ","))
            text = f"x{separator}{quote}y" if quote else "x--y"
            rows = sorted(tuple(r) for r in db.query(f"SELECT * FROM {name}").collect())
            assert rows == sorted([("a", "b"), (quote or "-", text)]), name
