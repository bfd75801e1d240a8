"""What a person sees when something is wrong: the place, the guess, the choices, the next step."""

from __future__ import annotations

import ast
import inspect

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview import errors
from everview.errors import (
    AlgebraError,
    CatalogError,
    EverviewError,
    Fault,
    Place,
    PlanError,
    SqlError,
    StoreError,
    TemporalError,
    format_choices,
    format_count,
    nearest,
)

SQL = "SELECT sped\nFROM\thighway [RANGE\n 5 MINUTES]"


def underlined(sql: str, start: int, end: int | None = None) -> list[str]:
    return Place.of(sql, start, end).underlined().split("\n")


# Places


def test_a_place_is_underlined() -> None:
    assert underlined(SQL, 7, 11) == ["  line 1, column 8", "    SELECT sped", "           ^^^^"]


def test_tabs_are_kept_so_that_the_carets_fit() -> None:
    start = SQL.index("highway")
    assert underlined(SQL, start, start + 7) == [
        "  line 2, column 6",
        "    FROM\thighway [RANGE",
        "        \t^^^^^^^",
    ]


def test_a_place_of_several_lines_is_underlined_up_to_the_end_of_the_first() -> None:
    start = SQL.index("RANGE")
    assert underlined(SQL, start, len(SQL)) == [
        "  line 2, column 15",
        "    FROM\thighway [RANGE",
        "        \t         ^^^^^",
    ]


def test_a_place_without_an_end_is_one_letter() -> None:
    assert underlined("SELECT", 2) == ["  line 1, column 3", "    SELECT", "      ^"]


@pytest.mark.parametrize("start", [6, 7, 100])
def test_a_place_behind_the_end_is_just_behind_it(start: int) -> None:
    assert underlined("SELECT", start, start + 3) == ["  line 1, column 7", "    SELECT", "          ^"]


def test_a_place_at_the_end_of_a_line() -> None:
    assert underlined("SELECT\nFROM", 6) == ["  line 1, column 7", "    SELECT", "          ^"]


def test_a_place_in_nothing() -> None:
    assert underlined("", 0) == ["  line 1, column 1", "    ", "    ^"]


def test_a_place_before_the_beginning_is_the_beginning() -> None:
    assert Place.of("SELECT", -5, 2) == Place(1, 1, "SELECT", 2)


@given(st.text("ab \t\n", max_size=30), st.integers(0, 35), st.integers(0, 35))
def test_the_carets_stand_below_the_text(sql: str, start: int, length: int) -> None:
    """Line and column lead back to the offset; the underline never leaves its line."""
    place = Place.of(sql, start, start + length)
    lines = sql.split("\n")
    assert place.text == lines[place.line - 1]
    offset = sum(len(line) + 1 for line in lines[: place.line - 1]) + place.column - 1
    assert offset == min(start, len(sql))
    assert 1 <= place.width <= max(1, len(place.text) - place.column + 1)
    _, text, carets = place.underlined().split("\n")
    assert [c for c in carets if c == "\t"] == [c for c in text[: 4 + place.column - 1] if c == "\t"]
    assert len(carets) == 4 + place.column - 1 + place.width


# Messages


def test_a_message_says_it_all_in_order() -> None:
    error = SqlError(
        "there is no column 'sped'",
        place=Place.of(SQL, 7, 11),
        meant="speed",
        choices=["lane", "speed"],
        next_step="write speed",
    )
    assert str(error) == (
        "there is no column 'sped'\n"
        "  line 1, column 8\n"
        "    SELECT sped\n"
        "           ^^^^\n"
        "  did you mean 'speed'?\n"
        "  choices: lane, speed\n"
        "  next: write speed"
    )


def test_what_is_not_known_is_left_out() -> None:
    assert str(PlanError("too large")) == "too large"
    assert str(PlanError("too large", next_step="make it smaller")) == "too large\n  next: make it smaller"


def test_a_place_is_given_later_unless_a_nearer_one_is_known() -> None:
    near, far = Place.of(SQL, 7, 11), Place.of(SQL, 0, 6)
    error = AlgebraError("wrong")
    assert error.at(near) is error
    assert error.at(far).place == near
    assert AlgebraError("wrong").at(None).place is None


def test_an_error_is_raised_and_caught_by_its_root() -> None:
    with pytest.raises(EverviewError, match="wrong"):
        raise TemporalError("wrong")


STAGES = (AlgebraError, SqlError, CatalogError, TemporalError, PlanError, StoreError)


def test_there_is_one_class_a_stage_and_one_root() -> None:
    found = {c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, Exception)}
    assert found == {EverviewError, Fault, *STAGES}


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_stands_directly_under_the_root_and_says_what_it_is(stage: type[EverviewError]) -> None:
    assert stage.__bases__ == (EverviewError,)
    assert stage.__doc__
    assert "\n" not in stage.__doc__


def test_errors_are_the_ground() -> None:
    """They import nothing of ours, so that everything may raise them."""
    imports = [n for n in ast.walk(ast.parse(inspect.getsource(errors))) if isinstance(n, ast.ImportFrom)]
    assert not [i for i in imports if (i.module or "").startswith("everview")]


# The guess and the choices


@pytest.mark.parametrize(
    ("name", "known", "expected"),
    [
        ("sped", ["lane", "speed", "length"], "speed"),
        ("SPED", ["lane", "speed"], "speed"),
        ("sped", ["LANE", "Speed"], "Speed"),
        ("speed", ["speed"], "speed"),
        ("h.lenght", ["h.lane", "h.length"], "h.length"),
        ("xyz", ["lane", "speed"], None),
        ("speed", [], None),
        ("", ["lane"], None),
    ],
)
def test_nearest(name: str, known: list[str], expected: str | None) -> None:
    assert nearest(name, known) == expected


def test_nearest_takes_what_can_be_read_once() -> None:
    assert nearest("sped", iter(["lane", "speed"])) == "speed"
    assert nearest("sped", {"lane": 1, "speed": 2}) == "speed"


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, ""), (1, "c0"), (2, "c0, c1"), (16, ", ".join(f"c{i}" for i in range(16)))],
)
def test_few_choices_are_listed(count: int, expected: str) -> None:
    assert format_choices([f"c{i}" for i in range(count)]) == expected


def test_many_choices_are_shortened() -> None:
    text = format_choices([f"c{i}" for i in range(100)])
    assert text.startswith("c0, c1, ")
    assert text.endswith(", c15, … (100 in all)")


def test_choices_may_be_any_iterable() -> None:
    assert "choices: a, b" in str(SqlError("wrong", choices=iter("ab")))


@pytest.mark.parametrize(("number", "text"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (100, "100 rows")])
def test_counted(number: int, text: str) -> None:
    assert format_count(number, "row") == text
