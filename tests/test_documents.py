"""What the documents show is true: the code in README.md and docs/ is run and its output compared.

python    is executed; the blocks of a file share their names and a temporary folder. A text block directly
          after it is exactly what it prints.
sql       is carried out in a store of the page, what there is being taken in before a SELECT is answered. A
          text block directly after it is what it answers, or the mistake that it is told. `sql anew` gets
          a new store, in which the page's first SQL has been carried out; `sql bound` is only bound.
console   `$ command` is run by bash in that folder ($EVERVIEW_ROOT is the repository), `> ` continues it; the
          lines after it are what it prints. It must succeed unless it ends in `# fails`. A plain `everview …`
          is run in this process, on the Spark session that all tests share. `make …` is not run, but the
          target must exist.

In what is printed, `...` alone stands for any lines, within a line for any text. Other blocks are only to be
read. The pages on windows are different: their views are worked out by their definitions, drawn, and then all
run on Spark at once.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import everview
from docs.drawings import WINDOWS, drawing, page_views, readings, table
from everview.algebra.functions import FUNCTIONS
from everview.algebra.functions_conditional import CONDITIONAL_FUNCTIONS
from everview.algebra.functions_math import MATH_FUNCTIONS
from everview.algebra.functions_text import TEXT_FUNCTIONS
from everview.algebra.functions_time import TIME_FUNCTIONS
from everview.query.answers import fetch_answer
from everview.ui.output import ENDS, Sheet
from tests.documents import ROOT, Page, lines_of, read_blocks

RUN = ("python", "console", "sql")


def _documents() -> Iterator[Any]:
    for path in sorted([*ROOT.glob("README.md"), *ROOT.glob("docs/*.md")]):
        runs = any(block.language in RUN for block in read_blocks(path.read_text("utf-8")))
        # Nearly all code in the documents runs a query, hence Spark.
        yield pytest.param(path, id=str(path.relative_to(ROOT)), marks=[pytest.mark.spark] if runs else [])


@pytest.mark.parametrize("path", list(_documents()))
def test_document_is_true(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    needs_spark = request.node.get_closest_marker("spark") is not None
    Page(path, tmp_path, request.getfixturevalue("spark") if needs_spark else None).run()


def test_readme_names_the_first_commands() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert "make demo" in readme
    assert "make test" in readme


@pytest.mark.parametrize(
    "path", sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]), ids=lambda p: str(p.relative_to(ROOT))
)
def test_links_lead_somewhere(path: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", path.read_text("utf-8"), flags=re.S)):
        if not link.startswith("http"):
            name, _, part = link.partition("#")
            target = path.parent / name if name else path
            assert target.exists(), f"{path.name} links to {link}"
            titles = re.findall(r"^#+ (.+)$", target.read_text("utf-8"), re.M) if part else []
            anchors = {re.sub(r"[^\w -]", "", t).strip().lower().replace(" ", "-") for t in titles}
            assert not part or part in anchors, f"{path.name} links to {link}; there are {sorted(anchors)}"


PAGES = sorted(path for path in (ROOT / "docs/windows").glob("*.md") if path.name != "README.md")


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.stem)
def test_window_page_is_true(path: Path) -> None:
    """Each view of the page has the rows that the definitions give it."""
    answers = {answer.name: answer for answer in page_views(path)}
    blocks = [b for b in read_blocks(path.read_text("utf-8")) if b.language == "sql"]
    assert blocks
    for block in blocks:
        view = re.findall(r"CREATE VIEW (\w+)", block.text)[-1]
        assert lines_of(block.expected or "") == table(answers[view]), f"{path.name}:{block.line}"


@pytest.mark.parametrize("path", PAGES, ids=lambda p: p.stem)
def test_window_drawing_is_true(path: Path, regenerate: bool) -> None:
    picture = path.with_suffix(".svg")
    if regenerate:
        picture.write_text(drawing(path), "utf-8")
    assert picture.read_text("utf-8") == drawing(path), "pytest --regenerate draws it anew"
    assert f"]({picture.name})" in path.read_text("utf-8")
    assert f"]({path.name})" in WINDOWS.joinpath("README.md").read_text("utf-8")


@pytest.mark.spark
def test_window_pages_on_spark(spark: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The engine gives the views of all these pages the same rows."""
    with everview.connect(str(tmp_path / "store"), spark, 2) as db:
        db.execute(readings())
        wanted = {}
        for path in PAGES:
            for block in read_blocks(path.read_text("utf-8")):
                if block.language == "sql":
                    db.execute(block.text)
            wanted.update({answer.name: table(answer) for answer in page_views(path)})
        db.run(finish=True)
        for name, lines in wanted.items():
            capsys.readouterr()
            Sheet("table", sys.stdout, ENDS["intervals"]).write(fetch_answer(db.changes(name, "intervals")))
            assert sorted(lines_of(capsys.readouterr().out)) == sorted(lines), name


FAMILIES = {
    "text": TEXT_FUNCTIONS,
    "numbers": MATH_FUNCTIONS,
    "time": TIME_FUNCTIONS,
    "conditions": CONDITIONAL_FUNCTIONS,
}


def function_table() -> str:
    """The functions by family, other names of one in brackets."""
    lines = ["| of | functions |", "|---|---|"]
    for family, signatures in FAMILIES.items():
        others: dict[str, dict[str, None]] = {}
        for signature in sorted(signatures, key=lambda s: s.name):
            others.setdefault(signature.name, {}).update(dict.fromkeys(signature.aliases))
        names = [f"`{n}`" + (f" ({', '.join(f'`{a}`' for a in o)})" if o else "") for n, o in others.items()]
        lines.append(f"| {family} | {', '.join(names)} |")
    return "\n".join(lines)


def test_the_list_of_functions_is_whole(regenerate: bool) -> None:
    assert {s.name for family in FAMILIES.values() for s in family} == set(FUNCTIONS)
    page = ROOT / "docs/sql.md"
    text = page.read_text("utf-8")
    listed = re.compile(r"(?<=<!-- functions -->\n).*?(?=\n<!-- end of functions -->)", re.S)
    if regenerate:
        page.write_text(listed.sub(lambda _: function_table(), text), "utf-8")
    found = listed.search(page.read_text("utf-8"))
    assert found is not None
    assert found[0] == function_table(), "pytest --regenerate writes the list anew"


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
    Page(tmp_path / "good.md", tmp_path).run()


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
        Page(tmp_path / "bad.md", tmp_path).run()
