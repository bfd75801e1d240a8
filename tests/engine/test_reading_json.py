"""JSON lines: every line has an outcome, with its true reason and its whole text."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import everview
from tests.engine.reading import late, put, rejected, taken

pytestmark = pytest.mark.spark

TS = '"ts": "2026-01-01 00:00:01"'


def test_every_line_has_an_outcome(spark: SparkSession, tmp_path: Path) -> None:
    good = {
        f'{{"k": 1, "s": "a", {TS}}}': (1, "a"),
        f'{{"K": 2, "S": "b", {TS}}}': (2, "b"),
        f'{{"k": 3, "K": 9, {TS}}}': (3, None),
        f'{{"K": 9, "k": 4, {TS}}}': (4, None),
        f'{{"k": 5, "k": 6, {TS}}}': (6, None),
        f'{{"k": null, "s": "", {TS}}}': (None, ""),
        f'{{"k": 7, "s": {{"a": [1, "}}"]}}, {TS}}}': (7, '{"a":[1,"}"]}'),
        f'  {{"\\u004B": 8, "s": "\\u00e9}}", {TS}, "more": []}}  ': (8, "é}"),
    }
    array = "it is an array and no JSON object; if each file is one, say multiLine => true"
    bad = {
        "[]": array,
        f'[{{"k": 1, {TS}}}]': array,
        "15": "it is no JSON object",
        "null": "it is no JSON object",
        '"text"': "it is no JSON object",
        "rubbish": "it is no JSON object",
        '{"k": 1,': "it is no JSON object",
        f'{{"k": 1, {TS}}}{{"k": 2, {TS}}}': "there is more in the line than one JSON object",
        f'{{"k": 1, {TS}}} x': "there is more in the line than one JSON object",
        f'{{"k": 1, {TS}}}] }}': "there is more in the line than one JSON object",
        f'{{"k": 1, {TS}}}}} }}': "there is more in the line than one JSON object",
        f'{{"k": "15", {TS}}}': 'k: "15" is no INT',
        f'{{"k": "one", {TS}}}': "k: one is no INT",
        f'{{"k": 1.5, {TS}}}': "k: 1.5 is no INT",
        f'{{"k": 3000000000, {TS}}}': "k: 3000000000 is no INT",
        f'{{"k": true, {TS}}}': "k: true is no INT",
        f'{{"K": "one", {TS}}}': "k: one is no INT",
        '{"k": 1, "ts": "soon"}': "ts: soon is no TIMESTAMP",
        '{"k": 1, "ts": "12:30"}': "ts: 12:30 is no TIMESTAMP",
        '{"k": 1, "TS": " T1:30"}': "ts:  T1:30 is no TIMESTAMP",
        '{"k": 1}': "ts: there is no timestamp",
        "{}": "ts: there is no timestamp",
        '{"k": 1, "TS": "2026-01-01", "Ts": "2026-01-01"}': "ts: TS and Ts are both there",
        '{"k": 1, "s": "bad \ufffd"}': "it holds U+FFFD, which stands for bytes that are no UTF-8",
    }
    lines = [*good, "", "   ", *bad]
    put(
        tmp_path / "in",
        "1.json",
        "\n".join(lines).replace("\ufffd", "\udcff").encode(errors="surrogateescape"),
    )
    put(tmp_path / "in", "2.json", '{"k": 20, "ts": "2026-01-01 00:00:30"}\n')
    text = f'{{ "k" : 21,"other":[1.50], {TS} }}'
    put(tmp_path / "in", "3.json", f'{text}\n{{"k": 22, "ts": "2026-01-01 00:00:31"}}\n')
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute(f"""
            CREATE STREAM j (k INT, s STRING, ts TIMESTAMP, TIMELINE ts)
              FROM json('{tmp_path}/in/*.json', maxFilesPerTrigger => 1);
            CREATE VIEW all_of_j AS SELECT k, s FROM j;
        """)
        db.run(finish=True)
        assert {text: reason for reason, text in rejected(db, "j")} == bad
        assert sum(rejected(db, "j").values()) == len(bad)
        assert taken(db, "j") == Counter([*good.values(), (20, None), (22, None)])
        assert late(db, "j") == Counter([text])


def test_reasons_with_formats_of_the_source(spark: SparkSession, tmp_path: Path) -> None:
    """A bad id is not reported as a bad timestamp because timestamps have a format of their own."""
    lines = ['{"k": "x", "ts": "01/02/2026"}', '{"k": 1, "ts": "2026-01-01"}', "{'k': 2, 'ts': '01/02/2026'}"]
    put(tmp_path / "in", "1.json", "\n".join(lines))
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute(f"""
            CREATE STREAM j (k INT, ts TIMESTAMP, TIMELINE ts)
              FROM json('{tmp_path}/in', timestampFormat => 'dd/MM/yyyy');
            CREATE VIEW all_of_j AS SELECT k FROM j;
        """)
        db.run(finish=True)
        assert rejected(db, "j") == Counter(
            [("k: x is no INT", lines[0]), ("ts: 2026-01-01 is no TIMESTAMP", lines[1])]
        )
        assert taken(db, "j") == Counter([(2,)])


def test_a_file_that_is_one_array(spark: SparkSession, tmp_path: Path) -> None:
    objects = [{"k": i, "ts": f"2026-01-01 00:00:0{i}"} for i in range(3)]
    put(tmp_path / "in", "1.json", json.dumps([*objects, {"k": "x", "ts": "2026-01-01"}, 7, None], indent=2))
    put(tmp_path / "in", "2.json", json.dumps({"k": 9, "ts": "2026-01-01 00:00:09"}, indent=2))
    put(tmp_path / "in", "3.json", "[]")
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute(f"""
            CREATE STREAM j (k INT, ts TIMESTAMP, TIMELINE ts) FROM json('{tmp_path}/in', multiLine => true);
            CREATE VIEW all_of_j AS SELECT k FROM j;
        """)
        db.run(finish=True)
        assert taken(db, "j") == Counter([(0,), (1,), (2,), (9,)])
        assert rejected(db, "j") == Counter(
            [
                ("k: x is no INT", '{"k":"x","ts":"2026-01-01"}'),
                ("it is no JSON object", "7"),
                ("it is no JSON object", "null"),
            ]
        )
