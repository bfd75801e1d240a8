"""CSV files as people's tools write them: by name in every file; every row has an outcome."""

from __future__ import annotations

import gzip
from collections import Counter
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pytest
from pyspark.sql import SparkSession

import everview
from tests.engine.reading import late, put, rejected, taken

pytestmark = pytest.mark.spark

COLUMNS = "k STRING, v INT, ok BOOLEAN, ts TIMESTAMP, TIMELINE ts"


def at(second: int) -> str:
    return f"2026-01-01 00:00:{second:02}"


@pytest.mark.parametrize("pattern", ["", "/*.csv"], ids=["folder", "pattern"])
def test_columns_go_by_name_in_every_file(spark: SparkSession, tmp_path: Path, pattern: str) -> None:
    """More columns, fewer, in another order, in another case; a time line or NOT NULL that is missing."""
    come = tmp_path / "in %20 and"
    come.mkdir()
    with everview.connect(str(tmp_path / "store"), spark, partitions=2) as db:
        db.execute(f"""
            CREATE STREAM s (k STRING, v INT, n INT NOT NULL, ts TIMESTAMP, TIMELINE ts)
              FROM csv('{come}{pattern}', header => true);
            CREATE VIEW all_of_s AS SELECT k, v FROM s;
        """)
        assert db.run().rows == 0, "an empty folder can be followed"
        put(come, "1.csv", f"k,v,n,ts\na,1,0,{at(1)}\n")
        put(come, "2.csv", f"ts,extra,N,V,k\n{at(2)},x,0,2,b\n{at(3)},x,0,3\n")
        db.run()
        put(come, "3.csv", f"n,ts,k\n0,{at(4)},c\n")
        none = put(come, "4.csv", f"n,time,k\n0,{at(5)},d\n")
        null = put(come, "5.csv", f"ts,k\n{at(5)},e\n")
        twice = put(come, "6.csv", f"n,ts,K,k,V,v,v\n0,{at(6)},no,f,1,2,3\n")
        put(come, "7.csv", "n,ts,k\n")
        put(come, "8.csv", "")
        wide = [f"w{i}" for i in range(40)]
        put(come, "9.csv", f'{",".join(wide)},k,n,v,ts\n{"," * 40}"g, ""h""",0,7,{at(7)}\n')
        db.run(finish=True)
        assert taken(db, "s") == Counter({("a", 1): 1, ("b", 2): 1, ("c", None): 1, ('g, "h"', 7): 1})
        assert rejected(db, "s") == Counter(
            {
                ("it has 4 columns, not 5", f"{at(3)},x,0,3"): 1,
                (f"ts: {none} has no such column", f"0,{at(5)},d"): 1,
                (f"n: {null} has no such column", f"{at(5)},e"): 1,
                (f"v: {twice} has 2 columns of this name", f"0,{at(6)},no,f,1,2,3"): 1,
            }
        )


TOOLS = f"""\
"a ""quoted"" b",1,true,{at(1)}
"two
lines",2,false,{at(2)}
"",3,,{at(3)}
,"","",{at(4)}

 blank , 5 , true , {at(5)}\x20
5" pipe,6,TRUE,{at(6)}
"""


