"""Worked examples from the papers, on the engine: the SQL, what goes in, what comes out, and why.

The SQL and the data of each are in the folder `demos`.
"""

from __future__ import annotations

import csv
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, chdir, nullcontext
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

from everview.errors import EverviewError, format_count, nearest
from everview.query.answers import fetch_answer
from everview.ui.output import ENDS, Sheet, align_cells
from everview.ui.replay import replay

if TYPE_CHECKING:
    from everview.database import Database

_ROWS = 10  # of each input file that are printed


@dataclass(frozen=True)
class ShownView:
    """A view or event stream whose changes are shown, with an explanation of them."""

    view: str
    says: str
    encoding: str = "tags"
    where: str = "true"


@dataclass(frozen=True)
class Demo:
    """One worked example; `inputs` has the file of each stream, `sql` is an ad hoc query at the end."""

    title: str
    inputs: Mapping[str, str]
    shown: tuple[ShownView, ...]
    why: str
    question: str = ""
    sql: str = ""


DEMOS = {
    "highway": Demo(
        "where traffic is slow on a highway with 20 measuring stations (Krämer & Seeger, 2.1 to 2.6)",
        {"highway": "highway.csv"},
        (
            ShownView(
                "average_speed",
                "Station 1 has the three cars of the paper; its averages are those of 4.3.2.8:",
                "intervals",
                "station = 1",
            ),
            ShownView("congested", "The stations below 15 m/s, from when until when:", "intervals"),
        ),
        "Each car counts for 15 minutes from the moment it is seen. Whenever one begins or ceases to\n"
        "count, the average of its station changes. The paper unites 20 streams, one for each station;\n"
        "here the station is a column, and GROUP BY says the same.",
    ),
    "parking": Demo(
        "who is in the parking lot (Ghanem et al., 3.1: the queries P1 to P7)",
        {"entering": "entering.csv", "leaving": "leaving.csv"},
        (
            ShownView("inside", "P1: both streams only ever grow, and yet the answer has + and -:"),
            ShownView("per_type", "P2: a view over that view; u takes the place of the old count:"),
            ShownView(
                "inside_2", "P4: the same as P1, every 2 minutes; who came and went between is not seen:"
            ),
            ShownView("per_type_4", "P5: counts every 4 minutes, over P4:"),
            ShownView("per_type_police", "P6: counts when a police car comes:"),
            ShownView("recent", "P7: who entered in the last 5 minutes; they go by the clock:", "intervals"),
        ),
        "A view is a relation that varies with time, and its changes are a stream again. So a query can\n"
        "read a view as it reads a stream, and all of them agree at every instant.",
        "P3: is Joe Doe's car in the lot right now?",
        "SELECT * FROM with_owner WHERE vowner = 'JOE DOE'",
    ),
    "rooms": Demo(
        "which rooms are hot (Ghanem et al., 3.2 and examples 1 to 8: the queries T1 to T5)",
        {"temperature": "temperature.csv"},
        (
            ShownView("hot", "T1: the rooms above 80; +<a,99>1 and u<a,95>4 as in the paper, never c at 80:"),
            ShownView("very_hot", "T2: the rooms above 100:"),
            ShownView("hot_2", "T3: as T1, at the seconds 0, 2, 4, …; +<a,99> comes at 2, not at 1:"),
            ShownView("very_hot_4", "T4: as T2, every 4 seconds, over T3:"),
            ShownView("very_hot_at_alarm", "T5: as T2, whenever a room reports more than 120:"),
        ),
        "A reading takes the place of the one before. What is reported between two points of a\n"
        "synchronization is gathered, and only what is left of it counts at the next point.",
    ),
    "links": Demo(
        "what goes over three links of a network (Golab & Özsu, 6.1: queries 1 to 5)",
        {"link1": "link1.csv", "link2": "link2.csv", "link3": "link3.csv"},
        (
            ShownView("both_links", "Query 1, a join of two windows:", "intervals"),
            ShownView(
                "hosts", "Query 2, without duplicates: a host stays while any of its rows does:", "intervals"
            ),
            ShownView(
                "only_link1", "Query 3, a negation: a row of link 2 takes one away early:", "intervals"
            ),
            ShownView("hosts_of_both", "Query 4, a join of two sets of hosts:", "intervals"),
            ShownView("ftp_of_those", "Query 5, a join over the negation:", "intervals"),
        ),
        "How results come and go decides how they are kept; `everview explain` shows it for every\n"
        "operator. The ends of queries 1, 2 and 4 are known when a row comes (WK), those of 3 and 5 are\n"
        "not (STR).",
    ),
    "metro": Demo(
        "who left a metro station before the fire brigade came (event queries: paper 3, section 2)",
        {"fire": "fire.csv", "brigade": "brigade.csv", "exits": "exits.csv"},
        (
            ShownView("evacuated", "Who left between the fire and each brigade of the next hour; only +:"),
            ShownView(
                "unanswered", "No brigade within the hour: known when brigades are, up to the deadline:"
            ),
            ShownView("still_inside", "Who came out after such a deadline, an event query over that one:"),
            ShownView("alarms", "Such fires of the last two hours, a view over it:", "intervals"),
        ),
        "A row of an event stream is final: it comes when nothing that may still arrive could change it,\n"
        "and is never taken back. The conditions on the times say when that is. Without the hour, nobody\n"
        "could ever be sure that no brigade comes, and the query would be refused.",
        "Which fires were not answered in time?",
        "SELECT * FROM unanswered",
    ),
}


