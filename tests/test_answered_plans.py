"""Which views a view is answered from, and that its plan stays when these come, change and go. No JVM."""

from __future__ import annotations

from dataclasses import replace

import pytest

from everview.catalog import Catalog
from everview.compile_store import CompiledStore, StoredViews, compile_store
from everview.errors import SqlError
from everview.explain import explain_script
from everview.operators import Operator
from everview.operators.base import stateful_operators
from everview.plan.explain import MeasuredStore
from everview.plan.statistics import Statistics
from everview.plan.views import KeptPlan, ViewStart
from everview.sql import bind_script, declare
from everview.storage.plans import decode_plan, encode_plan

STREAMS = """
CREATE STREAM s (k INT, g INT, v INT, ts TIMESTAMP, TIMELINE ts);
CREATE TAGGED STREAM latest OVER s KEY (k);
CREATE VIEW wide AS SELECT k, v FROM latest WHERE v > 1;
"""
NARROW = "SELECT k FROM latest WHERE v > 3"


class KeptStore:
    """What a store keeps of its views between processes: the catalog, the plans as JSON, their digests."""

    def __init__(self, script: str) -> None:
        self.catalog = Catalog()
        self.plans: dict[str, KeptPlan] = {}
        self._files: dict[str, bytes] = {}
        self.carry_out(script)

    def carry_out(self, script: str, answers: bool = True) -> CompiledStore:
        """Change the catalog, and plan what is new beside what runs."""
        before = replace(self.opened(), answers=answers)
        for statement in bind_script(script, self.catalog):
            declare(statement, self.catalog)
        after = compile_store(self.catalog.copy(), {}, before)
        for name, view in after.views.items():
            self._files[view.physical.digest] = encode_plan(view.physical)
            if self.plans.get(name) is None or self.plans[name].plan != view.physical.digest:
                self.plans[name] = view.keep()
        self.plans = {name: plan for name, plan in self.plans.items() if name in after.views}
        return after

    def opened(self) -> CompiledStore:
        """The views as a process has them that opens the store."""
        stored = StoredViews(self.plans, {}, {}, self._load)
        return compile_store(Catalog.from_json(self.catalog.to_json()), {}, None, stored)

    def _load(self, digest: str) -> Operator:
        return decode_plan(self._files[digest])


def test_a_plan_is_decided_once() -> None:
    """Opened again, and after other views with and without answers, a view has the same plan."""
    store = KeptStore(STREAMS)
    first = store.carry_out(f"CREATE VIEW narrow AS {NARROW}").views["narrow"]
    assert store.plans["narrow"].answered == ("wide",)
    assert first.remark == "answered from view wide"
    store.carry_out(f"CREATE VIEW own AS {NARROW}", answers=False)
    assert store.plans["own"].answered == ()
    again = store.opened()
    assert again.plans["narrow"] == first.physical
    assert not again.outdated
    assert again.plans["own"] != first.physical


@pytest.mark.parametrize(
    "change",
    [
        "DROP VIEW wide",
        "CREATE OR REPLACE VIEW wide AS SELECT k, v FROM latest WHERE v > 9",
        "DROP VIEW wide; CREATE VIEW wide AS SELECT k, v FROM latest WHERE v > 0",
    ],
)
def test_the_matched_view_goes_and_the_plan_stays(change: str) -> None:
    store = KeptStore(STREAMS)
    made = store.carry_out(f"CREATE VIEW narrow AS {NARROW}").plans["narrow"]
    for views in (store.carry_out(change), store.opened()):
        assert views.plans["narrow"] == made
        assert not views.outdated
        assert {o.name.casefold() for o in stateful_operators([made])} <= views.operator_names()


def test_explain_shows_what_runs() -> None:
    store = KeptStore(STREAMS)
    store.carry_out(f"CREATE VIEW narrow AS {NARROW}")
    text = f"EXPLAIN CREATE OR REPLACE VIEW narrow AS {NARROW}"

    def explained() -> str:
        return str(
            explain_script(text, store.catalog, {}, measured=MeasuredStore(Statistics(), {}, store.plans))
        )

    assert explained().endswith("\nanswered from view wide")
    store.carry_out("CREATE OR REPLACE VIEW wide AS SELECT k, v FROM latest WHERE v > 9")
    assert explained().endswith("answered from wide, as that was when this view was planned")


