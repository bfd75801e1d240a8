"""Random files of rows, and what must become of every record in them: taken, late, or refused with a reason.

The oracle is plain Python: a file is made from parts whose meaning is known, so nothing here parses anything.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from tests.engine.reading import dated, put

COLUMNS = {"k": "STRING", "v": "INT", "x": "DOUBLE", "ok": "BOOLEAN", "ts": "TIMESTAMP"}
DECLARED = (
    "k STRING, v INT NOT NULL, x DOUBLE, ok BOOLEAN, ts TIMESTAMP, TIMELINE ts LATENESS INTERVAL '5' SECOND"
)
LATENESS = timedelta(seconds=5)
CHRONON = timedelta(microseconds=1)
WHY_NULL = {"v": "v: NULL, and the column is NOT NULL", "ts": "ts: there is no timestamp"}

Row = tuple[object, ...]


@dataclass(frozen=True)
class Bad:
    """A value that is none of its column's; `shown` is how a reason speaks of it."""

    shown: str


@dataclass(frozen=True)
class Record:
    """One record: its text, and either why it is refused or its values."""

    text: str
    reason: str | None
    row: Row | None = None


@dataclass
class Outcome:
    """What became of the records of some files, one file a step."""

    taken: list[Row] = field(default_factory=list)
    late: list[str] = field(default_factory=list)
    rejected: list[tuple[str, str]] = field(default_factory=list)
    bound: datetime | None = None

    def step(self, records: Sequence[Record]) -> None:
        """Takes in one file: late is what is not after the bound as it stood before."""
        before, newest = self.bound, None
        for record in records:
            if record.reason is not None:
                self.rejected.append((record.reason, record.text))
                continue
            assert record.row is not None
            at = record.row[-1]
            assert isinstance(at, datetime)
            if before is not None and at <= before:
                self.late.append(record.text)
            else:
                self.taken.append(record.row)
                newest = at if newest is None else max(newest, at)
        if newest is not None:
            known = newest - LATENESS - CHRONON
            self.bound = known if before is None else max(before, known)


def instant(random: Random, step: int) -> datetime:
    """Mostly later than what came before, sometimes too late."""
    second = 10 * step + random.choice((0, 2, 4, 6, 8, -3, -9, -20))
    return datetime(2026, 1, 1, 1) + timedelta(seconds=second, microseconds=random.choice((0, 0, 250_000)))


def judged(values: dict[str, Any], text: str) -> Record:
    """The outcome of a record whose values are known."""
    for name, type_ in COLUMNS.items():
        if isinstance(values.get(name), Bad):
            return Record(text, f"{name}: {values[name].shown} is no {type_}")
    for name in ("v", "ts"):
        if values.get(name) is None:
            return Record(text, WHY_NULL[name])
    return Record(text, None, tuple(values.get(name) for name in COLUMNS))


# CSV

_QUOTED = ("", "a, b", 'say ""so""', "two\nlines", "x", " y ")
_CSV: dict[str, list[tuple[str, Any]]] = {
    "k": [("a", "a"), (" b ", " b "), ('5" pipe', '5" pipe'), ("ü", "ü"), ("", None)]
    + [(f'"{q}"', q.replace('""', '"')) for q in _QUOTED],
    "v": [
        ("7", 7), (" -8 ", -8), ('"9"', 9), ("+1", 1), ("", None), ('""', None), ("seven", Bad("seven")),
        ("1.5", Bad("1.5")), ("3000000000", Bad("3000000000")), ('"1, 2"', Bad("1, 2")),
    ],
    "x": [("0.5", 0.5), ("1e3", 1000.0), (" 2 ", 2.0), ("half", Bad("half")), ("", None)],
    "ok": [("true", True), ("FALSE", False), (" true ", True), ("perhaps", Bad("perhaps")), ("", None)],
}  # fmt: skip


def csv_field(random: Random, name: str, step: int) -> tuple[str, Any]:
    if name == "ts":
        if random.random() < 0.06:
            return random.choice([("", None), ("soon", Bad("soon")), ("12:30", Bad("12:30"))])
        at = instant(random, step)
        blank = random.choice(("", "", " "))
        return f"{blank}{at.isoformat(random.choice(('T', ' ')))}{blank}", at
    found = _CSV.get(name)
    if found is None:
        return random.choice([("extra", None), ("", None), ('"e, f"', None)])
    return random.choice(found if random.random() < 0.25 else found[:2])


