"""A text without a date is no timestamp, on whatever way it comes: Spark would add the day of today."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import everview
from everview.algebra.dates import parse_instant
from everview.algebra.text import string_sql
from everview.errors import EverviewError
from everview.ingest.read_json import TIME_OF_DAY
from tests.engine.reading import put

pytestmark = pytest.mark.spark

TEXTS = (
    *("12:30", "1:2", "12:30:01.5", "T12:30", "T12:30:01", "T12", "T1", "T", "  12:30 ", "\x0b12:30", "12:"),
    *("12:30 UTC", "T12:30+01:00", "", " ", "now", "today", "epoch", "12", ":30", "1970-01-01", "2026"),
    *("2026-01-31 12:30", "2026-1-1T1:2", " 2026-01-31T12:30:00Z ", "2026-01-31 T12:30"),
)


def test_every_way_of_a_text_into_a_timestamp(spark: SparkSession, tmp_path: Path) -> None:
    good = {i for i, text in enumerate(TEXTS) if parse_instant(text) is not None}
    assert 0 < len(good) < len(TEXTS)
    lines = (f'{i},"{text}"\n' for i, text in enumerate(TEXTS))
    put(tmp_path / "c", "1.csv", "".join(lines))
    put(tmp_path / "j", "1.json", "".join(json.dumps({"k": i, "at": t}) + "\n" for i, t in enumerate(TEXTS)))
    escaped = ("".join(f"\\u{ord(sign):04x}" for sign in text) for text in TEXTS)
    put(tmp_path / "e", "1.json", "".join(f'{{"k": {i}, "at" : "{t}"}}\n' for i, t in enumerate(escaped)))
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        for name in ("frame", "dicts", "chosen", "changed"):
            db.execute(f"CREATE TABLE {name} (k INT, at TIMESTAMP)")
        db.execute(f"""
            CREATE TABLE texts (k INT, nm STRING);
            CREATE TABLE c (k INT, at TIMESTAMP NOT NULL) FROM csv('{tmp_path}/c');
            CREATE TABLE j (k INT, at TIMESTAMP NOT NULL) FROM json('{tmp_path}/j');
            CREATE TABLE e (k INT, at TIMESTAMP NOT NULL) FROM json('{tmp_path}/e');
        """)
        db.insert("texts", [{"k": i, "nm": text} for i, text in enumerate(TEXTS)])
        db.insert("changed", [{"k": i, "at": None} for i in range(len(TEXTS))])
        taken: dict[str, set[int]] = {name: set() for name in ("frame", "dicts", "chosen", "changed")}
        for i, text in enumerate(TEXTS):
            frame = spark.sql(f"SELECT {i} AS k, {string_sql(text)} AS at")
            sources = {
                "frame": lambda frame=frame: db.insert("frame", frame),
                "dicts": lambda i=i, text=text: db.insert("dicts", [{"k": i, "at": text}]),
                "chosen": lambda i=i: db.execute(f"INSERT INTO chosen SELECT k, nm FROM texts WHERE k = {i}"),
                "changed": lambda i=i: db.execute(
                    f"UPDATE changed SET at = nm FROM texts WHERE texts.k = {i} AND changed.k = {i}"
                ),
            }
            for name, give in sources.items():
                if name in ("chosen", "changed") and i % 2 and i > 10:
                    taken[name] |= {i} & good  # these ways are slow: half of the odd ones will do
                    continue
                try:
                    give()
                except EverviewError:
                    continue
                taken[name].add(i)
        db.run()
        taken |= {n: {r.k for r in db.query(f"SELECT k FROM {n}").collect()} for n in "cje"}
        assert taken == dict.fromkeys(taken, good)


def test_lines_without_times_of_day_are_not_read_again() -> None:
    """The look that spares it takes no key for one, nor a whole timestamp."""
    for line in (
        '{"id":0,"ts":"2024-01-01 00:00:00.05","v":"a: 12:30"}',
        '{"id" : 0, "12":1, "ts": "2024-01-01T00:00:00Z", "x": {"y": ["a", "b"]}}',
    ):
        assert re.search(TIME_OF_DAY, line) is None
    assert re.search(TIME_OF_DAY, '{"ts":" 12:30"}') is not None
