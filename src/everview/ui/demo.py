"""Worked examples from the papers: the SQL, what goes in, what comes out, and why."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from everview.engine import Answer, explain, moment, work_out
from everview.errors import EverviewError, nearest

HIGHWAY = """\
CREATE STREAM highway (lane SMALLINT, speed DOUBLE, length DOUBLE, ts TIMESTAMP, TIMELINE ts);

INSERT INTO highway VALUES
  (5, 18.28, 5.27, TIMESTAMP '1993-11-03 05:00:08'),
  (2, 21.33, 4.62, TIMESTAMP '1993-11-03 05:01:32'),
  (4, 19.69, 9.97, TIMESTAMP '1993-11-03 05:02:16');

CREATE VIEW average_speed AS
  SELECT AVG(speed) AS avg_speed FROM highway [RANGE 15 MINUTES];
"""


@dataclass(frozen=True)
class Demo:
    """One worked example."""

    title: str
    script: str
    why: str


DEMOS = {
    "highway": Demo(
        "the average speed of the last 15 minutes (Krämer & Seeger, sections 2.6 and 4.3.2.8)",
        HIGHWAY,
        "Each car counts for 15 minutes from the moment it is seen. Whenever one begins or ceases to count\n"
        "the average changes; before the first and after the last there is none.",
    ),
}


def show_demo(name: str, console: Console) -> None:
    """Prints a worked example."""
    demo = DEMOS.get(name)
    if demo is None:
        raise EverviewError(f"there is no demo '{name}'", meant=nearest(name, DEMOS), choices=DEMOS)
    console.print(Text(f"{name}: {demo.title}\n", style="bold"))
    console.print(Syntax(demo.script, "sql", background_color="default"))
    console.print(Text("The plan:", style="bold"))
    console.print(Text(explain(demo.script) + "\n"))
    for answer in work_out(demo.script):
        console.print(Text("What comes out:", style="bold"))
        console.print(_table(answer))
    console.print(Text(demo.why))


def _table(answer: Answer) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("from", "until", *answer.plan.schema.names):
        table.add_column(column, no_wrap=True)
    for row in answer.rows:
        times = (moment(row.from_), moment(row.until))
        table.add_row(*times, *("NULL" if v is None else str(v) for v in row.record))
    return table
