"""Event queries that could never answer are refused before they start: the messages, to the letter."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from everview.algebra import nodes as N
from everview.catalog import Catalog
from everview.compile import check_event_stream
from everview.errors import EverviewError
from everview.sql import bind_script, declare, plan_of
from everview.sql import statements as S
from everview.temporal.event_query import EventQueryError
from everview.temporal.timing import timing_of

FIXTURE = Path(__file__).parent / "refusals.sql.txt"
GIVEN, *SECTIONS = FIXTURE.read_text().split("-- title: ")


def catalog() -> Catalog:
    made = Catalog()
    for statement in bind_script(GIVEN, made):
        declare(statement, made)
    return made


KNOWN = catalog()


def outcome(sql: str) -> str:
    """Return the message of a refusal, or the bounds of an event stream that was accepted."""
    try:
        (statement,) = bind_script(sql, KNOWN)
        assert isinstance(statement, S.Create)
        timing = check_event_stream(statement, KNOWN)
    except EverviewError as error:
        return str(error)
    return "accepted: " + "; ".join(f"{line} ≤ {clock}" for line, clock in timing.clocks.items())


def sections() -> list[tuple[str, str, str]]:
    found = []
    for section in SECTIONS:
        head, _, message = section.partition("\n----\n")
        title, _, sql = head.partition("\n")
        found.append((title, sql.strip(), message.strip()))
    return found


def test_refusals(regenerate: bool) -> None:
    written = [GIVEN.rstrip() + "\n"]
    for title, sql, wanted in sections():
        found = outcome(sql)
        written.append(f"-- title: {title}\n{sql}\n----\n{found}\n")
        assert regenerate or found == wanted, title
        assert regenerate or not found.startswith("accepted"), title
    if regenerate:
        FIXTURE.write_text("\n".join(written))


PROPOSED = re.compile(r"AND (\S+ <= \S+ \+ INTERVAL '1' (?:HOUR|DAY))")


@pytest.mark.parametrize(("title", "sql", "message"), sections(), ids=lambda value: str(value)[:30])
def test_what_is_proposed_is_accepted(title: str, sql: str, message: str) -> None:
    """Put the condition or the time line that a refusal proposes into the query, and run the check again."""
    proposals = []
    if (bound := PROPOSED.search(message)) is not None:
        proposals.append(_with_condition(sql, bound[1]))
    if (line := re.search(r"next:.*TIMELINE (\w+)$", message)) is not None and f"AS {line[1]}" in sql:
        proposals.append(re.sub(r"TIMELINE \w+", f"TIMELINE {line[1]}", sql, count=1))
    if (where := re.search(r"WHERE (due BETWEEN .*)$", message)) is not None:
        proposals.append(f"{sql} WHERE {where[1]}")
    for proposed in proposals:
        assert outcome(proposed).startswith("accepted"), proposed


def _with_condition(sql: str, condition: str) -> str:
    """Put a condition where the relation that it bounds stands."""
    alias = condition.split(".")[0]
    around = re.search(rf"\b{alias} WHERE ", sql) or re.search(rf"\b{alias} ON ", sql)
    if around is not None:
        return f"{sql[: around.end()]}{condition} AND {sql[around.end() :]}"
    if f"FROM {alias})" in sql:
        return sql.replace(f"FROM {alias})", f"FROM {alias} WHERE {condition})")
    return (
        sql.replace("CROSS JOIN", "JOIN") + f" {'WHERE' if ',' in sql.split('FROM')[1] else 'ON'} {condition}"
    )


def test_istream_of_an_earlier_release() -> None:
    """R20: there ISTREAM has no column for its instant, and rows without a time line carry no time."""
    counted = plan_of("SELECT COUNT(*) AS n FROM fire [RANGE 1 HOUR]", KNOWN)
    for node, next_step in (
        (N.IStream(counted), "select a time line"),
        (N.View("v", N.IStream(counted)), "CREATE OR REPLACE VIEW gives it a column for the instant"),
    ):
        with pytest.raises(EventQueryError) as error:
            timing_of(node)
        assert (error.value.what, error.value.next_step) == ("these rows carry no time", next_step)


def test_the_check_takes_milliseconds() -> None:
    begun = time.process_time()
    for _, sql, _ in sections():
        outcome(sql)
    assert (time.process_time() - begun) / len(sections()) < 0.1
