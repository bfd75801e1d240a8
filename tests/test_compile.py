"""The way of a view in one place: each definition is bound once, and what was checked is what runs."""

from __future__ import annotations

from pathlib import Path

import pytest

import everview
from everview.algebra import nodes as N
from everview.catalog import Catalog, ViewEntry
from everview.compile import compile_view
from everview.compile_store import CompiledStore, compile_store
from everview.errors import CatalogError, TemporalError
from everview.explain import explain_script
from everview.operators.base import stateful_operators
from everview.plan.views import ViewStart
from everview.sql import bind, bind_script, declare

STREAM = "CREATE STREAM s (k INT, v INT, ts TIMESTAMP, TIMELINE ts);"
CHAIN = 20


def chain(size: int = CHAIN) -> str:
    views = ["CREATE VIEW v0 AS SELECT k, v FROM s [RANGE 10 SECONDS]"]
    views += [f"CREATE VIEW v{i} AS SELECT k, v FROM v{i - 1} WHERE v > {i}" for i in range(1, size)]
    return ";".join(views)


def catalog_of(script: str) -> Catalog:
    catalog = Catalog()
    for statement in bind_script(script, catalog):
        declare(statement, catalog)
    return catalog


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts of definitions that are bound."""
    texts: list[str] = []
    bind_query = bind.bind_query

    def counted(node, context):  # type: ignore[no-untyped-def]
        texts.append(context.script.text)
        return bind_query(node, context)

    monkeypatch.setattr(bind, "bind_query", counted)
    return texts


def test_chained_views_are_bound_once_a_change_of_the_catalog(bound: list[str]) -> None:
    """20 chained views: each when it is made, and once more from the catalog."""
    catalog = catalog_of(STREAM + chain())
    compile_store(catalog)
    assert len(bound) <= 2 * CHAIN
    before = len(bound)
    compile_store(catalog)
    compile_view("SELECT * FROM v19", catalog)
    assert len(bound) <= before + 1  # only the query itself


def test_a_replaced_view_and_those_above_it_are_bound_again(bound: list[str]) -> None:
    catalog = catalog_of(STREAM + chain(6))
    first = compile_store(catalog)
    bound.clear()
    for statement in bind_script("CREATE OR REPLACE VIEW v3 AS SELECT k, v FROM v2 WHERE v > 99", catalog):
        declare(statement, catalog)
    second = compile_store(catalog, before=first)
    assert all(second.views[f"v{i}"] is first.views[f"v{i}"] for i in range(3))
    assert all(second.views[f"v{i}"] is not first.views[f"v{i}"] for i in range(3, 6))
    assert second.plans == compile_store(catalog_again(catalog)).plans


def catalog_again(catalog: Catalog) -> Catalog:
    """The same catalog as a store that is opened again has it: nothing is remembered."""
    return Catalog.from_json(catalog.to_json())


def test_a_dropped_name_made_again_is_bound_again() -> None:
    catalog = catalog_of(STREAM + "CREATE VIEW a AS SELECT k FROM s; CREATE VIEW b AS SELECT * FROM a")
    script = "DROP VIEW b; DROP VIEW a; CREATE VIEW a AS SELECT v FROM s; CREATE VIEW b AS SELECT * FROM a"
    for statement in bind_script(script, catalog):
        declare(statement, catalog)
    assert compile_store(catalog).views["b"].plan.schema.names == ("v",)
    assert compile_store(catalog).plans == compile_store(catalog_again(catalog)).plans


def test_a_view_that_would_read_itself_is_refused_though_it_is_known() -> None:
    catalog = catalog_of(STREAM + "CREATE VIEW a AS SELECT k FROM s; CREATE VIEW b AS SELECT * FROM a")
    compile_store(catalog)
    with pytest.raises(CatalogError, match="depend on itself"):
        list(bind_script("CREATE OR REPLACE VIEW a AS SELECT k FROM b", catalog))


def compiled(script: str) -> CompiledStore:
    return compile_store(catalog_of(script))


def test_a_view_over_a_view_shares_its_operators() -> None:
    store = compiled(
        STREAM
        + "CREATE VIEW a AS SELECT k, COUNT(*) AS n FROM s [RANGE 5 SECONDS] WHERE v > 0 GROUP BY k;"
        + "CREATE VIEW b AS SELECT MAX(n) AS most FROM a WHERE n > 1"
    )
    below = set(stateful_operators([store.plans["a"]]))
    assert below < set(stateful_operators([store.plans["b"]]))
    assert store.views["b"].reads == (store.views["a"],)


def test_what_cannot_run_is_refused_on_the_way() -> None:
    catalog = catalog_of(STREAM + "CREATE TAGGED STREAM latest OVER s KEY (k)")
    with pytest.raises(TemporalError):
        compile_view("SELECT k FROM latest [ROWS 2]", catalog)


def test_the_plan_that_is_explained_is_the_plan_that_runs() -> None:
    """Also for a view that was made on a store that had run."""
    script = (
        "CREATE STREAM f (k INT, ts TIMESTAMP, TIMELINE ts) FROM csv('f');"
        "CREATE VIEW a AS SELECT DISTINCT k FROM f [RANGE 5 SECONDS];"
        "CREATE VIEW b AS SELECT DISTINCT k FROM f [RANGE 5 SECONDS]"
    )
    catalog = catalog_of(script)
    starts = {"b": ViewStart(7)}
    store = compile_store(catalog, starts)
    shown = explain_script("EXPLAIN SELECT * FROM b", catalog, starts)
    named = {physical.name for operator in shown.operators for physical in operator.operators}
    assert named == {o.name for o in stateful_operators([store.plans["b"]])}
    assert named.isdisjoint(o.name for o in stateful_operators([store.plans["a"]]))


def test_compiled_views_know_their_meaning_and_their_rules() -> None:
    catalog = catalog_of(STREAM + "CREATE VIEW a (x) AS SELECT k FROM s [NOW] WHERE v > 0")
    view = compile_store(catalog).views["a"]
    assert isinstance(view.meaning, N.Project)
    assert view.plan.schema.names == ("x",)
    assert view.rules == ("push_filter_below_window",)
    assert isinstance(catalog.get("a"), ViewEntry)


@pytest.mark.slow
def test_views_created_one_by_one_are_bound_a_few_times_each(tmp_path: Path, bound: list[str]) -> None:
    """However many there are: each is bound when it is created, and not again when the next one is."""
    with everview.connect(str(tmp_path / "store")) as db:
        db.execute(STREAM)
        for i in range(30):
            db.execute(f"CREATE VIEW v{i} AS SELECT k FROM s WHERE k > {i}")
    assert 30 <= len(bound) <= 3 * 30


def test_a_view_of_many_is_created_without_a_walk_over_all_plans(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store without state has no older plans; a script of many views would walk all of them after each."""
    monkeypatch.setattr(CompiledStore, "operator_names", lambda *_: pytest.fail("all plans were walked"))
    with everview.connect(str(tmp_path / "store"), partitions=1) as db:
        db.execute(STREAM + chain())
