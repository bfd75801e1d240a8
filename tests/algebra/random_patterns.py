"""Patterns as people and accidents write them: most are broken, many are Java's alone."""

from __future__ import annotations

import random

SIGNS = [
    *"ab\\()[]{}*+?|^$.1,<:-# é~", "(?", "(?:", "(?i)", "(?u)", "(?x)", "(?s)", "(?<n>", "(?P<n>", "(?#",
    "(?=", "(?!", "(?<=", "(?>", "\\d", "\\Q", "\\E", "\\1", "\\0", "\\x41", "\\x{", "\\u0041", "\\p{L}",
    "\\N{", "\\cA", "\\k<n>", "\\R", "\\b", "\\B", "\\A", "\\z", "[^", "[a-c]", "&&", "||", "--", "{2}",
    "{2,1}", "{9999999999}", "++",
]  # fmt: skip
_ASCII = [chr(c) for c in range(1, 128)]
_AROUND = (
    "\\{}", "a\\{}", "[\\{}]", "[a\\{}]", "[^\\{}b]", "\\{}*", "(a)\\{}", "[\\{}-z]", "[a-\\{}]", "\\{}1",
    "\\{}a", "\\{}8", "[\\{}8]", "\\{}{{2}}", "(\\{})+", "{}", "a{}", "[{}]", "[a{}b]", "[^{}]", "[{}-z]",
    "(?{}a)", "(?{})a", "(?i{})a",
)  # fmt: skip


def random_patterns(chance: random.Random, count: int) -> list[str]:
    """Some signs, one after the other."""
    return ["".join(chance.choices(SIGNS, k=chance.randint(1, 7))) for _ in range(count)]


def escapes() -> list[str]:
    """Every ASCII character, with and without a backslash, inside and outside of brackets."""
    return [around.format(character) for around in _AROUND for character in _ASCII]
