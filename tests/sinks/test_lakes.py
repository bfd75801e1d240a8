"""Sinks into Delta and Iceberg tables, by their Python libraries: killed, away, and with odd rows."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from everview.errors import EverviewError
from everview.sinks import rows as sink_rows
from tests.sinks.stores import HandmadeStore

pytestmark = pytest.mark.world
ROOT = Path(__file__).parents[2]


class Lake:
    """One of the two kinds of tables, in a folder."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.folder = kind, folder / kind
        self.folder.mkdir()

    def into(self, name: str) -> str:
        if self.kind == "delta":
            return f"delta('{self.folder}/{name}')"
        where = f"catalog.type => 'sql', catalog.uri => 'sqlite:///{self.folder}/c.db'"
        return f"iceberg(table => 'out.{name}', {where}, catalog.warehouse => 'file://{self.folder}')"

    def rows(self, name: str) -> list[dict[str, Any]]:
        if self.kind == "delta":
            import deltalake

            found = deltalake.DeltaTable(str(self.folder / name)).to_pyarrow_table()
        else:
            from pyiceberg.catalog import load_catalog

            where = {
                "type": "sql",
                "uri": f"sqlite:///{self.folder}/c.db",
                "warehouse": f"file://{self.folder}",
            }
            found = load_catalog("everview", **where).load_table(f"out.{name}").scan().to_arrow()
        records: list[dict[str, Any]] = found.to_pylist()
        return records

    def table(self, name: str) -> dict[int, str]:
        rows = self.rows(name)
        assert len(rows) == len({row["k"] for row in rows})
        return {row["k"]: row["v"] for row in rows}


@pytest.fixture(params=["delta", "iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    return Lake(request.param, tmp_path)


@pytest.fixture
def made(tmp_path: Path) -> Iterator[HandmadeStore]:
    store = HandmadeStore(tmp_path / "store")
    yield store
    store.close()


def changes(rows: list[dict[str, Any]]) -> list[tuple[str, int, str]]:
    return [(r["tag"], r["k"], r["v"]) for r in sorted(rows, key=lambda r: (r["at"], r["k"]))]


def test_all_modes(made: HandmadeStore, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    made.step({1: "a", 2: "b"})
    made.sink(f"CREATE SINK u FROM latest INTO {lake.into('u')} MODE upsert")
    made.sink(f"CREATE SINK c FROM latest INTO {lake.into('c')}")
    made.sink(f"CREATE SINK a FROM pairs INTO {lake.into('a')} MODE append")
    assert lake.table("u") == made.table
    made.step({1: "c", 2: None, 3: "d"})
    made.step({4: 'it\'s "odd"'})
    assert lake.table("u") == made.table
    assert changes(lake.rows("c")) == [
        ("+", 1, "a"), ("+", 2, "b"), ("u", 1, "c"), ("-", 2, "b"), ("+", 3, "d"), ("+", 4, "it's \"odd\""),
    ]  # fmt: skip
    assert len(lake.rows("a")) == 5
    made.step(dict.fromkeys((1, 3, 4)))
    assert lake.table("u") == {}
    monkeypatch.setattr(sink_rows, "BUCKET", 4)  # in several parts
    made.step({k: f"{k}" for k in range(9)})
    assert lake.table("u") == made.table
    assert len(lake.rows("a")) == 14


def test_killed_after_the_commit(lake: Lake, tmp_path: Path) -> None:
    script = f"""
import os, signal
from pathlib import Path
from tests.sinks.stores import HandmadeStore
from everview.sinks.position import SinkPositions

made = HandmadeStore(Path({str(tmp_path / "store")!r}))
made.sink({f"CREATE SINK c FROM latest INTO {lake.into('c')}"!r})
made.step({{1: "a", 2: "b"}})
SinkPositions.write = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
made.step({{1: "c", 2: None}})
"""
    around = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=around)
    assert done.returncode == -signal.SIGKILL
    assert len(lake.rows("c")) == 4
    (tmp_path / "store" / "everview.lock").unlink(missing_ok=True)
    made = HandmadeStore(tmp_path / "store")
    made.table = {1: "c"}
    made.step({3: "d"})
    assert changes(lake.rows("c")) == [
        ("+", 1, "a"), ("+", 2, "b"), ("u", 1, "c"), ("-", 2, "b"), ("+", 3, "d"),
    ]  # fmt: skip
    made.close()


def test_away_for_20_steps_and_rewritten(made: HandmadeStore, lake: Lake, tmp_path: Path) -> None:
    sink = made.sink(f"CREATE SINK u FROM latest INTO {lake.into('u')} MODE upsert")
    made.sink(f"CREATE SINK c FROM latest INTO {lake.into('c')}")
    made.step({1: "a", 9: "z"})
    shutil.move(lake.folder, tmp_path / "away")
    with pytest.warns(UserWarning, match="set aside"):
        made.step({1: "b"})
    for number in range(19):
        made.step({number % 4: f"{number}", 9: None}, write=number % 9 == 0)
    shutil.rmtree(lake.folder, ignore_errors=True)
    shutil.move(tmp_path / "away", lake.folder)
    made.step({5: "e"})
    assert lake.table("u") == made.table
    assert len(lake.rows("c")) == 2 + 1 + 19 + 1 + 1
    made.runner.positions.delete(sink.id)
    with pytest.warns(UserWarning, match="how far it has come is not known"):
        made.step({6: "f", 1: None})
    made.runner.resume(sink, made.views)
    assert lake.table("u") == made.table


def test_what_a_table_does_not_take_is_told(made: HandmadeStore, lake: Lake) -> None:
    made.sink(f"CREATE SINK u FROM latest INTO {lake.into('u')} MODE upsert")
    with pytest.raises(EverviewError, match="the table of the sink 'c' has no column 'tag'"):
        made.sink(f"CREATE SINK c FROM latest INTO {lake.into('u')}")
    assert list(made.catalog.sinks) == ["u"]
    if lake.kind == "iceberg":
        made.step({1: "a"})
        with pytest.warns(UserWarning, match="has NULL in its KEY"):
            made.step({None: "b"})
