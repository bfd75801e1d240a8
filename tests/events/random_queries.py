"""Random event queries over three streams, one with two time lines, and random feeds of rows in steps.

Times are a few microseconds, so that rows meet at equal instants; queries with date_trunc have longer ones.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from everview.algebra.changes import ChangeRow, Record
from everview.algebra.time import INFINITY, LEAST
from everview.temporal.clocks import ENDED, NOT_BEGUN, STORE_BOUND, StreamLine

SCHEMA = """
CREATE STREAM p (k INT, v INT, ts TIMESTAMP, TIMELINE ts);
CREATE STREAM q (k INT, ts TIMESTAMP, due TIMESTAMP, TIMELINE ts);
CREATE STREAM w (k INT, a TIMESTAMP, b TIMESTAMP, TIMELINE a, TIMELINE b);
CREATE TABLE t (k INT, name INT);
"""
# The columns of each stream in order; those in `LINES` are time lines.
COLUMNS = {"p": ("k", "v", "ts"), "q": ("k", "ts", "due"), "w": ("k", "a", "b")}
LINES = {"p": ("ts",), "q": ("ts",), "w": ("a", "b")}
LATEST = 14
# Views as events: what stands in FROM, and their time lines.
ISTREAMS = {
    "i": ("ISTREAM(SELECT k, ts FROM p [RANGE 3 MICROSECONDS SLIDE 2 MICROSECONDS])", ("at", "ts")),
    "c": ("ISTREAM(SELECT k, COUNT(*) AS n FROM p [RANGE 3 MICROSECONDS] GROUP BY k)", ("at",)),
}


@dataclass(frozen=True)
class RandomQuery:
    """The SQL of an event query and its time lines; a unit of time is `scale` microseconds."""

    sql: str
    lines: tuple[str, ...]
    scale: int = 1

    @property
    def instants(self) -> range:
        """At which the views that it reads may change, for any rows of a feed."""
        return range(LATEST + 8 if "ISTREAM" in self.sql else 0)


class _Maker:
    """Writes one random query."""

    def __init__(self, rng: random.Random, views: bool = False) -> None:
        self.rng, self.views = rng, views
        self.scale = 300 if rng.random() < 0.08 and not views else 1
        self.names = iter(f"x{n}" for n in range(100))

    def chance(self, likely: float) -> bool:
        return self.rng.random() < likely

    def length(self) -> str:
        return f"INTERVAL '{self.rng.randrange(7) * self.scale}' MICROSECOND"

    def stream(self) -> tuple[str, str]:
        return self.rng.choice("pqwiicc" if self.views else "ppqqw"), next(self.names)

    def lines(self, stream: str) -> tuple[str, ...]:
        return ISTREAMS[stream][1] if stream in ISTREAMS else LINES[stream]

    def relation(self, relation: tuple[str, str]) -> str:
        stream, alias = relation
        return f"{ISTREAMS[stream][0] if stream in ISTREAMS else stream} {alias}"

    def line(self, relation: tuple[str, str]) -> str:
        stream, alias = relation
        if stream == "q" and self.chance(0.1):
            return f"{alias}.due"
        return f"{alias}.{self.rng.choice(self.lines(stream))}"

    def term(self, relations: Sequence[tuple[str, str]]) -> str:
        time = self.line(self.rng.choice(relations))
        kind = self.rng.random()
        if kind < 0.12 and len(relations) > 1:
            other = self.line(self.rng.choice(relations))
            return f"{self.rng.choice(('GREATEST', 'LEAST'))}({time}, {other})"
        if kind < 0.35:
            return f"{time} {self.rng.choice('+-')} {self.length()}"
        return time

    def between(self, later: tuple[str, str], earlier: tuple[str, str]) -> str:
        """Return a condition that bounds the time of one relation by another one, mostly on both sides."""
        one, other = self.line(later), self.line(earlier)
        kind = self.rng.random()
        if kind < 0.35:
            return f"{one} BETWEEN {other} - {self.length()} AND {other} + {self.length()}"
        if kind < 0.6:
            strict = self.rng.choice(("<", "<="))
            return (
                f"{one} {self.rng.choice(('>', '>='))} {other} AND {one} {strict} {other} + {self.length()}"
            )
        if kind < 0.7:
            return f"{one} - {other} {self.rng.choice(('<', '<=', '='))} {self.length()}"
        if kind < 0.8:
            return f"{one} = {other}"
        if kind < 0.9:
            return f"NOT ({one} {self.rng.choice(('>', '>='))} {other} + {self.length()})"
        return f"{one} {self.rng.choice(('<', '<=', '>', '>='))} {other}"

    def condition(self, later: tuple[str, str], earlier: Sequence[tuple[str, str]]) -> str:
        """Return the condition of a join or a correlated subquery."""
        parts = [self.between(later, self.rng.choice(earlier))]
        if self.chance(0.6):
            parts.append(f"{later[1]}.k = {self.rng.choice(earlier)[1]}.k")
        if self.chance(0.25):
            parts.append(self.between(later, self.rng.choice(earlier)))
        if self.chance(0.12):
            both = [later, *earlier]
            parts.append(f"{self.term(both)} {self.rng.choice(('<', '<=', '=', '<>'))} {self.term(both)}")
        if self.chance(0.18):
            other = self.between(later, self.rng.choice(earlier))
            extra = f" AND {later[1]}.k = 1" if self.chance(0.5) else ""
            parts = [f"({' AND '.join(parts)} OR ({other}{extra}))"]
        return " AND ".join(parts)

    def subquery(self, relations: Sequence[tuple[str, str]], depth: int) -> str:
        inner = self.stream()
        condition = self.condition(inner, relations)
        if depth and self.chance(0.35):
            condition += f" AND {self.subquery([inner], depth - 1)}"
        if self.chance(0.15):
            outer = self.rng.choice(relations)
            word = self.rng.choice(("IN", "NOT IN"))
            return f"{outer[1]}.k {word} (SELECT {inner[1]}.k FROM {self.relation(inner)} WHERE {condition})"
        word = self.rng.choice(("EXISTS", "NOT EXISTS", "NOT EXISTS"))
        return f"{word} (SELECT 1 FROM {self.relation(inner)} WHERE {condition})"

    def from_(self) -> tuple[str, list[tuple[str, str]], list[tuple[str, str]]]:
        """Return FROM, its relations, and those of them that are never padded."""
        first = self.stream()
        text, relations, sure = self.relation(first), [first], [first]
        for _ in range(self.rng.choice((0, 0, 1, 1, 1, 2))):
            right = self.stream()
            kind = self.rng.choice(("JOIN",) * 6 + ("LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
            text += f" {kind} {self.relation(right)} ON {self.condition(right, relations)}"
            if kind in ("RIGHT JOIN", "FULL JOIN"):
                sure = []
            if kind in ("JOIN", "RIGHT JOIN"):
                sure = [*sure, right]
            relations.append(right)
        if self.chance(0.06) and sure:
            name = next(self.names)
            stream, alias = self.rng.choice(sure)
            kind = self.rng.choice(("JOIN", "JOIN", "LEFT JOIN"))
            text += f" {kind} t FOR SYSTEM_TIME AS OF {alias}.{self.rng.choice(self.lines(stream))} {name}"
            text += f" ON {name}.k = {alias}.k"
        return text, relations, sure

    def select(self) -> tuple[str, list[str]]:
        """Return a SELECT and the names of its times; its first column is k."""
        text, relations, sure = self.from_()
        usable = sure or relations
        where = []
        for _ in range(self.rng.choice((0, 0, 1, 1, 2))):
            where.append(self.subquery(usable, 1))
        if self.chance(0.2):
            where.append(f"{self.line(usable[0])} {self.rng.choice(('<', '>='))} {self.term(usable)}")
        if self.chance(0.06):
            where.append(f"{self.line(usable[0])} <= TIMESTAMP '1970-01-01 00:00:00.000009'")
        condition = f" WHERE {' AND '.join(where)}" if where else ""
        key = f"{self.rng.choice(usable)[1]}.k"
        times = {f"t{n}": self.time(relations, usable) for n in range(self.rng.choice((1, 2, 2)))}
        if self.chance(0.3):
            groups = [key, *times.values()] if self.chance(0.85) else list(times.values())
            calls = ["COUNT(*) AS n"]
            if self.chance(0.3):
                extreme = self.line(self.rng.choice(usable))
                calls.append(f"{self.rng.choice(('MIN', 'MAX'))}({extreme}) AS m")
                times["m"] = ""
            shown = [key] if key in groups else []
            shown += [f"{e} AS {n}" for n, e in times.items() if e] + calls
            having = " HAVING COUNT(*) >= 2" if self.chance(0.1) else ""
            return (
                f"SELECT {', '.join(shown)} FROM {text}{condition} GROUP BY {', '.join(groups)}{having}",
                list(times),
            )
        distinct = "DISTINCT " if self.chance(0.15) else ""
        shown = [key, *(f"{e} AS {n}" for n, e in times.items())]
        return f"SELECT {distinct}{', '.join(shown)} FROM {text}{condition}", list(times)

    def time(self, relations: Sequence[tuple[str, str]], usable: Sequence[tuple[str, str]]) -> str:
        if len(relations) > 1 and self.chance(0.25):
            lines = [self.line(r) for r in relations]
            return f"{self.rng.choice(('GREATEST', 'GREATEST', 'COALESCE', 'LEAST'))}({', '.join(lines)})"
        if self.scale > 1 and self.chance(0.5):
            return f"date_trunc('MILLISECOND', {self.line(self.rng.choice(usable))})"
        return self.term(usable)

    def query(self) -> RandomQuery:
        sql, times = self.select()
        if self.chance(0.2):
            word = self.rng.choice(
                ("UNION ALL", "UNION", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL")
            )
            sides = []
            for _ in range(2):
                relation = self.stream()
                where = f" WHERE {self.subquery([relation], 0)}" if self.chance(0.3) else ""
                line = self.line(relation)
                sides.append(
                    f"SELECT {relation[1]}.k AS k, {line} AS t0 FROM {self.relation(relation)}{where}"
                )
            sql, times = f" {word} ".join(sides), ["t0"]
        lines = self.rng.sample(times, self.rng.choice((1, 1, min(2, len(times)))))
        return RandomQuery(sql, tuple(lines), self.scale)


def random_query(rng: random.Random, views: bool = False) -> RandomQuery:
    """Return a random event query, with ISTREAM of views if asked for; many could never answer."""
    return _Maker(rng, views).query()


def random_conjunctive_query(rng: random.Random) -> RandomQuery:
    """Return a random join of two or three streams with conditions on times, joined by AND."""
    maker = _Maker(rng)
    maker.scale = 1
    relations = [maker.stream()]
    text = f"{relations[0][0]} {relations[0][1]}"
    for _ in range(rng.choice((1, 1, 2))):
        right = maker.stream()
        conditions = [maker.between(right, rng.choice(relations)) for _ in range(rng.choice((1, 2)))]
        text += f" JOIN {right[0]} {right[1]} ON {' AND '.join(conditions)}"
        relations.append(right)
    line = maker.line(rng.choice(relations))
    return RandomQuery(f"SELECT {relations[0][1]}.k, {line} AS t0 FROM {text}", ("t0",))


@dataclass(frozen=True)
class FeedStep:
    """The rows that arrive in a step, and the bounds of all time lines after it."""

    arrived: dict[str, list[Record]]
    bounds: dict[StreamLine, int]


@dataclass(frozen=True)
class Feed:
    """Rows in steps, and the versions of the table; after the last step all streams have ended."""

    steps: tuple[FeedStep, ...]
    tables: dict[str, list[ChangeRow]]

    def rows(self, upto: int | None = None) -> dict[str, list[Record]]:
        """Return the rows that have arrived up to a step."""
        found: dict[str, list[Record]] = {name: [] for name in COLUMNS}
        for step in self.steps[: None if upto is None else upto + 1]:
            for name, rows in step.arrived.items():
                found[name] += rows
        return found


def random_feed(rng: random.Random, scale: int = 1, eager: bool = False) -> Feed:
    """Return rows in random order, with random bounds for each time line that make no row late.

    With `eager`, every bound is as high as it can be.
    """
    count = rng.randrange(1, 6)
    rows = [(name, _row(rng, name, scale)) for name in COLUMNS for _ in range(rng.randrange(6))]
    rows += [row for row in rows if rng.random() < 0.15]
    # Mostly in the order of time: a row comes in the step of its time, or a little later or earlier.
    steps = [min(count - 1, max(0, _step(rng, row, count, scale))) for row in rows]
    arrived: list[dict[str, list[Record]]] = [{name: [] for name in COLUMNS} for _ in range(count)]
    for (name, record), step in zip(rows, steps, strict=True):
        arrived[step][name].append(record)
    made, before = [], dict.fromkeys(all_lines(), NOT_BEGUN)
    for number in range(count):
        bounds = {}
        for line in all_lines():
            position = COLUMNS[line.stream].index(line.column)
            later = [r[position] for a in arrived[number + 1 :] for r in a[line.stream]]
            most = min((int(str(v)) for v in later), default=(LATEST + 8) * scale) - 1
            chosen = most if eager or rng.random() < 0.5 else rng.randrange(-1, (LATEST + 3) * scale)
            bounds[line] = max(before[line], min(most, chosen))
        before = bounds
        made.append(FeedStep(arrived[number], {**bounds, STORE_BOUND: _store_bound(bounds)}))
    ended = {**dict.fromkeys(all_lines(), ENDED), STORE_BOUND: ENDED}
    made.append(FeedStep({name: [] for name in COLUMNS}, ended))
    return Feed(tuple(made), {"t": _versions(rng, scale)})


def all_lines() -> list[StreamLine]:
    return [StreamLine(name, column) for name, columns in LINES.items() for column in columns]


def _store_bound(bounds: dict[StreamLine, int]) -> int:
    return min(bounds[StreamLine(name, lines[0])] for name, lines in LINES.items())


def _row(rng: random.Random, name: str, scale: int) -> Record:
    key = rng.choice((None, 0, 1, 1, 2))
    ts = rng.randrange(LATEST) * scale
    if name == "p":
        return key, rng.choice((None, 0, 1, 5)), ts
    if name == "q":
        return key, ts, rng.choice((None, ts, ts + scale * rng.randrange(4)))
    return key, ts, max(0, ts + scale * rng.randrange(-2, 6))


def _step(rng: random.Random, row: tuple[str, Record], count: int, scale: int) -> int:
    time = row[1][COLUMNS[row[0]].index(LINES[row[0]][0])]
    return int(str(time)) * count // (LATEST * scale) + rng.choice((-1, 0, 0, 0, 1))


def _versions(rng: random.Random, scale: int) -> list[ChangeRow]:
    found = []
    for key in range(3):
        change = rng.randrange(LATEST) * scale
        found.append(ChangeRow((key, 10 + key), LEAST, change))
        found.append(ChangeRow((key, 20 + key), change, INFINITY))
    return found
