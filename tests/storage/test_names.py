"""Names that users chose become file names: safe, different, readable."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview.storage.names import safe_name

SAFE = re.compile(r"[a-z0-9_]{1,40}(~[0-9a-f]{12})?")
ODD = [
    "", ".", "..", "../../etc/passwd", "/", "a/b", "a\\b", "a b", "it's", '"quoted"', "`ticked`",
    "a;rm -rf *", "a\0b", "a\nb", "🚗", "🚕", "🚗🚗", "größe", "grosse!", "Ω", "x" * 300, "x" * 301,
    "x" * 41, "~", "name", "_", "1st", "a%2fb", "a:b", "con.arrow",
    "\ud800", "p0000-00000001-0000.arrow", "-rf", " a", "a ", "ﬁ", "fi!",
]  # fmt: skip


def test_odd_names_are_safe_and_all_different() -> None:
    found = [safe_name(name) for name in ODD]
    assert all(SAFE.fullmatch(each) for each in found), found
    assert len(set(found)) == len(ODD)


@pytest.mark.parametrize("name", ["highway", "_", "a1", "x" * 40])
def test_a_plain_name_stays(name: str) -> None:
    assert safe_name(name) == name


def test_what_can_be_read_is_kept() -> None:
    assert safe_name("Señor's 2nd view 🚗").startswith("senor_s_2nd_view~")


def test_names_are_compared_without_case_as_in_the_catalog() -> None:
    assert safe_name("HighWay") == safe_name("highway")
    assert safe_name("Grüße!") == safe_name("GRÜSSE!")


@given(st.lists(st.text(max_size=60), max_size=30))
def test_any_names(names: list[str]) -> None:
    different = {name.casefold() for name in names}
    found = {safe_name(name) for name in names}
    assert len(found) == len(different)
    assert all(SAFE.fullmatch(each) for each in found)
