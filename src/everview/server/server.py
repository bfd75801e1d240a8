"""The server of a store: it answers the requests of other processes, while steps go on in this one.

One thread listens and passes frames on (asyncio); each request is answered in a thread of its own. Questions
are answered by readers of the store, as another process would read it: they take no lock, and see the last
committed step. Statements that change something go to the one writer, one at a time.
"""

from __future__ import annotations

import asyncio
import socket
import threading
import uuid
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from everview.errors import EverviewError, Fault, StoreError
from everview.query.answers import FetchedAnswer
from everview.query.report import Report
from everview.server import protocol as M
from everview.server.access import LocalAccess
from everview.server.client import ServedAccess, stopped_error
from everview.server.rows import encode_rows
from everview.server.socket_file import make_folder, socket_path
from everview.without_spark import only_asks, status_at

if TYPE_CHECKING:
    from everview.database import Database

_BATCH = 1_000  # rows in a frame
_MOST_REQUESTS = 64  # at once; more of them wait
_PATIENCE = 10.0  # seconds for a client to send its request
_LOOK_AGAIN = 0.5  # seconds between two attempts to cancel a request
_FLUSH = 2.0  # seconds for the last messages to reach their clients


class ClientGone(Exception):
    """Raised in the thread of a request whose client has closed the connection."""


@dataclass(eq=False)
class Connection:
    """A client, and its request while that is answered."""

    loop: asyncio.AbstractEventLoop
    writer: asyncio.StreamWriter
    tag: str = field(default_factory=lambda: f"everview-{uuid.uuid4().hex}")
    gone: threading.Event = field(default_factory=threading.Event)
    writes: bool = False  # whether the request changes the store: then it is not cancelled

    def send(self, *frames: bytes) -> None:
        """Send frames, from the thread of the request; wait while the client is slow."""
        asyncio.run_coroutine_threadsafe(self.send_frames(*frames), self.loop).result()

    async def send_frames(self, *frames: bytes) -> None:
        if self.gone.is_set():
            raise ClientGone
        self.writer.writelines(frames)
        try:
            await self.writer.drain()
        except ConnectionError:
            raise ClientGone from None

    def leave(self) -> None:
        """Give up the client."""
        self.gone.set()
        self.writer.transport.abort()


