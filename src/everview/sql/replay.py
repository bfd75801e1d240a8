"""REPLAY: which late or rejected rows are to count from now on."""

from __future__ import annotations

import time

from sqlglot import exp

from everview.algebra.text import name_sql
from everview.catalog import (
    CLOCK_ENTRY,
    Catalog,
    StreamEntry,
    TableEntry,
    TaggedEntry,
    kind_with_article,
    untaken_columns,
)
from everview.errors import SqlError
from everview.sql import statements as S
from everview.sql.declare import bind_stream_condition
from everview.sql.definitions import new_context
from everview.sql.script import Script

_KINDS = ("late", "rejected")


def bind_replay(node: exp.Expr, script: Script, catalog: Catalog) -> S.Statement:
    """Bind REPLAY stream$late | stream$rejected [WHERE …]."""
    with script.blame(node.this):
        entry, kind = _untaken(node.name, catalog)
    where = node.args.get("where")
    if where is None:
        return S.ReplayRows(entry.name, kind)
    name = f"{entry.name}${kind}"
    context = new_context(script, catalog, now=time.time_ns() // 1000)
    columns = untaken_columns(entry, kind)
    return S.ReplayRows(entry.name, kind, bind_stream_condition(where.this, "WHERE", name, columns, context))


def _untaken(name: str, catalog: Catalog) -> tuple[StreamEntry, str]:
    """Return the stream of a name like s$late, and whether its late or its rejected rows are meant."""
    stream, _, kind = name.rpartition("$")
    known = kind.casefold() in _KINDS and name not in catalog
    entry = catalog.get(stream if known else name)
    if isinstance(entry, TableEntry):
        raise SqlError(
            f"'{entry.name}' is a table, and only the rows of a stream are taken in again",
            next_step="mend the rows, and put them into a new file or INSERT them",
        )
    if not isinstance(entry, StreamEntry) or entry is CLOCK_ENTRY:
        below = f"name those of '{entry.over}', the stream below" if isinstance(entry, TaggedEntry) else None
        raise SqlError(
            f"'{entry.name}' is {kind_with_article(entry)}, which has no late or rejected rows",
            next_step=below,
        )
    if not known:
        raise SqlError(
            f"'{entry.name}' is the stream itself, whose rows count already",
            next_step="name its late or rejected rows",
            choices=[f"{name_sql(entry.name)}${k}" for k in _KINDS],
        )
    return entry, kind.casefold()
