"""What a run says of itself, and how it is asked to end. No JVM."""

from __future__ import annotations

import io
import os
import signal

import pytest
from rich.console import Console

from everview.algebra.time import DAY
from everview.catalog import Alteration, ViewEntry
from everview.pipeline import Progress
from everview.query.describe import default_history
from everview.storage.manifest import Manifest
from everview.ui.progress import Meter, Summary, step_line
from everview.ui.signals import catch_stop_signals

STEP = Progress(3, 5000, 1_000_000, 3_500_000, 2.0, 1234, changes={"v": 7, "w": 0})


def test_a_step_on_one_line() -> None:
    assert step_line(STEP) == (
        "step 3 · 5,000 rows in, 2,500 a second · known up to 1970-01-01T00:00:01.000000"
        " · 2.5 s behind the newest · 2.00 s · 1,234 rows kept"
    )


@pytest.mark.parametrize("terminal", [True, False])
def test_the_meter_moves_on_a_terminal_only(terminal: bool) -> None:
    out = io.StringIO()
    with Meter(Console(file=out, force_terminal=terminal, width=200)) as meter:
        meter(STEP)
        with meter.pause():
            pass
    assert ("5,000 rows in" in out.getvalue()) == terminal


def test_the_summary_counts_from_where_the_run_began() -> None:
    summary = Summary("/data/my store", before={"s": (10, 1, 0)})
    summary.step(STEP)
    summary.step(STEP)
    counts = {"s": (5010, 3, 0), "silent": (0, 0, 0), "odd\nname": (1, 0, 2)}
    assert summary.lines(Manifest(4, 1_000_000, counts=counts)) == [
        "2 steps in 4.0 s; known up to 1970-01-01T00:00:01.000000",
        "",
        "stream     rows   late  rejected",
        "s          5,000  2     0",
        "odd\\nname  1      0     2",
        "",
        "view  changes",
        "v     14",
        "w     0",
        "",
        "look: everview query 'SELECT * FROM s$late' --path '/data/my store'",
        "look: everview query 'SELECT * FROM `odd\nname$rejected`' --path '/data/my store'",
    ]


def test_the_first_signal_asks_and_the_second_ends(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with catch_stop_signals("soon") as asked:
        assert not asked.is_set()
        os.kill(os.getpid(), signal.SIGTERM)
        assert asked.wait(10)
        assert capsys.readouterr().err == "soon\n"
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_run_that_found_nothing_does_not_count_its_steps() -> None:
    summary = Summary(bound=1_000_000, before={"s": (10, 1, 0)})
    summary.step(Progress(3, 0, 1_000_000, 3_500_000, 2.0, 1234, changes={"v": 0}))
    assert summary.lines(Manifest(4, 1_000_000, counts={"s": (10, 1, 0)}), ["3 rows of s wait: …"]) == [
        "nothing new; known up to 1970-01-01T00:00:01.000000",
        "3 rows of s wait: …",
        "",
        "look: everview query 'SELECT * FROM v'",
    ]


def test_what_new_views_keep_is_said() -> None:
    views = [ViewEntry("v", "…", history=DAY), ViewEntry("w", "…", history=7 * DAY, least_changes=1000)]
    assert default_history(views[:1]) == "", "it was given with the view"
    summary = Summary(bound=1_000_000, history=default_history(views))
    assert summary.lines(Manifest(1, 1_000_000)) == [
        "nothing new; known up to 1970-01-01T00:00:01.000000",
        "",
        "history of new views: 1 WEEK, and the last 1,000 changes; WITH (history => …) sets it",
    ]


def test_what_was_counted_under_an_earlier_name() -> None:
    summary = Summary(before={"t": (10, 1, 0), "s": (1, 0, 0)}, changes={"v": 2, "old": 1})
    altered = (Alteration(3, "s", "t"), Alteration(5, "t", "u"), Alteration(6, "u", columns=2, added=("b",)))
    summary.follow_names((*altered, Alteration(7, "v", "w")), since=4)
    assert summary.before == {"u": (10, 1, 0), "s": (1, 0, 0)}
    assert summary.changes == {"old": 1, "w": 2}
