"""Changes of tables in any order are as those in the order of their instants.

The oracle applies the statements in that order (ties as they were given) to a plain multiset, and refuses one
with which a key would occur twice at any instant. Many tables in one store are many cases; runs in between
move the bound.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import everview
from everview.errors import StoreError

pytestmark = pytest.mark.spark

Row = tuple[int, int]  # k, v
Rows = Counter[Row]
END = 30  # seconds


@dataclass(frozen=True)
class Given:
    """A statement, the second from which it holds, and what it does to rows."""

    sql: str
    at: int
    apply: Callable[[Rows], Rows]


def at(second: int) -> str:
    return f"TIMESTAMP '1970-01-01 00:00:{second:02}'"


def replayed(given: list[Given]) -> dict[int, Rows]:
    """The table at every second, all statements in the order of their instants."""
    ordered = sorted(given, key=lambda g: g.at)  # stable: ties as given
    rows: Rows = Counter()
    found: dict[int, Rows] = {}
    for second in range(-1, END + 1):
        for statement in ordered:
            if statement.at == second:
                rows = statement.apply(rows)
        found[second] = rows
    return found


def key_holds(given: list[Given]) -> bool:
    states = replayed(given).values()
    return all(n == 1 for rows in states for n in Counter(k for k, _ in rows.elements()).values())


def mapped(rows: Rows, where: Callable[[Row], bool], new: Callable[[Row], Row] | None) -> Rows:
    out: Rows = Counter()
    for row, n in rows.items():
        if not where(row):
            out[row] += n
        elif new is not None:
            out[new(row)] += n
    return out


CONDITIONS: tuple[tuple[str, Callable[[Row, int], bool]], ...] = (
    ("k = {c}", lambda r, c: r[0] == c),
    ("v > {c}", lambda r, c: r[1] > c),
    ("v % 2 = {c} % 2", lambda r, c: r[1] % 2 == c % 2),
    ("true", lambda r, c: True),
)
NEW: tuple[tuple[str, Callable[[Row, int], Row]], ...] = (
    ("v = v + {d}", lambda r, d: (r[0], r[1] + d)),
    ("v = {d}", lambda r, d: (r[0], d)),
    ("k = k + 1, v = k", lambda r, d: (r[0] + 1, r[0])),
    ("k = v % 4, v = k", lambda r, d: (r[1] % 4, r[0])),
)


def statement(name: str, rng: random.Random, bound: int) -> Given:
    second = rng.choice([None, *range(bound + 1, END)]) if rng.random() < 0.7 else None
    when = "" if second is None else f" AT {at(second)}"
    holds = bound if second is None else second  # right after the bound is before the next second
    kind = rng.choice(["insert", "insert", "update", "update", "delete"])
    if kind == "insert":
        rows = [(rng.randrange(4), rng.randrange(4)) for _ in range(rng.choice([1, 1, 2]))]
        values = ", ".join(map(str, rows))
        return Given(f"INSERT INTO {name} VALUES {values}{when}", holds, lambda t: t + Counter(rows))
    c, d = rng.randrange(4), rng.randrange(4)
    condition, fulfils = rng.choice(CONDITIONS)
    where = condition.format(c=c)
    if kind == "delete":
        return Given(
            f"DELETE FROM {name} WHERE {where}{when}",
            holds,
            lambda t: mapped(t, lambda r: fulfils(r, c), None),
        )
    setting, new = rng.choice(NEW)
    return Given(
        f"UPDATE {name} SET {setting.format(d=d)} WHERE {where}{when}",
        holds,
        lambda t: mapped(t, lambda r: fulfils(r, c), lambda r: new(r, d)),
    )


@pytest.mark.parametrize("seed", [8, 10])
def test_any_order_is_as_the_order_of_instants(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    names = [f"t{i}" for i in range(4)]
    keyed = set(names[::2])
    given: dict[str, list[Given]] = {name: [] for name in names}
    refused = 0
    path = str(tmp_path / "store")
    everything = " UNION ALL ".join(f"SELECT '{name}' AS t, k, v FROM {name}" for name in names)
    with everview.connect(path, spark, partitions=2) as db:
        db.execute("CREATE STREAM clk (ts TIMESTAMP, TIMELINE ts)")
        for name in names:
            db.execute(f"CREATE TABLE {name} (k INT, v INT{', PRIMARY KEY (k)' if name in keyed else ''})")
        db.execute(f"CREATE VIEW everything AS {everything}")
    for bound in (-1, 5, 12):
        with everview.connect(path, spark) as db:  # a restart with changes under way
            if bound >= 0:
                db.execute(f"INSERT INTO clk VALUES ({at(bound)})")
                db.run()
            for name in names:
                for _ in range(rng.choice([2, 3, 3])):
                    new = statement(name, rng, bound)
                    if name in keyed and not key_holds([*given[name], new]):
                        refused += 1
                        with pytest.raises(StoreError, match=f"'{name}' would have two rows with the key"):
                            db.execute(new.sql)
                    else:
                        db.execute(new.sql)
                        given[name].append(new)
    with everview.connect(path, spark) as db:
        db.run(finish=True)
        assert db.manifest().scheduled == {}
        changes = db.changes("everything", encoding="intervals").collect()
    assert all(change["n"] > 0 for change in changes)
    assert refused > 0
    for name in names:
        for second, rows in replayed(given[name]).items():
            micros = second * 1_000_000 + 1
            found: Rows = Counter()
            for change in changes:
                begin, end = (_micros(change[c], o) for c, o in (("from", -(10**18)), ("until", 10**18)))
                if change["t"] == name and begin <= micros < end:
                    found[change["k"], change["v"]] += change["n"]
            assert found == rows, (name, second, [g.sql for g in given[name]])


def _micros(instant: object, otherwise: int) -> int:
    return otherwise if instant is None else round(instant.timestamp() * 1_000_000)  # type: ignore[attr-defined]
