"""Scripts: several statements, comments, quoted names, and the place of a mistake in many lines."""

from __future__ import annotations

import pytest

from everview.catalog import Catalog
from everview.errors import EverviewError, SqlError
from everview.sql import bind_script, parse_script, plan_of
from everview.sql import statements as S
from tests.sql.golden_cases import run, shown

SCRIPT = """\
-- Speeds on a highway; a comment with 'a quote and a ; in it.
CREATE STREAM highway (
  lane SMALLINT,   -- one to five
  speed DOUBLE,    /* in m/s; not in km/h */
  ts TIMESTAMP,
  TIMELINE ts
);

CREATE VIEW speeds AS
  SELECT lane, avg(speed) AS mean   -- a view keeps its own words; also this comment
  FROM highway [RANGE 15 MINUTES]
  GROUP BY lane;
INSERT INTO highway VALUES (1, 25.5, TIMESTAMP '2026-01-01 00:00:01'); SELECT mean FROM speeds;

;;
-- the end
"""


def statements(script: str) -> list[S.Statement]:
    catalog = Catalog()
    found = []
    for statement in bind_script(script, catalog):
        shown(statement, catalog)  # carries it out
        found.append(statement)
    return found


def refusal(script: str) -> EverviewError:
    with pytest.raises(EverviewError) as refused:
        run(script, Catalog())
    return refused.value


def place(script: str) -> tuple[int, int, str]:
    """Line and column of the mistake, and the text that is underlined."""
    found = refusal(script).place
    assert found is not None
    line = script.split("\n")[found.line - 1]
    assert line == found.text
    return found.line, found.column, line[found.column - 1 : found.column - 1 + found.width]


# Several statements


def test_a_script_is_its_statements_in_order() -> None:
    kinds = [type(statement) for statement in statements(SCRIPT)]
    assert kinds == [S.Create, S.Create, S.Insert, S.Select]


def test_a_view_keeps_its_words_and_no_more() -> None:
    entry = statements(SCRIPT)[1].entry  # type: ignore[union-attr]
    assert entry.sql == (  # type: ignore[union-attr]
        "SELECT lane, avg(speed) AS mean   -- a view keeps its own words; also this comment\n"
        "  FROM highway [RANGE 15 MINUTES]\n"
        "  GROUP BY lane"
    )


@pytest.mark.parametrize(
    "script", ["", " \n\t ", ";", ";;;", "-- nothing", "/* nothing */", "-- a\n;/* b */;\n"]
)
def test_nothing_is_a_script(script: str) -> None:
    assert parse_script(script) == []


@pytest.mark.parametrize("end", ["", ";", " ; ", ";\n-- done", "; ;"])
def test_the_last_semicolon_may_be_missing(end: str) -> None:
    assert len(parse_script(f"SHOW VIEWS; SHOW TABLES{end}")) == 2


def test_a_statement_sees_what_the_ones_before_it_did() -> None:
    """It is bound when it is asked for: the caller has then carried out those before it."""
    catalog = Catalog()
    bound = bind_script("CREATE TABLE t (a INT); SELECT a FROM t; DROP TABLE t; SELECT a FROM t", catalog)
    created = next(bound)
    assert isinstance(created, S.Create)
    catalog.add(created.entry)
    assert isinstance(next(bound), S.Select)
    assert isinstance(next(bound), S.Drop)
    catalog.drop("t")
    with pytest.raises(EverviewError, match="there is no stream, table or view 't'"):
        next(bound)


def test_the_statements_before_a_mistake_in_meaning_are_bound() -> None:
    catalog = Catalog()
    with pytest.raises(EverviewError):
        run("CREATE TABLE t (a INT); SELECT b FROM t; CREATE TABLE u (a INT)", catalog)
    assert [entry.name for entry in catalog] == ["t"]


def test_no_statement_runs_when_one_does_not_parse() -> None:
    catalog = Catalog()
    with pytest.raises(SqlError):
        run("CREATE TABLE t (a INT); SELEC", catalog)
    assert list(catalog) == []


def test_one_query_is_asked_for() -> None:
    with pytest.raises(SqlError, match="expected one statement, found 2"):
        plan_of("SELECT 1; SELECT 2", Catalog())


# Strings, comments and quoted names


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("'a;b'", "a;b"),
        ("'-- no comment'", "-- no comment"),
        ("'/* nor this */'", "/* nor this */"),
        ("'it''s'", "it's"),
        (r"'it\'s'", "it's"),
        ('"it\'s"', "it's"),
        (r"'a\\b'", r"a\b"),
        ("'two\nlines'", "two\nlines"),
        ("'`'", "`"),
        ("'∞ Größe 🙂'", "∞ Größe 🙂"),
        ("''", ""),
    ],
)
def test_a_string_is_what_stands_in_it(written: str, value: str) -> None:
    statement = statements(f"CREATE TABLE t (a STRING); INSERT INTO t VALUES ({written})")[1]
    assert isinstance(statement, S.Insert)
    assert statement.rows == ((value,),)


@pytest.mark.parametrize(
    "name", ["select", "a b", "a``b", "a;b", "a--b", "Größe", "1", "now", "clock", "'", "a.b"]
)
def test_any_name_can_be_quoted(name: str) -> None:
    script = (
        f"CREATE STREAM `s {name}` (`{name}` INT, ts TIMESTAMP, TIMELINE ts);"
        f"CREATE VIEW `v {name}` AS SELECT `{name}` FROM `s {name}` [RANGE 1 MINUTE] AS `{name}`;"
        f"SELECT `x`.`{name}` FROM `v {name}` AS `x`"
    )
    query = statements(script)[2].query  # type: ignore[union-attr]
    assert query.plan.schema.names == (name.replace("``", "`"),)  # type: ignore[union-attr]


