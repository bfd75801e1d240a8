"""Files that changed after they were read, by Spark's log of them; the log is written here as Spark does."""

from __future__ import annotations

import json
import os
from pathlib import Path
from urllib.parse import quote

import pytest

from everview.algebra.schema import Schema
from everview.algebra.types import INT
from everview.catalog import Source, TableEntry
from everview.ingest.changed_files import ChangedFile, changed_files
from everview.ingest.reading import source_name
from everview.storage.files import Files

T = TableEntry("t", Schema.of(("k", INT)), source=Source("csv", "in"))
TIME = 1_700_000_000_000


def entry(path: Path | str, number: int, time: int = TIME) -> dict[str, object]:
    uri = path if isinstance(path, str) else f"file://{quote(str(path))}"
    return {"path": uri, "timestamp": time, "batchId": number}


def log(folder: Path, name: str, *entries: dict[str, object]) -> None:
    target = folder / "sources" / source_name(T) / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("\n".join(["v1", *map(json.dumps, entries)]))


def offsets(folder: Path, batch: int, last: int) -> None:
    (folder / "offsets").mkdir(exist_ok=True)
    lines = ["v2", "{}", 'heartbeat:{"offset":3}', f'{source_name(T)}:{{"logOffset":{last}}}', "s_00:-"]
    (folder / "offsets" / str(batch)).write_text("\n".join(lines))


def put(path: Path, text: str, time: int = TIME) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    os.utime(path, ns=(time * 1_000_000,) * 2)
    return path


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    made = tmp_path / "checkpoint"
    made.mkdir()
    return made


def found(checkpoint: Path, batch: int | None, known: dict[str, int] | None = None) -> list[ChangedFile]:
    told = {} if known is None else {"t": known}
    return changed_files(Files(str(checkpoint)), [T], batch, told).get("t", [])


def test_only_files_of_batches_that_were_done_count(tmp_path: Path, checkpoint: Path) -> None:
    """A batch that Spark has begun reads the file as it is then."""
    done, begun = (put(tmp_path / "in" / name, "1\n", TIME + 5) for name in ("done.csv", "begun.csv"))
    log(checkpoint, "0", entry(done, 0))
    log(checkpoint, "1", entry(begun, 1))
    offsets(checkpoint, 7, 0)
    assert found(checkpoint, 7) == [ChangedFile(str(done), TIME + 5, TIME, 2)]
    assert found(checkpoint, None) == []
    assert found(checkpoint, 8) == [], "nothing is known of that batch"


def test_a_compacted_log_has_all_before_it(tmp_path: Path, checkpoint: Path) -> None:
    files = [put(tmp_path / "in" / f"{i}.csv", "", TIME + i) for i in range(4)]
    log(checkpoint, "0", entry(files[0], 0, TIME))
    log(checkpoint, "1.compact", entry(files[0], 0, TIME), entry(files[1], 1, TIME))
    log(checkpoint, "2", entry(files[2], 2, TIME))
    log(checkpoint, "3", entry(files[3], 3, TIME))
    offsets(checkpoint, 3, 2)
    assert [Path(f.path).name for f in found(checkpoint, 3)] == ["1.csv", "2.csv"]
    offsets(checkpoint, 3, 0)
    assert found(checkpoint, 3) == [], "a log that runs ahead of the batch"


def test_a_change_is_told_once_and_a_further_one_again(tmp_path: Path, checkpoint: Path) -> None:
    file = put(tmp_path / "in put 100%" / "a b.csv", "1\n", TIME + 1)
    log(checkpoint, "0", entry(file, 0), entry(tmp_path / "in" / "gone.csv", 0), entry("nosuch://x/y", 0))
    offsets(checkpoint, 0, 0)
    [first] = found(checkpoint, 0)
    assert found(checkpoint, 0, {first.path: first.now}) == []
    put(file, "1\n2\n", TIME + 2)
    assert found(checkpoint, 0, {first.path: first.now}) == [ChangedFile(str(file), TIME + 2, TIME, 4)]


def test_what_is_said() -> None:
    assert ChangedFile("/in/a.csv", TIME + 5, TIME, 3400).reason == (
        "the file /in/a.csv was changed after it was found: it has 3,400 bytes of 2023-11-14T22:13:20.005000 "
        "now, and was of 2023-11-14T22:13:20.000000; what changed is not taken: move files in when they are "
        "complete, and put further rows into a new file"
    )
