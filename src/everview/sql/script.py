"""SQL text to syntax trees, and from a syntax tree back to its place in the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from everview.errors import EverviewError, Place, SqlError
from everview.sql import ast
from everview.sql.dialect import Everview
from everview.sql.places import Unparsed

# Messages of sqlglot, and ours instead.
_SAID = (
    (re.compile(r"Invalid expression / Unexpected token.*", re.S), "this is not understood here"),
    (re.compile(r"Required keyword: '\w+' missing for .*", re.S), "something is missing here"),
    (re.compile(r"Expected table name but got .*", re.S), "expected the name of a stream, a table or a view"),
    (re.compile(r"Expecting (\S+)", re.S), r"expected \1"),
    (re.compile(r"Expected (.*)", re.S), r"expected \1"),
)

_TOO_DEEP = "this is nested too deeply"
_SPLIT = "split it into smaller statements"


@dataclass(frozen=True)
class Script:
    """The text of a script."""

    text: str

    def place(self, node: exp.Expr) -> Place | None:
        """Return where a syntax tree stands in the text."""
        where = ast.span(node)
        return None if where is None else Place.of(self.text, *where)

    @contextmanager
    def blame(self, node: exp.Expr) -> Iterator[None]:
        """Give errors that are raised inside the place of this node, unless they have a place."""
        try:
            yield
        except EverviewError as error:
            raise (error if error.place is not None else error.at(self.place(node))) from None

    @contextmanager
    def refuse_deep_nesting(self, node: exp.Expr) -> Iterator[None]:
        """Refuse syntax that is nested too deeply for Python's recursion."""
        try:
            yield
        except RecursionError:
            raise self.error(_TOO_DEEP, node, next_step=_SPLIT) from None

    def error(self, what: str, node: exp.Expr, **more: str | None) -> SqlError:
        """Return an error at this node."""
        return SqlError(what, place=self.place(node), **more)  # type: ignore[arg-type]


def parse_script(text: str) -> list[exp.Expr]:
    """Return the statements of a script, one syntax tree each; comments and empty statements are passed over.

    >>> [type(s).__name__ for s in parse_script("SELECT 1; -- one\\n SHOW VIEWS;")]
    ['Select', 'ShowSyntax']
    """
    _require_text(text)
    dialect = Everview()
    try:
        tokens = dialect.tokenize(text)
        parsed = dialect.parser().parse(tokens, text)
    except Unparsed as error:
        place = Place.of(text, error.start, error.end)
        raise SqlError(
            _plain(error.what),
            place=place,
            meant=error.meant,
            choices=error.choices,
            next_step=error.next_step,
        ) from None
    except TokenError as error:
        raise _token_error(text, error) from None
    except (ParseError, RecursionError) as error:
        what = _TOO_DEEP if isinstance(error, RecursionError) else "this could not be parsed"
        raise SqlError(what, place=Place.of(text, 0), next_step=_SPLIT) from None
    return [s for s in parsed if s is not None and not isinstance(s, exp.Semicolon)]


def _require_text(text: str) -> None:
    """Refuse a lone surrogate: it has no UTF-8, and neither Spark nor a file can hold it."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise SqlError(
            f"this character, {text[error.start]!a}, is half of a pair and no text",
            place=Place.of(text.encode(errors="replace").decode(), error.start, error.start),
            next_step="write the whole character",
        ) from None


def parse_one(text: str) -> exp.Expr:
    """Return the one statement in a text."""
    statements = parse_script(text)
    if len(statements) != 1:
        raise SqlError(
            f"expected one statement, found {len(statements)}", next_step="run several as a script"
        )
    return statements[0]


def place_of_text(sql: str, value: str) -> Place | None:
    """Return the place of a string with this value in one statement, if it has one.

    >>> place_of_text("SELECT k RLIKE 'a+' FROM s", "a+").column
    16
    """
    found = (n for n in parse_one(sql).find_all(exp.Literal) if n.is_string and n.this == value)
    return next((place for node in found if (place := Script(sql).place(node)) is not None), None)


def _plain(what: str) -> str:
    for pattern, words in _SAID:
        if pattern.fullmatch(what):
            return pattern.sub(words, what)
    return what


# Tokens with a closing character; an opening one that none of these matches is never closed.
_WHOLE = re.compile(
    r"""--[^\n]* | /\*.*?\*/ | '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" | `(?:[^`]|``)*`""", re.S | re.X
)
_OPENINGS = {"'": ("string", "'"), '"': ("string", '"'), "`": ("quoted name", "`"), "/*": ("comment", "*/")}


def _token_error(text: str, error: TokenError) -> SqlError:
    at = 0
    while at < len(text):
        whole = _WHOLE.match(text, at)
        opening = next((o for o in _OPENINGS if text.startswith(o, at)), None)
        if whole is None and opening is not None:
            what, closing = _OPENINGS[opening]
            return SqlError(
                f"this {what} never ends", place=Place.of(text, at), next_step=f"close it with {closing}"
            )
        at = at + 1 if whole is None else whole.end()
    return SqlError("this could not be read", place=Place.of(text, error.start or 0))
