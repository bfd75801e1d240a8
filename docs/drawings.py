"""Draws the pages on windows: each row a dot at its timestamp, and a bar from when until when it counts.

The bars are worked out from the SQL on the page itself, by the definitions alone, so no drawing can say
anything else than the page does. `python docs/drawings.py` draws all anew; a test compares.
"""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree.ElementTree import Element

from everview.algebra.changes import ChangeRow
from everview.algebra.time import INFINITY, SECOND, Chronon, format_timestamp, parse_timestamp
from everview.plan.explain import drawing as D
from everview.reference.work_out import Answer, work_out
from everview.ui.output import align_cells

WINDOWS = Path(__file__).parent / "windows"
_SQL = re.compile(r"^```sql\n(.*?)^```$", re.M | re.S)
_COLOURS = {"a": "#2563eb", "b": "#d97706"}  # of the rooms
_SECONDS = 20  # that are drawn
_LEFT, _WIDTH, _TOP, _ROW = 92.0, 720.0, 40.0, 26.0


def readings() -> str:
    """The stream that all pages speak of, as the index has it."""
    return _sql(WINDOWS / "README.md")


def page_views(page: Path) -> list[Answer]:
    """The views of a page, worked out."""
    return work_out(readings() + _sql(page))


def _sql(page: Path) -> str:
    return "".join(_SQL.findall(page.read_text("utf-8")))


def table(answer: Answer) -> list[str]:
    """The rows of a view as `everview changes … --encoding intervals` prints them."""
    shown = [["from", "until", "n", *answer.plan.schema.names]]
    types = [str(t) for t in answer.plan.schema.types]
    for row in sorted(answer.rows, key=lambda r: (r.until, r.from_, [(v is None, str(v)) for v in r.record])):
        values = [_value(v, t) for v, t in zip(row.record, types, strict=True)]
        shown.append([_end(row.from_), _end(row.until), str(row.n), *values])
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return [align_cells(line, widths) for line in shown]


def _end(t: Chronon) -> str:
    return "∞" if t >= INFINITY else "-∞" if t <= -INFINITY else format_timestamp(t)


def _value(value: object, type_: str) -> str:
    if value is None:
        return "NULL"
    return format_timestamp(value) if type_ == "TIMESTAMP" and isinstance(value, int) else str(value)


def drawing(page: Path) -> str:
    """The first view of a page: one line for each row of the stream."""
    start = parse_timestamp("2026-01-01 00:00:00")
    assert start is not None
    answer = page_views(page)[0]
    columns = answer.plan.schema.names
    assert columns == ("room", "degrees", "ts"), (
        f"{page.name} begins with a view that has the stream's columns"
    )
    (everything,) = work_out(readings() + "CREATE VIEW everything AS SELECT * FROM readings;")
    rows = sorted((row.record for row in everything.rows), key=lambda record: str(record[2]))
    title = _title(" ".join(_sql(page).split()))

    def x_of(t: Chronon) -> float:
        return _LEFT + (_WIDTH - _LEFT - 24) * min(1.0, max(0.0, (t - start) / (_SECONDS * SECOND)))

    bottom = _TOP + _ROW * len(rows) + 6
    picture = D.new_picture(_WIDTH, bottom + 30)
    D.text(picture, 10, 20, title, 12, D.MONO)
    for second in range(_SECONDS + 1):
        x = x_of(start + second * SECOND)
        D.line(picture, x, _TOP, x, bottom, stroke="#e4e7eb" if second % 5 else "#9aa5b1")
        if second % 5 == 0:
            shown = f"00:00:{second:02}"
            D.text(picture, x, bottom + 18, shown, 10, fill=D.FAINT, text_anchor="middle")
    D.line(picture, _LEFT, bottom, _WIDTH - 24, bottom, stroke=D.INK)
    for place, record in enumerate(rows):
        y = _TOP + _ROW * place + _ROW / 2
        room, degrees, ts = record
        assert isinstance(room, str)
        assert isinstance(ts, int)
        D.text(picture, 10, y + 4, f"{room}  {'NULL' if degrees is None else degrees}", 12, D.MONO)
        bars = [row for row in answer.rows if row.record == record]
        for bar in bars:
            _draw_bar(picture, bar, x_of(bar.from_), x_of(bar.until), y, _COLOURS[room])
        if not bars:
            D.text(picture, x_of(ts) + 12, y + 4, "never counts", 10, fill=D.FAINT)
        dot = D.group(picture, "row", f"{room} at {format_timestamp(ts)}")
        D.path(dot, _circle(x_of(ts), y, 4.5), stroke=D.PAPER, stroke_width="1.5", fill=_COLOURS[room])
    return D.to_svg(picture) + "\n"


def _title(sql: str) -> str:
    """What the first view reads; if that is a name alone, the statement that makes it."""
    read = re.search(r"FROM ([^;]*);", sql)
    found = "" if read is None else read[1]
    made = re.search(rf"CREATE (TAGGED STREAM {found} [^;]*);", sql) if found.isidentifier() else None
    return found if made is None else made[1]


def _draw_bar(picture: Element, row: ChangeRow, begin: float, end: float, y: float, colour: str) -> None:
    until = "for ever" if row.until >= INFINITY else f"until {format_timestamp(row.until)}"
    bar = D.group(picture, "bar", f"from {format_timestamp(row.from_)} {until}")
    D.rectangle(
        bar, begin, y - 7, max(2.0, end - begin), 14, fill=colour, fill_opacity="0.35", stroke=colour, rx="2"
    )
    if row.until >= INFINITY:
        D.path(bar, f"M{end + 2:.1f} {y - 6:.1f}l8 6l-8 6", stroke=colour, stroke_width="2")


def _circle(x: float, y: float, r: float) -> str:
    return f"M{x - r:.1f} {y:.1f}a{r} {r} 0 1 0 {2 * r} 0a{r} {r} 0 1 0 {-2 * r} 0"


if __name__ == "__main__":
    for path in sorted(WINDOWS.glob("*.md")):
        if path.name != "README.md":
            path.with_suffix(".svg").write_text(drawing(path), "utf-8")
