"""DuckDB as a witness: what a query answers at an instant, by another engine over the rows of that instant.

A query in Everview's words becomes a query in DuckDB's: every relation of FROM, with its windows and its
SYNC, is replaced by the rows that it holds at t. Which rows those are is computed here, one row and one
instant at a time, from the words of DESIGN section 4; nothing of `windows.py` or `scope.py` is asked.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Any

import duckdb

from everview.algebra.changes import ChangeRow
from everview.algebra.time import INFINITY
from everview.catalog import Catalog
from everview.reference.meaning import meaning
from everview.sql import bind_script, plan_of
from everview.sql.statements import Create

Row = tuple[Any, ...]
History = list[list[Row]]
"""What a relation holds, for each instant of DOMAIN."""

DOMAIN = range(20)

SCRIPT = """
    CREATE STREAM s (k INT, v INT, ts TIMESTAMP, TIMELINE ts);
    CREATE STREAM r (k INT, v INT, ts TIMESTAMP, TIMELINE ts);
    CREATE STREAM m (name STRING, x DOUBLE, d DECIMAL(5,2), ok BOOLEAN, seq INT, ts TIMESTAMP,
                     TIMELINE ts SEQUENCE BY (seq));
    CREATE TABLE t (id INT, name STRING);
    CREATE NON RETROACTIVE TABLE nrr (id INT, name STRING);
    CREATE TAGGED STREAM latest OVER s KEY (k);
    CREATE TAGGED STREAM rooms OVER s KEY (k) DELETE WHEN v = 0;
