"""The entry of a sink: which view is written where, how, and by which key.

Sinks have names of their own: nothing reads a sink, so that a sink and a view may be called the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from everview.algebra.text import name_sql, string_sql

MODES = ("changes", "upsert", "append")
# Formats of files that Spark writes: a folder for each step. Other batch writers of Spark append.
SPARK_FILES = ("orc", "avro", "xml", "text")
_HIDDEN = "***"
# Passwords that may be written out in an option: they are shown to nobody.
_PASSWORDS = re.compile(r"(?<=://)([^/@\s]*):([^/@\s]*)@|\b(password\s*=\s*)('[^']*'|\S+)", re.I)
_HIDDEN_OPTIONS = re.compile(r"password|token|secret(?!_)|authorization|sasl\.jaas|credential", re.I)


@dataclass(frozen=True)
class SecretReference:
    """secret('NAME'): a value that is looked up when it is needed, and stands nowhere in the store."""

    name: str

    def __str__(self) -> str:
        return f"secret({string_sql(self.name)})"


SinkValue = str | SecretReference


@dataclass(frozen=True)
class SinkEntry:
    """A sink: `id` tells it apart from all other sinks of all stores, also from one of the same name.

    `key` has the columns by which MODE upsert finds a row: those that are declared, or the view's own.
    """

    name: str
    view: str
    format: str
    path: SinkValue | None = None
    options: tuple[tuple[str, SinkValue], ...] = ()
    mode: str = "changes"
    key: tuple[str, ...] = ()
    id: str = field(default="", compare=False)
    kind = "sink"

    def option(self, name: str) -> SinkValue | None:
        """Return the value of an option; None if it is not given."""
        return next((v for n, v in self.options if n.casefold() == name.casefold()), None)

    @property
    def target_sql(self) -> str:
        """Where it writes to, as SQL; passwords are not shown."""
        shown = [] if self.path is None else [_shown("", self.path)]
        shown += [f"{name} => {_shown(name, value)}" for name, value in self.options]
        return f"{self.format}({', '.join(shown)})"

    @property
    def clauses_sql(self) -> str:
        """What stands behind FROM: the target, MODE and KEY."""
        key = f" KEY ({', '.join(map(name_sql, self.key))})" if self.key else ""
        return f"INTO {self.target_sql} MODE {self.mode}{key}"


def _shown(name: str, value: SinkValue) -> str:
    if isinstance(value, SecretReference):
        return str(value)
    return string_sql(_HIDDEN if _HIDDEN_OPTIONS.search(name) else hide_passwords(value))


def hide_passwords(text: str) -> str:
    """Return a text without the passwords that are written in it as in URLs and connection strings.

    >>> hide_passwords("postgresql://me:open@db/x password='a b' user=me")
    'postgresql://me:***@db/x password=*** user=me'
    """
    return _PASSWORDS.sub(lambda m: f"{m[3]}{_HIDDEN}" if m[3] else f"{m[1]}:{_HIDDEN}@", text)


def encode_sink(sink: SinkEntry) -> dict[str, Any]:
    """Return a sink as readable JSON; what is not set is left out."""
    out: dict[str, Any] = {"name": sink.name, "id": sink.id, "view": sink.view, "format": sink.format}
    out |= {} if sink.path is None else {"path": _value_to_json(sink.path)}
    out |= {"options": {n: _value_to_json(v) for n, v in sink.options}} if sink.options else {}
    return {**out, "mode": sink.mode, **({"key": list(sink.key)} if sink.key else {})}


def decode_sink(d: dict[str, Any]) -> SinkEntry:
    """Return the sink that `encode_sink` wrote."""
    options = tuple((n, _value_from_json(v)) for n, v in d.get("options", {}).items())
    path = _value_from_json(d["path"]) if "path" in d else None
    return SinkEntry(
        d["name"], d["view"], d["format"], path, options, d["mode"], tuple(d.get("key", ())), d["id"]
    )


def _value_to_json(value: SinkValue) -> str | dict[str, str]:
    return {"secret": value.name} if isinstance(value, SecretReference) else value


def _value_from_json(value: str | dict[str, str]) -> SinkValue:
    return value if isinstance(value, str) else SecretReference(value["secret"])
