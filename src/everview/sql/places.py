"""The base of the grammar: the place of each piece of syntax, and errors with that place.

sqlglot notes the place of names and numbers only. Here every operand and every query notes its own,
brackets included, so that an error can underline the whole of what is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from everview.algebra.types import SIMPLE_TYPES
from everview.errors import nearest
from everview.sql.ast import span

Syntax = TypeVar("Syntax")

TYPE_NAMES = (*SIMPLE_TYPES, "DECIMAL(p,s)")
WORDS = (TokenType.VAR, TokenType.IDENTIFIER)
_TEXTS = (TokenType.STRING, TokenType.RAW_STRING, TokenType.HEX_STRING, TokenType.BIT_STRING)
_CLOSERS = (TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE)


class Unparsed(ParseError):
    """An error of the parser, with its place."""

    def __init__(
        self,
        what: str,
        start: int,
        end: int,
        meant: str | None = None,
        choices: tuple[str, ...] = (),
        next_step: str | None = None,
    ) -> None:
        super().__init__(what)
        self.what, self.start, self.end = what, start, end
        self.meant, self.choices, self.next_step = meant, choices, next_step


class PlacedParser(SparkParser):
    """Spark's grammar, with places."""

    def _placed(self, parse: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        """Return what a rule parses, with its place from its first word to its last."""
        first = self._curr
        node = parse(*arguments, **named)
        if isinstance(node, exp.Expr) and first and self._prev and self._prev.end >= first.start:
            node.meta["start"], node.meta["end"] = first.start, self._prev.end
        return node

    def _parse_unary(self) -> exp.Expr | None:
        return self._placed(super()._parse_unary)  # type: ignore[no-any-return]

    def _parse_placeholder(self) -> exp.Expr | None:
        return self._placed(super()._parse_placeholder)  # type: ignore[no-any-return]

    def _parse_select(self, *arguments: Any, **named: Any) -> exp.Expr | None:
        return self._placed(super()._parse_select, *arguments, **named)  # type: ignore[no-any-return]

    def _parse_order(self, *arguments: Any, **named: Any) -> exp.Expr | None:
        return self._placed(super()._parse_order, *arguments, **named)  # type: ignore[no-any-return]

    def _parse_limit(self, *arguments: Any, **named: Any) -> exp.Expr | None:
        return self._placed(super()._parse_limit, *arguments, **named)  # type: ignore[no-any-return]

    def _parse_offset(self, *arguments: Any, **named: Any) -> exp.Expr | None:
        return self._placed(super()._parse_offset, *arguments, **named)  # type: ignore[no-any-return]

    def _parse_version(self) -> exp.Version | None:
        first, second = self._word(), self._next.text.upper() if self._next else ""
        version: exp.Version | None = self._placed(super()._parse_version)
        if version is not None and (first, second) not in (("FOR", "SYSTEM_TIME"), ("FOR", "SYSTEM")):
            words = first if second == "AS" else f"{first} {second}"
            raise self._refused(
                f"{words} AS OF behind a relation is not available",
                version,
                next_step="end an ad hoc query with AS OF TIMESTAMP '…', "
                "or join a table with FOR SYSTEM_TIME AS OF s.ts",
            )
        if version is not None:
            self._needed(version.args.get("expression"), "AS OF and a time line")
        return version

    def _parse_csv(
        self, parse_method: Callable[[], Syntax | None], sep: TokenType = TokenType.COMMA
    ) -> list[Syntax]:
        parsed = super()._parse_csv(parse_method, sep)
        if parsed and self._prev and self._prev.token_type == TokenType.COMMA:
            self._fail("something is missing after this comma", self._prev)
        return parsed

    # Names: sqlglot takes nearly any token for one

    def _parse_alias(self, this: exp.Expr | None, explicit: bool = False) -> exp.Expr | None:
        if self._curr and self._curr.token_type == TokenType.ALIAS:
            self._require_name(self._next)
        return super()._parse_alias(this, explicit)

    def _parse_table_alias(self, alias_tokens: Collection[TokenType] | None = None) -> exp.TableAlias | None:
        if self._curr and self._curr.token_type == TokenType.ALIAS:
            self._require_name(self._next)
        return super()._parse_table_alias(alias_tokens)

    def _parse_function_parameter(self) -> exp.Expr | None:
        """Parse a name in the list after an alias."""
        self._require_name(self._curr)
        return super()._parse_function_parameter()

    def _parse_string_as_identifier(self) -> exp.Identifier | None:
        self._require_name(self._curr if self._curr and self._curr.token_type in _TEXTS else None)
        return None

    def _require_name(self, token: Token | None) -> None:
        """Refuse a number, a text or an operator of several characters where a name must stand."""
        if not token or token.token_type == TokenType.IDENTIFIER:
            return
        if token.token_type in _TEXTS or token.token_type == TokenType.NUMBER:
            self._fail("expected a name", token, next_step=f"write `{token.text}`")
        if len(token.text) > 1 and not re.match(r"\w", token.text):
            self._fail("expected a name", token)

    # Refusals

    def raise_error(self, message: str, token: Token | None = None) -> None:
        """Raise an error that sqlglot found itself."""
        token = token or self._curr
        if message.startswith("Invalid expression") and token and token.token_type in _CLOSERS:
            message = f"this {token.text} closes nothing"
        if token and token.token_type == TokenType.PIPE_GT:
            self._fail("|> is not available", token, next_step="write a subquery: FROM (SELECT …)")
        if self._word() == "AS" and self._next and self._next.text.upper() == "OF":
            message = "AS OF may only end an ad hoc SELECT"
        if message == "Expected TYPE after CAST" and token and token.token_type in WORDS:
            self._unknown_type(token)
        self._fail(message, token)

    def _unknown_type(self, token: Token) -> None:
        self._fail(f"there is no type '{token.text}'", token, choices=TYPE_NAMES, also=("INTEGER", "LONG"))

    def _fail(
        self,
        message: str,
        token: Token | None = None,
        choices: Iterable[str] = (),
        next_step: str | None = None,
        also: Iterable[str] = (),
    ) -> None:
        """Refuse the token, by default the current one; at the end of a statement, what is not there.

        It may be a slip of one of the choices, or of what is `also` known.
        """
        token = token or self._curr
        start, end = (token.start, token.end + 1) if token else (self._prev.end + 1, self._prev.end + 2)
        known = tuple(choices)
        meant = nearest(token.text, (*known, *also)) if token else None
        raise Unparsed(message, start, end, meant, known, next_step)

    def _refused(self, message: str, node: exp.Expr, next_step: str | None = None) -> Unparsed:
        """Return an error about a node that is already parsed."""
        start, end = span(node) or (self._prev.start, self._prev.end + 1)
        return Unparsed(message, start, end, next_step=next_step)

    # Words

    def _word(self) -> str:
        """Return the current word, if it is one: neither a string nor a quoted name."""
        quoted = (TokenType.STRING, TokenType.IDENTIFIER)
        return self._curr.text.upper() if self._curr and self._curr.token_type not in quoted else ""

    def _expect(self, *words: str) -> None:
        if not self._match_text_seq(*words):
            self._fail(f"expected {' '.join(words)}")

    def _needed(self, parsed: exp.Expr | None, what: str) -> exp.Expr:
        """Return what was parsed; raise an error if nothing was."""
        if parsed is None:
            self._fail(f"expected {what}")
            raise AssertionError
        return parsed

    def _require_once(self, before: object) -> None:
        """Refuse the word just read if it stood before."""
        if before:
            self._fail(f"{self._prev.text.upper()} stands twice", self._prev)

    def _name(self, what: str) -> exp.Identifier:
        name = self._parse_id_var(any_token=False) if self._curr else None
        if not isinstance(name, exp.Identifier):
            self._fail(f"expected the name of {what}")
        return name  # type: ignore[return-value]
