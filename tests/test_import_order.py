"""The layout is a law: who may import whom, read from the source of src/everview without running it.

A unit is a file or folder directly under everview. Imports inside functions, behind TYPE_CHECKING and by
`importlib.import_module("…")` count as well.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "everview"

GROUND = ("errors", "settings", "algebra", "catalog")
# The way of a query; a stage may use the ground and the stages before it.
STAGES = (
    "sql", "temporal", "rewrite", "operators", "plan", "compile", "compile_store", "explain", "storage",
    "execute", "ingest", "query", "sinks", "without_spark", "pipeline", "maintenance", "database",
)  # fmt: skip

# What each unit may import of ours, besides itself.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "settings": set(),
    "algebra": {"errors"},
    "catalog": {"errors", "algebra"},
    **{stage: {*GROUND, *STAGES[:place]} for place, stage in enumerate(STAGES)},
    # The oracle: imported by tests and documents, and by nothing that runs.
    "reference": {*GROUND, "sql", "temporal"},
    # A client knows the release that it is of.
    "server": {*GROUND, "plan", "storage", "query", "without_spark", "database", "__init__"},
    "ui": {*GROUND, "query", "without_spark", "maintenance", "database", "server"},
    "__init__": {"database", "maintenance", "errors", "settings"},
    "__main__": {"ui"},
}

# The units that may know each of these libraries.
LIBRARIES: dict[str, set[str]] = {
    "pyspark": {"execute", "ingest", "query", "sinks", "pipeline"},
    "sqlglot": {"sql"},
    "polars": {"operators", "storage", "execute", "ingest", "sinks"},
    "psycopg": {"sinks"},
    "deltalake": {"sinks"},
    "pyiceberg": {"sinks"},
    "starlette": {"server"},
    "uvicorn": {"server"},
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
        ("operators/join.py", "from everview import plan", "operators imports plan"),
        ("execute/job.py", "from everview import ingest", "execute imports ingest"),
        ("plan/explain/text.py", "from everview.execute import job", "plan imports execute"),
        ("database.py", "from everview.ui import cli", "database imports ui"),
        ("ui/cli.py", "from everview.execute import job", "ui imports execute"),
        ("ui/cli.py", "from everview import connect", "ui imports __init__"),
        ("__init__.py", "from everview.sql import parse", "__init__ imports sql"),
        (
            "operators/join.py",
            "import pyspark.sql.functions as F",
            "operators imports pyspark; only execute, ingest, pipeline, query, sinks",
        ),
        ("rewrite/cost.py", "from sqlglot import exp", "rewrite imports sqlglot; only sql may"),
        ("plan/lower.py", "import polars as pl", "plan imports polars; only execute, ingest, operators"),
        (
            "execute/job.py",
            "import importlib\nimportlib.import_module('duckdb')",
            "job.py:2: execute imports duckdb; only no unit may",
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
        ("execute/job.py", "import polars, pyspark\nfrom everview import operators, plan, sql"),
        ("pipeline/steps.py", "from .. import catalog, errors, ingest, sql"),
        ("ui/cli.py", "import typer\nfrom everview import database\nfrom everview.ui import page"),
        ("__init__.py", "from .database import connect"),
        ("errors.py", '"""import pyspark"""\nimport difflib'),
    ],
)
def test_a_kept_rule_is_silent(path: str, source: str) -> None:
    assert violations(source, path) == []
