"""A sink into PostgreSQL, with a real server: killed, down, and with a constraint that is violated."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from everview.errors import EverviewError, StoreError
from tests.postgres import Server, running_server
from tests.sinks.stores import SCRIPT, HandmadeStore

pytestmark = pytest.mark.world
ROOT = Path(__file__).parents[2]
INTO = "INTO postgres(url => secret('PG_URL'), table => '{}')"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running_server() as found:
        yield found


@pytest.fixture
def made(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HandmadeStore]:
    monkeypatch.setenv("PG_URL", server.url)
    store = HandmadeStore(tmp_path / "store")
    yield store
    store.close()


def table(server: Server, name: str) -> dict[object, object]:
    found = server.rows(f"SELECT k, v FROM {name}")
    assert len(found) == len({k for k, _ in found})
    return dict(found)  # type: ignore[arg-type]


def test_upserts_deletes_and_positions(made: HandmadeStore, server: Server) -> None:
    made.step({1: "a", 2: 'it\'s, "odd"\n\\x'})
    sink = made.sink(f"CREATE SINK p FROM latest {INTO.format('totals')} MODE upsert")
    assert table(server, "totals") == made.table
    made.step({1: "", 3: "NULL", 2: None})
    made.step({4: "d"})
    assert table(server, "totals") == made.table == {1: "", 3: "NULL", 4: "d"}
    assert server.rows("SELECT sink, name, step FROM everview_positions") == [(sink.id, "p", 3)]
    assert "open" not in sink.target_sql
    with pytest.raises(StoreError, match="is written by the sink 'p'"):
        made.sink(f"CREATE SINK q FROM latest {INTO.format('totals')} MODE upsert")


def test_changes_and_rows_are_appended(made: HandmadeStore, server: Server) -> None:
    made.sink(f"CREATE SINK c FROM latest {INTO.format('log')}")
    made.sink(f"CREATE SINK a FROM pairs {INTO.format('lines')} MODE append")
    made.step({1: "a"})
    made.step({1: "b", 2: "c"})
    assert server.rows("SELECT tag, k, v, extract(second from at)::int FROM log ORDER BY at, k") == [
        ("+", 1, "a", 1), ("u", 1, "b", 2), ("+", 2, "c", 2),
    ]  # fmt: skip
    assert server.rows("SELECT k, v FROM lines ORDER BY 1, 2") == [(1, "a"), (1, "b"), (2, "c")]


def test_killed_after_the_transaction(server: Server, tmp_path: Path) -> None:
    script = f"""
import os, signal
from pathlib import Path
from tests.sinks.stores import HandmadeStore
from everview.sinks.position import SinkPositions