class Server:
    """The server of a store that this process holds. `writing` is held while the store is changed."""

    def __init__(self, path: str, db: Database) -> None:
        self.writing = threading.Lock()
        self._path = path
        self._db = db
        self._socket_path = socket_path(path)
        self._loop = asyncio.new_event_loop()
        self._threads = ThreadPoolExecutor(_MOST_REQUESTS, "everview-request")
        self._own = threading.local()  # of a thread: its reader, and its connection
        self._connections: dict[Connection, asyncio.Task[Any]] = {}
        self._caught = warnings.catch_warnings()
        self._stopping = False

    def start(self) -> None:
        """Listen at the socket. The lock of the store is held: a socket that is there is a stale one."""
        make_folder(self._socket_path.parent)
        self.remove_socket()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(self._socket_path))  # in a folder that nobody else may enter
        self._socket_path.chmod(0o600)
        self._caught.__enter__()
        self._show_warning, warnings.showwarning = warnings.showwarning, self.pass_warning_on
        warnings.simplefilter("always", UserWarning)  # what one client was shown is new to the next
        self._listening = self._loop.run_until_complete(asyncio.start_unix_server(self._serve, sock=listener))
        self._thread = threading.Thread(target=self._loop.run_forever, name="everview-server", daemon=True)
        self._thread.start()

    def warm_up(self) -> None:
        """Ask a first question, in the background: Spark takes seconds for it, and much less for the next."""
        threading.Thread(target=self._ask_itself, name="everview-warm-up", daemon=True).start()

    def _ask_itself(self) -> None:
        question = M.Ask("SELECT 1 AS one", None, {}, 1)
        with suppress(EverviewError):  # of a server that is stopped meanwhile
            list(ServedAccess(self._path, self._socket_path).replies(question))

    def remove_socket(self) -> None:
        """Remove the socket, so that no other client connects."""
        self._socket_path.unlink(missing_ok=True)

    def stop(self, failure: BaseException | None = None) -> None:
        """Stop listening; let the current statement end; tell the other clients that the server stops.

        If a step has failed, they get its error.
        """
        self.remove_socket()
        self._stopping = True
        with self.writing:
            pass
        asyncio.run_coroutine_threadsafe(self._close(self._last_words(failure)), self._loop).result()
        self._threads.shutdown()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._caught.__exit__(None, None, None)

    @property
    def running(self) -> bool:
        """Whether the server was started and not stopped."""
        return not self._loop.is_closed()

    def _last_words(self, failure: BaseException | None) -> M.Failed:
        if failure is None:
            return M.Failed(str(stopped_error(self._path)), fault=False)
        found = _failure_reply(failure)
        return M.Failed(f"the server of the store {self._path} has ended: {found.text}", found.fault)

    async def _close(self, last_words: M.Failed) -> None:
        self._listening.close()
        changing = [task for connection, task in self._connections.items() if connection.writes]
        if changing:  # their statements have ended, and their replies are on the way
            await asyncio.wait(changing, timeout=_FLUSH)
        told = dict(self._connections)
        for connection in told:
            connection.gone.set()
            connection.writer.write(M.message_frame(last_words))
            connection.writer.close()
        if told:
            await asyncio.wait(told.values(), timeout=_FLUSH)
        for connection, task in told.items():  # clients that do not read
            connection.leave()
            await task

    # In the thread of the loop

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read the request of a client, have it answered, and close the connection."""
        connection = Connection(self._loop, writer)
        task = asyncio.current_task()
        assert task is not None
        self._connections[connection] = task
        try:
            request = await asyncio.wait_for(_read_request(reader, connection), _PATIENCE)
            if request is not None:
                await self._have_answered(request, reader, connection)
        except (asyncio.IncompleteReadError, TimeoutError, M.ProtocolError, ConnectionError, ClientGone):
            pass  # the client is gone, or would not understand the message
        finally:
            del self._connections[connection]
            writer.close()

    async def _have_answered(
        self, request: M.Request, reader: asyncio.StreamReader, connection: Connection
    ) -> None:
        """Answer a request in a thread; cancel it if the client leaves, or sends anything more."""
        work = self._loop.run_in_executor(self._threads, self._answer, request, connection)
        going = asyncio.ensure_future(reader.read(1))
        both: set[asyncio.Future[Any]] = {work, going}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        going.cancel()
        while not work.done():  # a job that begins after one attempt is cancelled by the next
            if not connection.gone.is_set():
                connection.leave()
            if not connection.writes:
                await asyncio.to_thread(self._db.cancel_jobs, connection.tag)
            await asyncio.wait({work}, timeout=_LOOK_AGAIN)
        work.result()

    # In the thread of a request

    def _answer(self, request: M.Request, connection: Connection) -> None:
        """Answer a request, whatever happens; what the client gets is what it would get without a server."""
        self._own.connection = connection
        try:
            for reply in self._replies(request, connection):
                if isinstance(reply, FetchedAnswer):
                    _send_answer(reply, connection)
                else:
                    connection.send(M.message_frame(reply))
            connection.send(M.message_frame(M.Done()))
        except ClientGone:
            pass
        except BaseException as error:  # a panic of Polars is not an Exception
            with suppress(ClientGone):
                connection.send(M.message_frame(_failure_reply(error)))
        finally:
            self._own.connection = None

    def _replies(
        self, request: M.Request, connection: Connection
    ) -> Iterator[msgspec.Struct | FetchedAnswer]:
        match request:
            case M.Execute(sql) if not self._only_asks(sql):
                yield from self._change(request, connection)
                return
            case M.RunNow(finish):
                with self._alone(connection), self._db.paused():
                    done = LocalAccess(self._db).run(finish)
                yield done
                return
            case M.AskStatus():
                yield _reply(status_at(self._path, for_others=True).report())
                return
        db = self._reader()
        reader = LocalAccess(db)
        db.answer_from_views = getattr(request, "answers", True)
        with self._db.tagged_jobs(connection.tag):
            match request:
                case M.Ask(sql, as_of, parameters, most):
                    yield _reply(reader.query(sql, as_of, parameters, most))
                case M.AskChanges(view, encoding, since, most):
                    yield reader.changes(view, encoding, since, most)
                case M.AskNewChanges(view, encoding, seen):
                    answer, step = reader.new_changes(view, encoding, seen)
                    yield M.UpTo(step)
                    if answer is not None:
                        yield answer
                case M.AskNames():
                    yield from reader.names()
                case M.AskPlan(sql):
                    yield M.Said(reader.explain(sql))
                case M.Execute(sql, most, answers):
                    try:
                        yield from map(_reply, reader.execute(sql, most))
                    except Exception:
                        yield from _set_replies(answers, db.answer_from_views)
                        raise
                    yield from _set_replies(answers, db.answer_from_views)

    def _reader(self) -> Database:
        """Return the reader of this thread."""
        if not hasattr(self._own, "reader"):
            self._own.reader = self._db.reader()
        reader: Database = self._own.reader
        return reader

    def _only_asks(self, sql: str) -> bool:
        reader = self._reader()
        reader.execute("")  # loads the names of the store
        return only_asks(sql, reader.catalog)

    def _change(self, request: M.Execute, connection: Connection) -> Iterator[msgspec.Struct | FetchedAnswer]:
        """Execute statements on the writer, and yield the replies.

        The store is held for each statement, and not while its answer is sent; the settings of the client
        hold for its own statements.
        """
        answers = LocalAccess(self._db).execute(request.sql, request.most)
        on = request.answers
        try:
            while True:
                with self._alone(connection):
                    self._db.answer_from_views = on
                    try:
                        answer = next(answers, None)
                    finally:
                        on, self._db.answer_from_views = self._db.answer_from_views, True
                if answer is None:
                    break
                yield _reply(answer)
        except Exception:
            yield from _set_replies(request.answers, on)
            raise
        yield from _set_replies(request.answers, on)

    @contextmanager
    def _alone(self, connection: Connection) -> Iterator[None]:
        """Hold the store for a change; wait for others that change it, unless the client goes meanwhile."""
        while not self.writing.acquire(timeout=_LOOK_AGAIN):
            if connection.gone.is_set():
                raise ClientGone
        try:
            if self._stopping:
                raise stopped_error(self._path)
            connection.writes = True
            yield
        finally:
            self.writing.release()

    def pass_warning_on(self, message: Warning | str, *where: Any, **more: Any) -> None:
        """Show a warning to the client whose request it belongs to; any other as before."""
        connection = getattr(self._own, "connection", None)
        if connection is None:
            self._show_warning(message, *where, **more)
        else:
            with suppress(ClientGone):  # what is being done goes on
                connection.send(M.message_frame(M.Warned(str(message))))


async def _read_request(reader: asyncio.StreamReader, connection: Connection) -> M.Request | None:
    """Read the Hello of a client and its request; None if the client is of another release."""
    hello = M.decode_message(await _read_message(reader), M.Hello)
    await connection.send_frames(M.message_frame(M.Hello()))
    try:
        M.require_release(hello)
    except StoreError:
        return None  # the client says it, by our Hello
    request: M.Request = M.decode_message(await _read_message(reader), M.Request)
    return request


async def _read_message(reader: asyncio.StreamReader) -> bytes:
    kind, length = M.HEADER.unpack(await reader.readexactly(M.HEADER.size))
    if kind != M.MESSAGE_KIND or length > M.LONGEST_REQUEST:
        raise M.ProtocolError
    return await reader.readexactly(length)


def _reply(answer: FetchedAnswer | Report | str) -> msgspec.Struct | FetchedAnswer:
    match answer:
        case FetchedAnswer():
            return answer
        case Report():
            return M.Reported(answer.text, answer.records, answer.table)
    return M.Said(answer)


def _send_answer(answer: FetchedAnswer, connection: Connection) -> None:
    connection.send(M.message_frame(M.RowsBegin(tuple(answer.columns))))
    while rows := _batch(answer.rows):
        connection.send(M.rows_frame(encode_rows(rows)))
    connection.send(M.message_frame(M.RowsEnd(answer.count_left_out())))


def _batch(rows: Iterator[Sequence[Any]]) -> list[Sequence[Any]]:
    return list(islice(rows, _BATCH))


def _set_replies(before: bool, after: bool) -> Iterator[M.AnswersSet]:
    """Tell a client of a setting that its script has changed, also if a later statement has failed."""
    if before != after:
        yield M.AnswersSet(after)


def _failure_reply(error: BaseException) -> M.Failed:
    """Return an error as the command line would show it."""
    if isinstance(error, EverviewError):
        return M.Failed(EverviewError.__str__(error), isinstance(error, Fault))
    first, *_ = str(error).splitlines() or [""]
    return M.Failed(f"{type(error).__name__}: {first}", fault=True)
