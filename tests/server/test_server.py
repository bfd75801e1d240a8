"""A server and its clients, without Spark: answers, mistakes, garbage, and clients that are slow or go."""

from __future__ import annotations

import socket
import stat
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import everview
from everview.errors import EverviewError, Fault, StoreError
from everview.query.answers import AnswerColumn, FetchedAnswer
from everview.server import protocol as M
from everview.server.access import LocalAccess
from everview.server.client import ServedAccess, find_server
from everview.server.server import Server
from everview.server.socket_file import make_folder, socket_path
from everview.ui.cli import main
from tests.server.conftest import WithoutSpark

PATIENCE = 60  # seconds; a crowded machine is no failure
HOT = "CREATE VIEW hot AS SELECT room FROM rooms [RANGE 1 MINUTE] WHERE temperature > 80;"


def numbers(rows: int, left_out: int = 0) -> FetchedAnswer:
    values: Iterator[Any] = ((i, "x" * 1_000) for i in range(rows))
    return FetchedAnswer([AnswerColumn("n", "int"), AnswerColumn("s", "string")], values, lambda: left_out)


def read(answer: Any) -> list[Any]:
    assert isinstance(answer, FetchedAnswer)
    return [row[0] for row in answer.rows]


def answer_with(monkeypatch: pytest.MonkeyPatch, answer: Callable[[str], Any]) -> None:
    """Let a question be answered without Spark."""
    monkeypatch.setattr(LocalAccess, "query", lambda self, sql, *_: answer(sql))


def wait_until(there: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not there():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)


def test_a_client_gets_what_it_would_get_without_a_server(path: str, served: ServedAccess) -> None:
    with everview.connect(path) as db:
        here = LocalAccess(db)
        for store in (served, here):
            assert [str(a) for a in store.execute(f"SHOW STREAMS; {HOT if store is served else ''}", 9)] == [
                "rooms"
            ]
        assert served.names() == here.names()
        assert [entry.columns for entry in served.names()] == [("room", "temperature", "ts"), ()]
        assert served.explain("SELECT * FROM hot") == here.explain("SELECT * FROM hot")
        assert served.query("DESCRIBE hot", None, {}, 9) == here.query("DESCRIBE hot", None, {}, 9)
        assert list(served.execute("DESCRIBE hot", 9)) == list(here.execute("DESCRIBE hot", 9))
        assert str(served.status()).startswith(str(here.status()))


MISTAKES: dict[str, Callable[[Any], object]] = {
    "a name": lambda store: store.query("SELECT * FROM room", None, {}, None),
    "a column": lambda store: store.query("SELECT *\n  , temprature FROM rooms", None, {}, None),
    "no SQL": lambda store: store.query("SELEKT 1", None, {}, None),
    "nothing": lambda store: store.query("", None, {}, None),
    "no query": lambda store: store.query("DROP STREAM rooms", None, {}, None),
    "a time": lambda store: store.query("SELECT 1 AS one", "noon", {}, None),
    "a parameter": lambda store: store.query("SELECT :x AS x", None, {"y": "1"}, None),
    "half a character": lambda store: store.query("SELECT \udcff", None, {}, None),
    "no view": lambda store: store.changes("rooms", "tags", None, None),
    "no such view": lambda store: store.new_changes("roms", "tags", None),
    "a statement": lambda store: list(store.execute("SHOW VIEWS; CREATE STREAM rooms (v INT)", None)),
    "a name that is taken": lambda store: list(store.execute("CREATE TABLE rooms (v INT)", None)),
    "a plan": lambda store: store.explain("SELECT * FROM nowhere"),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=list(MISTAKES))
