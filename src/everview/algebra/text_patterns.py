"""LIKE patterns and Java's regular expressions: which are invalid, and what the others match.

An invalid pattern that comes from data gives NULL; a constant one is refused when a query is bound.
"""

from __future__ import annotations

import re
import warnings
from functools import cache

from everview.errors import AlgebraError

# After a backslash: letters that mean something to Java. Other letters are refused, other characters plain.
_ESCAPED = frozenset("abcdefghknprstuvwxzABDGHNPQRSVWXZ")
_FLAGS = re.compile(r"[cdimsuxU]*(?:-[cdimsuxU]*)?")
_REPETITION = re.compile(r"\{(\d+)(,(\d*))?\}", re.ASCII)
_NAMED = re.compile(r"\\[pPxN]\{[^}]*\}|\\k<[^>]*>|\\c.", re.DOTALL)
_COMMENTS = re.compile(r"\(\?[a-zA-Z]*x")  # the flag with which # begins a comment
_GROUP_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*>")
_MOST_REPETITIONS = 2**31 - 1
_MOST_DIGITS = 10  # of a number that may be at most that
_ESCAPES = re.compile(r"\\(.)", re.DOTALL)
_NESTED = re.compile(r"\[\^?.[^\]]*\[", re.DOTALL)  # a class in a class, where there are no escapes

# Syntax that Java and Python have in common. What is not in this list may still be valid, and is tried.
_CHARACTER = r"\\(?:[dDsSwWtnrf !-/:-@\[-`{-~]|x[0-9a-fA-F]{2})"
_ITEM = rf"(?:(?:[^\x00-\x1f\ud800-\udfff\\\[\]^&-]|{_CHARACTER})(?:-[A-Za-z0-9])?)"
_SURE = re.compile(
    rf"""(?:\(\?[ims]+\))?
    (?:
        [^\x00-\x1f\ud800-\udfff\\\[\](){{}}*+?]     # a character, or one of | ^ $ .
        | {_CHARACTER}
        | \\(?:[AbB]|[1-9](?![0-9]))
        | \[\^?-?{_ITEM}++-?\]
        | \((?:\?[:=!]|(?!\?)) | \)
        | [*+?] | \{{[0-9]{{1,3}}(?:,[0-9]{{0,3}})?\}}
    )*+""",
    re.VERBOSE,
)
_LONGEST_SURE = 1000  # Java refuses what is nested too deeply for its stack
_DEEPEST_SURE = 50


def like_problem(pattern: str, escape: str = "\\") -> str | None:
    """Return what is wrong with a LIKE pattern, or None.

    >>> like_problem("a\\\\%") is None, like_problem("a\\\\")
    (True, 'it ends with the escape character \\\\')
    """
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            following = next(characters, None)
            if following is None:
                return f"it ends with the escape character {escape}"
            if following not in ("_", "%", escape):
                return f"it escapes the character {following}, which needs none"
    return None


@cache
def _like_regex(pattern: str, escape: str) -> re.Pattern[str] | None:
    if like_problem(pattern, escape) is not None:
        return None
    parts, characters = [], iter(pattern)
    for character in characters:
        if character == escape:
            parts.append(re.escape(next(characters)))
        else:
            parts.append({"_": ".", "%": ".*"}.get(character) or re.escape(character))
    return re.compile("".join(parts), re.DOTALL)


def like(text: str, pattern: str, escape: str = "\\") -> bool | None:
    """Return text LIKE pattern: `_` is any character, `%` any number of them; NULL if the pattern is invalid.

    >>> like("everview", "ever%"), like("ab", "a_"), like("a%", "a\\\\%"), like("a", "a\\\\")
    (True, True, True, None)
    """
    compiled = _like_regex(pattern, escape)
    return None if compiled is None else compiled.fullmatch(text) is not None


def ilike(text: str, pattern: str, escape: str = "\\") -> bool | None:
    """Return LIKE of both texts in lower case. An escape character in upper case then escapes nothing.

    >>> ilike("Everview", "EVER%"), ilike("x%", "xA%", "a"), ilike("xab", "xA%", "A")
    (True, True, True)
    """
    return like(text.lower(), pattern.lower(), escape)


@cache
def regex(pattern: str) -> re.Pattern[str] | None:
    """Compile a Java regular expression, None if invalid; raise an error where Python lacks a construct.

    >>> regex(r"\\d+").search("a12")[0], regex("(")
    ('12', None)
    """
    if regex_problem(pattern) is not None:
        return None
    unescaped = _ESCAPES.sub(".", pattern)
    if "[" in unescaped and ("&&" in unescaped or _NESTED.search(unescaped)):
        raise AlgebraError(
            f"'{pattern}' is no regular expression that is known here: it has a class in a class"
        )
    python = _ESCAPES.sub(lambda e: r"\Z" if e[1] == "z" else e[0], pattern)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about syntax that a later Python may read differently
            return re.compile(python, re.ASCII)
    except (re.error, OverflowError, ValueError, RecursionError) as error:
        raise _unknown_regex_error(pattern, error) from error


def _unknown_regex_error(pattern: str, why: object) -> AlgebraError:
    return AlgebraError(f"'{pattern}' is no regular expression that is known here: {why}")


def is_surely_valid(pattern: str) -> bool:
    """Return whether Java certainly accepts this regular expression, and reads it as Python does.

    >>> is_surely_valid("(a|b)+"), is_surely_valid("("), is_surely_valid("[\\b]"), is_surely_valid("(?<=a*)b")
    (True, False, False, False)
    """
    if len(pattern) > _LONGEST_SURE or pattern.count("(") > _DEEPEST_SURE or not _SURE.fullmatch(pattern):
        return False
    try:
        return regex(pattern) is not None
    except AlgebraError:
        return False