def csv_file(random: Random, folder: Path, name: str, step: int, header: bool) -> list[Record]:
    """Writes a file, with a header or without; what must become of its records."""
    names = list(COLUMNS)
    if header:
        names += random.choice(([], ["more"], ["m1", "m2"]))
        gone = random.choice(
            ([], [], ["x"], ["ok", "k"], ["ts"] if step > 1 else [], ["v"] if step > 2 else [])
        )
        names = [n for n in names if n not in gone]
        random.shuffle(names)
    path = folder / name
    missing = next((n for n in COLUMNS if n in WHY_NULL and n not in names), None)
    lines, records = [], []
    if header:
        lines.append(",".join(random.choice((n, n.upper(), f'"{n}"')) for n in names))
    for _ in range(random.randint(0, 12)):
        fields = [csv_field(random, n, step) for n in names]
        match random.random():
            case r if r < 0.06:
                fields = fields[: random.randint(1, len(fields) - 1)]
            case r if r < 0.12:
                fields += [("", None)] * random.randint(1, 3)
            case r if r < 0.16:
                lines.append("")
        text = ",".join(written for written, _ in fields)
        if not text.strip():
            continue
        lines.append(text)
        if missing is not None:
            records.append(Record(text, f"{missing}: {path} has no such column"))
        elif len(fields) != len(names):
            columns = "column" if len(fields) == 1 else "columns"
            records.append(Record(text, f"it has {len(fields)} {columns}, not {len(names)}"))
        else:
            records.append(judged(dict(zip(names, (v for _, v in fields), strict=True)), text))
    # The first line of a file says how its lines end, so that one is in one piece.
    end = random.choice(("\n", "\r\n")) if lines and "\n" not in lines[0] else "\n"
    put(folder, name, random.choice(("", "\ufeff")) + "".join(line + end for line in lines))
    return records


# JSON

_NOT_ONE = {
    "[]": "it is an array and no JSON object; if each file is one, say multiLine => true",
    '[{"v": 1}]': "it is an array and no JSON object; if each file is one, say multiLine => true",
    "15": "it is no JSON object",
    "null": "it is no JSON object",
    '"{}"': "it is no JSON object",
    '{"v": 1': "it is no JSON object",
    "nonsense, more": "it is no JSON object",
}
_JSON: dict[str, list[tuple[str, Any]]] = {
    "k": [
        ('"a"', "a"),
        ('"}\\u00e9\\""', '}é"'),
        ('""', ""),
        ("null", None),
        ('{"K": [1]}', '{"K":[1]}'),
        ("7", "7"),
    ],
    "v": [
        ("7", 7), ("-8", -8), ("null", None), ('"9"', Bad('"9"')), ('"nine"', Bad("nine")),
        ("1.5", Bad("1.5")), ("3000000000", Bad("3000000000")), ("true", Bad("true")), ("[1]", Bad("[1]")),
    ],
    "x": [("0.5", 0.5), ("2", 2.0), ('"half"', Bad("half")), ("null", None), ("{}", Bad("{}"))],
    "ok": [("true", True), ("false", False), ('"yes"', Bad('"yes"')), ("1", Bad("1")), ("null", None)],
}  # fmt: skip


