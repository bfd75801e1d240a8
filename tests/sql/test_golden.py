"""The golden files of the SQL front end; `--regenerate` writes them anew, to be reviewed as a diff."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.sql.golden_cases import REFUSED, Case, GoldenFile, golden_files, outcome

FILES = golden_files()
CASES = [
    pytest.param(file.header, case, id=f"{path.name.partition('.')[0]}: {case.title}")
    for path in FILES
    for file in (GoldenFile.parsed(path.read_text(encoding="utf-8")),)
    for case in file.cases
]
REFUSALS = [p for p in CASES if p.values[1].expected.startswith(REFUSED)]

# Words about the program that say nothing to the person who typed the SQL: of sqlglot, of Python,
# names that the binder makes up, classes (CamelCase).
JARGON = re.compile(r"sqlglot|Traceback|Token|object at 0x|\bNone\b|\b_q\d|<class|\b(?:[A-Z][a-z]+){2,}\b")


def described(path: Path) -> str:
    return path.name.partition(".")[0]


@pytest.mark.parametrize("path", FILES, ids=described)
def test_a_file_is_written_as_regeneration_writes_it(path: Path, regenerate: bool) -> None:
    """So that regenerating it twice changes nothing, and a diff shows changes of meaning only."""
    text = path.read_text(encoding="utf-8")
    if regenerate:
        path.write_text(GoldenFile.parsed(text).regenerated().written(), encoding="utf-8")
    else:
        assert GoldenFile.parsed(text).written() == text


@pytest.mark.parametrize("path", FILES, ids=described)
def test_titles_are_different(path: Path) -> None:
    titles = [case.title for case in GoldenFile.parsed(path.read_text(encoding="utf-8")).cases]
    assert sorted(set(titles)) == sorted(titles)


@pytest.mark.parametrize(("header", "case"), CASES)
def test_case(header: str, case: Case, regenerate: bool) -> None:
    found = outcome(header, case.sql)
    assert regenerate or found == case.expected


@pytest.mark.parametrize(("header", "case"), [p for p in CASES if str(p.id).startswith("refusals: ")])
def test_what_stands_among_the_refusals_is_refused(header: str, case: Case) -> None:
    assert outcome(header, case.sql).startswith(REFUSED)


@pytest.mark.parametrize(("header", "case"), REFUSALS)
def test_a_refusal_says_where_and_speaks_to_a_person(header: str, case: Case) -> None:
    """What, where with the SQL underlined, then at most: did you mean, the choices, the next step."""
    what, where, line, underline, *rest = outcome(header, case.sql).removeprefix(REFUSED).split("\n")
    assert what
    assert not what.endswith(".")
    assert re.fullmatch(r"  line \d+, column \d+", where)
    number, column = map(int, re.findall(r"\d+", where))
    assert line == "    " + case.sql.split("\n")[number - 1]
    assert len(underline.rstrip("^")) == 4 + column - 1
    assert underline.strip()
    kinds = ("did you mean '", "choices: ", "next: ")
    found = [next(i for i, kind in enumerate(kinds) if words.startswith(f"  {kind}")) for words in rest]
    assert found == sorted(set(found))
    assert not JARGON.search("\n".join([what, *rest]))


def test_the_refusals_are_many() -> None:
    assert len([p for p in CASES if str(p.id).startswith("refusals: ")]) >= 80
