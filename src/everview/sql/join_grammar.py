"""The grammar of joins: which words make one, as in Spark, and the columns of USING."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from everview.sql.brackets import WindowParser
from everview.sql.places import Unparsed

# [NATURAL] [side] [kind] JOIN: the pairs of side and kind that there are.
JOINS = {
    *(("", kind) for kind in ("", "INNER", "CROSS", "SEMI", "ANTI")),
    *((side, kind) for side in ("LEFT", "RIGHT", "FULL") for kind in ("", "OUTER")),
    *(("LEFT", kind) for kind in ("SEMI", "ANTI")),
}


class JoinParser(WindowParser):
    """Spark's joins: INNER, CROSS, LEFT, RIGHT and FULL OUTER, SEMI, ANTI."""

    def _parse_join(
        self,
        skip_join_token: bool = False,
        parse_bracket: bool = False,
        alias_tokens: Collection[TokenType] | None = None,
    ) -> exp.Join | None:
        first = self._curr
        join = super()._parse_join(skip_join_token, parse_bracket, alias_tokens or self.TABLE_ALIAS_TOKENS)
        if join is None and first and first.token_type == TokenType.COMMA:
            self._fail("expected the name of a stream, a table or a view after this comma", first)
        if join is not None and join.kind == "CROSS" and join.args.get("using"):
            self._refuse_join(first, first, "a CROSS join has no USING", "write JOIN instead of CROSS JOIN")
        return join

    def _parse_joins(self, alias_tokens: Collection[TokenType] | None = None) -> Iterator[exp.Join]:
        """Parse joins in a row. Alias tokens come from `_parse_join` only: sqlglot looks inside a join for
        JOIN b JOIN c ON … ON …, which would take twice as long for every join without ON."""
        return iter(()) if alias_tokens is not None else super()._parse_joins()

    def _parse_join_parts(self) -> tuple[Token | None, Token | None, Token | None]:
        """Parse the words before JOIN; refuse those that make no join."""
        first = self._curr
        parts = super()._parse_join_parts()
        method, side, kind = (part.text.upper() if part else "" for part in parts)
        at_join = self._curr and self._curr.token_type == TokenType.JOIN
        if not at_join and kind != "STRAIGHT_JOIN":
            return parts
        natural = method == "NATURAL" and kind != "CROSS"
        if (side, kind) not in JOINS or not (natural or not method):
            last = self._curr if at_join else self._prev
            words = " ".join(filter(None, (method, side, kind)))
            article = "an" if words[0] in "AEIOU" else "a"
            said = f"{article} {words} join is not available"
            self._refuse_join(first, last, said, _instead(method, side, kind))
        return parts

    def _refuse_join(self, first: Token | None, last: Token | None, what: str, next_step: str) -> None:
        first, last = first or self._prev, last or self._prev
        raise Unparsed(what, first.start, last.end + 1, next_step=next_step)

    def _parse_using_identifiers(self) -> list[exp.Expr]:
        """Parse USING (a, b): names of columns that both sides have."""
        if not self._match(TokenType.L_PAREN):
            self._fail("USING takes names of columns in brackets", next_step="write USING (column)")
        names: list[exp.Expr] = self._parse_csv(lambda: self._name("a column"))
        if self._curr and self._curr.token_type == TokenType.DOT:
            self._fail(
                "USING takes names of columns without a relation",
                self._prev,
                next_step="write the name of the column only: both sides have it",
            )
        self._match_r_paren()
        seen: set[str] = set()
        for name in names:
            if name.name.casefold() in seen:
                raise self._refused(f"USING names '{name.name}' twice", name)
            seen.add(name.name.casefold())
        return names


def _instead(method: str, side: str, kind: str) -> str:
    """Return what to write instead of an unknown join."""
    if method == "NATURAL":
        return "leave NATURAL or CROSS out" if (side, kind) == ("", "CROSS") else _instead("", side, kind)
    if kind == "CROSS":
        return "write CROSS JOIN"
    if kind == "OUTER":
        return "write LEFT, RIGHT or FULL OUTER JOIN"
    if kind in ("SEMI", "ANTI"):
        return "swap the two sides" if side == "RIGHT" else f"write LEFT {kind} JOIN"
    if kind == "INNER":
        return f"write JOIN, or {side} JOIN"
    return "write JOIN … ON"
