"""run, query and changes end to end: what a script does, and what is said of it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.ui.conftest import Call

pytestmark = pytest.mark.spark

SCRIPT = """
CREATE STREAM came (vid STRING, vtype STRING, ts TIMESTAMP, TIMELINE ts LATENESS INTERVAL '5' SECOND)
  FROM csv('{folder}/in', header => true);
CREATE VIEW held AS SELECT vid, vtype FROM came [RANGE 10 SECONDS];
CREATE VIEW per_type AS SELECT vtype, COUNT(*) AS n FROM held GROUP BY vtype;
SELECT vid, vtype FROM held ORDER BY vid;
"""


def put(folder: Path, name: str, *rows: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("vid,vtype,ts\n" + "".join(f"{row}\n" for row in rows))


def at(second: int) -> str:
    return f"2026-01-01T00:00:{second:02}.000000"


def test_a_script_is_run_and_run_again(call: Call, tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    script = tmp_path / "views.sql"
    script.write_text(SCRIPT.format(folder=tmp_path))
    put(
        tmp_path / "in", "1.csv",
        "v1,car,2026-01-01 00:00:01", "v2,,2026-01-01 00:00:03", "v3,bus,never", "v4,car,2026-01-01 00:00:09",
    )  # fmt: skip
    done = call("run", str(script), "--path", store)
    assert (done.code, done.err) == (0, "")
    table, summary = done.out.split("\n\n", 1)
    assert table == "vid  vtype\nv1   car\nv2   NULL", "known up to 00:00:04 less a chronon"
    assert "known up to 2026-01-01T00:00:03.999999" in summary
    assert "stream  rows  late  rejected\ncame    3     0     1" in summary
    assert "view      changes\nheld      2\n" in summary
    kept = "history of new views: 1 WEEK, and the last 1,000,000 changes; WITH (history => …) sets it"
    assert f"\n\n{kept}\n\nlook: " in summary
    assert f"look: everview query 'SELECT * FROM came$rejected' --path {store}" in summary

    put(tmp_path / "in", "2.csv", "v5,bus,2026-01-01 00:00:02", "v6,bus,2026-01-01 00:00:12")
    again = call("run", str(script), "--path", store, "--finish")
    assert again.code == 0
    assert "came    1     1     0" in again.out
    assert "history" not in again.out, "it is said when a view is created"
    assert "known to the end" in again.out
    assert "came$late" in again.out

    late = call("query", "SELECT vid, _reason FROM came$late", "--path", store, "--format", "json")
    assert json.loads(late.out)["vid"] == "v5"
    asked = call(
        "query", "SELECT * FROM held ORDER BY vid", "--path", store, "--as-of", "2026-01-01 00:00:03"
    )
    assert (asked.code, asked.out) == (0, "vid  vtype\nv1   car\nv2   NULL\n")

    tags = call("changes", "per_type", "--path", store)
    assert tags.code == 0
    lines = [line.split() for line in tags.out.splitlines()]
    assert lines[0] == ["tag", "at", "vtype", "n", "old"]
    assert lines[1] == ["+", at(1), "car", "1", "NULL"]
    assert ["u", at(9), "car", "2", '{"vtype":', '"car",', '"n":', "1}"] in lines
    as_json = call("changes", "per_type", "--path", store, "--format", "json")
    rows = [json.loads(line) for line in as_json.out.splitlines()]
    assert rows[0] == {"tag": "+", "at": at(1), "vtype": "car", "n": 1, "old": None}
    assert {"tag": "u", "at": at(9), "vtype": "car", "n": 2, "old": {"vtype": "car", "n": 1}} in rows
    assert len(rows) == len(lines) - 1

    as_csv = call("changes", "held", "--path", store, "--encoding", "intervals", "--format", "csv")
    assert list(csv.reader(io.StringIO(as_csv.out)))[:3] == [
        ["from", "until", "n", "vid", "vtype"],
        [at(1), at(11), "1", "v1", "car"],
        [at(3), at(13), "1", "v2", ""],
    ]
    since = call("changes", "held", "--path", store, "--since", "1", "--format", "json")
    assert json.loads(since.out.splitlines()[0])["at"] == at(9)

    wrong = call("query", "SELECT * FROM held", "--path", store, "--as-of", "noon")
    assert (wrong.code, wrong.out) == (1, "")
    assert wrong.err == "'noon' is no timestamp\n  next: write it as 2026-01-31T23:59:59 (UTC)\n"


def test_questions_are_answered_where_they_stand(call: Call, tmp_path: Path) -> None:
    script = tmp_path / "s.sql"
    script.write_text("""
        CREATE STREAM s (v INT, ts TIMESTAMP, TIMELINE ts);
        CREATE VIEW total AS SELECT SUM(v) AS total FROM s;
        INSERT INTO s VALUES (1, TIMESTAMP '2026-01-01 00:00:01');
        SELECT total FROM total;
        INSERT INTO s VALUES (2, TIMESTAMP '2026-01-01 00:00:02'), (4, TIMESTAMP '2025-01-01 00:00:00');
        SHOW VIEWS;
        SELECT total FROM total;
    """)
    done = call("run", str(script), "--path", str(tmp_path / "store"))
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("total\n1\n\ntotal\n\ntotal\n3\n\n")
    assert "s       2     1     0" in done.out
    long = "SELECT a.v FROM s a CROSS JOIN s b CROSS JOIN s c CROSS JOIN s d CROSS JOIN s e CROSS JOIN s f"
    for name in "ghijk":
        long += f" CROSS JOIN s {name}"
    shown = call("query", long, "--path", str(tmp_path / "store"))
    assert len(shown.out.splitlines()) == 1001, "a header and so many rows"
    assert shown.err == "… and 1048 more rows; --format json or csv has all\n"


@pytest.mark.parametrize(
    ("content", "notes", "counts"),
    [
        (
            b"vid,ts\nv1,2026-01-01\n",
            "note: a file of 'came' has no column 'vtype'\n",
            "came    1     0     0",
        ),
        (b"\x7fELF\x02\x01\x00\xff\xfe\x00\n\x00\x80\n", "note: ", "came    0     0     1"),
    ],
    ids=["a column is missing", "no CSV at all"],
)
def test_a_file_that_does_not_fit(
    call: Call, tmp_path: Path, content: bytes, notes: str, counts: str
) -> None:
    """What can be taken of it is taken, the rest is kept with the reason; the other files go on."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.csv").write_bytes(content)
    script = tmp_path / "views.sql"
    script.write_text(SCRIPT.format(folder=tmp_path))
    done = call("run", str(script), "--path", str(tmp_path / "store"))
    assert (done.code, done.err.startswith(notes)) == (0, True), done.err
    assert counts in done.out
    put(tmp_path / "in", "2.csv", "v1,car,2026-01-01 00:00:01")
    assert call("run", str(script), "--path", str(tmp_path / "store"), "--finish").code == 0


