"""What the clock said when a batch was taken in: a repetition of the batch gets the same time."""

from __future__ import annotations

from pathlib import Path

from everview.storage.check import check_store
from everview.storage.manifest import Manifest
from everview.storage.store import CLOCK_FILE, Settings, Store


def test_a_batch_that_is_repeated_has_the_same_time(tmp_path: Path) -> None:
    path = str(tmp_path / "store")
    with Store.open(path, Settings(partitions=1), create=True).lock() as store:
        assert store.clock_of_batch(3, 77, 100) == 100
        assert store.clock_of_batch(3, 77, 200) == 100
    with Store.open(path).lock() as store:  # after a kill
        assert store.clock_of_batch(3, 77, 300) == 100
        assert store.clock_of_batch(3, 78, 400) == 400, "another batch of this number, after a repair"
        assert store.clock_of_batch(4, None, 500) == 500
        store.files.write(CLOCK_FILE, b"")  # the power failed before it was on the disk
        assert store.clock_of_batch(4, None, 600) == 600
        store.write_manifest(Manifest(step=1, bound=5))
        assert not check_store(store).problems
