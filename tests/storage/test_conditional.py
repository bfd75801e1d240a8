"""The lock in an object store: of writers that come at the same moment exactly one gets it."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import obstore
import pyarrow.fs as arrow_fs
import pytest

from everview.errors import StoreError
from everview.storage.conditional import ConditionalObject
from everview.storage.files import Files
from everview.storage.lock import LOCK, FileLock, Holder

SERVER = """
import sys
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple
run_simple("127.0.0.1", int(sys.argv[1]), DomainDispatcherApplication(create_backend_app), threaded=False)
"""


def holders(files: Files) -> list[FileLock]:
    """Those of two writers at the same moment that get the lock."""
    start = Barrier(2)

    def lock(_: int) -> FileLock | None:
        start.wait()
        try:
            return FileLock(files)
        except StoreError:
            return None

    with ThreadPoolExecutor(2) as pool:
        return [lock for lock in pool.map(lock, range(2)) if lock is not None]


def gone() -> bytes:
    return Holder(2**22 + 1, socket.gethostname(), "2026-01-01", "1", "t").to_json()


def test_an_object_is_made_once_and_replaced_as_it_was_read() -> None:
    there = ConditionalObject(obstore.store.MemoryStore(), LOCK)
    assert there.read() is None
    assert there.write(b"a")
    assert not there.write(b"b")
    found = there.read()
    assert found is not None
    data, tag = found
    assert data == b"a"
    assert there.write(b"c", replaces=tag)
    assert not there.write(b"d", replaces=tag)
    assert (there.read() or (b"", None))[0] == b"c"


@pytest.fixture(scope="module")
def bucket() -> Iterator[Files]:
    """A store in an S3 server on this machine.

    moto is no development dependency, as it holds python-dateutil below 3: `make test` makes an environment
    for it. It looks for an object and then writes it, in two steps, so it serves one request at a time here.
    """
    python = Path(__file__).parents[2] / ".venv-s3" / "bin" / "python"
    if not python.exists():
        pytest.fail("there is no S3 server: run `make .venv-s3/.ready`")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([str(python), "-c", SERVER, str(port)], stderr=subprocess.DEVNULL)
    try:
        for _ in range(300):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        options = f"endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
        filesystem, _ = arrow_fs.FileSystem.from_uri(f"s3://k:s@data?{options}&allow_bucket_creation=true")
        filesystem.create_dir("data")
        yield Files(f"s3://k:s@data/store?{options}")
    finally:
        server.terminate()
        server.wait()


@pytest.mark.slow
def test_one_of_two_writers_gets_the_lock(bucket: Files) -> None:
    assert bucket.conditional(LOCK) is not None
    for _ in range(20):
        [lock] = holders(bucket)
        lock.check()
        lock.release()
        assert not bucket.exists(LOCK)


@pytest.mark.slow
def test_one_of_two_writers_takes_over_from_a_process_that_is_gone(bucket: Files) -> None:
    for _ in range(5):
        there = bucket.conditional(LOCK)
        assert there is not None
        assert there.write(gone())
        [lock] = holders(bucket)
        lock.check()
        lock.release()