def regex_problem(pattern: str) -> str | None:
    """Return what is certainly wrong with a Java regular expression, or None; Java may find something else.

    >>> regex_problem("(a|b)*"), regex_problem("(a"), regex_problem("*a"), regex_problem("a\\\\")
    (None, 'a bracket ( is not closed', 'nothing stands before *', 'it ends with a backslash')
    """
    if _COMMENTS.search(pattern):
        return None
    depth, at, atom = 0, 0, False  # atom: whether something stands here that can be repeated
    while at < len(pattern):
        character = pattern[at]
        if character == "\\":
            if pattern.startswith("\\Q", at):  # quoted up to \E
                end = pattern.find("\\E", at + 2)
                at = len(pattern) if end < 0 else end + 2
                atom = True
                continue
            problem = _escape_problem(pattern, at)
            if problem is not None:
                return problem
            at, atom = at + _escape_length(pattern, at), True
        elif character == "[":
            closed = _class_end(pattern, at)
            if closed is None:
                return "a bracket [ is not closed"
            for escaped in re.finditer(r"\\(.)", pattern[at:closed], re.S):
                if escaped[1] in "123456789":
                    return f"{escaped[0]} means nothing in brackets"
            at, atom = closed, True
        elif character == "(":
            start = _group_start(pattern, at)
            if start is None:
                return "it has no group of the kind that begins with (?"
            inner, opens = start
            depth, at, atom = depth + opens, inner, False
        elif character == ")":
            depth -= 1
            if depth < 0:
                return "a bracket ) was not opened"
            at, atom = at + 1, True
        elif character in "*+?":
            if not atom:
                return f"nothing stands before {character}"
            at, atom = _after_repetition(pattern, at + 1), False
        elif character == "{":
            found = _REPETITION.match(pattern, at)
            if found is None:
                return "{ stands for itself only as \\{"
            if max(len(found[1]), len(found[3] or "")) > _MOST_DIGITS:
                return f"{found[0]} is no number of repetitions"
            least, most = int(found[1]), int(found[3] or found[1]) if found[3] != "" else _MOST_REPETITIONS
            if max(least, int(found[3] or 0)) > _MOST_REPETITIONS or least > most:
                return f"{found[0]} is no number of repetitions"
            at, atom = _after_repetition(pattern, found.end()), False
        else:
            at, atom = at + 1, character != "|"
    return "a bracket ( is not closed" if depth else None


def _after_repetition(pattern: str, at: int) -> int:
    """Return where a repetition ends: ? makes it reluctant, + possessive."""
    return at + 1 if pattern[at : at + 1] in ("?", "+") else at


def _escape_problem(pattern: str, at: int) -> str | None:
    following = pattern[at + 1 : at + 2]
    if not following:
        return "it ends with a backslash"
    if following.isascii() and following.isalpha() and following not in _ESCAPED | {"E"}:
        return f"\\{following} means nothing"
    return None


def _escape_length(pattern: str, at: int) -> int:
    """Return how many characters belong to a backslash: a letter, and its name in brackets if it has one."""
    named = _NAMED.match(pattern, at)
    return 2 if named is None else len(named[0])


def _group_start(pattern: str, at: int) -> tuple[int, int] | None:
    """Return where the inside of a group begins, and how many groups it opens; None for an unknown group."""
    if not pattern.startswith("(?", at):
        return at + 1, 1
    rest = at + 2
    for opening in (":", "=", "!", ">", "<=", "<!"):
        if pattern.startswith(opening, rest):
            return rest + len(opening), 1
    if pattern.startswith("<", rest):
        name = _GROUP_NAME.match(pattern, rest + 1)
        return None if name is None else (name.end(), 1)
    flags = _FLAGS.match(pattern, rest)
    end = rest if flags is None else flags.end()
    if pattern[end : end + 1] not in (":", ")"):
        return None
    return end + 1, 1 if pattern[end] == ":" else 0


def _class_end(pattern: str, at: int) -> int | None:
    """Return the end of the character class that begins here, with nested ones; None if it is not closed."""
    depth, first = 0, False  # first: whether a class has just begun, in which ] stands for itself
    while at < len(pattern):
        character = pattern[at]
        if character == "[":
            depth, first = depth + 1, True
            at += 2 if pattern.startswith("[^", at) else 1
            continue
        if character == "]" and not first:
            depth -= 1
            if depth == 0:
                return at + 1
        first = False
        at += 2 if character == "\\" else 1
    return None


def parse_replacement(text: str, groups: int) -> list[str | int] | None:
    """Return a replacement as text and numbers of groups; None if Java refuses it.

    `$1` is the first group, with as many digits as there are groups for; a backslash makes the next
    character plain.

    >>> parse_replacement("<$12\\\\$>", 1), parse_replacement("$", 1), parse_replacement("$2", 1)
    (['<', 1, '2', '$', '>'], None, None)
    """
    parts: list[str | int] = []
    at = 0
    while at < len(text):
        character = text[at]
        if character not in "\\$":
            parts.append(character)
            at += 1
            continue
        following = text[at + 1 : at + 2]
        if not following or (character == "$" and not (following.isascii() and following.isdecimal())):
            return None
        at += 2
        if character == "\\":
            parts.append(following)
            continue
        number = int(following)
        if number > groups:
            return None
        while at < len(text) and text[at] in "0123456789" and number * 10 + int(text[at]) <= groups:
            number, at = number * 10 + int(text[at]), at + 1
        parts.append(number)
    return parts