def test_a_view_of_the_same_plan_needs_no_other_one() -> None:
    store = KeptStore(STREAMS)
    views = store.carry_out("CREATE VIEW same AS SELECT k AS a, v AS b FROM latest WHERE v > 1")
    assert views.plans["same"] == views.plans["wide"]
    assert views.views["same"].remark == "answered from view wide"


def test_views_that_may_know_less_answer_nothing() -> None:
    """One that begins at the bound, one that was set aside, one that goes by the clock of an event stream."""
    catalog = Catalog()
    script = f"{STREAMS} CREATE VIEW narrow AS {NARROW};"
    for statement in bind_script(script, catalog):
        declare(statement, catalog)
    late = compile_store(catalog, {"wide": ViewStart(7, ())})
    assert not late.views["narrow"].answering
    aside = compile_store(catalog, stored=StoredViews({}, {}, {"wide"}, KeptStore(STREAMS)._load))
    assert not aside.views["narrow"].answering
    assert compile_store(catalog).views["narrow"].answered_from == ("wide",)
    events = Catalog()
    over = """
        CREATE STREAM e TIMELINE ts AS SELECT k, v, ts FROM s WHERE v > 0;
        CREATE VIEW seen AS SELECT k, v FROM e WHERE v > 1;
        CREATE VIEW fewer AS SELECT k FROM e WHERE v > 2;
    """
    for statement in bind_script(STREAMS + over, events):
        declare(statement, events)
    assert not compile_store(events).views["fewer"].answering


HELD = "s [RANGE 1 HOUR] SYNC EVERY INTERVAL '1' MINUTE"
FINE = f"SELECT g, k, COUNT(*) AS n FROM {HELD} GROUP BY g, k"
COARSE = f"SELECT g, COUNT(*) AS n FROM {HELD} GROUP BY g"


@pytest.mark.parametrize(("keys", "answered"), [(5, True), (100_000, False)])
def test_finer_groups_are_read_where_they_are_few(keys: int, answered: bool) -> None:
    """Paper 5, 10.6: sharing wins where groups are few, and loses where they are as many as the rows."""
    stream = f"""
        CREATE STREAM s (k INT, g INT, v INT, ts TIMESTAMP, TIMELINE ts)
          WITH (rate => 1000, distinct(k) => {keys}, distinct(g) => 5);
        CREATE VIEW fine AS {FINE};
    """
    shown = str(explain_script(f"{stream} EXPLAIN COST CREATE VIEW coarse AS {COARSE};"))
    chosen, other = ("from view fine", "from its own inputs")[:: 1 if answered else -1]
    assert f"answer: {chosen}, ≈" in shown
    assert f"  rejected: {other}, ≈" in shown
    said = "answered from view fine" if answered else "not answered from view fine: that would cost more"
    assert f"\n{said}\n" in shown


def test_set() -> None:
    catalog = Catalog()
    for text, on in (("off", False), ("ON", True), ("false", False), ("'true'", True)):
        (statement,) = bind_script(f"SET answer_from_views = {text}", catalog)
        assert statement.on is on  # type: ignore[union-attr]
    script = f"{STREAMS} SET answer_from_views = off; CREATE VIEW narrow AS {NARROW};"
    assert "answered" not in str(explain_script(script))
    with pytest.raises(SqlError, match="there is no setting 'answer_from_view'") as wrong:
        list(bind_script("SET answer_from_view = off", catalog))
    assert "did you mean 'answer_from_views'?" in str(wrong.value)
    with pytest.raises(SqlError, match="answer_from_views is on or off, and not '5'") as wrong:
        list(bind_script("SET answer_from_views = 5", catalog))
    assert "choices: on, off" in str(wrong.value)