def list_demos(console: Console) -> None:
    """Print the names of all demos."""
    width = max(map(len, DEMOS))
    for name, demo in DEMOS.items():
        _print(console, f"{name:{width}}  {demo.title}")
    _print(console, "")


def show_demo(
    name: str,
    console: Console,
    connect: Callable[..., AbstractContextManager[Database]],
    speed: float | None = None,
) -> None:
    """Run a worked example on a temporary store and print it; with a speed, replay it in real time."""
    demo = DEMOS.get(name)
    if demo is None:
        raise EverviewError(f"there is no demo '{name}'", meant=nearest(name, DEMOS), choices=DEMOS)
    if speed is not None and not 0 < speed < float("inf"):
        raise EverviewError(f"time cannot pass {speed:g} times as fast", next_step="give a number above 0")
    source = resources.files("everview.ui") / "demos" / name
    with resources.as_file(source) as folder, tempfile.TemporaryDirectory(prefix="everview-") as store:
        script = (folder / "demo.sql").read_text("utf-8")
        _introduce(name, demo, script, folder, console)
        started = time.perf_counter()
        with chdir(folder), connect(str(Path(store) / "store"), partitions=2) as db:
            if speed is None:
                _run(db, demo, script, console)
            else:
                _heading(console, "What comes out, as it comes:")
                replay(db, script, demo.inputs, folder, [s.view for s in demo.shown], speed, console.file)
        _heading(console, "Why:")
        _print(console, demo.why)
        _print(console, f"\n({time.perf_counter() - started:.0f} s)")


def _introduce(name: str, demo: Demo, script: str, folder: Path, console: Console) -> None:
    _print(console, f"{name}: {demo.title}\n", "bold")
    if console.is_terminal:
        console.print(Syntax(script, "sql", background_color="default"))
    else:
        _print(console, script)
    _heading(console, "What goes in:")
    for stream, file in demo.inputs.items():
        with (folder / file).open(encoding="utf-8", newline="") as lines:
            rows = list(csv.reader(lines))
        shown = rows[: _ROWS + 1]
        widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
        more = len(rows) - len(shown)
        _print(console, f"{stream}, {format_count(len(rows) - 1, 'row')}", "italic")
        for row in shown:
            _print(console, align_cells(row, widths))
        _print(console, f"… and {format_count(more, 'more row')}\n" if more else "")


def _run(db: Database, demo: Demo, script: str, console: Console) -> None:
    with console.status("working") if console.is_terminal else nullcontext():
        db.execute(script)
        db.run(finish=True)
    _heading(console, "What comes out:")
    for shown in demo.shown:
        _print(console, shown.says, "italic")
        frame = db.changes(shown.view, shown.encoding).where(shown.where)
        Sheet("table", console.file, ENDS[shown.encoding]).write(fetch_answer(frame))
        _print(console, "")
    if demo.sql:
        _print(console, f"{demo.question} {demo.sql}", "italic")
        Sheet("table", console.file).write(fetch_answer(db.query(demo.sql)))
        _print(console, "")


def _heading(console: Console, text: str) -> None:
    _print(console, text, "bold")


def _print(console: Console, text: str, style: str = "") -> None:
    """Print text unchanged: no wrapping, no markup."""
    console.print(Text(text, style=style), soft_wrap=True)