def test_keywords_and_names_have_no_case() -> None:
    lower = statements("create table t (a int); select a from t where a = 1")[1]
    upper = statements("CREATE TABLE t (a INT); SELECT A FROM T WHERE A = 1")[1]
    assert lower == upper


def test_comments_stand_anywhere() -> None:
    plain = statements("CREATE TABLE t (a INT); SELECT a FROM t WHERE a IN (1, 2)")[1]
    with_comments = statements(
        "CREATE/**/TABLE t (a/*x*/INT -- y\n); SELECT--\na/* */FROM t WHERE a IN (1,--\n2)--\n"
    )[1]
    assert plain == with_comments


# Where a mistake lies


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (SCRIPT.replace("GROUP BY lane;", "GROUP BY lan;"), (12, 12, "lan")),
        (SCRIPT.replace("FROM speeds;", "FROM sped;"), (13, 89, "sped")),
        (SCRIPT.replace("TIMELINE ts", "TIMELINE t"), (6, 12, "t")),
        (SCRIPT.replace("speed DOUBLE", "speed DUOBLE"), (4, 9, "DUOBLE")),
        (SCRIPT.replace("RANGE 15 MINUTES", "RANGE 15 MINUTS"), (11, 23, "15 MINUTS")),
        (SCRIPT.replace("'2026-01-01 00:00:01'", "'2026-01-32'"), (13, 38, "TIMESTAMP '2026-01-32'")),
        (SCRIPT + "SELECT lane FROM\n\n\thighway\n WHERE\n\t\tspeed = lane +\n ts;", (21, 11, "lane +")),
        (SCRIPT + "FNORD;", (17, 1, "FNORD")),
        (SCRIPT + "SELECT 'it never ends;\n", (17, 8, "'")),
        (SCRIPT + "SELECT 1 /* it never ends;\n", (17, 10, "/")),
        (SCRIPT.replace("a comment with 'a", "a comment with '' '' 'a") + "SELECT `x;\n", (17, 8, "`")),
        (SCRIPT + "SELECT (1", (17, 10, "")),
        (SCRIPT + "SELECT (1;\nSELECT 2", (17, 10, ";")),
    ],
)
def test_a_mistake_is_underlined_where_it_lies(script: str, expected: tuple[int, int, str]) -> None:
    assert place(script) == expected


def test_a_mistake_over_several_lines_is_underlined_up_to_the_end_of_the_first() -> None:
    assert place("SELECT upper(\n  1,\n  2\n)") == (1, 8, "upper(")


def test_a_mistake_behind_windows_line_ends() -> None:
    """A carriage return is a blank: lines are counted by line feeds."""
    found = refusal("SELECT 1;\r\nSELECT x;\r\n").place
    assert found is not None
    assert (found.line, found.column, found.width) == (2, 8, 1)


def test_a_mistake_inside_a_view_that_is_read_has_its_place_in_what_was_typed() -> None:
    """The text of the view below is not the one that the person is looking at."""
    script = (
        "CREATE TABLE t (a INT, b INT);\n"
        "CREATE VIEW v AS SELECT a AS x FROM t;\n"
        "CREATE VIEW w AS SELECT x FROM v;\n"
        "CREATE OR REPLACE VIEW v AS SELECT b FROM t"
    )
    assert place(script) == (4, 24, "v")
    assert "the view 'w' no longer fits: there is no column 'x'" in refusal(script).what


def test_what_nests_too_deeply_is_refused() -> None:
    deep = "SELECT " + "(" * 5000 + "1" + ")" * 5000
    assert "nested too deeply" in refusal(deep).what


# Predicate windows (paper 5, 4.4)


@pytest.mark.parametrize(
    ("bracket", "condition"),
    [
        ("RANGE 5 SECONDS", "NOW - INTERVAL '5' SECOND < s.ts AND s.ts <= NOW"),
        ("RANGE 5 SECONDS", "s.ts > NOW - INTERVAL '5' SECOND AND NOW >= s.ts"),
        ("RANGE 5 SECONDS", "(ts <= now) AND (now - INTERVAL 5 SECONDS) < ts"),
        ("RANGE 5 SECONDS", "ts > NOW - INTERVAL '5' SECOND"),
        (
            "RANGE 5 SECONDS",
            "NOW - INTERVAL '9' SECOND < ts AND ts > NOW - INTERVAL '5' SECOND AND ts <= NOW",
        ),
        ("RANGE 5000001 MICROSECONDS", "ts BETWEEN NOW - INTERVAL '5' SECOND AND NOW"),
        ("RANGE 5000001 MICROSECONDS", "ts >= NOW - INTERVAL '5' SECOND"),
        (
            "RANGE 6 SECONDS LAG 4 SECONDS",
            "NOW - INTERVAL '10' SECOND < ts AND ts <= NOW - INTERVAL '4' SECOND",
        ),
        ("NOW", "NOW - INTERVAL '1' MICROSECOND < ts AND ts <= NOW"),
        ("NOW", "ts >= NOW"),
        ("UNBOUNDED", "ts <= NOW"),
    ],
)
def test_a_predicate_window_is_the_same_plan_as_the_bracket(bracket: str, condition: str) -> None:
    catalog = Catalog()
    run("CREATE STREAM s (v INT, ts TIMESTAMP, TIMELINE ts)", catalog)
    windowed = plan_of(f"SELECT v FROM s [{bracket}]", catalog)
    assert plan_of(f"SELECT v FROM s WHERE {condition}", catalog) == windowed
