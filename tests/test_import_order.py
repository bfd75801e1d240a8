"""The layout is a law: who may import whom, read from the source of src/everview without running it.

A unit is a file or folder directly under everview. Imports inside functions, behind TYPE_CHECKING and by
`importlib.import_module("…")` count as well.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "everview"

GROUND = ("errors", "algebra")
STAGES = ("sql", "temporal", "rewrite", "kernels", "spark", "runtime")

# What each unit may import of ours, besides itself.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "algebra": {"errors"},
    "catalog": {*GROUND},
    **{stage: {*GROUND, "catalog", *STAGES[:place]} for place, stage in enumerate(STAGES)},
    "explanation": {*GROUND, "catalog", "sql", "temporal", "rewrite"},
    "reports": {*GROUND, "catalog", *STAGES},
    "engine": {*GROUND, "catalog", *STAGES, "explanation"},
    "charts": {*GROUND, "explanation"},
    "database": {*GROUND, "catalog", *STAGES, "explanation", "engine", "charts", "reports"},
    "ui": {*GROUND, "database", "engine", "reports"},
    "__init__": {"database", "engine", "errors"},
    "__main__": {"ui"},
}

# The units that may know each of these libraries.
LIBRARIES: dict[str, set[str]] = {
    "pyspark": {"spark", "runtime"},
    "sqlglot": {"sql"},
    "polars": {"kernels", "runtime"},
    "duckdb": set(),
}


def imported_names(tree: ast.Module, package: list[str]) -> Iterator[tuple[int, str]]:
    """Line and full dotted name of every import; `package` is what a relative import starts from."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, name.name) for name in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                base = package[: len(package) - level + 1] if level else []
                prefix = ".".join([*base, *([module] if module else [])])
                yield from ((node.lineno, f"{prefix}.{name.name}") for name in names)
            case ast.Call(
                func=ast.Name(id="__import__" | "import_module") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield node.lineno, name


def violations(source: str, path: str) -> list[str]:
    """The broken rules of one file; `path` is relative to src/everview, for example `sql/parse.py`."""
    parts = path.removesuffix(".py").split("/")
    unit = parts[0]
    if unit not in MAY_IMPORT:
        return [f"{path}:1: {unit} has no place in the import order; give it one in MAY_IMPORT"]
    found = []
    for line, name in imported_names(ast.parse(source), ["everview", *parts[:-1]]):
        top, *rest = name.split(".")
        if top in LIBRARIES and unit not in LIBRARIES[top]:
            allowed = ", ".join(sorted(LIBRARIES[top])) or "no unit"
            found.append(f"{path}:{line}: {unit} imports {top}; only {allowed} may")
        if top == "everview":
            # `from everview import connect` names no unit: it goes through the public __init__.
            target = rest[0] if rest and rest[0] in MAY_IMPORT else "__init__"
            if target != unit and target not in MAY_IMPORT[unit]:
                allowed = ", ".join(sorted(MAY_IMPORT[unit])) or "nothing of ours"
                found.append(f"{path}:{line}: {unit} imports {target}; it may import {allowed}")
    return found


def test_every_file_keeps_the_import_order() -> None:
    files = sorted(SOURCE.rglob("*.py"))
    assert files, f"no source under {SOURCE}"
    found = [
        broken
        for file in files
        for broken in violations(file.read_text("utf-8"), file.relative_to(SOURCE).as_posix())
    ]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("path", "source", "message"),
    [
        (
            "errors.py",
            "import everview.algebra",
            "errors.py:1: errors imports algebra; it may import nothing",
        ),
        ("algebra/nodes.py", "from everview.sql import parse", "algebra imports sql"),
        ("algebra/nodes.py", "from ..catalog import Catalog", "algebra imports catalog"),
        ("algebra/__init__.py", "from .. import catalog", "algebra imports catalog"),
        ("catalog.py", "\n\nfrom .sql.parse import parse", "catalog.py:3: catalog imports sql"),
        (
            "sql/bind.py",
            "def f():\n    from everview.temporal import x",
            "sql/bind.py:2: sql imports temporal",
        ),
        ("kernels/join.py", "from everview import spark", "kernels imports spark"),
        ("runtime/loop.py", "from everview import engine", "runtime imports engine"),
        ("explanation/text.py", "from everview.spark import lower", "explanation imports spark"),
        ("engine.py", "from everview.ui import cli", "engine imports ui"),
        ("ui/cli.py", "from everview.runtime import loop", "ui imports runtime"),
        ("ui/cli.py", "from everview import connect", "ui imports __init__"),
        ("__init__.py", "from everview.sql import parse", "__init__ imports sql"),
        (
            "kernels/join.py",
            "import pyspark.sql.functions as F",
            "kernels imports pyspark; only runtime, spark",
        ),
        ("rewrite/cost.py", "from sqlglot import exp", "rewrite imports sqlglot; only sql may"),
        ("spark/plan.py", "import polars as pl", "spark imports polars; only kernels, runtime may"),
        (
            "runtime/loop.py",
            "import importlib\nimportlib.import_module('duckdb')",
            "loop.py:2: runtime imports duckdb; only no unit may",
        ),
        ("helpers/text.py", "", "helpers has no place in the import order"),
    ],
)
def test_a_broken_rule_is_reported(path: str, source: str, message: str) -> None:
    (found,) = violations(source, path)
    assert message in found


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("algebra/nodes.py", "from everview.errors import EverviewError\nfrom .schema import Schema"),
        ("algebra/nodes.py", "from . import schema\nfrom everview.algebra import time"),
        ("sql/__init__.py", "import sqlglot\nfrom .. import algebra, catalog\nfrom .parse import parse"),
        ("runtime/loop.py", "import polars, pyspark\nfrom everview import kernels, spark, sql"),
        ("engine.py", "from . import catalog, errors, runtime, sql"),
        ("ui/cli.py", "import typer\nfrom everview import engine\nfrom everview.ui import page"),
        ("__init__.py", "from .engine import connect"),
        ("errors.py", '"""import pyspark"""\nimport difflib'),
    ],
)
def test_a_kept_rule_is_silent(path: str, source: str) -> None:
    assert violations(source, path) == []