made = HandmadeStore(Path({str(tmp_path / "store")!r}))
made.sink("CREATE SINK c FROM latest {INTO.format("killed")}")
made.sink("CREATE SINK u FROM latest {INTO.format("killed_too")} MODE upsert")
made.step({{1: "a", 2: "b"}})
SinkPositions.write = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
made.step({{1: "c", 2: None}})
"""
    around = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}", "PG_URL": server.url}
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=around)
    assert done.returncode == -signal.SIGKILL
    assert server.rows("SELECT count(*) FROM killed") == [(4,)]
    (tmp_path / "store" / "everview.lock").unlink(missing_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PG_URL", server.url)
        made = HandmadeStore(tmp_path / "store")
        made.table = {1: "c"}
        made.step({3: "d"})
        assert server.rows("SELECT tag, k, v FROM killed ORDER BY at, tag, k") == [
            ("+", 1, "a"), ("+", 2, "b"), ("-", 2, "b"), ("u", 1, "c"), ("+", 3, "d"),
        ]  # fmt: skip
        assert table(server, "killed_too") == made.table
        made.close()


def test_down_for_20_steps(made: HandmadeStore, server: Server) -> None:
    made.sink(f"CREATE SINK u FROM latest {INTO.format('down_table')} MODE upsert")
    made.sink(f"CREATE SINK c FROM latest {INTO.format('down_log')}")
    made.step({1: "a", 9: "z"})
    server.stop()
    try:
        with pytest.warns(UserWarning, match="set aside") as told:
            made.step({1: "b"})
        assert len(told) == 2
        assert all("tester:open" not in str(warning.message) for warning in told)
        for number in range(19):
            made.step({number % 4: f"{number}", 9: None}, write=number % 9 == 0)
    finally:
        server.start()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made.step({5: "e"})
    assert table(server, "down_table") == made.table
    log = server.rows("SELECT tag, k FROM down_log ORDER BY at, k")
    assert len(log) == 2 + 1 + 19 + 1 + 1
    assert server.rows("SELECT DISTINCT step FROM everview_positions WHERE target LIKE '\"down%'") == [(22,)]


def test_a_constraint_of_the_table_is_violated(made: HandmadeStore, server: Server) -> None:
    server.execute("CREATE TABLE guarded (k int PRIMARY KEY, v text CHECK (length(v) < 5), note text)")
    sink = made.sink(f"CREATE SINK g FROM latest {INTO.format('guarded')} MODE upsert")
    made.sink(f"CREATE SINK free FROM latest {INTO.format('free')} MODE upsert")
    made.step({1: "a"})
    with pytest.warns(UserWarning, match="'g' was set aside.*violates check constraint"):
        made.step({1: "b", 2: "far too long"})
    made.step({3: "c"})
    assert table(server, "guarded") == {1: "a"}, "nothing of the step"
    assert table(server, "free") == made.table
    with pytest.raises(StoreError, match=r"does not go on yet: .*violates check constraint"):
        made.runner.resume(sink, made.views)
    server.execute("ALTER TABLE guarded DROP CONSTRAINT guarded_v_check")
    made.runner.resume(sink, made.views)
    assert table(server, "guarded") == made.table


def test_a_key_that_is_none_is_told(made: HandmadeStore, server: Server) -> None:
    made.sink(f"CREATE SINK k FROM pairs {INTO.format('by_k')} MODE upsert KEY (k)")
    made.step({1: "a", 2: "b"})
    assert table(server, "by_k") == made.table
    with pytest.warns(UserWarning, match="the view 'pairs' has several rows with k = 1"):
        made.step({1: "c"})


def test_history_that_is_gone_is_replaced_by_the_answer(made: HandmadeStore, server: Server) -> None:
    from dataclasses import replace

    made.sink(f"CREATE SINK h FROM latest {INTO.format('short')} MODE upsert")
    made.step({1: "a", 2: "b"})
    made.step({1: None}, write=False)
    made.step({3: "c"}, write=False)
    made.catalog.entries["latest"] = replace(made.catalog.get("latest"), history=1, least_changes=0)
    made.runner.write_all(made.views, at_once=True)
    assert table(server, "short") == made.table


def test_columns_of_every_type(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PG_URL", server.url)
    types = ["BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10,2)", "STRING",
             "BINARY", "DATE", "TIMESTAMP"]  # fmt: skip
    columns = ", ".join(f'`c%s {{}} "{i}` {type_}' for i, type_ in enumerate(types))
    made = HandmadeStore(
        tmp_path / "store",
        SCRIPT
        + f"CREATE STREAM w ({columns}, ts TIMESTAMP, TIMELINE ts); CREATE VIEW wide AS SELECT * FROM w",
    )
    made.sink(f"CREATE SINK w FROM wide {INTO.format('wide table')} MODE append")
    names = server.rows("SELECT data_type FROM information_schema.columns WHERE table_name = 'wide table'")
    assert len(names) == len(types) + 1
    made.close()


@pytest.mark.parametrize(
    ("sql", "what"),
    [
        ("FROM latest INTO postgres(url => 'postgresql://127.0.0.1:1/x', table => 't')", "cannot be written"),
        ("FROM latest INTO postgres(url => secret('PG_URL'))", "postgres needs the option table"),
        ("FROM pairs INTO postgres(url => secret('PG_URL'), table => 't') MODE upsert", "needs a KEY"),
        (
            "FROM latest INTO postgres(url => secret('PG_URL'), table => 'unfit')",
            'column "tag" does not exist',
        ),
        (
            "FROM latest INTO postgres(url => secret('PG_URL'), table => 'unfit') MODE upsert",
            "there is no unique or exclusion constraint",
        ),
    ],
)
def test_mistakes_are_told(made: HandmadeStore, server: Server, sql: str, what: str) -> None:
    server.execute("CREATE TABLE IF NOT EXISTS unfit (k int, v text)")
    with pytest.raises(EverviewError, match=what):
        made.sink(f"CREATE SINK f {sql}")
    assert not made.catalog.sinks
