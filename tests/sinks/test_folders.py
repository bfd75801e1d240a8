"""Folders of files, and what is the same for all sinks, without Spark: down, killed, rewound, put back."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from everview.catalog import SecretReference
from everview.errors import EverviewError, PlanError, SqlError, StoreError
from everview.execute.tasks import write_run
from everview.operators.columnar.frame import CHANGE
from everview.sinks import rows as sink_rows
from everview.sinks.position import SinkPositions
from everview.sinks.secrets import secret_value
from everview.sinks.targets import load_library
from everview.storage.manifest import Rewound
from everview.storage.runs import TraceId
from tests.sinks.stores import FOREVER, SCRIPT, SECOND, START, HandmadeStore

ROOT = Path(__file__).parents[2]


@pytest.fixture
def made(tmp_path: Path) -> Iterator[HandmadeStore]:
    store = HandmadeStore(tmp_path / "store")
    yield store
    store.close()


def table_of(folder: Path) -> dict[int, str]:
    """What a reader of all changes ends up with."""
    found: dict[int, str] = {}
    for part in sorted(folder.glob("step=*/part-*.parquet")):
        for tag, _, k, v in pl.read_parquet(part).rows():
            assert (k in found) == (tag in "-u"), "a change twice, or one that is missing"
            if tag == "-":
                del found[k]
            else:
                found[k] = v
    return found


def test_every_step_has_a_folder(made: HandmadeStore, tmp_path: Path) -> None:
    made.sink(f"CREATE SINK f FROM latest INTO parquet('{tmp_path}/f')")
    made.step({1: "a", 2: "b"})
    made.step({})
    made.step({1: "c", 2: None})
    names = sorted(path.name for path in (tmp_path / "f").glob("step=*"))
    assert names == ["step=00000001", "step=00000003"]
    assert table_of(tmp_path / "f") == made.table == {1: "c"}


def test_a_new_sink_begins_with_the_present_answer(made: HandmadeStore, tmp_path: Path) -> None:
    made.step({1: "a", 2: "b"})
    made.step({2: "c"})
    made.sink(f"CREATE SINK f FROM latest INTO parquet('{tmp_path}/f')")
    first = pl.read_parquet(f"{tmp_path}/f/step=00000002/part-00000.parquet")
    assert first.drop("at").rows() == [("+", 1, "a"), ("+", 2, "c")]
    made.step({3: "d"})
    assert table_of(tmp_path / "f") == made.table


@pytest.mark.slow
def test_a_target_that_is_away_for_20_steps_gets_them_all(made: HandmadeStore, tmp_path: Path) -> None:
    made.sink(f"CREATE SINK f FROM latest INTO parquet('{tmp_path}/f')")
    made.sink(f"CREATE SINK other FROM latest INTO parquet('{tmp_path}/other')")
    made.step({1: "a"})
    shutil.move(tmp_path / "f", tmp_path / "away")
    with pytest.warns(UserWarning, match="'f' was set aside, and the others go on.*it is tried again"):
        made.step({1: "b"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it is said once
        for number in range(19):
            made.step({number % 3: f"{number}"})
    assert table_of(tmp_path / "other") == made.table
    shutil.move(tmp_path / "away", tmp_path / "f")
    made.step({9: "z"})
    assert len(list((tmp_path / "f").glob("step=*"))) == 22
    assert table_of(tmp_path / "f") == made.table


def test_a_sink_that_failed_waits_before_it_is_tried_again(made: HandmadeStore, tmp_path: Path) -> None:
    made.sink(f"CREATE SINK f FROM latest INTO parquet('{tmp_path}/f')")
    shutil.move(tmp_path / "f", tmp_path / "away")
    with pytest.warns(UserWarning, match="set aside"):
        made.step({1: "a"})
    shutil.move(tmp_path / "away", tmp_path / "f")
    made.runner.write_all(made.views)
    assert not list((tmp_path / "f").glob("step=*"))
    made.runner.write_all(made.views, at_once=True)
    assert table_of(tmp_path / "f") == made.table


@pytest.mark.slow
def test_killed_between_the_target_and_the_position(tmp_path: Path) -> None:
    """The process is killed when the step is in the target and the store does not know it yet."""
    script = f"""
import os, signal
from pathlib import Path
from everview.sinks.targets import load_library
from tests.sinks.stores import HandmadeStore
from everview.sinks.position import SinkPositions

made = HandmadeStore(Path({str(tmp_path / "store")!r}))
made.sink("CREATE SINK f FROM latest INTO parquet('{tmp_path}/f')")
made.step({{1: "a", 2: "b"}})
SinkPositions.write = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
made.step({{1: "c", 2: None}})
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    )
    assert done.returncode == -signal.SIGKILL
    assert len(list((tmp_path / "f").glob("step=*"))) == 2
    (tmp_path / "store" / "everview.lock").unlink(missing_ok=True)
    made = HandmadeStore(tmp_path / "store")
    made.table = {1: "c"}
    [sink] = made.catalog.sinks.values()
    position = made.runner.positions.read(sink.id)
    assert position is not None
    assert (position.step, made.manifest.step) == (1, 2)
    made.step({3: "d"})
    assert table_of(tmp_path / "f") == made.table
    made.close()


