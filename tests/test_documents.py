"""What the documents show is true: the code in README.md and docs/ is run and its output compared.

python    is executed; the blocks of a file share their names and a temporary folder. A text block directly
          after it is exactly what it prints.
console   `$ command` is run by bash in that folder ($EVERVIEW_ROOT is the repository), `> ` continues it; the
          lines after it are what it prints, where `...` alone stands for any lines. It must succeed unless
          it ends in `# fails`. `make …` is not run, but the target must exist.
sql       must be accepted by the parser.

Other blocks are only to be read.
"""

import contextlib
import importlib
import io
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
FENCE = re.compile(
    r"^(?P<indent> *)(?P<fence>```+)(?P<language>[\w+-]*)[^\n`]*\n(?P<body>.*?)^ *(?P=fence) *$", re.M | re.S
)


@dataclass(frozen=True)
class Block:
    """One fenced block; `line` is that of its first line of content."""

    language: str
    text: str
    line: int
    expected: str | None = None  # what a python block prints, where the document says so


def read_blocks(document: str) -> list[Block]:
    """The fenced blocks, with the text block that follows a python block folded into it."""
    fences = list(FENCE.finditer(document))
    blocks = []
    for fence, after in pairwise([*fences, None]):
        assert fence is not None
        expected = None
        if (
            fence["language"] == "python"
            and after is not None
            and after["language"] == "text"
            and not document[fence.end() : after.start()].strip()
        ):
            expected = _unindented(after)
        line = document.count("\n", 0, fence.start("body")) + 1
        blocks.append(Block(fence["language"], _unindented(fence), line, expected))
    return blocks


def _unindented(fence: re.Match[str]) -> str:
    return re.sub(f"^ {{0,{len(fence['indent'])}}}", "", fence["body"], flags=re.M)


def run_document(path: Path, folder: Path) -> None:
    """Runs every block of the document in the folder; raises AssertionError at the first that is not true."""
    # Blocks are run as a script would be, whose classes and functions Spark can send to its workers.
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in read_blocks(path.read_text("utf-8")):
        place = f"{path.name}:{block.line}"
        match block.language:
            case "python":
                run_python(block, names, path)
            case "console":
                run_console(block, folder, place)
            case "sql":
                check_sql(block.text)


def run_python(block: Block, names: dict[str, Any], path: Path) -> None:
    # Empty lines in front, so that a traceback points at the line in the document.
    code = compile("\n" * (block.line - 1) + block.text, str(path), "exec")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, names)
    if block.expected is not None:
        place = f"{path.name}:{block.line}"
        assert _lines(printed.getvalue()) == _lines(block.expected), f"{place} prints something else"


def run_console(block: Block, folder: Path, place: str) -> None:
    for command, expected in read_commands(block.text):
        if re.match(r"make\b", command):
            check_make(command, place)
            continue
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env=os.environ | {"PATH": f"{ROOT}/.venv/bin:{os.environ['PATH']}", "EVERVIEW_ROOT": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
        )
        should_fail = command.endswith("# fails")
        assert (done.returncode != 0) == should_fail, (
            f"{place}: `{command}` ended with exit code {done.returncode}:\n{done.stdout}"
        )
        assert matches(done.stdout, expected), (
            f"{place}: `{command}` prints\n{done.stdout}\nbut the document says\n{expected}"
        )


def read_commands(text: str) -> Iterator[tuple[str, str]]:
    """Each command of a console block, with the output shown under it."""
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        command, *rest = part.rstrip("\n").split("\n")
        while rest and rest[0].startswith("> "):
            command += "\n" + rest.pop(0)[2:]
        yield command.strip(), "\n".join(rest)


def check_make(command: str, place: str) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    for word in command.partition("#")[0].split()[1:]:
        if "=" not in word and not word.startswith("-"):
            assert word in targets, f"{place}: the Makefile has no target {word!r}"


def check_sql(text: str) -> None:
    parse_script = getattr(importlib.import_module("everview.sql"), "parse_script", None)
    assert parse_script is not None, "a document has a sql block, but everview.sql has no parse_script"
    parse_script(text)


def matches(printed: str, expected: str) -> bool:
    """Whether the output is as shown, a line `...` standing for any lines."""
    pattern = "".join(
        r"(?:.*\n)*?" if line == "..." else re.escape(line) + r"\n" for line in _lines(expected)
    )
    return re.fullmatch(pattern, "".join(line + "\n" for line in _lines(printed))) is not None


def _lines(text: str) -> list[str]:
    """The lines without the white space at their ends, which no reader sees."""
    return [line.rstrip() for line in text.rstrip().split("\n")] if text.strip() else []


def _documents() -> Iterator[Any]:
    for path in sorted([*ROOT.glob("README.md"), *ROOT.glob("docs/**/*.md")]):
        runs = any(block.language in ("python", "console") for block in read_blocks(path.read_text("utf-8")))
        # Nearly all code in the documents runs a query, hence Spark.
        yield pytest.param(path, id=str(path.relative_to(ROOT)), marks=[pytest.mark.spark] if runs else [])


@pytest.mark.parametrize("path", list(_documents()))
def test_document_is_true(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_document(path, tmp_path)


def test_readme_names_the_first_commands() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert "make demo" in readme
    assert "make test" in readme


GOOD = """
```python
answer = 42
```
Names live on.
```python
print(answer)
open("note", "w").write("hello")
```

```text
42
```
- in a list
  ```python
  if answer:
      print("indented")
  ```
  ```text
  indented
  ```
```console
$ cat note && test -f "$EVERVIEW_ROOT/Makefile"
hello
$ cat <<END
> one
> END
one
$ seq 9
1
...
9
$ ls nowhere  # fails
...
$ make test  # is not run
```
```text
No code.
```
```mermaid
not code either
```
"""


def test_a_true_document_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.md").write_text(GOOD)
    run_document(tmp_path / "good.md", tmp_path)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("```python\nprint(1)\n```\n```text\n2\n```\n", "bad.md:2 prints something else"),
        ("```python\nprint(1)\n```\n\n```text\n```\n", "bad.md:2 prints something else"),
        ("\n```console\n$ echo 1\n2\n```\n", "bad.md:3: `echo 1` prints"),
        ("```console\n$ echo 1\n```\n", "but the document says"),
        ("```console\n$ seq 3\n1\n...\n4\n```\n", "but the document says"),
        ("```console\n$ false\n```\n", "ended with exit code 1"),
        ("```console\n$ true # fails\n```\n", "ended with exit code 0"),
        ("```console\n$ make coffee\n```\n", "no target 'coffee'"),
    ],
)
def test_a_false_document_fails(
    document: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.md").write_text(document)
    with pytest.raises(AssertionError, match=re.escape(message)):
        run_document(tmp_path / "bad.md", tmp_path)
