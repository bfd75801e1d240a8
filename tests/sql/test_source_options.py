"""Options of sources: known ones in any case, misspelt ones refused where they are written."""

from __future__ import annotations

import pytest

from everview.catalog import Catalog, StreamEntry
from everview.errors import SqlError
from everview.sql.bind import bind_script
from everview.sql.source_options import known_options

CREATE = "CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts) FROM "


def source(text: str) -> tuple[tuple[str, str], ...]:
    [statement] = bind_script(CREATE + text, Catalog())
    entry = statement.entry  # type: ignore[attr-defined]
    assert isinstance(entry, StreamEntry)
    assert entry.source is not None
    return entry.source.options


def test_a_misspelt_option_is_refused_with_its_place() -> None:
    with pytest.raises(SqlError) as caught:
        source("csv('in', hedaer => true)")
    assert str(caught.value) == (
        "the source csv has no option 'hedaer'\n"
        "  line 1, column 67\n"
        "    CREATE STREAM s (k INT, ts TIMESTAMP, TIMELINE ts) FROM csv('in', hedaer => true)\n"
        "                                                                      ^^^^^^\n"
        "  did you mean 'header'?\n"
        "  choices: header, sep, delimiter, quote, escape, comment, nullValue, emptyValue, nanValue, "
        "positiveInf, negativeInf, ignoreLeadingWhiteSpace, ignoreTrailingWhiteSpace, inferSchema, "
        "preferDate, enforceSchema, … (50 in all)"
    )


@pytest.mark.parametrize("format_", ["csv", "json", "parquet", "orc", "text", "kafka", "rate", "socket"])
def test_every_known_option_passes_in_any_case(format_: str) -> None:
    for option in known_options(format_):
        for written in (option, option.upper(), option.lower()):
            quoted = ".".join(f"`{part}`" for part in written.split("."))
            assert source(f"{format_}({quoted} => 'x')") == ((written, "x"),)


@pytest.mark.parametrize(
    ("text", "option"),
    [
        ("json('in', multiline2 => true)", "multiline2"),
        ("parquet('in', header => true)", "header"),
        ("kafka(subscribe => 'a', bootstrap.servers => 'b')", "bootstrap.servers"),
        ("rate(rowsPerSeconds => 1)", "rowsPerSeconds"),
        ("socket('localhost', 99, includeTimestamps => true)", "includeTimestamps"),
    ],
)
def test_every_known_source_knows_its_options(text: str, option: str) -> None:
    with pytest.raises(SqlError, match=f"has no option '{option}'"):
        source(text)


def test_other_sources_and_libraries_take_any_option() -> None:
    assert source("delta('in', whatEver => 1)") == (("whatEver", "1"),)
    assert source("kafka(kafka.any.thing => 'x')") == (("kafka.any.thing", "x"),)


def test_an_option_in_another_case_stands_twice() -> None:
    with pytest.raises(SqlError, match="the option 'HEADER' stands twice"):
        source("csv('in', header => true, HEADER => false)")
