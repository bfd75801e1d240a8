"""The traps of event queries: bounds, waits and refusals of one small query each, to the letter."""

from __future__ import annotations

import time
from itertools import combinations
from pathlib import Path

from everview.compile import check_event_stream
from everview.errors import EverviewError
from everview.sql import bind_script
from everview.sql import statements as S
from tests.events.harness import EventScript

FIXTURE = Path(__file__).parent / "traps.sql.txt"
GIVEN, *SECTIONS = FIXTURE.read_text().split("-- title: ")
KNOWN = EventScript.of(GIVEN).catalog


def outcome(sql: str) -> str:
    """Return the bound of the time line and all waits of an event query, or why it is refused."""
    try:
        (statement,) = bind_script(f"CREATE STREAM o TIMELINE ts AS {sql}", KNOWN)
        assert isinstance(statement, S.Create)
        checked = check_event_stream(statement, KNOWN)
    except EverviewError as error:
        next_step = "" if error.next_step is None else f"\n  next: {error.next_step}"
        return f"refused: {error.what}{next_step}"
    lines = [f"bound of ts: {checked.clocks['ts']}"]
    for each in checked.timing.walk():
        if each.waits:
            lines.append(f"{type(each.node).__name__}: {'; '.join(map(str, each.waits))}")
    if any(case.hulled for each in checked.timing.walk() for case in each.cases):
        lines.append("hull")
    return "\n".join([*lines, "always empty"] if checked.is_empty else lines)


def test_traps(regenerate: bool) -> None:
    written = [GIVEN.rstrip() + "\n"]
    for section in SECTIONS:
        head, _, wanted = section.partition("\n----\n")
        title, _, sql = head.partition("\n")
        found = outcome(sql.strip())
        written.append(f"-- title: {title}\n{sql.strip()}\n----\n{found}\n")
        assert regenerate or found == wanted.strip(), title
    if regenerate:
        FIXTURE.write_text("\n".join(written))


def test_cases_do_not_multiply() -> None:
    """Trap 7: cases are counted at each step of a conjunction. Seven times that differ have 5,040 orders."""
    times = [f"t{n}" for n in range(7)]
    columns = ", ".join(f"{name} TIMESTAMP" for name in times)
    different = " AND ".join(f"{one} <> {other}" for one, other in combinations(times, 2))
    begun = time.process_time()
    script = EventScript.of(
        f"CREATE STREAM wide ({columns}, ts TIMESTAMP, TIMELINE ts);"
        f"CREATE STREAM o TIMELINE ts AS SELECT ts FROM wide WHERE {different}"
    )
    assert str(script.timing("o").clocks["ts"]) == "wide.ts"
    assert time.process_time() - begun < 5
