"""Constants that make no sense are refused where they stand; from data they give NULL."""

from __future__ import annotations

import pytest

from everview.algebra.evaluate import evaluate
from everview.algebra.expressions import Expression
from everview.algebra.schema import Schema
from everview.catalog import Catalog
from everview.errors import EverviewError
from everview.sql import bind_script, declare, plan_of
from tests.sql.documented_nulls import documented_nulls

NULLS = documented_nulls()


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    made = Catalog()
    for statement in bind_script("CREATE STREAM s (c STRING, p STRING, ts TIMESTAMP, TIMELINE ts)", made):
        declare(statement, made)
    return made


_ESCAPED = r"write \\\\ for \ itself"
_NEEDLESS = "no LIKE pattern: it escapes the character b, which needs none"
_PLAIN = "a backslash, written \\\\, before a character makes it stand for itself"


@pytest.mark.parametrize(
    ("expression", "wrong", "says", "next_step"),
    [
        (r"c LIKE 'a\\'", r"'a\\'", "no LIKE pattern: it ends with the escape character \\", _ESCAPED),
        (r"c ILIKE 'a\\b'", r"'a\\b'", _NEEDLESS, _ESCAPED),
        ("c LIKE 'a#b' ESCAPE '#'", "'a#b'", _NEEDLESS, "write ## for # itself"),
        ("c RLIKE '('", "'('", "no regular expression: a bracket ( is not closed", _PLAIN),
        ("regexp_count(c, 'a)')", "'a)'", "no regular expression: a bracket ) was not opened", _PLAIN),
        ("regexp_replace(c, '[a', '')", "'[a'", "no regular expression: a bracket [ is not closed", _PLAIN),
        ("c RLIKE 'a{2,1}'", "'a{2,1}'", "no regular expression: {2,1} is no number of repetitions", _PLAIN),
        ("c RLIKE '{'", "'{'", "no regular expression: { stands for itself only as \\{", _PLAIN),
        ("c RLIKE '|+'", "'|+'", "no regular expression: nothing stands before +", _PLAIN),
        (r"c RLIKE '\\y'", r"'\\y'", "no regular expression: \\y means nothing", _PLAIN),
        (
            "c RLIKE '(?P<n>a)'", "'(?P<n>a)'",
            "no regular expression: it has no group of the kind that begins with (?", _PLAIN,
        ),
    ],
)  # fmt: skip
def test_a_constant_that_makes_no_sense(
    catalog: Catalog, expression: str, wrong: str, says: str, next_step: str
) -> None:
    with pytest.raises(EverviewError) as refusal:
        plan_of(f"SELECT {expression} AS x FROM s", catalog)
    assert_refused(refusal.value, wrong, f"{wrong} is {says}", next_step)


@pytest.mark.parametrize(
    ("expression", "wrong", "says", "next_step"),
    [
        ("c LIKE p ESCAPE ''", "''", "ESCAPE takes one character, not ''", "write ESCAPE '#'"),
        ("c LIKE p ESCAPE '𝄞'", "'𝄞'", "ESCAPE takes one character, not '𝄞'", "write ESCAPE '#'"),
        ("like(c, p, NULL)", "like(c, p, NULL)", "ESCAPE takes one character, not NULL", "write ESCAPE '#'"),
        (
            "regexp_extract(c, 'abc')", "'abc'", "'abc' has 0 groups, and no group 1",
            "put brackets around what you want, or give 0 as the third argument for the whole match",
        ),
    ],
)  # fmt: skip
def test_an_escape_or_a_group_that_makes_no_sense(
    catalog: Catalog, expression: str, wrong: str, says: str, next_step: str
) -> None:
    with pytest.raises(EverviewError) as refusal:
        plan_of(f"SELECT {expression} AS x FROM s", catalog)
    assert_refused(refusal.value, wrong, says, next_step)


def assert_refused(error: EverviewError, wrong: str, says: str, next_step: str) -> None:
    """Asserts the whole error: what it says, what is underlined, the next step."""
    assert (error.what, error.next_step) == (says, next_step)
    assert error.place is not None
    begin = error.place.column - 1
    assert error.place.text[begin : begin + error.place.width] == wrong


@pytest.mark.parametrize(
    "expression",
    [
        "c LIKE p", "c LIKE NULL", "c RLIKE NULL", r"c LIKE 'a\\\\'", r"c RLIKE '(?<=a*)b'",
        r"c RLIKE '\\p{Alpha}\\x{41}'", "c RLIKE '(?x)a # ('", "regexp_extract(c, p, 99)",
        "regexp_extract(c, '(a)')", "CASE WHEN NULL THEN 1 END", "c LIKE p ESCAPE '#'",
        "c ILIKE 'xAq' ESCAPE 'A'",
    ],
)  # fmt: skip
def test_what_may_make_sense_binds(catalog: Catalog, expression: str) -> None:
    plan_of(f"SELECT {expression} AS x FROM s", catalog)


@pytest.mark.parametrize("expression", NULLS.values(), ids=NULLS)
def test_the_document_says_what_gives_null(expression: Expression) -> None:
    assert evaluate(expression, Schema.of(), ()) is None
