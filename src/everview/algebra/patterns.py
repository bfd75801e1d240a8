"""LIKE patterns and Java's regular expressions in Python's."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from everview.errors import AlgebraError


@cache
def _like_regex(pattern: str, escape: str) -> re.Pattern[str]:
    if len(escape) != 1:
        raise AlgebraError(f"LIKE … ESCAPE takes one character, not '{escape}'")
    parts, characters = [], iter(pattern)
    for character in characters:
        if character == escape:
            following = next(characters, None)
            if following is None or following not in ("_", "%", escape):
                raise AlgebraError(
                    f"the LIKE pattern '{pattern}' escapes a character that needs none",
                    next_step=f"write {escape}{escape} for {escape} itself",
                )
            parts.append(re.escape(following))
        else:
            parts.append({"_": ".", "%": ".*"}.get(character) or re.escape(character))
    return re.compile("".join(parts), re.DOTALL)


def like(text: str, pattern: str, escape: str = "\\") -> bool:
    """text LIKE pattern: `_` is any character, `%` any number of them.

    >>> like("everview", "ever%"), like("ab", "a_"), like("a%", "a\\\\%"), like("ab", "a\\\\%")
    (True, True, True, False)
    """
    return _like_regex(pattern, escape).fullmatch(text) is not None


def ilike(text: str, pattern: str, escape: str = "\\") -> bool:
    """LIKE without regard to case.

    >>> ilike("Everview", "EVER%")
    True
    """
    return like(text.lower(), pattern.lower(), escape.lower())


@cache
def regex(pattern: str) -> re.Pattern[str]:
    """A Java regular expression; refused where Python has no such construct.

    >>> regex(r"\\d+").search("a12")[0]
    '12'
    """
    try:
        return re.compile(pattern.replace(r"\z", r"\Z"), re.ASCII)
    except re.error as error:
        raise AlgebraError(f"'{pattern}' is no regular expression that is known here: {error}") from error


def replacement(text: str) -> Callable[[re.Match[str]], str]:
    """What stands for a match: `$1` is its first group, a backslash makes the next character plain.

    >>> regex("(a)(b)").sub(replacement("$2$1\\\\$"), "ab")
    'ba$'
    """

    def replace(match: re.Match[str]) -> str:
        return re.sub(r"\\(.)|\$(\d)", lambda m: m[1] or match[int(m[2])] or "", text, flags=re.DOTALL)

    return replace
