"""The key of every operator, and that it is one: no two records of a snapshot agree in it."""

from __future__ import annotations

import inspect
import random
from collections.abc import Iterable
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from everview.algebra import nodes as N
from everview.algebra.aggregates import AggregateCall
from everview.algebra.changes import ChangeRow
from everview.algebra.expressions import TRUE, Comparison, IsNull, Literal, Not
from everview.algebra.time import Grid
from everview.algebra.types import INT
from everview.algebra.values import normal
from everview.algebra.windows import Range, Rows
from everview.catalog import Catalog
from everview.reference.meaning import meaning
from everview.sql import bind_script, plan_of
from everview.sql.statements import Create
from everview.temporal.keys import keys_of
from tests.sql.oracle import DOMAIN, SCRIPT, VIEWS, Case, random_inputs
from tests.sql.queries import CASES as QUERIES
from tests.sql.queries import S9
from tests.sql.random_sql import queries
from tests.streams import NRR, Q, R, S, T, keep

W = N.Window(S, Range(5))
ROOMS = N.Alias(N.Tagged(S, ("k",)), "rooms")
OTHERS = N.Alias(N.Tagged(R, ("v", "k")), "others")
COUNT = (("n", AggregateCall("count")),)
PER_K = N.Alias(N.Aggregate(W, (("k", S.column("k")),), COUNT), "per_k")
TOTAL = N.Alias(N.Aggregate(W, (), COUNT), "total")
LOG = N.Table("log", T.columns)
POINTS = N.Project(Q, (("ts", Q.column("ts")),))
SAME = Comparison("=", ROOMS.column("k"), OTHERS.column("k"))
IDS = Comparison("=", ROOMS.column("k"), T.column("id"))
MORE = (("twice", Not(IsNull(ROOMS.column("k")))), ("name", ROOMS.column("v")), ("room", ROOMS.column("k")))


CASES: list[tuple[N.Node, tuple[int, ...] | None]] = [
    (S, None),
    (N.Values(S.columns, ()), None),
    (T, (0,)),
    (LOG, None),
    (N.Tagged(S, ("k",)), (0,)),
    (N.Tagged(R, ("v", "k")), (1, 0)),
    (N.Aggregate(W, (("v", S.column("v")), ("k", S.column("k"))), COUNT), (0, 1)),
    (N.Aggregate(W, (), COUNT), ()),
    (N.View("v", ROOMS), (0,)),
    (N.Alias(T, "t2"), (0,)),
    (N.Filter(ROOMS, TRUE), (0,)),
    (N.GroupMember(ROOMS, ROOMS.column("v"), 1), (0,)),
    (N.Window(ROOMS, Range(5)), (0,)),
    (N.Window(W, Rows(1)), None),
    (N.Coalesce(ROOMS), (0,)),
    (N.Split(ROOMS, 2), (0,)),
    (N.Synchronize(ROOMS, Grid(3)), (0,)),
    (N.SynchronizeOn(ROOMS, POINTS), (0,)),
    (N.Distinct(ROOMS), (0,)),
    (N.Distinct(W), None),
    (N.SemiJoin(OTHERS, ROOMS, SAME), (1, 0)),
    (N.AntiJoin(OTHERS, S, TRUE), (1, 0)),
    (N.SemiJoin(W, ROOMS, TRUE), None),
    (N.Project(ROOMS, MORE), (2,)),
    (N.Project(ROOMS, MORE[:2]), None),
    (N.Project(W, MORE[:0]), None),
    (N.Project(OTHERS, (("k", OTHERS.column("k")), ("v", OTHERS.column("v")))), (1, 0)),
    (N.Project(OTHERS, (("k", OTHERS.column("k")),)), None),
    (N.Project(ROOMS, (("a", ROOMS.column("k")), ("b", ROOMS.column("k")))), (0,)),
    (N.Project(TOTAL, (("c", Literal(1, INT)),)), ()),
    (N.Join(ROOMS, OTHERS, SAME), (0, 4, 3)),
    (N.Join(ROOMS, TOTAL), (0,)),
    (N.Join(ROOMS, W), None),
    (N.Join(W, ROOMS), None),
    (N.OuterJoin(ROOMS, OTHERS, SAME, "LEFT"), (0, 4, 3)),
    (N.OuterJoin(ROOMS, OTHERS, SAME, "RIGHT"), (0, 4, 3)),
    (N.OuterJoin(ROOMS, OTHERS, SAME, "FULL"), None),
    (N.OuterJoin(ROOMS, W, TRUE, "LEFT"), None),
    (N.TableJoin(ROOMS, T, IDS), (0, 3)),
    (N.TableJoin(ROOMS, T, IDS, outer=True), (0, 3)),
    (N.TableJoin(W, NRR, TRUE, retroactive=False), None),
    (N.TableJoin(ROOMS, LOG, TRUE), None),
    (N.Union(ROOMS, ROOMS), None),
    (N.Difference(ROOMS, S), None),
    (N.StrictDifference(ROOMS, S), None),
    (N.Intersection(ROOMS, S), None),
    (N.MaxUnion(ROOMS, S), None),
    (N.IStream(ROOMS), None),
    (N.DStream(ROOMS), None),
    (N.RStream(ROOMS, Grid(3)), None),
]


@pytest.mark.parametrize(("plan", "wanted"), CASES, ids=lambda v: str(v) if v is None else type(v).__name__)
def test_key(plan: N.Node, wanted: tuple[int, ...] | None) -> None:
    assert keys_of(plan) == wanted


