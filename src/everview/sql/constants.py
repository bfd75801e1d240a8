"""The check of constant arguments: invalid patterns, and groups that a pattern does not have.

The same values from data give NULL; in the text of a query they are errors.
"""

from __future__ import annotations

from everview.algebra.expressions import Call, Literal
from everview.algebra.text import string_sql
from everview.algebra.text_patterns import is_surely_valid, like_problem, regex, regex_problem
from everview.errors import AlgebraError, format_count

Problem = tuple[int, AlgebraError]
"""The position of an argument, and what is wrong with it."""


def find_wrong_constant(call: Call) -> Problem | None:
    """Return the problem of the first invalid constant of a call, or None.

    >>> from everview.algebra.types import STRING
    >>> text = Literal("abc", STRING)
    >>> find_wrong_constant(Call("rlike", (text, Literal("(", STRING))))
    (1, AlgebraError("'(' is no regular expression: a bracket ( is not closed"))
    >>> find_wrong_constant(Call("rlike", (text, text))) is None
    True
    """
    if call.name in ("like", "ilike"):
        return _in_like(call)
    if call.name in ("rlike", "regexp_count", "regexp_extract", "regexp_replace"):
        return _in_regex(call)
    return None


def _in_like(call: Call) -> Problem | None:
    escape = "\\"
    if len(call.arguments) > 2:
        given = _constant(call, 2)
        if not isinstance(given, str) or len(given.encode("utf-16-le")) != 2:
            shown = "NULL" if given is None else string_sql(str(given))
            return 2, AlgebraError(f"ESCAPE takes one character, not {shown}", next_step="write ESCAPE '#'")
        escape = given
    pattern = _constant(call, 1)
    if not isinstance(pattern, str):
        return None
    problem = like_problem(pattern.lower() if call.name == "ilike" else pattern, escape)
    if problem is None:
        return None
    return 1, AlgebraError(
        f"{string_sql(pattern)} is no LIKE pattern: {problem}",
        next_step=f"write {string_sql(escape * 2)[1:-1]} for {escape} itself",
    )


def _in_regex(call: Call) -> Problem | None:
    pattern = _constant(call, 1)
    if not isinstance(pattern, str):
        return None
    problem = regex_problem(pattern)
    if problem is not None:
        return 1, AlgebraError(
            f"{string_sql(pattern)} is no regular expression: {problem}",
            next_step="a backslash, written \\\\, before a character makes it stand for itself",
        )
    if call.name != "regexp_extract" or not is_surely_valid(pattern):
        return None
    compiled = regex(pattern)
    groups = 0 if compiled is None else compiled.groups
    group = _constant(call, 2) if len(call.arguments) > 2 else 1
    if not isinstance(group, int) or 0 <= group <= groups:
        return None
    return min(2, len(call.arguments) - 1), AlgebraError(
        f"{string_sql(pattern)} has {format_count(groups, 'group')}, and no group {group}",
        next_step="put brackets around what you want, or give 0 as the third argument for the whole match",
    )


def _constant(call: Call, at: int) -> object:
    argument = call.arguments[at]
    return argument.value if isinstance(argument, Literal) else argument