def test_what_is_written_half_does_not_count(made: HandmadeStore, tmp_path: Path) -> None:
    made.sink(f"CREATE SINK f FROM latest INTO parquet('{tmp_path}/f')")
    half = tmp_path / "f" / ".step=00000001.tmp"
    half.mkdir()
    (half / "part-00007.parquet").write_bytes(b"half")
    made.step({1: "a"})
    assert not half.exists()
    assert [p.name for p in (tmp_path / "f" / "step=00000001").iterdir()] == ["part-00000.parquet"]


def test_a_rewind_sets_a_sink_aside_until_it_is_resumed(made: HandmadeStore, tmp_path: Path) -> None:
    sink = made.sink(f"CREATE SINK f FROM latest INTO parquet('{tmp_path}/f')")
    made.step({1: "a"})
    made.step({1: "b"})
    manifest = made.manifest
    back = replace(manifest, step=3, bound=START + SECOND, rewound=(Rewound(3, START + SECOND, 2),))
    made.store.write_manifest(back)
    made.table = {1: "a"}
    with pytest.warns(UserWarning, match="taken back to .* in step 3.*ALTER SINK f RESUME"):
        made.runner.write_all(made.views, at_once=True)
    made.step({2: "x"})
    assert table_of(tmp_path / "f") == {1: "b"}
    made.runner.resume(sink, made.views)
    # The handmade rows of the void step are still there; a rewind computes the view anew.
    assert sorted(p.name for p in (tmp_path / "f").glob("step=*")) == ["step=00000004"]


def test_a_store_that_was_put_back_does_not_go_on_by_itself(made: HandmadeStore, tmp_path: Path) -> None:
    sink = made.sink(f"CREATE SINK f FROM latest INTO parquet('{tmp_path}/f')")
    made.step({1: "a"})
    made.runner.positions.delete(sink.id)  # a backup does not have it
    with pytest.warns(UserWarning, match="how far it has come is not known"):
        made.step({2: "b"})
    assert table_of(tmp_path / "f") == {1: "a"}
    made.runner.resume(sink, made.views)
    assert table_of(tmp_path / "f") == made.table
    made.step({1: None})
    assert table_of(tmp_path / "f") == made.table


def test_a_target_that_is_ahead_is_left_alone(made: HandmadeStore, tmp_path: Path) -> None:
    made.sink(f"CREATE SINK f FROM latest INTO parquet('{tmp_path}/f')")
    made.step({1: "a"})
    shutil.copytree(tmp_path / "f" / "step=00000001", tmp_path / "f" / "step=00000009")
    with pytest.warns(UserWarning, match="has step 9 of this sink, and the store is at step 2"):
        made.step({2: "b"})


def test_history_that_is_gone_is_said(made: HandmadeStore, tmp_path: Path) -> None:
    made.sink(f"CREATE SINK f FROM latest INTO parquet('{tmp_path}/f')")
    made.step({1: "a"})
    made.step({1: "b"}, write=False)
    made.step({1: "c"}, write=False)
    entry = made.catalog.get("latest")
    made.catalog.entries["latest"] = replace(entry, history=1, least_changes=0)
    with pytest.warns(
        UserWarning, match="it needs the changes after step 1, and the history of the view 'latest'"
    ):
        made.runner.write_all(made.views, at_once=True)


def test_many_rows_are_written_in_parts(
    made: HandmadeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink_rows, "BUCKET", 40)
    made.sink(f"CREATE SINK f FROM latest INTO parquet('{tmp_path}/f')")
    made.step({k: f"{k}" for k in range(100)})
    made.step({k: f"{k}!" for k in range(50)})
    assert len(list((tmp_path / "f" / "step=00000001").iterdir())) > 1
    assert table_of(tmp_path / "f") == made.table


