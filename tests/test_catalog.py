"""The catalog: what it keeps, who depends on whom, and that its JSON comes back as it was."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.algebra.schema import Schema
from everview.algebra.time import DAY, INFINITY, SECOND
from everview.algebra.types import INT, SIMPLE_TYPES, STRING, TIMESTAMP, DataType
from everview.catalog import (
    CLOCK_ENTRY,
    Catalog,
    Entry,
    EventStreamEntry,
    Lateness,
    Source,
    StreamEntry,
    TableEntry,
    TaggedEntry,
    ViewEntry,
    type_from_name,
)
from everview.errors import CatalogError, EverviewError, StoreError
from everview.sql import bind_script
from everview.sql.statements import Create

SCRIPT = """
CREATE STREAM highway (lane SMALLINT, speed DOUBLE, price DECIMAL(10, 2), seen TIMESTAMP, ts TIMESTAMP,
                       TIMELINE ts LATENESS INTERVAL '5' SECOND SEQUENCE BY (lane, speed), TIMELINE seen)
FROM csv('data/highway/*.csv', header => true, sep => ';') IDLE AFTER INTERVAL '30' SECOND;
CREATE STREAM s1 (vid STRING, ts TIMESTAMP, TIMELINE ts);
CREATE TAGGED STREAM latest OVER s1 KEY (vid) DELETE WHEN vid = 'x';
CREATE TAGGED STREAM newest OVER s1 KEY (vid);
CREATE TABLE stations (id INT, name STRING, PRIMARY KEY (id)) FROM parquet('stations/');
CREATE NON RETROACTIVE TABLE prices (lane SMALLINT, price DECIMAL(10, 2));
CREATE VIEW speeds AS SELECT lane, avg(speed) AS mean FROM highway [RANGE 15 MINUTES] GROUP BY lane;
CREATE COMPLETE VIEW slow WITH (history => INTERVAL '1' DAY) AS
  SELECT lane -- the "slow" ones: Größe ∞
  FROM speeds WHERE mean < 15;
CREATE VIEW past WITH (history => 'forever') AS SELECT vid FROM latest;
CREATE STREAM passed TIMELINE left, right AS
  SELECT a.vid, a.ts AS left, b.ts AS right FROM s1 a JOIN s1 b ON a.vid = b.vid AND a.ts < b.ts;
