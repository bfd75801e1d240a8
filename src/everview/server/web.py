"""The page of a store, its JSON API and its metrics, over HTTP.

Each request is asked of the server of the store through its socket, as other processes ask it: the page sees
the last committed step, and can only ask. The state and the plan are read from files.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from importlib import resources
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from everview.algebra.text import name_sql
from everview.catalog import QueryEntry, StreamEntry
from everview.errors import EverviewError, Fault, StoreError
from everview.query.answers import AnswerColumn, FetchedAnswer
from everview.query.create import create_sql
from everview.query.report import Report
from everview.server.client import ServedAccess, find_server, stopped_error
from everview.server.guard import RequestGuard, is_loopback
from everview.server.metrics import lag_seconds, render_metrics
from everview.storage.arrivals import Progress
from everview.storage.statistics import measure_store
from everview.storage.store import Store
from everview.without_spark import explain_text, read_catalog, status_at

DEFAULT_PORT = 7117
_LOOK_AGAIN = 0.5  # seconds between two looks for new changes
_MOST = 1_000  # rows of an answer
_LONGEST = 1_000_000  # bytes of a question
_EXACT = 2**53  # integers beyond it are sent as text: JavaScript would round them
_FILES = {"": ("index.html", "text/html"), "page.js": ("page.js", "text/javascript"),
          "page.css": ("page.css", "text/css")}  # fmt: skip


class PageServer:
    """A page on a port of this machine, for a store whose server answers at its socket."""

    def __init__(
        self,
        path: str,
        host: str = "127.0.0.1",
        port: int | None = None,
        token: str | None = None,
    ) -> None:
        if token is None and not is_loopback(host):
            raise EverviewError(
                f"the page is shown at {host} with a token only: others could read the store there",
                next_step="set EVERVIEW_TOKEN to a secret of your own; or leave out --host",
            )
        if token is not None and not token.strip():
            raise EverviewError("the token is empty", next_step="set EVERVIEW_TOKEN to a secret of your own")
        self._path = path
        self._steps: deque[Progress] = deque(maxlen=100)
        self._listener = _listen(host, port)
        self._host = host
        config = uvicorn.Config(
            self._application(token), log_level="warning", access_log=False, lifespan="off",
            server_header=False, timeout_graceful_shutdown=1,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="everview-page", daemon=True)

    @property
    def url(self) -> str:
        """The address of the page."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._listener.getsockname()[1]}/"

    def start(self) -> None:
        """Answer requests, in a thread of its own."""
        self._thread.start()

    def close(self) -> None:
        """Stop answering; end the streams of changes."""
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(timeout=5)
        self._listener.close()

    def record_step(self, step: Progress) -> None:
        """Keep what a step took, to show it."""
        self._steps.append(step)

    def _server_of_store(self) -> ServedAccess:
        found = find_server(self._path)
        if found is None:
            raise stopped_error(self._path)
        return found

    def _run(self) -> None:
        self._server.run(sockets=[self._listener])

    def _application(self, token: str | None) -> Starlette:
        routes = [
            Route("/", _send_file),
            Route("/page.js", _send_file),
            Route("/page.css", _send_file),
            Route("/metrics", self._metrics),
            Route("/api/status", _answered(self._status)),
            Route("/api/names", _answered(self._names)),
            Route("/api/plan", _answered(self._plan)),
            Route("/api/query", _answered(self._query), methods=["POST"]),
            Route("/api/changes", self._changes),
        ]
        return Starlette(routes=routes, middleware=[Middleware(RequestGuard, token=token)])

    # In a thread for each request

    def _metrics(self, request: Request) -> Response:
        try:
            store = Store.open(self._path)
            state = measure_store(store.manifest(), store.load_catalog()).state
            text = render_metrics(status_at(self._path, for_others=True), state, list(self._steps))
        except EverviewError as error:
            return _refused(error)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4")

    def _status(self, _: Mapping[str, Any]) -> str:
        status = status_at(self._path, for_others=True)
        steps = [
            {"step": s.step, "rows": s.rows, "seconds": s.seconds, "changes": dict(s.changes)}
            for s in self._steps
        ]
        return _json(
            {
                "path": self._path,
                "lag": lag_seconds(status.present, status.watermark),
                "records": status.report().records,
                "waits": status.waits,
                "steps": steps,
                "time": time.time(),
            }
        )

    def _names(self, _: Mapping[str, Any]) -> str:
        catalog = read_catalog(self._path)
        columns = {entry.name: entry.columns for entry in self._server_of_store().names()}
        return _json(
            [
                {
                    "name": e.name, "kind": e.kind, "sql": name_sql(e.name),
                    "columns": columns.get(e.name, ()),
                    "late": name_sql(f"{e.name}$late") if isinstance(e, StreamEntry) else None,
                    "rejected": name_sql(f"{e.name}$rejected") if isinstance(e, StreamEntry) else None,
                    "changes": isinstance(e, QueryEntry),
                }
                for e in catalog
            ]
        )  # fmt: skip

    def _plan(self, _: Mapping[str, Any]) -> str:
        """Return the picture of all views, and its operators with what they keep."""
        catalog = read_catalog(self._path)
        views = [create_sql(e, catalog.clock_grain) for e in catalog if isinstance(e, QueryEntry)]
        if not views:
            return _json({"svg": None, "parts": [], "operators": []})
        script = "\n".join(views)
        plan = json.loads(explain_text(script, catalog, "json", True, self._path))
        return _json({"svg": explain_text(script, catalog, "svg", False, self._path), **plan})

    def _query(self, asked: Mapping[str, Any]) -> str:
        """Return the answer of one SELECT, DESCRIBE or SHOW; nothing else is executed."""
        sql = asked.get("sql")
        most = asked.get("limit", _MOST)
        as_of = asked.get("as_of")
        if not isinstance(sql, str) or not isinstance(most, int) or not 0 < most <= _MOST:
            raise EverviewError(
                "a question is {\"sql\": \"SELECT …\", \"limit\": n}", next_step=f"n is at most {_MOST}"
            )  # fmt: skip
        if as_of is not None and not isinstance(as_of, str):
            raise EverviewError("as_of is no text", next_step='write it as "2026-01-01 00:00:00"')
        answer = self._server_of_store().query(sql, as_of, {}, most)
        if isinstance(answer, Report):
            return _json({"text": answer.text, "records": answer.records})
        return answer_json(answer)

    async def _changes(self, request: Request) -> Response:
        """Send the changes of a view as they come, as server-sent events; each has its step as id."""
        view = request.query_params.get("view", "")
        since = request.headers.get("last-event-id") or request.query_params.get("since")
        if since is not None and not since.isdecimal():
            return _refused(EverviewError("since: no step", next_step="give the number of a step"))
        try:
            step = int(since) if since else await run_in_threadpool(self._last_step)
            await run_in_threadpool(self._require_changes, view)
        except EverviewError as error:
            return _refused(error)
        return StreamingResponse(self._events(view, step), media_type="text/event-stream")

    async def _events(self, view: str, step: int) -> AsyncIterator[str]:
        yield f"id: {step}\nevent: begin\ndata: {step}\n\n"
        while not self._server.should_exit:
            try:
                found = await run_in_threadpool(self._new_changes, view, step)
            except EverviewError as error:  # the view was dropped, or the server of the store stops
                yield f"event: failed\ndata: {_json(EverviewError.__str__(error))}\n\n"
                return
            if found is not None:
                text, step = found
                yield f"id: {step}\nevent: changes\ndata: {text}\n\n"
            else:
                yield ": \n\n"
            await asyncio.sleep(_LOOK_AGAIN)

    def _require_changes(self, view: str) -> None:
        """Raise an error if the store has no view of this name."""
        if not isinstance(read_catalog(self._path).get(view), QueryEntry):
            raise EverviewError(f"'{view}' is no view", next_step="SHOW VIEWS lists them")

    def _last_step(self) -> int:
        return Store.open(self._path).manifest().step

    def _new_changes(self, view: str, step: int) -> tuple[str, int] | None:
        answer, upto = self._server_of_store().new_changes(view, "tags", step)
        return None if answer is None else (answer_json(answer), upto)