def json_line(random: Random, step: int) -> Record:
    if random.random() < 0.12:
        text, reason = random.choice(list(_NOT_ONE.items()))
        return Record(text, reason)
    values: dict[str, Any] = {}
    members: list[tuple[str, str]] = []
    for name in COLUMNS:
        if random.random() < 0.05:
            continue
        if name == "ts":
            at = instant(random, step)
            written, value = random.choice(
                [(json.dumps(at.isoformat()), at)] * 15 + [('"soon"', Bad("soon"))]
            )
        else:
            found = _JSON[name]
            written, value = random.choice(found if random.random() < 0.25 else found[:2])
        values[name] = value
        members.append((random.choice((name, name, name.upper())), written))
        if members[-1][0] == name and random.random() < 0.1:  # the exact name counts
            members.append((name.upper(), "[]"))
    members += random.choice(([], [("more", '{"v": [1, 2]}'), ("and", '"}{"')]))
    random.shuffle(members)
    colon, comma = random.choice(((":", ","), (": ", ", "), (" :  ", " ,\t")))
    text = "{" + comma.join(f'"{key}"{colon}{value}' for key, value in members) + "}"
    record = judged(values, text)
    if random.random() < 0.08 and not any(isinstance(v, Bad) for v in values.values()):
        text += random.choice((" x", "{}", text, " ]}", "}", ",{}"))
        return Record(text, "there is more in the line than one JSON object")
    return record


def json_file(random: Random, folder: Path, name: str, step: int) -> list[Record]:
    """Writes a file; what must become of its lines."""
    records = [json_line(random, step) for _ in range(random.randint(0, 12))]
    lines = [line for r in records for line in ([r.text, ""] if random.random() < 0.1 else [r.text])]
    put(folder, name, "".join(f"{line}\n" for line in lines))
    return records


# Parquet

_PARQUET: dict[str, list[tuple[pa.DataType, list[tuple[Any, Any]]]]] = {
    "k": [(t, [("a", "a"), ("", ""), (None, None)]) for t in (pa.string(), pa.large_string())]
    + [(pa.dictionary(pa.int32(), pa.string()), [("a", "a"), (None, None)])],
    "v": [
        (pa.int32(), [(7, 7), (-8, -8), (None, None)]),
        (pa.int64(), [(7, 7), (2**40, Bad(str(2**40))), (None, None)]),
        (pa.uint32(), [(7, 7), (2**32 - 1, Bad(str(2**32 - 1)))]),
        (pa.float64(), [(7.0, 7), (-1.5, Bad("-1.5"))]),
    ],
    "x": [
        (pa.float64(), [(0.5, 0.5), (None, None)]),
        (pa.float32(), [(0.5, 0.5)]),
        (pa.int16(), [(2, 2.0), (None, None)]),
    ],
    "ok": [(pa.bool_(), [(True, True), (False, False), (None, None)])],
}


def parquet_file(random: Random, folder: Path, name: str, step: int) -> list[Record]:
    """Writes a file with types of its own; what must become of its rows, which have no text."""
    size = random.randint(0, 12)
    names = [*COLUMNS, *random.choice(([], ["more"]))]
    gone = random.choice(([], [], ["x"], ["ok", "k"], ["ts"] if step > 1 else [], ["v"] if step > 2 else []))
    names = [n for n in names if n not in gone]
    random.shuffle(names)
    rows: list[dict[str, Any]] = [{} for _ in range(size)]
    arrays = {}
    for column in names:
        if column == "more":
            arrays[column] = pa.array([[1]] * size, pa.list_(pa.int64()))
            continue
        if column == "ts":
            type_ = pa.timestamp(
                random.choice(("ms", "us", "ns")), random.choice((None, "UTC", "Asia/Tokyo"))
            )
            found = [instant(random, step) if random.random() > 0.05 else None for _ in range(size)]
            pairs = [(at, at) for at in found]
            stamps = [None if at is None else (at - datetime(1970, 1, 1)) // CHRONON for at in found]
            arrays[random.choice(("ts", "TS"))] = (
                pa.array(stamps, pa.timestamp("us"))
                .cast(pa.timestamp(type_.unit))
                .cast(pa.int64())
                .cast(type_)
            )
        else:
            type_, pool = random.choice(_PARQUET[column])
            pairs = [random.choice(pool) for _ in range(size)]
            arrays[random.choice((column, column.upper()))] = pa.array([v for v, _ in pairs], type_)
        for row, (_, value) in zip(rows, pairs, strict=True):
            row[column] = value
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(arrays), folder / name, row_group_size=random.choice((3, 100)))
    dated(folder / name)
    missing = next((n for n in COLUMNS if n in WHY_NULL and n not in names), None)
    if missing is not None:
        return [Record("", f"{missing}: {folder / name} has no such column")] * size
    return [judged(row, "") for row in rows]
