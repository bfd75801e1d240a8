"""Random pairs of a view and a query that it may contain: the query is the view with some parts changed.

Most changes keep it contained (a stronger condition, fewer columns, coarser groups, a coarser SYNC); some do
not, and must then not be matched, or be matched and still be right.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from tests.sql.oracle import at

STREAM_COLUMNS = ("k", "v", "ts")
WINDOWS = (
    "", "", " [RANGE 6 MICROSECONDS]", " [RANGE 3 MICROSECONDS]", " [TUMBLE 4 MICROSECONDS]",
    " [RANGE 7 MICROSECONDS SLIDE 2 MICROSECONDS]", " [ROWS 3]", " [PARTITION BY k ROWS 1]",
    " [FIXED 5 MICROSECONDS]", f" [SINCE {at(3)}]",
)  # fmt: skip
SYNCS = (
    "", "", "", "", " SYNC EVERY INTERVAL '2' MICROSECOND", " SYNC EVERY INTERVAL '4' MICROSECOND",
    " SYNC EVERY INTERVAL '3' MICROSECOND", " SYNC ON ticks",
    f" SYNC EVERY INTERVAL '2' MICROSECOND ORIGIN {at(1)}",
)  # fmt: skip
COARSER = {
    "": (*SYNCS,),
    SYNCS[4]: (SYNCS[4], SYNCS[5], SYNCS[6]),
    SYNCS[5]: (SYNCS[5], SYNCS[4]),
}
STREAMS = ("s", "r", "latest", "rooms", "fresh")
AGGREGATES = (
    "COUNT(*)", "COUNT({})", "SUM({})", "MIN({})", "MAX({})", "AVG({})", "COUNT(DISTINCT {})", "STDDEV({})",
    "SUM(CAST({} AS SMALLINT))", "AVG(CAST({} AS SMALLINT))", "COUNT(CAST({} AS SMALLINT))",
    "SUM(CAST({} AS DOUBLE))", "SUM({}) FILTER (WHERE {} > 0)", "SUM(CAST({} AS DECIMAL(5,2)))",
)  # fmt: skip


CHANGES = (
    "stronger", "stronger", "fewer", "coarser", "coarser", "sync", "group", "any", "distinct", "having",
    "order", "join",
)  # fmt: skip


@dataclass(frozen=True)
class Select:
    """The parts of a SELECT."""

    relations: tuple[str, ...]
    conditions: tuple[str, ...] = ()
    items: tuple[str, ...] = ()
    keys: tuple[str, ...] | None = None
    having: tuple[str, ...] = ()
    distinct: bool = False

    def sql(self) -> str:
        named = [f"{item} AS c{i}" for i, item in enumerate(self.items)]
        text = f"SELECT {'DISTINCT ' * self.distinct}{', '.join(named)} FROM {', '.join(self.relations)}"
        if self.conditions:
            text += " WHERE " + " AND ".join(f"({c})" for c in self.conditions)
        if self.keys:
            text += " GROUP BY " + ", ".join(self.keys)
        if self.having:
            text += " HAVING " + " AND ".join(f"({h})" for h in self.having)
        return text


def random_pair(seed: int) -> tuple[str, str]:
    """A view and a query, as SQL."""
    chance = random.Random(seed)
    view = _view(chance)
    query = view
    for _ in range(chance.choice([0, 1, 1, 2, 2, 3])):
        query = _changed(query, view, chance)
    return view.sql(), _written_otherwise(query, chance)


def _view(chance: random.Random) -> Select:
    names = [chance.choice(STREAMS)]
    if chance.random() < 0.35:
        names.append(chance.choice(("s", "r", "latest", "t")))
    sync = chance.choice(SYNCS)
    relations, columns = [], []
    for i, name in enumerate(names):
        relations.append(_relation(name, f"a{i}", sync, chance))
        columns += [f"a{i}.{c}" for c in (("id", "name") if name == "t" else STREAM_COLUMNS)]
    conditions = [_condition(columns, chance) for _ in range(chance.choice([0, 0, 1, 2]))]
    if len(names) == 2:
        conditions.append(f"a0.k = a1.{'id' if names[1] == 't' else 'k'}")
    numbers = [c for c in columns if not c.endswith((".ts", ".name"))]
    if chance.random() < 0.5:
        keys = tuple(chance.sample(columns, chance.choice([0, 1, 2, 2])))
        calls = [_aggregate(numbers, chance) for _ in range(chance.choice([1, 2, 3, 4]))]
        having = ("COUNT(*) > 1",) if chance.random() < 0.15 else ()
        return Select(tuple(relations), tuple(conditions), (*keys, *calls), keys, having)
    items = (
        list(columns) if chance.random() < 0.5 else chance.sample(columns, chance.randint(1, len(columns)))
    )
    if chance.random() < 0.3:
        items.append(f"{chance.choice(numbers)} + {chance.choice(numbers)}")
    return Select(tuple(relations), tuple(conditions), tuple(items), distinct=chance.random() < 0.15)


def _relation(name: str, alias: str, sync: str, chance: random.Random) -> str:
    if name == "t":
        return f"t AS {alias}"
    windows = [w for w in WINDOWS if "ROWS" not in w] if name in ("latest", "rooms", "fresh") else WINDOWS
    return f"{name}{chance.choice(windows)}{sync} AS {alias}"


def _condition(columns: list[str], chance: random.Random) -> str:
    column = chance.choice(columns)
    if column.endswith(".name"):
        return chance.choice([f"{column} = 'x'", f"{column} >= 'x'", f"{column} IS NOT NULL"])
    if column.endswith(".ts"):
        return f"{column} {chance.choice(['<', '>', '>=', '<='])} {at(chance.randrange(12))}"
    constant = chance.choice(["0", "1", "2", "1.5", "CAST(NULL AS INT)", "0.5D"])
    return chance.choice([
        f"{column} {chance.choice(['=', '<', '>', '<=', '>=', '<>', '<=>'])} {constant}",
        f"{column} {chance.choice(['<', '>', '<=', '>=', '<>'])} {constant}",
        f"{constant} {chance.choice(['<', '>', '<=', '>='])} {column}",
        f"{column} IN (0, 2)", f"{column} NOT IN (1, 2)", f"{column} IS NOT NULL", f"{column} IS NULL",
        f"{column} BETWEEN 0 AND 1", f"{column} = 1 OR {column} > 1", f"NOT ({column} > {constant})",
        f"COALESCE({column}, 1) = 1",
    ])  # fmt: skip


def _aggregate(numbers: list[str], chance: random.Random) -> str:
    return chance.choice(AGGREGATES).replace("{}", chance.choice(numbers))


def _columns(query: Select) -> list[str]:
    found = []
    for i, relation in enumerate(query.relations):
        own = ("id", "name") if relation.startswith("t ") else STREAM_COLUMNS
        found += [f"a{i}.{c}" for c in own]
    return found


def _changed(query: Select, view: Select, chance: random.Random) -> Select:
    columns = _columns(query)
    shown = [i for i in view.items if i in columns] or columns
    match chance.choice(CHANGES):
        case "stronger":
            return replace(query, conditions=(*query.conditions, _condition(shown, chance)))
        case "fewer" if len(query.items) > 1:
            return replace(
                query, items=tuple(chance.sample(query.items, chance.randint(1, len(query.items))))
            )
        case "coarser" if query.keys:
            keys = tuple(chance.sample(query.keys, chance.randint(0, len(query.keys) - 1)))
            kept = tuple(i for i in query.items if i in keys or "(" in i)
            return replace(query, keys=keys, items=kept or ("COUNT(*)",))
        case "sync":
            old = next((s for s in SYNCS if s and s in query.relations[0]), "")
            new = chance.choice(COARSER.get(old, SYNCS))
            if old:
                return replace(query, relations=tuple(r.replace(old, new) for r in query.relations))
            bare = [not r.startswith("t ") and "SYNC" not in r for r in query.relations]
            added = (
                r.replace(" AS a", f"{new} AS a") if b else r
                for r, b in zip(query.relations, bare, strict=True)
            )
            return replace(query, relations=tuple(added))
        case "group" if query.keys is None:
            numbers = [c for c in shown if not c.endswith((".ts", ".name"))] or ["a0.k"]
            keys = tuple(chance.sample(shown, chance.randint(0, min(2, len(shown)))))
            calls = [_aggregate(numbers, chance) for _ in range(chance.randint(1, 2))]
            return replace(query, keys=keys, items=(*keys, *calls), distinct=False)
        case "any" if query.conditions:
            place = chance.randrange(len(query.conditions))
            changed = (*query.conditions[:place], _condition(columns, chance), *query.conditions[place + 1 :])
            return replace(query, conditions=changed)
        case "distinct":
            return replace(query, distinct=not query.distinct)
        case "having" if query.keys is not None:
            return replace(query, having=(*query.having, f"COUNT(*) > {chance.randrange(3)}"))
        case "order":
            return replace(query, conditions=tuple(chance.sample(query.conditions, len(query.conditions))))
        case "join" if len(query.relations) == 1 and query.keys is None:
            other = f"r [RANGE 5 MICROSECONDS]{chance.choice(SYNCS)} AS a1"
            items = (*query.items, "a1.v")
            return replace(
                query,
                relations=(*query.relations, other),
                conditions=(*query.conditions, "a0.k = a1.k"),
                items=items,
            )
    return query


def _written_otherwise(query: Select, chance: random.Random) -> str:
    """The query, perhaps with a subquery in FROM, or as a part of a larger one."""
    text = query.sql()
    match chance.randrange(8):
        case 0:
            return f"SELECT c0, COUNT(*) AS n FROM ({text}) AS inner_query GROUP BY c0"
        case 1:
            return f"SELECT c0 AS c0 FROM ({text}) AS inner_query WHERE c0 IS NOT NULL"
        case 2:
            return (
                f"SELECT c0 FROM ({text}) AS one EXCEPT ALL SELECT c0 FROM ({text}) AS other WHERE c0 IS NULL"
            )
    return text
