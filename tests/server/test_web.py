"""The page's server without Spark: the API, metrics, and who is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

import everview
from everview.errors import EverviewError
from everview.server.server import Server
from everview.server.web import PageServer

SCRIPT = "<script>alert(1)</script>"


class Got(NamedTuple):
    """A reply."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


Get = Callable[..., Got]


def _getter(page: PageServer) -> Get:
    where = urlsplit(page.url).netloc

    def get(path: str, question: object = None, **headers: str) -> Got:
        connection = HTTPConnection(where, timeout=20)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if question is None:
            connection.request("GET", path, headers=named)
        else:
            kind = {"Content-Type": "application/json"}
            connection.request("POST", path, json.dumps(question), {**kind, **named})
        reply = connection.getresponse()
        found = {name.lower(): value for name, value in reply.getheaders()}
        got = Got(reply.status, found, reply.read().decode())
        connection.close()
        return got

    return get


@pytest.fixture
def page(path: str, server: Server) -> Iterator[PageServer]:
    page = PageServer(path, port=0)
    page.start()
    yield page
    page.close()


@pytest.fixture
def get(page: PageServer) -> Get:
    return _getter(page)


@pytest.fixture
def get_with_token(path: str, server: Server) -> Iterator[Get]:
    page = PageServer(path, port=0, token="open sesame")
    page.start()
    yield _getter(page)
    page.close()


def test_the_page_and_its_parts(get: Get) -> None:
    for path, kind in (("/", "text/html"), ("/page.js", "text/javascript"), ("/page.css", "text/css")):
        found = get(path)
        assert (found.status, found.headers["content-type"].partition(";")[0]) == (200, kind)
        assert "script-src 'self';" in found.headers["content-security-policy"]
    assert get("/web.py").status == 404


def test_status_names_and_plan(get: Get, server: Server, held: Any) -> None:
    held.db.execute(f"CREATE VIEW `{SCRIPT}` AS SELECT room FROM rooms")
    records = get("/api/status").json["records"]
    assert [r["name"] for r in records] == [None, "rooms", SCRIPT]
    rooms, view = get("/api/names").json
    assert rooms["columns"] == ["room", "temperature", "ts"]
    assert (rooms["late"], rooms["changes"]) == ("`rooms$late`", False)
    assert (view["sql"], view["changes"]) == (f"`{SCRIPT}`", True)
    plan = get("/api/plan").json
    assert "<script" not in plan["svg"]
    assert "&lt;script" in plan["svg"]
    assert [part["name"] for part in plan["parts"]] == [SCRIPT]


def test_no_view_has_no_plan(get: Get) -> None:
    assert get("/api/plan").json == {"svg": None, "parts": [], "operators": []}


def test_metrics(get: Get) -> None:
    found = get("/metrics")
    assert found.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "# TYPE everview_rows_total counter\n" in found.text
    assert 'everview_rows_total{stream="rooms"} 0\n' in found.text
    assert "everview_step 0\n" in found.text


def test_questions_only_ask(get: Get) -> None:
    assert get("/api/query", {"sql": "SHOW STREAMS"}).json["text"] == "rooms"
    refused = get("/api/query", {"sql": "DROP STREAM rooms"})
    assert (refused.status, "a query is one SELECT" in refused.json["error"]) == (400, True)
    assert "nope" in get("/api/query", {"sql": "SELECT nope FROM rooms"}).json["error"]
    assert get("/api/query", {"sql": "SHOW STREAMS"}).json["text"] == "rooms"
    for wrong in (
        {},
        {"sql": 1},
        {"sql": "SHOW STREAMS", "limit": 0},
        {"sql": "SHOW STREAMS", "as_of": 5},
        [],
    ):
        assert get("/api/query", wrong).status == 400
    assert get("/api/query", {"sql": "SHOW STREAMS"}, Content_Type="text/plain").status == 400
    assert get("/api/query").status == 405


def test_changes_of_what_is_no_view(get: Get) -> None:
    assert get("/api/changes?view=nope").status == 400
    assert get("/api/changes?view=rooms&since=x").status == 400


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "evil.example:7117"}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Host": "localhost:7117"}, 200),
        ({"Host": "[::1]:7117"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "localhost:1", "Origin": "http://localhost:2"}, 403),
        ({"Host": "localhost:1", "Origin": "http://localhost:1"}, 200),
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
        ({"Sec_Fetch_Site": "same-origin"}, 200),
    ],
)
def test_other_hosts_and_origins_get_nothing(get: Get, headers: dict[str, str], status: int) -> None:
    for path in ("/api/status", "/", "/metrics"):
        found = get(path, **headers)
        assert found.status == status
        assert ("rooms" in found.text) <= (status == 200)


def test_without_the_token_there_is_nothing(get_with_token: Get) -> None:
    get = get_with_token
    for path in ("/", "/page.js", "/api/status", "/metrics", "/api/changes?view=v", "/?token=wrong"):
        assert get(path).status == 401
    assert get("/api/query", {"sql": "SHOW STREAMS"}).status == 401
    assert get("/api/status?token=open+sesame").status == 401
    assert get("/api/status", Authorization="Bearer wrong").status == 401
    assert get("/api/status", Authorization="Bearer open sesame").status == 200
    assert get("/api/status", Authorization="Bearer open sesame", Origin="http://evil.example").status == 403
    entered = get("/?token=open+sesame")
    assert (entered.status, entered.headers["location"]) == (303, "/")
    cookie = entered.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert get("/api/status", Cookie=cookie.partition(";")[0]).status == 200


def test_elsewhere_only_with_a_token(path: str) -> None:
    with pytest.raises(EverviewError, match="with a token only") as error:
        PageServer(path, host="0.0.0.0", port=0)
    assert "EVERVIEW_TOKEN" in str(error.value)
    with pytest.raises(EverviewError, match="the token is empty"):
        PageServer(path, port=0, token=" ")


def test_a_port_that_is_taken(path: str, page: PageServer) -> None:
    taken = urlsplit(page.url).port
    with pytest.raises(EverviewError, match=f"cannot be shown at 127.0.0.1:{taken}"):
        PageServer(path, port=taken)


def test_the_server_of_the_store_has_ended(get: Get, server: Server) -> None:
    server.stop()
    found = get("/api/query", {"sql": "SHOW STREAMS"})
    assert (found.status, "stopped" in found.json["error"]) == (400, True)


def test_other_commands_do_not_load_the_page() -> None:
    import subprocess
    import sys

    code = "import sys, everview.ui.commands; assert 'starlette' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert everview.connect is not None