@pytest.mark.parametrize("kind", ["plain", "bom", "crlf", "gz", "zst"])
def test_csv_as_todays_tools_write_it(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    data, name = TOOLS.encode(), "1.csv"
    match kind:
        case "bom":
            data = b"\xef\xbb\xbf" + data
        case "crlf":
            data = data.replace(b"\n", b"\r\n").replace(b"two\r\n", b"two\n")
        case "gz":
            data, name = gzip.compress(data), "1.csv.gz"
        case "zst":
            data, name = pa.compress(data, "zstd", asbytes=True), "1.csv.zst"
    put(tmp_path / "in", name, data)
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute(f"""
            CREATE STREAM s ({COLUMNS}) FROM csv('{tmp_path}/in/*');
            CREATE VIEW all_of_s AS SELECT k, v, ok FROM s;
        """)
        db.run(finish=True)
        assert rejected(db, "s") == Counter()
        assert taken(db, "s") == Counter(
            [
                ('a "quoted" b', 1, True),
                ("two\nlines", 2, False),
                ("", 3, None),
                (None, None, None),
                (" blank ", 5, True),
                ('5" pipe', 6, True),
            ]
        )


def test_reasons_are_true_and_texts_are_whole(spark: SparkSession, tmp_path: Path) -> None:
    bad = {
        f"a,seven,true,{at(1)}": "v: seven is no INT",
        f"a,1.5,true,{at(1)}": "v: 1.5 is no INT",
        f"a,3000000000,true,{at(1)}": "v: 3000000000 is no INT",
        f'a,"1, 2",true,{at(1)}': "v: 1, 2 is no INT",
        f"a,1,perhaps,{at(1)}": "ok: perhaps is no BOOLEAN",
        "a,1,true,yesterday": "ts: yesterday is no TIMESTAMP",
        "a,1,true,12:30:00": "ts: 12:30:00 is no TIMESTAMP",
        "a,1,true,": "ts: there is no timestamp",
        "a,1,true": "it has 3 columns, not 4",
        "a": "it has 1 column, not 4",
        f"a,1,true,{at(1)},": "it has 5 columns, not 4",
        f'"a,1",true,{at(1)}': "it has 3 columns, not 4",
        f"{','.join('a' * 12)}": "it has 12 columns, not 4",
        "bad\udcff,1,true,": "it holds U+FFFD, which stands for bytes that are no UTF-8",
    }
    lines = "".join(f"{line}\n" for line in bad).encode(errors="surrogateescape")
    put(tmp_path / "in", "1.csv", lines + f"b,2,true,{at(30)}\n".encode())
    put(tmp_path / "in", "2.csv", f'"late, ""too"" ",1,no,{at(1)}\n"b",3,,{at(40)}\n')
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute(f"""
            CREATE STREAM s ({COLUMNS}) FROM csv('{tmp_path}/in', maxFilesPerTrigger => 1);
            CREATE VIEW all_of_s AS SELECT k, v FROM s;
        """)
        db.run(finish=True)
        found = {text.replace("\ufffd", "\udcff"): reason for reason, text in rejected(db, "s")}
        twelve = ",".join(['"a"'] * 12)  # as many columns as are read: the text is put together again
        found = {",".join("a" * 12) if text == twelve else text: reason for text, reason in found.items()}
        assert found == bad
        assert taken(db, "s") == Counter([("b", 2), ("b", 3)])
        assert late(db, "s") == Counter([f'"late, ""too"" ",1,no,{at(1)}'])


def test_options_of_spark_still_hold(spark: SparkSession, tmp_path: Path) -> None:
    put(
        tmp_path / "in",
        "1.csv",
        "k;v;x;day;ts\n# a comment; it is\n'it\\'s; so';NA;nix;02.01.2026;01/01/2026 10-00\n"
        " b ;seven;1.5;02.01.2026;01/01/2026 10-01\nc;1;1.5;02.01.2026;01/01/2026 25-01\n"
        "d;1;-;no;01/01/2026 10-01\n".encode("latin-1"),
    )
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db.execute(rf"""
            CREATE STREAM s (day DATE, x DOUBLE, k STRING, v INT, ts TIMESTAMP, TIMELINE ts)
              FROM csv('{tmp_path}/in', header => true, sep => ';', quote => "'", escape => '\\',
                       comment => '#', nullValue => 'NA', nanValue => 'nix', dateFormat => 'dd.MM.yyyy',
                       encoding => 'ISO-8859-1', timestampFormat => 'dd/MM/yyyy HH-mm',
                       ignoreLeadingWhiteSpace => true);
            CREATE VIEW all_of_s AS
              SELECT k, v, CAST(x AS STRING), CAST(day AS STRING), CAST(ts AS STRING) FROM s;
        """)
        db.run(finish=True)
        assert taken(db, "s") == Counter([("it's; so", None, "NaN", "2026-01-02", "2026-01-01 10:00:00")])
        assert {reason for reason, _ in rejected(db, "s")} == {
            "v: seven is no INT",
            "ts: 01/01/2026 25-01 is no TIMESTAMP",
            "day: no is no DATE",
        }


def test_a_big_file_may_be_read_in_parts(spark: SparkSession, tmp_path: Path) -> None:
    """Without newlines in values, tasks share a file; they find its header by themselves."""
    lines = "".join(f"{i},{at(i % 60)},{i % 7}\n" for i in range(20_000))
    put(tmp_path / "in", "1.csv", "# first\nv,ts,k\n" + lines)
    before = spark.conf.get("spark.sql.files.maxPartitionBytes")
    with everview.connect(str(tmp_path / "store"), spark, partitions=1) as db:
        db._pipeline.session.conf.set("spark.sql.files.maxPartitionBytes", "100000")  # type: ignore[attr-defined]
        db.execute(f"""
            CREATE STREAM s (k STRING, v INT, ts TIMESTAMP, TIMELINE ts)
              FROM csv('{tmp_path}/in', header => true, multiLine => false, comment => '#');
            CREATE VIEW sums AS SELECT COUNT(*) AS n, SUM(v) AS v, COUNT(DISTINCT k) AS k FROM s;
        """)
        done = db.run(finish=True)
        assert (done.arrived["s"].rows, done.arrived["s"].rejected) == (20_000, 0)
        assert [tuple(r) for r in db.query("SELECT n, v, k FROM sums").collect()] == [
            (20_000, 199_990_000, 7)
        ]
    assert spark.conf.get("spark.sql.files.maxPartitionBytes") == before
