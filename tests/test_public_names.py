"""A public name means one thing: one module of src/everview defines it. The source is read, not run.

Public names are the functions, classes, constants and aliases of a module without a leading underscore. An
import is not a definition. A name that only its own module uses can begin with an underscore instead.
"""

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "everview"


def defined_names(body: Sequence[ast.stmt]) -> Iterator[str]:
    """Yield the names that the statements of a module define, also inside `if` and `try`.

    >>> list(defined_names(ast.parse("a, _b = C = 1, 2\\nif a:\\n    def f(): x = 1\\nimport e").body))
    ['a', '_b', 'C', 'f']
    """
    for statement in body:
        match statement:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Assign(targets=targets):
                stored = (node for target in targets for node in ast.walk(target))
                yield from (n.id for n in stored if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.If() | ast.Try() | ast.With():
                handlers = getattr(statement, "handlers", [])
                parts = [getattr(statement, part, []) for part in ("body", "orelse", "finalbody")]
                for part in (*parts, *(handler.body for handler in handlers)):
                    yield from defined_names(part)


def repeated_names(source: Path) -> dict[str, list[str]]:
    """Return the public names that two or more modules define, with the paths of these modules."""
    modules: dict[str, set[str]] = defaultdict(set)
    for path in sorted(source.rglob("*.py")):
        for name in defined_names(ast.parse(path.read_text(encoding="utf-8")).body):
            if not name.startswith("_"):
                modules[name].add(path.relative_to(source).as_posix())
    return {name: sorted(paths) for name, paths in sorted(modules.items()) if len(paths) > 1}


def test_public_names_are_unique() -> None:
    found = [f"{n}: {', '.join(paths)}" for n, paths in repeated_names(SOURCE).items()]
    assert not found, "public names with more than one definition:\n" + "\n".join(found)


def test_repeated_names_are_found(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    (tmp_path / "one.py").write_text("LIMIT = 1\ndef join(): ...\ndef _own(): ...\nRow = tuple\n")
    (tmp_path / "room" / "two.py").write_text("from one import join\nLIMIT: int = 2\ndef _own(): ...\n")
    (tmp_path / "room" / "three.py").write_text("if LIMIT:\n    class Row: ...\ndef f():\n    join = 1\n")
    assert repeated_names(tmp_path) == {
        "LIMIT": ["one.py", "room/two.py"],
        "Row": ["one.py", "room/three.py"],
    }