def test_a_mistake_has_the_same_message(
    path: str, served: ServedAccess, mistake: Callable[[Any], object]
) -> None:
    with everview.connect(path) as db, pytest.raises(Exception) as here:  # noqa: PT011
        mistake(LocalAccess(db))
    with pytest.raises(EverviewError) as there:
        mistake(served)
    if isinstance(here.value, EverviewError):
        assert str(there.value) == str(here.value)
    else:
        assert isinstance(there.value, Fault)
        assert f"{type(here.value).__name__}: {here.value}" in str(there.value)


def test_what_was_done_before_a_mistake_is_done(path: str, served: ServedAccess) -> None:
    with pytest.raises(EverviewError, match="'nowhere'"):
        list(served.execute(f"{HOT} SELECT * FROM nowhere", None))
    assert [entry.name for entry in served.names()] == ["rooms", "hot"]


def test_a_setting_is_that_of_its_client(path: str, held: WithoutSpark, served: ServedAccess) -> None:
    """In a script that asks or that changes something, before a mistake or not; others have their own."""
    question = "SELECT room FROM rooms [RANGE 1 MINUTE] WHERE temperature > 90"
    warm = "CREATE VIEW warm AS SELECT room, temperature FROM rooms [RANGE 1 MINUTE] WHERE temperature > 50;"
    other = find_server(path)
    assert other is not None

    def is_answered(store: ServedAccess) -> bool:
        """Whether a question is answered from a view, in a plan that is asked for in either way."""
        (shown,) = store.execute(f"EXPLAIN {question}", None)
        assert ("answered from view" in str(shown)) == ("answered from view" in store.explain(question))
        return "answered from view" in str(shown)

    list(served.execute(warm, None))
    assert is_answered(served)
    assert list(served.execute("SET answer_from_views = off", None)) == []
    assert not is_answered(served)
    assert is_answered(other), "who has not asked for it"
    list(served.execute(f"CREATE VIEW own AS {question}", None))
    assert held.db._views().views["own"].answered_from == ()
    list(other.execute(f"CREATE VIEW shared AS {question} AND room <> 'attic'", None))
    assert held.db._views().views["shared"].answered_from
    with pytest.raises(EverviewError, match="'nowhere'"):
        list(served.execute("SET answer_from_views = on; SHOW VIEWS; SELECT * FROM nowhere", None))
    assert is_answered(served), "what was set before a mistake is set"
    with pytest.raises(EverviewError, match="'nowhere'"):
        list(served.execute("SET answer_from_views = off; DROP VIEW own; DROP VIEW nowhere", None))
    assert not is_answered(served)
    assert is_answered(other)
    with pytest.raises(EverviewError, match="strategy") as refused:
        list(served.execute("SET strategy = nt", None))
    with everview.connect(path) as db, pytest.raises(EverviewError) as here:
        db.execute("SET strategy = nt")
    assert str(refused.value) == str(here.value)


