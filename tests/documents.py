"""Runs the code in a document and compares what it prints. How blocks are written: `test_documents.py`."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import everview
from everview import maintenance
from everview.errors import EverviewError
from everview.query.answers import fetch_answer
from everview.query.report import Report
from everview.storage.files import Files
from everview.storage.store import SETTINGS_FILE
from everview.ui import cli, commands
from everview.ui.output import MOST_ROWS, write_answer
from everview.without_spark import bind_on_copy, is_select

ROOT = Path(__file__).parents[1]
FENCE = re.compile(
    r"^(?P<indent> *)(?P<fence>```+)(?P<language>[\w+-]*)(?P<info>[^\n`]*)\n(?P<body>.*?)^ *(?P=fence) *$",
    re.M | re.S,
)
PRINTING = ("python", "sql")  # a text block directly after one of these is what it prints


@dataclass(frozen=True)
class Block:
    """One fenced block; `line` is that of its first line of content."""

    language: str
    text: str
    line: int
    expected: str | None = None  # what it prints, where the document says so
    info: str = ""


def read_blocks(document: str) -> list[Block]:
    """The fenced blocks, with the text block that follows a block that prints folded into it."""
    fences = list(FENCE.finditer(document))
    blocks = []
    for fence, after in pairwise([*fences, None]):
        assert fence is not None
        expected = None
        if (
            fence["language"] in PRINTING
            and after is not None
            and after["language"] == "text"
            and not document[fence.end() : after.start()].strip()
        ):
            expected = _unindented(after)
        line = document.count("\n", 0, fence.start("body")) + 1
        blocks.append(Block(fence["language"], _unindented(fence), line, expected, fence["info"].strip()))
    return blocks


def _unindented(fence: re.Match[str]) -> str:
    return re.sub(f"^ {{0,{len(fence['indent'])}}}", "", fence["body"], flags=re.M)


@dataclass
class Page:
    """A document while its blocks are run: its folder, its names, and the store of its SQL."""

    path: Path
    folder: Path
    spark: Any = None  # the session that all blocks share; None: each command starts its own
    # Blocks are run as a script would be, whose classes and functions Spark can send to its workers.
    names: dict[str, Any] = field(default_factory=lambda: {"__name__": "__main__"})
    store: everview.Database | None = None
    stores: int = 0

    def run(self) -> None:
        """Runs every block; raises AssertionError at the first that is not true."""
        with self._connected():
            try:
                for block in read_blocks(self.path.read_text("utf-8")):
                    self._run_block(block)
            finally:
                if self.store is not None:
                    self.store.close()

    def _run_block(self, block: Block) -> None:
        match block.language:
            case "python":
                self._expect(block, self._python(block))
            case "sql":
                self._expect(block, self._sql(block))
            case "console":
                self._console(block)

    def _expect(self, block: Block, printed: str) -> None:
        if block.expected is not None:
            place = f"{self.path.name}:{block.line}"
            assert matches(printed, block.expected), (
                f"{place} prints something else:\n{printed}\nthan the document says:\n{block.expected}"
            )

    @contextlib.contextmanager
    def _connected(self) -> Iterator[None]:
        """Whoever opens a store meanwhile does so on the shared session."""
        before, repair, rewind = everview.connect, maintenance.repair, maintenance.rewind
        if self.spark is not None:
            everview.connect = commands.connect = self._connect
            maintenance.repair = lambda *a, **k: repair(*a, **{**k, "spark": self.spark})
            maintenance.rewind = lambda *a, **k: rewind(*a, **{**k, "spark": self.spark})
        try:
            yield
        finally:
            everview.connect = commands.connect = before
            maintenance.repair, maintenance.rewind = repair, rewind

    def _connect(
        self, path: str, spark: Any = None, partitions: int | None = None, strategy: str | None = None
    ) -> everview.Database:
        new = None if Files(path).exists(SETTINGS_FILE) else partitions or 2
        given = None if isinstance(spark, everview.SparkSettings) else spark
        return everview.database.connect(path, given or self.spark, new, strategy)

    def _python(self, block: Block) -> str:
        # Empty lines in front, so that a traceback points at the line in the document.
        code = compile("\n" * (block.line - 1) + block.text, str(self.path), "exec")
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(code, self.names)
        return printed.getvalue()

    def _sql(self, block: Block) -> str:
        if self.store is None or block.info == "anew":
            self._open_store(block.info == "anew")
        assert self.store is not None
        out = io.StringIO()
        try:
            if block.info == "bound":
                bind_on_copy(block.text, self.store.catalog)
            else:
                answer_script(self.store, block.text, out)
        except EverviewError as error:
            if block.expected is None:
                raise
            print(error, file=out)
        return out.getvalue()

    def _open_store(self, anew: bool) -> None:
        """A store for the page's SQL; anew, one that has only what the first SQL of the page makes."""
        if self.store is not None:
            self.store.close()
        self.stores += 1
        self.store = everview.connect(str(self.folder / f"store {self.stores} of the page"))
        if anew:
            first = next(b for b in read_blocks(self.path.read_text("utf-8")) if b.language == "sql")
            self.store.execute(first.text)

    def _console(self, block: Block) -> None:
        place = f"{self.path.name}:{block.line}"
        for command, expected in read_commands(block.text):
            if re.match(r"make\b", command):
                check_make(command, place)
                continue
            ours = None if self.spark is None else own_words(command)
            code, printed = in_bash(command, self.folder) if ours is None else in_process(ours)
            should_fail = command.endswith("# fails")
            assert (code != 0) == should_fail, f"{place}: `{command}` ended with exit code {code}:\n{printed}"
            assert matches(printed, expected), (
                f"{place}: `{command}` prints\n{printed}\nbut the document says\n{expected}"
            )