"""
COLUMNS = {
    "s": "k INT, v INT, ts TIMESTAMP",
    "r": "k INT, v INT, ts TIMESTAMP",
    "m": "name VARCHAR, x DOUBLE, d DECIMAL(5,2), ok BOOLEAN, seq INT, ts TIMESTAMP",
    "t": "id INT, name VARCHAR",
    "nrr": "id INT, name VARCHAR",
}
TAGGED: dict[str, Callable[[Row], bool]] = {"latest": lambda e: False, "rooms": lambda e: e[1] == 0}
VIEWS = {
    "fresh": "SELECT k, v, ts FROM s [RANGE 6 MICROSECONDS] WHERE v IS NOT NULL",
    "per_k": "SELECT k, COUNT(*) AS n, SUM(v) AS total FROM s [RANGE 7 MICROSECONDS] GROUP BY k",
    "summary": "SELECT COUNT(*) AS kinds, MAX(n) AS most, SUM(total) AS total FROM per_k",
    "pairs": "SELECT s.k AS k, s.v AS v, r.v AS w, s.ts AS ts"
    " FROM s [RANGE 5 MICROSECONDS] JOIN r [RANGE 8 MICROSECONDS] ON s.k = r.k",
    "lonely": "SELECT k FROM latest EXCEPT SELECT k FROM r [RANGE 4 MICROSECONDS]",
    "ticks": "SELECT ts FROM r WHERE k = 1",
}
"""Views over the streams and over each other, each after those that it reads."""


def catalog() -> Catalog:
    """The catalog of all that the queries read."""
    made = Catalog()
    script = SCRIPT + "".join(f"CREATE VIEW {name} AS {sql};\n" for name, sql in VIEWS.items())
    for statement in bind_script(script, made):
        assert isinstance(statement, Create)
        made.add(statement.entry)
    return made


@dataclass(frozen=True)
class Case:
    """A query; where DuckDB has other words for the same, those too."""

    sql: str
    duck: str | None = None
    topic: str = ""

    def __str__(self) -> str:
        return self.sql


def random_inputs(chance: random.Random) -> dict[str, list[ChangeRow]]:
    """Small streams and tables of few values, so that rows meet; ties, duplicates and NULLs among them."""

    def few() -> int | None:
        return chance.choice([None, 0, 1, 2])

    def size(most: int) -> int:
        return chance.choice([0, most // 2, most - 1, most, most])

    def stream(most: int, *columns: Callable[[], object]) -> list[ChangeRow]:
        arrivals = [chance.randrange(13) for _ in range(size(most))]
        return [ChangeRow((*(c() for c in columns), ts), ts, INFINITY) for ts in arrivals]

    def table(most: int) -> list[ChangeRow]:
        spans = [(chance.randrange(10), chance.choice([2, 5, INFINITY])) for _ in range(size(most))]
        return [ChangeRow((few(), chance.choice("xy")), a, min(a + n, INFINITY)) for a, n in spans]

    some = chance.choice
    return {
        "s": stream(8, few, few),
        "r": stream(7, few, few),
        "m": stream(
            7,
            lambda: some([None, "", "a", "ab", "B", "7"]),
            lambda: some([None, 0.0, 0.5, 1.5, 2.25]),
            lambda: some([None, *map(Decimal, ("0.50", "1.25", "2.00"))]),
            lambda: some([None, True, False]),
            few,
        ),
        "t": table(4),
        "nrr": table(4),
    }


# Which rows a window holds (DESIGN section 4)

TEXT_OF_TIME = r"TIMESTAMP '1970-01-01 00:00:00(?:\.\d{1,6})?'"


def at(t: int) -> str:
    """An instant as SQL: so many microseconds after the epoch."""
    return f"TIMESTAMP '1970-01-01 00:00:00.{t:06d}'"


def _instant(text: str) -> int:
    return int((text.partition(".")[2].rstrip("'") or "0").ljust(6, "0"))


def _part(word: str, window: str, otherwise: int) -> int:
    found = re.search(rf"\b{word} (\d+) MICROSECONDS?", window)
    return int(found[1]) if found else otherwise


def on_grid(x: int, step: int, origin: int) -> int:
    """The first grid point at or after x."""
    while (x - origin) % step:
        x += 1
    return x


def holds(window: str, ts: int, t: int) -> bool:
    """Whether a time window holds a row of timestamp ts at the instant t."""
    instants = [_instant(i) for i in re.findall(TEXT_OF_TIME, window)]
    match window.split()[0]:
        case "UNBOUNDED":
            return True
        case "NOW":
            return ts == t
        case "SINCE":
            return instants[0] <= ts
        case "UNTIL":
            return ts <= instants[0]
        case "BETWEEN":
            return instants[0] <= ts <= instants[1]
        case "FIXED":
            width = _part("FIXED", window, 0)
            return ts <= t < on_grid(ts + 1, width, instants[0] if instants else 0)
        case "RANGE" | "TUMBLE" as kind:
            width = _part(kind, window, 0)
            slide = width if kind == "TUMBLE" else _part("SLIDE", window, 1)
            lag, origin = _part("LAG", window, 0), instants[0] if instants else 0
            return on_grid(ts + lag, slide, origin) <= t < on_grid(ts + lag + width, slide, origin)
    raise AssertionError(f"no window: {window}")


def windowed(window: str, names: Sequence[str], rows: list[Row], t: int) -> list[Row]:
    """The rows that a window holds at t, of those that its input holds."""
    line = names.index("ts")
    if window.startswith("SESSION"):
        return open_sessions(window, names, rows, t)
    newest = re.search(r"(?:PARTITION BY ([\w, ]+) )?ROWS (\d+)(?: SLIDE (\d+))?", window)
    if newest is None:
        return [e for e in rows if holds(window, e[line], t)]
    sequence = [names.index("seq")] if "seq" in names else []
    keys = [names.index(k.strip()) for k in newest[1].split(",")] if newest[1] else []
    partitions: dict[Row, list[Row]] = {}
    for e in sorted(rows, key=lambda e: _order([e[i] for i in (line, *sequence)] + list(e))):
        partitions.setdefault(tuple(e[k] for k in keys), []).append(e)
    count, slide = int(newest[2]), int(newest[3] or 1)
    return [e for members in partitions.values() for e in members[: len(members) // slide * slide][-count:]]


def open_sessions(window: str, names: Sequence[str], rows: list[Row], t: int) -> list[Row]:
    """The rows of sessions that are open at t, with the ends of their session: one row after the other."""
    line, gap = names.index("ts"), _part("SESSION", window, 0)
    found = re.search(r"PARTITION BY ([\w, ]+)", window)
    keys = [names.index(k.strip()) for k in found[1].split(",")] if found else []
    sessions: dict[Row, list[Row]] = {}
    for e in sorted(rows, key=lambda e: e[line]):
        of_key = sessions.setdefault(tuple(e[k] for k in keys), [])
        if of_key and of_key[-1][line] + gap <= e[line]:
            of_key.clear()
        of_key.append(e)
    return [
        (*e, of_key[0][line], of_key[-1][line] + gap)
        for of_key in sessions.values()
        for e in of_key
        if t < of_key[-1][line] + gap
    ]


def _order(values: Iterable[Any]) -> list[tuple[bool, Any]]:
    return [(v is not None, 0 if v is None else v) for v in values]


# From our query to DuckDB's

_TIME = TEXT_OF_TIME.replace(" ", r"\ ")
_RELATION = re.compile(
    rf"""(?P<before>(?:\bFROM|\bJOIN|,)\s+\(*)(?P<name>{"|".join([*COLUMNS, *TAGGED, *VIEWS])})\b(?!\.)
    (?P<windows>(?:\s*\[[^\]]*\])*)
    (?:\s+SYNC\ (?:EVERY\ INTERVAL\ '(?P<every>\d+)'\ MICROSECOND(?:\ ORIGIN\ (?P<origin>{_TIME}))?
                  |ON\ (?P<on>\w+)))?
    (?P<alias>\ AS\ \w+)?""",
    re.VERBOSE,
)
_WORDS = {"LEFT SEMI JOIN": "SEMI JOIN", "LEFT ANTI JOIN": "ANTI JOIN", "<=>": "IS NOT DISTINCT FROM"}


_COUNT_OF_SEVERAL = re.compile(r"COUNT\(DISTINCT (\w+(?:, \w+)+)\)")


def _counted_rows(found: re.Match[str]) -> str:
    """COUNT(DISTINCT a, b), which DuckDB has of one value only: it counts rows without any NULL."""
    there = " AND ".join(f"{name} IS NOT NULL" for name in found[1].split(", "))
    return f"COUNT(DISTINCT CASE WHEN {there} THEN ({found[1]}) END)"


def versions(table: str) -> str:
    """All versions of a table's rows, with the time of each: (…, since, till)."""
    return f"(SELECT * FROM {table}_versions WHERE round = $t // {len(DOMAIN)})"


