"""A sink into a webhook, with a real endpoint on loopback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from everview.errors import StoreError
from tests.sinks.stores import HandmadeStore

ROOT = Path(__file__).parents[2]


class Endpoint(ThreadingHTTPServer):
    """Remembers what it was sent, each idempotency key once; `answers` are the next codes that it gives."""

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.answers: list[int] = []
        self.requests = 0
        self.seen: dict[str, dict[str, Any]] = {}
        self.authorization: str | None = None
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/in"

    def stop(self) -> None:
        self.shutdown()
        self.server_close()

    @property
    def table(self) -> dict[int, str]:
        """What somebody has who takes the changes in."""
        found: dict[int, str] = {}
        for body in self.seen.values():
            if body["kind"] != "changes":
                found = {}
            for change in body.get("changes", ()):
                assert (change["k"] in found) == (change["tag"] in "-u")
                if change["tag"] == "-":
                    del found[change["k"]]
                else:
                    found[change["k"]] = change["v"]
            for row in body.get("gone", ()):
                del found[row["k"]]
            found |= {row["k"]: row["v"] for row in body.get("rows", ())}
        return found


class Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests += 1
        self.server.authorization = self.headers.get("Authorization")
        code = self.server.answers.pop(0) if self.server.answers else 200
        if code == 200:
            self.server.seen.setdefault(self.headers["Idempotency-Key"], body)
        self.send_response(code)
        self.end_headers()
        self.wfile.write(b"no such thing" if code != 200 else b"")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    found = Endpoint()
    yield found
    found.stop()


@pytest.fixture
def made(tmp_path: Path) -> Iterator[HandmadeStore]:
    store = HandmadeStore(tmp_path / "store")
    yield store
    store.close()


def test_each_step_is_a_request(
    made: HandmadeStore, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK", "very secret")
    made.step({1: "a", 2: "b"})
    sink = made.sink(
        f"CREATE SINK w FROM latest INTO webhook(url => '{endpoint.url}', token => secret('HOOK'))"
    )
    made.step({1: "c", 2: None})
    assert endpoint.table == made.table
    assert list(endpoint.seen) == [f"{sink.id}-1-0", f"{sink.id}-2-0"]
    assert endpoint.authorization == "Bearer very secret"
    second = endpoint.seen[f"{sink.id}-2-0"]
    assert second["changes"][1] == {
        "tag": "u", "at": "2026-01-01T00:00:02.000000Z", "k": 1, "v": "c", "old": {"k": 1, "v": "a"},
    }  # fmt: skip
    assert {n: second[n] for n in ("sink", "view", "step", "part", "kind")} == {
        "sink": "w", "view": "latest", "step": 2, "part": 0, "kind": "changes",
    }  # fmt: skip


def test_upserts_are_rows_and_keys(made: HandmadeStore, endpoint: Endpoint) -> None:
    made.sink(f"CREATE SINK w FROM latest INTO webhook(url => '{endpoint.url}') MODE upsert")
    made.step({1: "a", 2: "b"})
    made.step({1: "c", 2: None})
    made.step({1: None})
    assert endpoint.table == made.table == {}
    assert endpoint.requests == 3


def test_it_is_tried_again_and_then_set_aside(made: HandmadeStore, endpoint: Endpoint) -> None:
    sql = f"CREATE SINK w FROM latest INTO webhook(url => '{endpoint.url}', retries => 1)"
    made.sink(sql)
    endpoint.answers = [503]
    made.step({1: "a"})
    assert endpoint.requests == 2
    endpoint.answers = [400]
    with pytest.warns(UserWarning, match="the endpoint answers 400 Bad Request: no such thing"):
        made.step({1: "b"})
    assert endpoint.requests == 3, "what the endpoint refuses is not sent again at once"
    made.step({1: "c"})
    assert endpoint.table == made.table
    assert len(endpoint.seen) == 3


def test_down_for_20_steps(made: HandmadeStore, endpoint: Endpoint) -> None:
    made.sink(f"CREATE SINK w FROM latest INTO webhook(url => '{endpoint.url}', retries => 0)")
    made.step({1: "a"})
    endpoint.stop()
    with pytest.warns(UserWarning, match="the endpoint cannot be reached"):
        made.step({1: "b"})
    for number in range(19):
        made.step({number % 4: f"{number}"})
    again = Endpoint(endpoint.server_address[1])
    again.seen = dict(endpoint.seen)
    made.step({5: "e"})
    assert again.table == made.table
    assert len(again.seen) == 22
    again.stop()


@pytest.mark.slow
def test_killed_after_the_request(endpoint: Endpoint, tmp_path: Path) -> None:
    script = f"""
import os, signal
from pathlib import Path
from tests.sinks.stores import HandmadeStore
from everview.sinks.position import SinkPositions

made = HandmadeStore(Path({str(tmp_path / "store")!r}))
made.sink("CREATE SINK w FROM latest INTO webhook(url => '{endpoint.url}')")
made.step({{1: "a", 2: "b"}})
SinkPositions.write = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
made.step({{1: "c", 2: None}})
"""
    around = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=around)
    assert done.returncode == -signal.SIGKILL
    (tmp_path / "store" / "everview.lock").unlink(missing_ok=True)
    made = HandmadeStore(tmp_path / "store")
    made.table = {1: "c"}
    made.step({3: "d"})
    assert endpoint.requests == 4, "the second step was sent twice"
    assert len(endpoint.seen) == 3
    assert endpoint.table == made.table
    made.close()


def test_a_url_that_is_none_is_refused(made: HandmadeStore) -> None:
    with pytest.raises(StoreError, match="begins with http"):
        made.sink("CREATE SINK w FROM latest INTO webhook(url => 'file:///etc/passwd')")
    assert not made.catalog.sinks
