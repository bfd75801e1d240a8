"""What a client and a server send each other: framed messages, as JSON, and frames of rows.

A connection is one request. The client sends a Hello and the request; the server sends its own Hello, the
replies, and Done. To close the connection earlier is to cancel the request. The Hello is the same in all
releases, so that a client of another release gets a clear message; everything else may change.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from everview import __version__
from everview.errors import StoreError
from everview.query.answers import AnswerColumn
from everview.storage.records import decode_record, encode_record

MESSAGE_KIND, ROWS_KIND = b"m", b"r"  # the kinds of frames
HEADER = struct.Struct(">cI")  # kind and length
LONGEST_REQUEST = 64 * 2**20  # bytes
_NAME = "everview"


class Hello(msgspec.Struct, tag="hello"):
    """The first message of both sides."""

    name: str = _NAME
    release: str = __version__


# Requests


class Ask(msgspec.Struct, tag="ask"):
    """One SELECT, DESCRIBE or SHOW; `answers`: it may be answered from views that contain it."""

    sql: str
    as_of: str | None
    parameters: dict[str, str]
    most: int | None
    answers: bool = True


class AskChanges(msgspec.Struct, tag="changes"):
    """The changes of a view, after a step if one is given."""

    view: str
    encoding: str
    since: int | None
    most: int | None


class AskNewChanges(msgspec.Struct, tag="new changes"):
    """The changes of a view after the last step that was seen, if there was another step."""

    view: str
    encoding: str
    seen: int | None


class AskStatus(msgspec.Struct, tag="status"):
    """The state of the store."""


class AskNames(msgspec.Struct, tag="names"):
    """The entries of the catalog."""


class AskPlan(msgspec.Struct, tag="plan"):
    """The plan of a script; `answers` as for Ask."""

    sql: str
    answers: bool = True


class Execute(msgspec.Struct, tag="execute"):
    """Any statements, one after the other; `answers` as for Ask, until one of them sets it."""

    sql: str
    most: int | None
    answers: bool = True


class RunNow(msgspec.Struct, tag="run"):
    """Take in all available rows."""

    finish: bool


Request = Ask | AskChanges | AskNewChanges | AskStatus | AskNames | AskPlan | Execute | RunNow

# Replies


class Warned(msgspec.Struct, tag="warned"):
    """A warning of what is done for the request."""

    text: str


class Failed(msgspec.Struct, tag="failed"):
    """The error that ended the request; `fault` if it is one of Everview."""

    text: str
    fault: bool


class Said(msgspec.Struct, tag="said"):
    """An answer that is a text."""

    text: str


class Reported(msgspec.Struct, tag="reported"):
    """An answer that is a report."""

    text: str
    records: Sequence[Mapping[str, Any]]
    table: Sequence[Mapping[str, Any]]


class RowsBegin(msgspec.Struct, tag="rows begin"):
    """The columns of an answer. Frames of rows follow."""

    columns: tuple[AnswerColumn, ...]


class RowsEnd(msgspec.Struct, tag="rows end"):
    """The end of the rows of an answer, and how many were left out."""

    left_out: int


class AnswersSet(msgspec.Struct, tag="answers set"):
    """A statement has turned answers from views on or off: the next requests of the client say so."""

    on: bool


class UpTo(msgspec.Struct, tag="up to"):
    """The step up to which the changes of a view go."""

    step: int


class NamedEntry(msgspec.Struct, tag="named"):
    """An entry of the catalog: its kind, and its columns if it has some of its own."""

    name: str
    kind: str
    columns: tuple[str, ...]


class RunDone(msgspec.Struct, tag="run done"):
    """What a run did: the rows that came in, the changes of views, the bound, and why rows wait."""

    rows: int
    changes: int
    bound: int
    waits: tuple[str, ...]


class Done(msgspec.Struct, tag="done"):
    """The end of all replies."""


Reply = (
    Hello | Warned | Failed | Said | Reported | RowsBegin | RowsEnd | AnswersSet | UpTo | NamedEntry | RunDone
    | Done
)  # fmt: skip


class ProtocolError(StoreError):
    """Bytes that are no message."""

    def __init__(self) -> None:
        super().__init__(
            "what answers at the socket of this store does not speak as Everview does",
            next_step="stop that process, and start everview serve again",
        )


def message_frame(message: msgspec.Struct) -> bytes:
    """Return a message as a frame.

    >>> message_frame(Done())
    b'm\\x00\\x00\\x00\\x0f{"type":"done"}'
    """
    data = encode_record(message)
    return HEADER.pack(MESSAGE_KIND, len(data)) + data


def rows_frame(data: bytes) -> bytes:
    """Return encoded rows as a frame."""
    return HEADER.pack(ROWS_KIND, len(data)) + data


def decode_message(data: bytes, types: Any) -> Any:
    """Return the message in a frame, of one of these types; raise ProtocolError if it is none of them.

    >>> decode_message(b'{"type":"run","finish":true}', Request)
    RunNow(finish=True)
    >>> decode_message(b'{"type":"dance"}', Request)
    Traceback (most recent call last):
    everview.server.protocol.ProtocolError: what answers at the socket of this store does not speak as ...
    """
    try:
        return decode_record(data, types)
    except ValueError as error:
        raise ProtocolError from error


def require_release(hello: Hello) -> None:
    """Raise an error if the other side is of another release than this one."""
    if hello.name != _NAME:
        raise ProtocolError
    if hello.release != __version__:
        raise StoreError(
            f"the store is held by a server of Everview {hello.release}, and this is Everview {__version__}",
            next_step="use the same release, or stop the server and start it with this one",
        )