def test_folders_of_others_are_refused(made: HandmadeStore, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("x")
    with pytest.raises(StoreError, match="is not empty"):
        made.sink(f"CREATE SINK f FROM latest INTO parquet('{tmp_path}/full')")
    made.sink(f"CREATE SINK f FROM latest INTO parquet('{tmp_path}/f')")
    with pytest.raises(StoreError, match="holds what another sink has written"):
        made.sink(f"CREATE SINK g FROM latest INTO parquet('{tmp_path}/f')")
    assert list(made.catalog.sinks) == ["f"]
    assert len(list(SinkPositions(made.store.files).ids())) == 1


def test_secrets_are_looked_up_and_never_kept(
    made: HandmadeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StoreError, match="there is no secret 'OUT'"):
        made.sink("CREATE SINK f FROM latest INTO parquet(secret('OUT'))")
    file = tmp_path / "secret"
    file.write_text(f"{tmp_path}/hidden\n")
    monkeypatch.setenv("OUT_FILE", str(file))
    sink = made.sink("CREATE SINK f FROM latest INTO parquet(secret('OUT'))")
    made.step({1: "a"})
    assert table_of(tmp_path / "hidden") == made.table
    shutil.rmtree(tmp_path / "hidden")
    with pytest.warns(UserWarning, match="set aside") as told:
        made.step({1: "b"})
    assert "hidden" not in str(told[0].message)
    assert sink.target_sql == "parquet(secret('OUT'))"
    for path in (tmp_path / "store").rglob("*"):
        assert not path.is_file() or b"hidden" not in path.read_bytes(), path
    monkeypatch.setenv("OUT", "elsewhere")
    assert secret_value(SecretReference("OUT")) == "elsewhere"


@pytest.mark.parametrize(
    ("sql", "what", "next_step"),
    [
        (
            "FROM latest INTO parquet('x') MODE append",
            "take others back",
            "write MODE changes, or MODE upsert",
        ),
        ("FROM s INTO parquet('x')", "'s' is a stream", "CREATE VIEW … AS SELECT * FROM s"),
        ("FROM lates INTO parquet('x')", "no stream, table or view 'lates'", None),
        ("FROM latest INTO parquet('x') MODE apend", "there is no mode 'apend'", None),
        ("FROM latest INTO parquet('x') MODE upsert", "cannot be written in MODE upsert", "MODE changes"),
        ("FROM latest INTO parquet('x', a => 1)", "the sink parquet has no option 'a'", "leave it out"),
        ("FROM latest INTO parquet()", "parquet needs a path", "write parquet('out/')"),
        ("FROM latest INTO parquet('x') KEY (k)", "MODE changes writes every change", "leave KEY out"),
        ("FROM latest INTO parquet(secret(5))", "a secret has a name", "write secret('NAME')"),
        ("INTO parquet('x')", "expected FROM and the view", "write CREATE SINK s FROM v"),
    ],
)
def test_mistakes_are_told(made: HandmadeStore, sql: str, what: str, next_step: str | None) -> None:
    with pytest.raises(EverviewError) as refused:
        made.sink(f"CREATE SINK f {sql}")
    assert isinstance(refused.value, (SqlError, PlanError, EverviewError))
    assert what in refused.value.what
    assert refused.value.place is not None
    if next_step is not None:
        assert next_step in (refused.value.next_step or "")


def test_a_catalog_with_sinks_is_of_a_newer_format(made: HandmadeStore, tmp_path: Path) -> None:
    assert json.loads(made.catalog.to_json())["format"] == 1
    made.sink(f"CREATE SINK f FROM latest INTO parquet('{tmp_path}/f')")
    assert json.loads(made.catalog.to_json())["format"] == 4


def test_rows_of_an_event_stream_are_written_when_they_are_known(tmp_path: Path) -> None:
    script = SCRIPT + "CREATE STREAM e TIMELINE ts AS SELECT k, ts FROM s"
    made = HandmadeStore(tmp_path / "store", script)
    made.sink(f"CREATE SINK f FROM e INTO csv('{tmp_path}/f', header => false) MODE append")
    made.sink(f"CREATE SINK g FROM e INTO csv('{tmp_path}/g', header => false)")
    first, second, third = (START + i * SECOND for i in (1, 2, 3))
    types = {"c0": pl.Int32, "c1": pl.Datetime("us", "UTC"), **dict.fromkeys(CHANGE, pl.Int64)}
    rows = [(k, t, t, FOREVER, 1) for k, t in ((1, first), (2, second), (3, third))]
    trace = TraceId("view", "e")
    run = write_run(trace, pl.DataFrame(rows, schema=types, orient="row"), made.store.files, 1)
    marks: tuple[tuple[int, int], ...] = ()
    for number, bound in enumerate((first, second), 1):
        marks = (*marks, (number, bound))
        made.store.write_manifest(
            replace(
                made.manifest, step=number, bound=bound, present=third, marks=marks,
                event_bounds={"e": {"ts": bound}}, event_marks={"e": {"ts": marks}},
            ).with_traces({trace: (run,)})
        )  # fmt: skip
        made.runner.write_all(made.views, at_once=True)
    assert [p.read_text().split(",")[0] for p in sorted((tmp_path / "f").glob("step=*/*"))] == ["1", "2"]
    assert [p.read_text()[:31] for p in sorted((tmp_path / "g").glob("step=*/*"))] == [
        "+,2026-01-01T00:00:01.000000Z,1", "+,2026-01-01T00:00:02.000000Z,2",
    ]  # fmt: skip
    made.sink(f"CREATE SINK late FROM e INTO csv('{tmp_path}/late', header => false) MODE append")
    [part] = (tmp_path / "late").glob("step=*/*")
    assert [line.split(",")[0] for line in part.read_text().splitlines()] == ["1", "2"]
    made.close()


def test_a_library_that_is_missing_is_named_with_the_command() -> None:
    with pytest.raises(StoreError) as missing:
        load_library("no_such_library.part", "delta")
    assert missing.value.what == "a sink into delta needs no_such_library, which is not installed"
    assert missing.value.next_step == "pip install 'everview[delta]'"