@dataclass
class Witness:
    """DuckDB over the rows of some inputs; the instants of all of them are numbered through.

    Round i, instant t is the number `i * len(DOMAIN) + t`: one prepared statement answers them all.
    """

    rounds: Sequence[Mapping[str, Sequence[ChangeRow]]]
    connection: duckdb.DuckDBPyConnection = field(default_factory=lambda: _connection())
    tables: dict[str, str] = field(default_factory=dict)

    def answers(self, sql: str) -> list[Counter[Row]]:
        """What the query answers at every instant."""
        return [Counter(map(plain, rows)) for rows in self._history(sql)[1]]

    def _history(self, sql: str) -> tuple[list[str], History]:
        """The columns of the answer, and what it holds at every instant."""
        text = self.translated(sql)
        self.connection.execute(f"PREPARE question AS {text}")
        history = []
        for number in range(len(self.rounds) * len(DOMAIN)):
            instant = f"(t := {number})" if "$t" in text else ""
            history.append(self.connection.execute(f"EXECUTE question{instant}").fetchall())
        columns = [f'"{c[0]}" {c[1]}' for c in self.connection.description or ()]
        self.connection.execute("DEALLOCATE question")
        return columns, history

    def translated(self, sql: str) -> str:
        """The query in DuckDB's words, for the instant $t."""
        for table in re.findall(r"(\w+)_versions", sql):
            self._load_versions(table)
        text = _RELATION.sub(self._relation, sql)
        for ours, theirs in _WORDS.items():
            text = text.replace(ours, theirs)
        text = _COUNT_OF_SEVERAL.sub(_counted_rows, text)
        return re.sub(r"\bNOW\b", f"make_timestamp($t % {len(DOMAIN)})", text)

    def _relation(self, found: re.Match[str]) -> str:
        windows = [w.strip() for w in re.findall(r"\[([^\]]*)\]", found["windows"])]
        alias = found["alias"] or f" AS {found['name']}"
        if found["name"] in VIEWS and not windows and not found["every"] and not found["on"]:
            return f"{found['before']} ({self.translated(VIEWS[found['name']])}){alias}"
        table = self._table(found["name"], tuple(windows), found["every"], found["origin"], found["on"])
        columns = [c.split()[0] for c in self.tables[table].split(", ")]
        return f"{found['before']} (SELECT {', '.join(columns)} FROM {table} WHERE t = $t){alias}"

    def _table(
        self, name: str, windows: tuple[str, ...], every: str | None, origin: str | None, on: str | None
    ) -> str:
        """A table in DuckDB with what a relation holds, and when."""
        key = re.sub(r"\W+", "_", f"h {name} {windows} {every} {origin} {on}")
        if key not in self.tables:
            columns, history = self._base(name)
            names = [c.split()[0].strip('"') for c in columns]
            for window in windows:
                history = [windowed(window, names, e, i % len(DOMAIN)) for i, e in enumerate(history)]
                if window.startswith("SESSION"):
                    columns = [*columns, "session_start TIMESTAMP", "session_end TIMESTAMP"]
            if every is not None or on is not None:
                history = self._held(history, every, origin, on)
            self._load(key, columns, history)
        return key

    def _base(self, name: str) -> tuple[list[str], History]:
        """What a stream, a table, a tagged stream or a view holds."""
        if name in VIEWS:
            columns, history = self._history(VIEWS[name])
            return columns, [[tuple(map(_micros, e)) for e in rows] for rows in history]
        if name in TAGGED:
            columns, history = self._base("s")
            latest = [windowed("PARTITION BY k ROWS 1", ["k", "v", "ts"], rows, 0) for rows in history]
            return columns, [[e for e in rows if not TAGGED[name](e)] for rows in latest]
        columns = re.split(r", (?=[a-z])", COLUMNS[name])
        return columns, [
            [c.record for c in given[name] if c.from_ <= t < c.until] for given in self.rounds for t in DOMAIN
        ]

    def _held(self, history: History, every: str | None, origin: str | None, on: str | None) -> History:
        """What was there at the last synchronization point (paper 5, 5.1)."""
        if on is not None:
            _, marks = self._base(on)
        held: History = []
        for i, rows in enumerate(history):
            t = i % len(DOMAIN)
            if on is not None:
                before = marks[i - 1].count((t,)) if t else 0
                is_point = marks[i].count((t,)) > before
            else:
                is_point = (t - (_instant(origin) if origin else 0)) % int(every or 1) == 0
            held.append(rows if is_point else held[i - 1] if t else [])
        return held

    def _load_versions(self, name: str) -> None:
        self.connection.execute(
            f"CREATE TABLE {name}_versions (round INT, {COLUMNS[name]}, since TIMESTAMP, till TIMESTAMP)"
        )
        for i, given in enumerate(self.rounds):
            for record, since, till, _ in given[name]:
                values = [i, *record, since, min(till, 10**6)]
                self.connection.execute(
                    f"INSERT INTO {name}_versions SELECT ?, ?, ?, make_timestamp(?), make_timestamp(?)",
                    values,
                )

    def _load(self, key: str, columns: Sequence[str], history: History) -> None:
        rows = [(i, *e) for i, held in enumerate(history) for e in held]
        self.tables[key] = ", ".join(columns)
        self.connection.execute(f"CREATE TABLE {key} (t INT, {', '.join(columns)})")
        if rows:
            kinds = ["INT", *columns]
            lists = [
                f"{'make_timestamp(' * ('TIMESTAMP' in kind)}unnest(${i}){')' * ('TIMESTAMP' in kind)}"
                for i, kind in enumerate(kinds, 1)
            ]
            self.connection.execute(
                f"INSERT INTO {key} SELECT {', '.join(lists)}", [list(c) for c in zip(*rows, strict=True)]
            )