LONG = "n" * 300
NAMES = ["a; DROP", "../x", 'it\'s "quoted"', "back`tick", "🚗 道路", LONG]


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def test_names_and_values_are_only_that(call: Call, tmp_path: Path) -> None:
    """Whatever a name holds, it is a name; whatever a value holds, a value; only the store is written."""
    place = tmp_path / "place"
    place.mkdir()
    values = ["it's", 'say "x"', "two\nlines", "a,b;c", "'; DROP VIEW v; --", "\x1b[31mred"]
    columns = ", ".join(f"{quoted(n)} STRING" for n in NAMES)
    escaped = [v.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") for v in values]
    row = ", ".join(f"'{v}'" for v in escaped)
    script = "".join(
        f"""
        CREATE STREAM {quoted(name)} ({columns}, ts TIMESTAMP, TIMELINE ts);
        INSERT INTO {quoted(name)} VALUES ({row}, TIMESTAMP '2026-01-01 00:00:0{i + 1}');
        CREATE VIEW {quoted(name + " view")} AS SELECT * FROM {quoted(name)} [RANGE 1 HOUR];
        """
        for i, name in enumerate(NAMES)
    )
    (tmp_path / "names.sql").write_text(script)
    store = str(place / "store")
    done = call("run", str(tmp_path / "names.sql"), "--path", store, "--finish")
    assert (done.code, done.err) == (0, "")
    wanted = dict(zip(NAMES, values, strict=True))
    for name in NAMES:
        sql = f"SELECT * FROM {quoted(name + ' view')}"
        found = call("query", sql, "--path", store, "--format", "json", "--as-of", "2026-01-01 00:01:00")
        assert found.err == ""
        assert {k: v for k, v in json.loads(found.out).items() if k != "ts"} == wanted
    name = NAMES[2] + " view"
    tags = call("changes", name, "--path", store, "--format", "csv")
    header, first, *_ = csv.reader(io.StringIO(tags.out))
    assert header == ["tag", "at", *NAMES, "ts", "old"]
    assert first[2:-2] == values
    table = call("changes", name, "--path", store).out
    assert len(table.splitlines()) == 3, "comes, goes, and the header: no value breaks a line"
    assert "\x1b" not in table
    assert [p.name for p in place.iterdir()] == ["store"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["names.sql", "place"]


def test_a_script_with_one_more_column(call: Call, tmp_path: Path) -> None:
    """It names the ALTER that the store needs; after that, it runs again."""
    store, script, alter = str(tmp_path / "store"), tmp_path / "views.sql", tmp_path / "alter.sql"
    made = "CREATE STREAM s (k INT, ts TIMESTAMP{}, TIMELINE ts); CREATE VIEW v AS SELECT * FROM s;"
    script.write_text(made.format(""))
    assert call("run", str(script), "--path", store).code == 0
    script.write_text(made.format(", b INT"))
    refused = call("run", str(script), "--path", store)
    assert refused.code == 1
    statement = "ALTER STREAM s ADD COLUMN b INT"
    assert refused.err.endswith(f"next: {statement}\n")
    alter.write_text(f"{statement}; ALTER VIEW v RENAME TO w; SELECT * FROM w;")
    done = call("run", str(alter), "--path", store)
    assert (done.code, done.err) == (0, "")
    again = call("run", str(script), "--path", store)
    assert (again.code, again.err) == (0, "")
    assert call("query", "SHOW VIEWS", "--path", store).out == "w\nv\n"
    wrong = call("run", str(alter), "--path", store)
    assert wrong.code == 1
    assert "the stream 's' has a column 'b' already" in wrong.err