def test_every_operator_has_a_case() -> None:
    kinds = {
        c for _, c in inspect.getmembers(N, inspect.isclass) if issubclass(c, N.Node) and c is not N.Node
    }
    assert kinds == {type(plan) for plan, _ in CASES}


def agreeing(plan: N.Node, key: Iterable[int], inputs: dict[str, list[ChangeRow]]) -> list[object]:
    """Where two records of a snapshot agree in the key, or one record occurs twice."""
    key = tuple(key)
    seen: set[object] = set()
    wrong: list[object] = []
    for (record, t), n in meaning(plan, inputs, DOMAIN).items():
        value = t, tuple(normal(record[k]) for k in key)
        if value in seen or n != 1:
            wrong.append((t, record, n))
        seen.add(value)
    return wrong


# Queries over the streams and tables of the witness, whose tables have a key here

_KEYED = SCRIPT.replace("(id INT, name STRING)", "(id INT, name STRING, PRIMARY KEY (id))")
_MORE = [
    "SELECT id, name FROM t",
    "SELECT a.id AS i, b.id AS j, a.name FROM t AS a JOIN t AS b ON a.id < b.id",
    "SELECT a.id AS i, b.id AS j, b.name FROM t AS a LEFT JOIN t AS b ON a.id = b.id + 1",
    "SELECT a.id AS i, b.id AS j, b.name FROM nrr AS a RIGHT JOIN t AS b ON a.name = b.name",
    "SELECT r.k, r.v, t.id, t.name FROM rooms AS r JOIN t ON r.v = t.id",
    "SELECT r.k, r.v, t.id, t.name FROM rooms AS r LEFT JOIN t ON r.v <= t.id",
    "SELECT a.k, b.k AS j, a.v, b.v AS w FROM latest AS a LEFT JOIN rooms AS b ON a.v <=> b.v",
    "SELECT a.k, b.k AS j, a.v, b.v AS w FROM rooms AS a RIGHT JOIN latest AS b ON a.v < b.v",
    "SELECT a.k, b.k AS j, b.n FROM latest AS a LEFT JOIN per_k AS b ON a.k = b.n",
    "SELECT p.k, p.n, q.most FROM per_k AS p LEFT JOIN summary AS q ON p.n = q.most",
    "SELECT p.n, p.k FROM per_k AS p WHERE NOT EXISTS (SELECT 1 FROM r [NOW] WHERE r.k = p.k)",
    "SELECT DISTINCT ts, k FROM rooms [RANGE 4 MICROSECONDS] SYNC EVERY INTERVAL '3' MICROSECOND",
    f"SELECT a.k, b.v, a.n FROM (SELECT k, COUNT(*) AS n FROM {S9} GROUP BY k) AS a"
    f" JOIN (SELECT v, MAX(k) AS top FROM {S9} GROUP BY v) AS b ON a.k = b.top",
]
ALL = [*QUERIES, *(Case(sql) for sql in _MORE)]


@cache
def keyed_catalog() -> Catalog:
    made = Catalog()
    for statement in bind_script(
        _KEYED + "".join(f"CREATE VIEW {n} AS {q};\n" for n, q in VIEWS.items()), made
    ):
        assert isinstance(statement, Create)
        made.add(statement.entry)
    return made


def keyed_inputs(seed: int) -> dict[str, list[ChangeRow]]:
    """Random inputs; a row of a table whose key is taken is left out."""
    inputs = random_inputs(random.Random(seed))
    for name in ("t", "nrr"):
        kept: list[ChangeRow] = []
        for row in inputs[name]:
            if not any(
                o.record[0] == row.record[0] and o.from_ < row.until and row.from_ < o.until for o in kept
            ):
                kept.append(row)
        inputs[name] = kept
    return inputs


def check(sql: str, seeds: Iterable[int]) -> bool:
    """Whether the query has a key; if so, it is tried."""
    plan = plan_of(sql, keyed_catalog())
    key = keys_of(plan)
    if key is not None:
        wrong = [(seed, found) for seed in seeds if (found := agreeing(plan, key, keyed_inputs(seed)))]
        assert not wrong, f"{sql}\nkey {key}\n{wrong[:3]}"
    return key is not None


@pytest.mark.slow
def test_keys_of_queries() -> None:
    assert all(check(sql, range(12)) for sql in _MORE)
    assert sum(check(case.sql, range(2)) for case in QUERIES) > 40


@pytest.mark.slow
@given(queries(), st.lists(st.integers(0, 10**6), min_size=2, max_size=2))
@settings(max_examples=4 * settings().max_examples)
def test_keys_of_random_queries(sql: str, seeds: list[int]) -> None:
    check(sql, seeds)


def test_a_full_join_has_no_key() -> None:
    """Two records with a NULL key, each without a partner: padded, they agree in both keys."""
    given_ = {name: [ChangeRow((None, None, 3), 3, 99)] for name in ("s", "r")}
    full = N.OuterJoin(ROOMS, OTHERS, SAME, "FULL")
    assert agreeing(full, (0, 4, 3), given_)


def test_a_key_that_is_not_projected() -> None:
    """Two rooms of one temperature: what is left does not tell them apart."""
    rows = {"s": [ChangeRow((k, 7, 1), 1, 99) for k in (1, 2)]}
    temperatures = keep(ROOMS, "v")
    assert keys_of(temperatures) is None
    assert agreeing(temperatures, (0,), rows)