def _connection() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET error_on_division_by_zero = false")
    connection.execute("SET ieee_floating_point_ops = false")  # a division by zero is NULL
    connection.execute("PRAGMA disable_optimizer")  # as it stands there, and planned sooner
    return connection


_EPOCH = datetime(1970, 1, 1)


def _micros(value: Any) -> Any:
    if isinstance(value, datetime):
        return (value - _EPOCH) // timedelta(microseconds=1)
    return value // timedelta(microseconds=1) if isinstance(value, timedelta) else value


def plain(record: Row) -> Row:
    """The record in values that compare alike: times in microseconds, numbers to ten digits."""
    return tuple(map(_plain, record))


def _plain(value: Any) -> Any:
    value = _micros(value)
    if isinstance(value, (float, Decimal)):
        return int(value) if value == int(value) else float(f"{value:.10g}")
    return value


@dataclass(frozen=True)
class Verdict:
    """How often the two gave the same rows, and where they first did not."""

    agreed: int
    difference: str | None = None


def compared(case: Case, rounds: Sequence[Mapping[str, Sequence[ChangeRow]]]) -> Verdict:
    """The reference and DuckDB side by side, at every instant of every round."""
    plan = plan_of(case.sql, known())
    answers = Witness(rounds).answers(case.duck or case.sql)
    agreed = 0
    for i, given in enumerate(rounds):
        ours: list[Counter[Row]] = [Counter() for _ in DOMAIN]
        for (record, t), n in meaning(plan, given, DOMAIN).items():
            ours[t][plain(record)] += n
        for t in DOMAIN:
            theirs = answers[i * len(DOMAIN) + t]
            if ours[t] != theirs:
                here, there = dict(ours[t] - theirs), dict(theirs - ours[t])
                return Verdict(
                    agreed, f"at {t} only here: {here}, only in DuckDB: {there}\n{case.sql}\n{dict(given)}"
                )
            agreed += ours[t].total()
    return Verdict(agreed)


known = cache(catalog)
