"""A store that another process holds: its server is asked. Neither Spark nor the parser is imported."""

from __future__ import annotations

import socket
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from everview.errors import EverviewError, Fault, StoreError
from everview.query.answers import FetchedAnswer
from everview.server import protocol as M
from everview.server.rows import decode_rows
from everview.server.socket_file import require_own_folder, socket_path

if TYPE_CHECKING:
    from everview.query.report import Report

_Reply = TypeVar("_Reply")
_STALE = (FileNotFoundError, ConnectionRefusedError)  # there is no socket, or nobody listens at it


def find_server(path: str) -> ServedAccess | None:
    """Return the server that holds the store at a path; None if there is none.

    A socket that a killed server has left behind is no server.
    """
    place = socket_path(path)
    try:
        place.lstat()
    except (
        FileNotFoundError,
        PermissionError,
    ):  # in a folder that another user has closed there is no server
        return None
    require_own_folder(place.parent)
    found = ServedAccess(path, place)
    try:
        found.connect().close()
    except _STALE:
        return None
    return found


def stopped_error(path: str) -> StoreError:
    """Return the error of a client whose server stops before it has answered."""
    return StoreError(
        f"the server of the store {path} stopped before it had answered",
        next_step="ask again; before you repeat a change, look whether it was made",
    )


class ServedAccess:
    """A store that is asked through the server that holds it; each request is a connection of its own.

    `meanwhile` is called while the server works on a request.
    """

    def __init__(self, path: str, place: Path, meanwhile: Callable[[], None] = lambda: None) -> None:
        self.meanwhile = meanwhile
        self._path = path
        self._socket_path = place
        self._answers = True  # from views, as SET has it in this session

    def query(
        self, sql: str, as_of: str | None, parameters: Mapping[str, str], most: int | None
    ) -> FetchedAnswer | Report:
        replies = self.replies(M.Ask(sql, as_of, dict(parameters), most, self._answers))
        first = next(replies)
        return _report(first) if isinstance(first, M.Reported) else _answer(first, replies, last=True)

    def changes(self, view: str, encoding: str, since: int | None, most: int | None) -> FetchedAnswer:
        replies = self.replies(M.AskChanges(view, encoding, since, most))
        return _answer(next(replies), replies, last=True)

    def new_changes(self, view: str, encoding: str, seen: int | None) -> tuple[FetchedAnswer | None, int]:
        replies = self.replies(M.AskNewChanges(view, encoding, seen))
        step = _expect(next(replies), M.UpTo).step
        begin = next(replies, None)
        if begin is None:
            return None, step
        return _answer(begin, replies, last=True), step

    def status(self) -> Report:
        return _report(self._reply(M.AskStatus(), M.Reported))

    def names(self) -> list[M.NamedEntry]:
        return [_expect(reply, M.NamedEntry) for reply in self.replies(M.AskNames())]

    def explain(self, sql: str) -> str:
        return self._reply(M.AskPlan(sql, self._answers), M.Said).text

    def execute(self, sql: str, most: int | None) -> Iterator[FetchedAnswer | Report | str]:
        replies = self.replies(M.Execute(sql, most, self._answers))
        for reply in replies:
            match reply:
                case M.Said(text):
                    yield text
                case M.Reported():
                    yield _report(reply)
                case _:
                    yield _answer(reply, replies, last=False)

    def run(self, finish: bool) -> M.RunDone:
        return self._reply(M.RunNow(finish), M.RunDone)

    def _reply(self, request: M.Request, kind: type[_Reply]) -> _Reply:
        """Return the only reply to a request."""
        found = list(self.replies(request))
        return _expect(found[0] if len(found) == 1 else None, kind)

    def replies(self, request: M.Request) -> Iterator[Any]:
        """Send a request and yield its replies: messages, and rows as bytes.

        Warnings are shown; an error of the request is raised. The connection ends with the generator, and
        the server then stops working on the request.
        """
        try:
            connection = self.connect()
        except _STALE:
            raise StoreError(
                f"the server of the store {self._path} has ended", next_step="start it again, or ask anew"
            ) from None
        with closing(connection), connection.makefile("rb") as received:
            try:
                connection.sendall(M.message_frame(M.Hello()) + M.message_frame(request))
                self.meanwhile()
                M.require_release(self._receive(received, M.Hello))
                while not isinstance(reply := self._receive(received, M.Reply), M.Done):
                    match reply:
                        case M.Warned(text):
                            warnings.warn(text, stacklevel=2)
                        case M.AnswersSet(on):
                            self._answers = on
                        case M.Failed(text, fault):
                            raise Fault(text) if fault else EverviewError(text)
                        case _:
                            yield reply
            except ConnectionError:
                raise stopped_error(self._path) from None

    def _receive(self, received: Any, types: Any) -> Any:
        header = received.read(M.HEADER.size)
        if len(header) < M.HEADER.size:
            raise stopped_error(self._path)
        kind, length = M.HEADER.unpack(header)
        if kind not in (M.MESSAGE_KIND, M.ROWS_KIND):
            raise M.ProtocolError
        data = received.read(length)
        if len(data) < length:
            raise stopped_error(self._path)
        return data if kind == M.ROWS_KIND else M.decode_message(data, types)

    def connect(self) -> socket.socket:
        """Open a connection to the server."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(str(self._socket_path))
        except OSError:
            connection.close()
            raise
        return connection


def _expect(reply: object, kind: type[_Reply]) -> _Reply:
    if not isinstance(reply, kind):
        raise M.ProtocolError
    return reply


def _report(reply: M.Reported) -> Report:
    from everview.query.report import Report

    return Report(reply.text, tuple(reply.records), tuple(reply.table))


def _answer(begin: object, replies: Iterator[Any], last: bool) -> FetchedAnswer:
    """Return an answer whose rows are decoded from the replies as they are read.

    After the rows of the last answer, the end of the replies is read, too.
    """
    columns = _expect(begin, M.RowsBegin).columns
    left_out: list[int] = []

    def rows() -> Iterator[Any]:
        for reply in replies:
            if not isinstance(reply, bytes):
                left_out.append(_expect(reply, M.RowsEnd).left_out)
                if not last:
                    return
            else:
                yield from decode_rows(reply)

    return FetchedAnswer(columns, rows(), lambda: sum(left_out))