"""


def catalog_of(script: str) -> Catalog:
    catalog = Catalog()
    for statement in bind_script(script, catalog):
        assert isinstance(statement, Create)
        assert catalog.add(statement.entry, statement.replace)
    return catalog


def stream(name: str) -> StreamEntry:
    columns = Schema.of(("id", INT), ("ts", TIMESTAMP), timeline="ts")
    return StreamEntry(name, columns, (Lateness("ts"),))


def view(name: str, *below: str) -> ViewEntry:
    return ViewEntry(name, f"SELECT id FROM {', '.join(below)}", depends_on=below)


# JSON


def test_every_kind_of_entry_comes_back_from_json_as_it_was() -> None:
    catalog = catalog_of(SCRIPT)
    catalog.clock_grain = 250_000
    kinds = {type(entry) for entry in catalog}
    assert kinds == {StreamEntry, TaggedEntry, TableEntry, ViewEntry, EventStreamEntry}
    again = Catalog.from_json(catalog.to_json())
    assert again == catalog
    assert list(again) == list(catalog)  # in the same order
    assert again.to_json() == catalog.to_json()


def test_the_time_lines_come_back_with_their_ranks() -> None:
    again = Catalog.from_json(catalog_of(SCRIPT).to_json()).get("highway")
    assert isinstance(again, StreamEntry)
    assert [(f.name, f.timeline) for f in again.columns if f.timeline is not None] == [("seen", 1), ("ts", 0)]


def test_an_empty_catalog_comes_back() -> None:
    assert Catalog.from_json(Catalog().to_json()) == Catalog(clock_grain=SECOND)


def test_the_json_can_be_read_by_a_person() -> None:
    """One item a line, letters as they are, for ever as a word, a view in the words of its author."""
    text = catalog_of(SCRIPT).to_json()
    assert "Größe ∞" in text
    body = json.loads(text)
    assert list(body) == ["format", "clock_grain", "entries"]
    by_name = {entry["name"]: entry for entry in body["entries"]}
    assert by_name["past"] == {
        "kind": "view",
        "name": "past",
        "sql": "SELECT vid FROM latest",
        "complete": False,
        "history": "forever",
        "depends_on": ["latest"],
    }
    assert by_name["slow"]["history"] == DAY
    assert by_name["slow"]["sql"].startswith('SELECT lane -- the "slow" ones')
    assert by_name["latest"] == {
        "kind": "tagged stream",
        "name": "latest",
        "over": "s1",
        "key": ["vid"],
        "delete_when": "vid = 'x'",
    }
    assert by_name["highway"]["columns"][2] == {"name": "price", "type": "DECIMAL(10,2)"}
    assert by_name["highway"]["source"] == {
        "format": "csv",
        "path": "data/highway/*.csv",
        "options": {"header": "true", "sep": ";"},
    }
    assert '"sql": "SELECT vid FROM latest",\n' in text


@pytest.mark.parametrize(
    "type_", [*SIMPLE_TYPES.values(), DataType("DECIMAL", 38, 0), DataType("DECIMAL", 5, 2)]
)
def test_every_type_comes_back(type_: DataType) -> None:
    assert type_from_name(str(type_)) == type_


names = st.text(min_size=1, max_size=8)


@given(st.lists(st.tuples(names, names, st.integers(0, INFINITY)), max_size=5), names, names)
def test_any_text_comes_back(options: list[tuple[str, str, int]], name: str, sql: str) -> None:
    source = Source(name, sql, tuple({key: value for key, value, _ in options}.items()))
    catalog = Catalog()
    for key, value, history in options:
        catalog.entries[key.casefold()] = ViewEntry(key, value, history=history, depends_on=(name,))
    columns = Schema.of((name, STRING), (f"{name}.ts", TIMESTAMP), timeline=f"{name}.ts")
    catalog.entries["s"] = StreamEntry("s", columns, (Lateness(f"{name}.ts", 3),), (name,), 5, source)
    assert Catalog.from_json(catalog.to_json()) == catalog


@pytest.mark.parametrize("text", ["", "fnord", "{", "[]", "null", "5", '"text"', "{}", '{"entries": []}'])
def test_what_is_no_catalog_is_refused(text: str) -> None:
    with pytest.raises(StoreError) as refused:
        Catalog.from_json(text)
    assert str(refused.value) == "this is not a catalog\n  next: check that the path is an Everview store"


def test_a_newer_format_is_refused() -> None:
    text = catalog_of(SCRIPT).to_json().replace('"format": 1', '"format": 6')
    with pytest.raises(StoreError) as refused:
        Catalog.from_json(text)
    assert str(refused.value) == (
        "the catalog was written by a newer Everview (format 6, this one reads 5)\n  next: upgrade Everview"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"format": 1', '"format": "one"'),
        ('"entries": [', '"entires": ['),
        ('"clock_grain": 1000000,', ""),
        ('"kind": "view"', '"knid": "view"'),
        ('"type": "SMALLINT"', '"type": "SMALINT"'),
        ('"history": "forever"', '"past": "forever"'),
    ],
)
def test_a_catalog_that_was_spoiled_is_refused(before: str, after: str) -> None:
    """With an error for people, never with a KeyError."""
    text = catalog_of(SCRIPT).to_json()
    assert before in text
    with pytest.raises(StoreError, match="the catalog is damaged: "):
        Catalog.from_json(text.replace(before, after))


def test_an_entry_of_an_unknown_kind_is_refused() -> None:
    text = catalog_of(SCRIPT).to_json().replace('"kind": "event stream"', '"kind": "crystal ball"')
    with pytest.raises(
        StoreError, match="an entry of an unknown kind: crystal ball\n  next: upgrade Everview"
    ):
        Catalog.from_json(text)


# Names


def test_names_have_no_case() -> None:
    catalog = Catalog()
    catalog.add(stream("Highway"))
    assert "HIGHWAY" in catalog
    assert catalog.get("highWAY").name == "Highway"


def test_a_name_that_is_not_there() -> None:
    catalog = Catalog()
    catalog.add(stream("highway"))
    with pytest.raises(CatalogError) as refused:
        catalog.get("higway")
    assert str(refused.value) == (
        "there is no stream, table or view 'higway'\n  did you mean 'highway'?\n  choices: highway"
    )


def test_a_name_in_an_empty_catalog() -> None:
    with pytest.raises(CatalogError, match="next: make one with CREATE STREAM, CREATE TABLE or CREATE VIEW"):
        Catalog().get("highway")


def test_the_clock_is_there_and_stays() -> None:
    catalog = Catalog()
    assert "Clock" in catalog
    assert catalog.get("CLOCK") is CLOCK_ENTRY
    assert list(catalog) == []
    with pytest.raises(CatalogError, match="'clock' is the built-in clock stream"):
        catalog.add(stream("Clock"))
    with pytest.raises(CatalogError, match="'clock' is built in and cannot be dropped"):
        catalog.drop("clock")


def test_the_same_entry_again_changes_nothing() -> None:
    catalog = Catalog()
    assert catalog.add(stream("s")) is True
    assert catalog.add(stream("s")) is False
    assert catalog.add(stream("S")) is False
    assert [entry.name for entry in catalog] == ["s"]


@pytest.mark.parametrize(
    ("before", "after", "replace", "said"),
    [
        (stream("a"), StreamEntry("a", stream("a").columns, (Lateness("ts", 5),)), False, "a stream 'a'"),
        (stream("a"), view("a", "b"), True, "a stream 'a'"),
        (view("a", "b"), stream("a"), True, "a view 'a'"),
        (view("a", "b"), view("A", "c"), False, "a view 'a'"),
        (EventStreamEntry("a", "SELECT 1", ("ts",)), stream("a"), False, "an event stream 'a'"),
        (TaggedEntry("a", "b", ("k",)), TaggedEntry("a", "b", ("j",)), False, "a tagged stream 'a'"),
    ],
)
def test_another_entry_of_one_name_is_refused(before: Entry, after: Entry, replace: bool, said: str) -> None:
    catalog = Catalog()
    catalog.add(before)
    with pytest.raises(CatalogError, match=f"there is already {said} with another definition"):
        catalog.add(after, replace)
    assert list(catalog) == [before]


def test_a_view_can_be_replaced() -> None:
    catalog = Catalog()
    catalog.add(view("v", "a"))
    assert catalog.add(view("v", "b"), replace=True) is True
    assert catalog.get("v").depends_on == ("b",)


# Who depends on whom


def family() -> Catalog:
    """a ← b ← c, a ← d, b and d ← e, and f alone."""
    catalog = Catalog()
    for entry in (
        stream("a"),
        view("b", "A"),
        view("c", "b"),
        view("d", "a"),
        view("e", "b", "d"),
        stream("f"),
    ):
        catalog.add(entry)
    return catalog


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a", "bcde"), ("b", "ce"), ("c", ""), ("d", "e"), ("e", ""), ("f", ""), ("A", "bcde"), ("clock", "")],
)
def test_dependants(name: str, expected: str) -> None:
    assert family().dependants(name) == list(expected)


def test_dependants_on_the_clock() -> None:
    catalog = family()
    catalog.add(view("ticks", "clock"))
    assert catalog.dependants("Clock") == ["ticks"]


def test_dependants_of_a_view_that_was_replaced_by_one_over_a_younger_view() -> None:
    """They are found whatever the order of their making, each behind what it reads."""
    catalog = family()
    catalog.add(view("b", "d"), replace=True)
    assert catalog.dependants("d") == ["b", "c", "e"]
    assert catalog.dependants("a") == ["d", "b", "c", "e"]


def test_what_is_used_is_not_dropped() -> None:
    catalog = family()
    with pytest.raises(CatalogError) as refused:
        catalog.drop("a")
    assert str(refused.value) == (
        "the stream 'a' is still used by b, c, d, e\n  next: drop these first, or DROP STREAM a CASCADE"
    )
    assert len(list(catalog)) == 6


def test_what_is_not_used_is_dropped() -> None:
    catalog = family()
    assert catalog.drop("E") == ["e"]
    assert catalog.drop("c") == ["c"]
    assert catalog.drop("b") == ["b"]
    assert [entry.name for entry in catalog] == ["a", "d", "f"]


def test_cascade_drops_the_youngest_first() -> None:
    catalog = family()
    assert catalog.drop("a", cascade=True) == ["e", "d", "c", "b", "a"]
    assert [entry.name for entry in catalog] == ["f"]


def test_drop_of_what_is_not_there() -> None:
    with pytest.raises(EverviewError, match="there is no stream, table or view 'x'"):
        family().drop("x", cascade=True)


def test_constraints_come_back_and_may_be_absent() -> None:
    """NOT NULL and DEFAULT; a catalog that was written before they were known has none."""
    catalog = catalog_of("""
        CREATE TABLE t (a INT PRIMARY KEY, b DECIMAL(5, 2) DEFAULT 1, c DOUBLE DEFAULT CAST('NaN' AS DOUBLE),
                        d BINARY DEFAULT X'00ff', e TIMESTAMP NOT NULL DEFAULT '2026-01-01',
                        f STRING DEFAULT '');
        CREATE STREAM s (a INT NOT NULL, ts TIMESTAMP, TIMELINE ts);
    """)
    again = Catalog.from_json(catalog.to_json())
    assert again == catalog
    table, s = again.get("t"), again.get("s")
    assert isinstance(table, TableEntry)
    assert isinstance(s, StreamEntry)
    assert (table.key, table.not_null, s.not_null, s.defaults) == (("a",), ("e",), ("a",), ())
    assert [name for name, _ in table.defaults] == ["b", "c", "d", "e", "f"]
    body = json.loads(catalog.to_json())
    for entry in body["entries"]:
        entry.pop("not_null", None)
        entry.pop("defaults", None)
    old = Catalog.from_json(json.dumps(body)).get("t")
    assert isinstance(old, TableEntry)
    assert (old.not_null, old.defaults) == ((), ())


def test_how_far_ahead_of_the_clock_a_stream_may_be_is_kept() -> None:
    """A catalog that was written before streams were compared with the clock has the default."""
    declared = "CREATE STREAM s (ts TIMESTAMP, TIMELINE ts) FROM csv('in')"
    for clause, length in (("", DAY), (" MAX AHEAD 2 SECONDS", 2 * SECOND), (" MAX AHEAD NONE", None)):
        catalog = catalog_of(declared + clause)
        assert Catalog.from_json(catalog.to_json()) == catalog
        assert [e.max_ahead for e in catalog if isinstance(e, StreamEntry)] == [length]
    assert "max_ahead" not in catalog_of(declared).to_json()


def test_what_was_written_before_is_not_written_for_another_entry_of_the_name() -> None:
    """The text of an entry is made once, also for copies; a name that is made anew has another."""
    catalog = Catalog()
    catalog.add(ViewEntry("v", "SELECT 1 AS a"))
    catalog.add(ViewEntry("w", "SELECT 1 AS a"))
    catalog.to_json()
    copy = catalog.copy()
    copy.add(ViewEntry("v", "SELECT 2 AS a"), replace=True)
    copy.drop("w")
    copy.add(ViewEntry("w", "SELECT 3 AS a"))
    for _ in range(2):  # each after the other has written
        assert [e["sql"] for e in json.loads(copy.to_json())["entries"]] == ["SELECT 2 AS a", "SELECT 3 AS a"]
        assert [e["sql"] for e in json.loads(catalog.to_json())["entries"]] == ["SELECT 1 AS a"] * 2
