"""How operators bind, as in Spark's grammar: against a small parser of its own, and against known answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from everview.errors import EverviewError
from everview.reference.meaning import meaning
from everview.sql import parse_script, plan_of
from everview.sql.unparse import unparse
from tests.sql.oracle import known

# Loosest first; within a level from left to right.
LEVELS = [
    ("OR",),
    ("AND",),
    ("=", "<>", "<", "<=", ">", ">=", "<=>"),
    ("|",),
    ("^",),
    ("&",),
    ("<<", ">>", ">>>"),
    ("+", "-", "||"),
    ("*", "/", "%", "DIV"),
]
ALL = [sign for level in LEVELS for sign in level]
NUMBERS = ["+", "-", "*", "&", "^", "|", "<<", ">>", ">>>"]


def bracketed(tokens: list[str], level: int = 0) -> str:
    """The expression with brackets around every operation; its tokens are used up."""
    if level == len(LEVELS):
        return tokens.pop(0)
    text = bracketed(tokens, level + 1)
    while tokens and tokens[0] in LEVELS[level]:
        sign = tokens.pop(0)
        text = f"({text} {sign} {bracketed(tokens, level + 1)})"
    return text


def chains(signs: list[str], operands: st.SearchStrategy[str]) -> st.SearchStrategy[list[str]]:
    """Operands with operators between them."""
    pairs = st.lists(st.tuples(st.sampled_from(signs), operands), min_size=1, max_size=7)
    return st.builds(lambda first, rest: [first, *(t for pair in rest for t in pair)], operands, pairs)


def tree(text: str) -> exp.Expr:
    """The syntax of an expression without its brackets."""
    (select,) = parse_script(f"SELECT {text}")
    for brackets in list(select.find_all(exp.Paren)):
        brackets.replace(brackets.this)
    return select


@given(tokens=chains(ALL, st.sampled_from(["a", "b.c", "2", "-3", "~d", "f(x | y)", "'t'"])))
def test_operators_bind_as_in_spark(tokens: list[str]) -> None:
    text = " ".join(tokens)
    assert tree(text) == tree(bracketed(list(tokens))), bracketed(list(tokens))


@given(tokens=chains(NUMBERS, st.integers(0, 9).map(str)))
def test_a_plan_of_operators_is_written_as_sql_that_means_the_same(tokens: list[str]) -> None:
    plan = plan_of(f"SELECT {' '.join(tokens)} AS a, k FROM s", known())
    assert plan == plan_of(f"SELECT {bracketed(list(tokens))} AS a, k FROM s", known())
    assert plan_of(unparse(plan), known()) == plan


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("1 & 1 | 1 & 4", 1),
        ("6 & 1 << 1", 2),
        ("4 | 2 & 2", 6),
        ("1 ^ 3 & 2", 3),
        ("1 | 2 ^ 3", 1),
        ("1 << 1 + 1", 4),
        ("-8 >>> 28 + 1", 7),
        ("1 << 2 << 1", 8),
        ("1 | 2 = 3", True),
        ("1 + 2 || 3", "33"),
        ("2 > 1 = TRUE", True),
        ("NULL = 1 IS NULL", True),
        ("FALSE = NULL IS NULL", True),
        ("FALSE IS DISTINCT FROM 1 = 2", False),
        ("NOT 1 = 2", True),
        ("1 + 1 IN (2)", True),
        ("3 BETWEEN 1 | 2 AND 4 & 4", True),
    ],
)
def test_the_answers_of_spark(text: str, answer: object) -> None:
    plan = plan_of(f"SELECT {text} AS a", known())
    assert meaning(plan, {}, range(1)) == {((answer,), 0): 1}


@pytest.mark.parametrize(
    ("text", "why"),
    [("TRUE = 2 > 1", "BOOLEAN = INT cannot be compared"), ("1 || 2 + 3", "STRING \\+ INT has no meaning")],
)
def test_the_refusals_of_spark(text: str, why: str) -> None:
    with pytest.raises(EverviewError, match=why):
        plan_of(f"SELECT {text} AS a", known())


@pytest.mark.parametrize("text", ["1 < < 2", "1 > > 2", "1 >> > 2", "1 &", "| 1", "1 ?? 2"])
def test_what_is_no_operator_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(EverviewError) as refused:
        plan_of(f"SELECT {text} AS a", known())
    assert refused.value.place is not None


def test_a_predicate_is_compared_in_brackets_only() -> None:
    with pytest.raises(EverviewError) as refused:
        plan_of("SELECT k IS NULL = TRUE FROM s", known())
    assert str(refused.value) == (
        "IS, IN, LIKE or BETWEEN cannot be compared without brackets\n"
        "  line 1, column 18\n"
        "    SELECT k IS NULL = TRUE FROM s\n"
        "                     ^\n"
        "  next: put the condition before this sign into brackets"
    )
    plan_of("SELECT (k IS NULL) = TRUE FROM s", known())