def answer_json(answer: FetchedAnswer) -> str:
    """Return an answer as one JSON object: columns, rows, and how many rows were left out."""
    columns = _json([{"name": c.name, "type": c.type} for c in answer.columns])
    rows = ",".join("[" + ",".join(map(_cell, answer.columns, row)) + "]" for row in answer.rows)
    return f'{{"columns": {columns}, "rows": [{rows}], "left_out": {answer.count_left_out()}}}'


def _cell(column: AnswerColumn, value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _EXACT:
        return column.json(value) if column.type.startswith("timestamp") else f'"{value}"'
    return _json(value) if column.type.startswith("decimal") else column.json(value)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _answered(answer: Callable[[Mapping[str, Any]], str]) -> Callable[[Request], Awaitable[Response]]:
    """Return an endpoint that answers in a thread; a mistake is told as JSON."""

    async def endpoint(request: Request) -> Response:
        asked: Any = {}
        try:
            if request.method == "POST":
                asked = await _read_body(request)
            text = await run_in_threadpool(answer, asked)
        except EverviewError as error:
            return _refused(error)
        return Response(text, media_type="application/json")

    return endpoint


async def _read_body(request: Request) -> dict[str, Any]:
    """Return the JSON object of a request. A form of another page cannot send this type of content."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise EverviewError("a question is sent as application/json", next_step="set Content-Type")
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > _LONGEST:
            raise EverviewError("the question is too long", next_step=f"send at most {_LONGEST:,} bytes")
    try:
        asked = json.loads(data)
    except ValueError:
        asked = None
    if not isinstance(asked, dict):
        raise EverviewError("the question is no JSON object", next_step='send {"sql": "SELECT …"}')
    return asked


def _refused(error: EverviewError) -> Response:
    status = 500 if isinstance(error, Fault) else 400
    return Response(_json({"error": EverviewError.__str__(error)}), status, media_type="application/json")


def _send_file(request: Request) -> Response:
    name, kind = _FILES[request.url.path.lstrip("/")]
    text = resources.files("everview.server").joinpath("page", name).read_text("utf-8")
    return Response(text, media_type=kind)


def _listen(host: str, port: int | None) -> socket.socket:
    """Return a listening socket; without a port the usual one, or any if that is taken."""
    ports = [DEFAULT_PORT, 0] if port is None else [port]
    for each in ports:
        try:
            family = socket.getaddrinfo(host, each, type=socket.SOCK_STREAM)[0][0]
            return socket.create_server((host, each), family=family)
        except OSError as error:
            failure = error
    raise StoreError(
        f"the page cannot be shown at {host}:{ports[-1]}: {failure.strerror or failure}",
        next_step="give another --host or --port",
    )
