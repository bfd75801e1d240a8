"""Lists in documents that must be true: walks in docs/design.md, the files of an operator, the glossary."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_STATION = re.compile(r"^\d+\. `([\w/]+\.py): ([\w.]+)` ", re.M)


def walks() -> dict[str, list[tuple[str, str]]]:
    """The stations of each walk: file and function."""
    text = (ROOT / "docs" / "design.md").read_text("utf-8")
    parts = re.split(r"^#{2,3} ", text, flags=re.M)
    return {part.splitlines()[0]: _STATION.findall(part) for part in parts if _STATION.search(part)}


def defined_in(path: Path) -> set[str]:
    """The classes and functions of a file, methods with their class."""
    found: set[str] = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{m.name}" for m in node.body if isinstance(m, ast.FunctionDef)}
    return found


def test_there_are_two_walks() -> None:
    assert len(walks()) == 2


@pytest.mark.parametrize("walk", walks().values(), ids=list(walks()))
def test_a_walk(walk: list[tuple[str, str]]) -> None:
    assert 5 <= len(walk) <= 12
    for file, name in walk:
        assert name in defined_in(ROOT / "src" / "everview" / file), f"{file} has no {name}"
    rooms = [file.split("/")[0] for file, _ in walk]
    entered = [room for i, room in enumerate(rooms) if i == 0 or rooms[i - 1] != room]
    assert len(entered) == len(set(entered)), f"a room is entered twice: {entered}"


def test_the_files_of_an_operator() -> None:
    """CONTRIBUTING lists all files that know RSTREAM, and no others; five of them every operator has."""
    source = ROOT / "src" / "everview"
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    tables = [
        re.findall(r"`([\w/]+\.py)`", "".join(table)) for table in re.findall(r"(?:^\|.*\n)+", text, re.M)
    ]
    needed, own = tables[:2]
    assert len(needed) == 5
    names = re.compile(r"\b(RStream|RelationStreamOperator|relation_stream)\b")
    known = {
        p.relative_to(source).as_posix() for p in source.rglob("*.py") if names.search(p.read_text("utf-8"))
    }
    assert known == {*needed, *own}


def test_the_glossary_has_each_term_once() -> None:
    lines = (ROOT / "docs" / "glossary.md").read_text("utf-8").splitlines()
    terms = [line.split("|")[1].strip() for line in lines if line.startswith("| ")][1:]
    assert len(terms) > 50
    assert terms == sorted(set(terms), key=str.casefold)