@pytest.mark.parametrize("command", [["query", "SHOW STREAMS"], ["shell"]], ids=lambda c: c[0])
def test_a_served_store_has_the_strategy_of_its_server(
    path: str, server: Server, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    with pytest.raises(SystemExit, match="1"):
        main([*command, "--path", path, "--strategy", "nt"])
    assert capsys.readouterr() == (
        "",
        f"{path} is served by another process, which has its own settings\n"
        "  next: leave out --strategy; or stop that process, and give it --strategy\n",
    )
    assert everview.connect(path)._strategy == "UPA"


def test_a_fault_is_a_fault(served: ServedAccess, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(sql: str) -> object:
        raise Fault("bad state", next_step="tell us") if sql == "fault" else KeyError("odd\nlines")

    answer_with(monkeypatch, fail)
    for sql, text in (("fault", "bad state\n  next: tell us"), ("other", "KeyError: 'odd\\nlines'")):
        with pytest.raises(Fault) as found:
            served.query(sql, None, {}, None)
        assert str(found.value) == f"a fault of Everview, not of yours: {text}"


def test_rows_come_in_batches(served: ServedAccess, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[int] = []
    send = M.rows_frame
    monkeypatch.setattr(M, "rows_frame", lambda data: sent.append(len(data)) or send(data))
    answer_with(monkeypatch, lambda sql: numbers(int(sql), left_out=7))
    for rows in (0, 1, 1_000, 5_500):
        answer = served.query(str(rows), None, {}, None)
        assert isinstance(answer, FetchedAnswer)
        assert [c.name for c in answer.columns] == ["n", "s"]
        assert read(answer) == list(range(rows))
        assert answer.count_left_out() == 7
    assert len(sent) == 0 + 1 + 1 + 6


def test_an_error_in_the_middle_of_the_rows(served: ServedAccess, monkeypatch: pytest.MonkeyPatch) -> None:
    def rows() -> Iterator[Any]:
        yield from ((i,) for i in range(1_500))
        raise StoreError("the disk is gone", next_step="look")

    answer_with(monkeypatch, lambda _: FetchedAnswer([AnswerColumn("n", "int")], rows(), lambda: 0))
    answer = served.query("", None, {}, None)
    assert isinstance(answer, FetchedAnswer)
    with pytest.raises(EverviewError, match=r"^the disk is gone\n  next: look$"):
        list(answer.rows)


def test_a_warning_goes_to_the_client_that_caused_it(
    server: Server, served: ServedAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(sql: str) -> FetchedAnswer:
        if sql == "warn":
            warnings.warn("the view is incomplete", stacklevel=1)
        return numbers(1)

    answer_with(monkeypatch, answer)
    shown: list[tuple[str, threading.Thread]] = []
    record = lambda message, *_: shown.append((str(message), threading.current_thread()))  # noqa: E731
    monkeypatch.setattr(server, "_show_warning", record)
    monkeypatch.setattr(warnings, "showwarning", server.pass_warning_on)  # pytest has taken it back
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for sql in ("warn", "quiet", "warn"):
            read(served.query(sql, None, {}, None))
    assert shown == [("the view is incomplete", threading.current_thread())] * 2, "the client's own thread"


GARBAGE = {
    "nothing": b"",
    "half a header": b"m\x00",
    "another protocol": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a long message": M.HEADER.pack(M.MESSAGE_KIND, 2**32 - 1) + b"x" * 100,
    "no JSON": M.HEADER.pack(M.MESSAGE_KIND, 3) + b"\xff{{",
    "rows": M.HEADER.pack(M.ROWS_KIND, 3) + b"abc",
    "half a message": M.message_frame(M.Hello())[:-3],
    "no request": M.message_frame(M.Hello()),
    "a reply": M.message_frame(M.Hello()) + M.message_frame(M.Done()),
    "a wrong field": M.message_frame(M.Hello()) + M.message_frame(M.Execute(7, None)),
    "another hello": M.message_frame(M.Hello(name="neverview")),
    "another release": M.message_frame(M.Hello(release="0.0.1")) + M.message_frame(M.AskStatus()),
    "two requests": M.message_frame(M.Hello()) + 2 * M.message_frame(M.AskStatus()),
}  # fmt: skip


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=list(GARBAGE))
def test_garbage_hurts_nobody(
    path: str, served: ServedAccess, garbage: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(socket_path(path)))
        client.sendall(garbage)
        client.shutdown(socket.SHUT_WR)
        client.settimeout(PATIENCE)
        while client.recv(4096):
            pass
    assert served.names()
    assert capsys.readouterr() == ("", "")


def test_another_release(path: str, served: ServedAccess, monkeypatch: pytest.MonkeyPatch) -> None:
    own = M.Hello()
    monkeypatch.setattr(M, "Hello", lambda: type(own)(release="9.9.9"))  # what both sides send
    monkeypatch.setattr(M, "decode_message", lambda data, _: M.decode_record(data, type(own) | M.Request))
    with pytest.raises(StoreError) as refused:
        served.names()
    assert str(refused.value) == (
        f"the store is held by a server of Everview 9.9.9, and this is Everview {everview.__version__}\n"
        "  next: use the same release, or stop the server and start it with this one"
    )


@pytest.mark.parametrize("said", [b"HTTP/1.1 400 Bad Request\r\n", M.message_frame(M.Done())])
def test_what_listens_is_no_server(path: str, said: bytes) -> None:
    with pytest.raises(M.ProtocolError, match="does not speak as Everview does"):
        _ask_who_says(path, said)


@pytest.mark.parametrize(
    "said",
    [b"", b"m\x00", M.message_frame(M.Hello()), M.message_frame(M.Hello()) + M.message_frame(M.Done())[:-1]],
    ids=["nothing", "half a header", "a hello", "half of the end"],
)
def test_a_server_that_is_killed_before_it_has_answered(path: str, said: bytes) -> None:
    with pytest.raises(StoreError) as stopped:
        _ask_who_says(path, said)
    assert str(stopped.value) == (
        f"the server of the store {path} stopped before it had answered\n"
        "  next: ask again; before you repeat a change, look whether it was made"
    )


def _ask_who_says(path: str, said: bytes) -> None:
    place = socket_path(path)
    make_folder(place.parent)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        listener.listen()

        def reply() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(10_000)
                connection.sendall(said)

        thread = threading.Thread(target=reply, daemon=True)
        thread.start()
        ServedAccess(path, place).names()


def test_a_server_that_has_ended(path: str, server: Server, served: ServedAccess) -> None:
    place = socket_path(path)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    server.stop()
    assert not place.exists()
    assert find_server(path) is None
    with pytest.raises(StoreError, match="has ended\n  next: start it again"):
        served.names()


class Asking(threading.Thread):
    """A client in a thread of its own, and what it got."""

    def __init__(self, ask: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self.ask = ask
        self.got: object = None
        self.start()

    def run(self) -> None:
        try:
            self.got = self.ask()
        except EverviewError as error:
            self.got = str(error)

    def result(self) -> object:
        self.join(PATIENCE)
        assert not self.is_alive(), "it never ended"
        return self.got


class Held:
    """An answer that is not there before the test wants it, or the question is cancelled."""

    def __init__(self, server: Server, held: WithoutSpark) -> None:
        self.begun, self.ended = threading.Event(), threading.Event()
        self._server, self._held = server, held

    def __call__(self, sql: str) -> FetchedAnswer:
        if sql == "now":
            return numbers(1)
        self.begun.set()
        try:
            tag = self._server._own.connection.tag
            wait_until(lambda: tag in self._held.cancelled)
            raise StoreError("cancelled")
        finally:
            self.ended.set()


def test_who_disconnects_has_his_question_cancelled(
    path: str, held: WithoutSpark, server: Server, served: ServedAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = Held(server, held)
    answer_with(monkeypatch, slow)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(socket_path(path)))
        client.sendall(M.message_frame(M.Hello()) + M.message_frame(M.Ask("later", None, {}, None)))
        assert slow.begun.wait(PATIENCE)
        assert read(served.query("now", None, {}, None)) == [0], "another client does not wait"
        assert not slow.ended.is_set()
    assert slow.ended.wait(PATIENCE)
    assert read(served.query("now", None, {}, None)) == [0]


@pytest.mark.parametrize("failure", [None, StoreError("a step failed", next_step="mend it")])
def test_a_server_that_stops_while_a_client_waits(
    path: str, held: WithoutSpark, server: Server, served: ServedAccess, failure: StoreError | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    slow = Held(server, held)
    answer_with(monkeypatch, slow)
    client = Asking(lambda: served.query("later", None, {}, None))
    assert slow.begun.wait(PATIENCE)
    server.stop(failure)
    assert client.result() == (
        f"the server of the store {path} stopped before it had answered\n"
        "  next: ask again; before you repeat a change, look whether it was made"
        if failure is None
        else f"the server of the store {path} has ended: a step failed\n  next: mend it"
    )


def test_a_slow_client_holds_up_nobody(
    path: str, server: Server, served: ServedAccess, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_rows = 0

    def counted() -> Iterator[Any]:
        nonlocal read_rows
        for row in numbers(100_000).rows:
            read_rows += 1
            yield row

    many = FetchedAnswer(numbers(0).columns, counted(), lambda: 0)
    answer_with(monkeypatch, lambda sql: many if sql == "many" else numbers(1))
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(socket_path(path)))
        client.sendall(M.message_frame(M.Hello()) + M.message_frame(M.Ask("many", None, {}, None)))
        wait_until(lambda: read_rows > 0)
        assert read(served.query("few", None, {}, None)) == [0]
        server.stop()
    assert read_rows < 100_000, "rows are not fetched before the client takes them"


def test_a_change_waits_for_another_and_questions_do_not(
    server: Server, served: ServedAccess, held: WithoutSpark
) -> None:
    with server.writing:
        waiting = Asking(lambda: list(served.execute(HOT, None)))
        assert [entry.name for entry in served.names()] == ["rooms"]
        assert [str(answer) for answer in served.execute("SHOW STREAMS", None)] == ["rooms"]
        assert waiting.is_alive()
    assert waiting.result() == []
    assert [entry.name for entry in served.names()] == ["rooms", "hot"]


def test_a_change_under_way_ends_before_the_server(
    path: str, server: Server, served: ServedAccess, held: WithoutSpark
) -> None:
    begun, go_on = threading.Event(), threading.Event()
    carry_out = held.db.carry_out

    def slowly(statement: Any) -> Any:
        begun.set()
        assert go_on.wait(PATIENCE)
        return carry_out(statement)

    held.db.carry_out = slowly  # type: ignore[method-assign]
    client = Asking(lambda: list(served.execute(HOT, None)))
    assert begun.wait(PATIENCE)
    stopping = Asking(server.stop)
    wait_until(lambda: not socket_path(path).exists())
    go_on.set()
    assert client.result() == []
    stopping.result()
    with everview.connect(path) as db:
        assert [entry.name for entry in db.catalog] == ["rooms", "hot"]


def test_many_clients_at_once(served: ServedAccess) -> None:
    clients = [Asking(lambda: len(served.names())) for _ in range(20)]
    assert [client.result() for client in clients] == [1] * 20


def test_a_client_imports_neither_spark_nor_the_parser(path: str, served: ServedAccess) -> None:
    """And it says what it would say without the server."""
    script = f"""
import sys
from everview.ui.cli import main
for command in (["query", "DESCRIBE rooms"], ["query", "SELECT * FROM nowhere"], ["status"]):
    try:
        main([*command, "--path", {path!r}])
    except SystemExit as end:
        print(end.code or 0)
heavy = ["pyspark", "sqlglot", "polars"]
heavy += ["everview." + room for room in ("database", "without_spark", "sql", "catalog")]
print([name for name in heavy if name in sys.modules])
"""
    asked = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    lines = asked.stdout.splitlines()
    assert lines[0] == "stream rooms"
    assert lines[-1] == "[]"
    assert [line for line in lines if line in ("0", "1", "2")] == ["0", "1", "0"]
    assert asked.stderr.startswith("there is no stream, table or view 'nowhere'\n  line 1, column 15\n")


def test_a_socket_left_behind_is_replaced(path: str, held: WithoutSpark) -> None:
    make_folder(socket_path(path).parent)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(socket_path(path)))
    server = Server(path, held)  # type: ignore[arg-type]
    server.start()
    try:
        found = find_server(path)
        assert found is not None
        assert found.names()
    finally:
        server.stop()


def test_the_errors_of_a_folder(path: str, held: WithoutSpark, runtime: Path) -> None:
    runtime.mkdir(mode=0o750)
    with pytest.raises(StoreError, match="not 0700"):
        Server(path, held).start()  # type: ignore[arg-type]
