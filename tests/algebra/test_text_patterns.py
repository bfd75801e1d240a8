"""Regular expressions: none gives a stack trace or a warning, and only safe syntax is surely valid."""

from __future__ import annotations

import random
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.algebra.text_patterns import is_surely_valid, regex, regex_problem
from everview.errors import AlgebraError
from tests.algebra.random_patterns import SIGNS, escapes, random_patterns


def read(pattern: str) -> None:
    """Whatever is asked of a pattern has an answer."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        problem, sure = regex_problem(pattern), is_surely_valid(pattern)
        assert not (sure and problem)
        try:
            compiled = regex(pattern)
        except AlgebraError:
            known = False
        else:
            known = True
            assert (compiled is None) == (problem is not None)
    assert known or not sure


@given(st.lists(st.sampled_from(SIGNS) | st.characters(), max_size=9).map("".join))
def test_every_text_has_an_answer(pattern: str) -> None:
    read(pattern)


def test_every_escape_has_an_answer() -> None:
    for pattern in escapes() + random_patterns(random.Random(5), 3000):
        read(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "(" * 3000 + ")" * 3000, "[" * 3000 + "a" + "]" * 3000, "(" * 3000, "[" * 3000, "a?" * 3000,
        "(?:" * 99 + ")" * 99, f"a{{{'9' * 5000}}}", f"a{{1,{'9' * 5000}}}", "a{4294967295}", "(?u)a", "(?a)",
        "(?L)a", "[[a]b]", "[a--b]", "[a||b]", "[~~]", "[a&&b]", "(?x)a # (", "a" * 100_000,
    ],
    ids=lambda p: p[:12],
)  # fmt: skip
def test_odd_patterns_have_an_answer(pattern: str) -> None:
    read(pattern)


@pytest.mark.parametrize(
    "pattern", [r"\0", r"[\b]", r"\08", r"[\0]", r"[\1]", r"\N{DASH}", r"[a-z&&[b]]", r"\u12", "(?<=a*)b"]
)
def test_what_only_one_of_them_reads_is_not_surely_valid(pattern: str) -> None:
    assert not is_surely_valid(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        r"^\d{4}-\d{2}$", "(a|b)*", r"[A-Za-z_][\w.-]*@[^@\s]+", "(?i)error.*", r"(\w+) \1", "a{2,3}?b++",
        r"\bx\b|\\", "[|,]", r"[\]\[-]", "(?:a(?=b)|(?!c)d)",
    ],
)  # fmt: skip
def test_common_patterns_are_surely_valid(pattern: str) -> None:
    assert is_surely_valid(pattern)


def test_an_escaped_backslash_before_z_is_no_end() -> None:
    compiled, end = regex(r"\\z"), regex(r"a\z")
    assert compiled is not None
    assert end is not None
    assert [bool(compiled.search("\\z")), bool(end.search("ba")), bool(end.search("a\n"))] == [
        True,
        True,
        False,
    ]