def answer_script(db: everview.Database, sql: str, out: IO[str]) -> None:
    """Carries out a script; what there is is taken in before a SELECT is answered, as `everview run` does."""
    changed = True
    for place, statement in enumerate(db.statements(sql)):
        if is_select(statement) and changed:
            db.run()
        changed = not is_select(statement)
        answer = db.carry_out(statement)
        if answer is not None and place and out.tell():
            print(file=out)
        if isinstance(answer, (str, Report)):
            print(answer, file=out)
        elif answer is not None:
            write_answer(fetch_answer(answer, MOST_ROWS), "table", out, out)


def own_words(command: str) -> list[str] | None:
    """The arguments of a command of ours that needs no shell; None if it is something else.

    >>> own_words("everview query 'SELECT 1 > 0' # why not"), own_words("everview explain x.sql > y")
    (['query', 'SELECT 1 > 0'], None)
    """
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.commenters = "#"
    words = list(lexer)
    if words[:1] != ["everview"] or any(set(word) <= set("();<>|&") for word in words):
        return None
    return shlex.split(command, comments=True)[1:]


def in_process(words: list[str]) -> tuple[int, str]:
    """A command of ours, in this process: its exit code and all that it prints."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        try:
            cli.main(words)
        except SystemExit as ended:
            return int(ended.code or 0), out.getvalue()
    return 0, out.getvalue()


def in_bash(command: str, folder: Path) -> tuple[int, str]:
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
    return done.returncode, done.stdout


def read_commands(text: str) -> Iterator[tuple[str, str]]:
    """Each command of a console block, with the output shown under it."""
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        command, *rest = part.rstrip("\n").split("\n")
        while rest and (rest[0] == ">" or rest[0].startswith("> ")):
            command += "\n" + rest.pop(0)[2:]
        yield command.strip(), "\n".join(rest)


def check_make(command: str, place: str) -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
    for word in command.partition("#")[0].split()[1:]:
        if "=" not in word and not word.startswith("-"):
            assert word in targets, f"{place}: the Makefile has no target {word!r}"


def matches(printed: str, expected: str) -> bool:
    """Whether the output is as shown: a line `...` stands for any lines, `...` in a line for any text.

    >>> matches("1 step in 0.3 s\\n2\\n3", "1 step in ... s\\n...\\n3"), matches("1", "2")
    (True, False)
    """
    pattern = "".join(
        r"(?:.*\n)*?" if line == "..." else ".*".join(map(re.escape, line.split("..."))) + r"\n"
        for line in lines_of(expected)
    )
    return re.fullmatch(pattern, "".join(line + "\n" for line in lines_of(printed))) is not None


def lines_of(text: str) -> list[str]:
    """The lines without the white space at their ends, which no reader sees."""
    return [line.rstrip() for line in text.rstrip().split("\n")] if text.strip() else []
