"""Session windows: the rows of a key between two pauses, while the session is open (LANGUAGE.md, Windows)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from everview.algebra.nodes import Node
from everview.algebra.schema import Schema
from everview.algebra.text import name_sql
from everview.algebra.time import duration_text
from everview.errors import AlgebraError

SESSION_START, SESSION_END = "session_start", "session_end"


@dataclass(frozen=True)
class Session(Node):
    """[SESSION gap PARTITION BY …]: the rows of sessions that are open, with the ends of their session.

    A row begins a session if the last row of its key is as old as the gap, or older. It holds from its
    timestamp until the gap after the last row of its session. The session's end is that of the rows that have
    come; without `with_end`, it is no column, and no row is replaced when it moves.
    """

    input: Node
    gap: int
    partition_by: tuple[str, ...] = ()
    with_end: bool = True

    def __post_init__(self) -> None:
        schema = self.input.schema
        line = schema.timeline
        if line is None:
            raise AlgebraError(
                f"[{self.words}] needs rows that carry a time line, and these have none",
                next_step="project the time line column of the stream below",
            )
        if self.gap <= 0:
            raise AlgebraError(
                f"a session ends after a pause, and {duration_text(self.gap)} is none",
                next_step="give a gap of at least one microsecond",
            )
        for name in self.partition_by:
            schema.find(name)
        added = (SESSION_START, SESSION_END) if self.with_end else (SESSION_START,)
        for name in added:
            if name in (n.casefold() for n in schema.names):
                raise AlgebraError(
                    f"[SESSION …] adds the column '{name}', and there is one already",
                    next_step=f"give that one another name with AS: SELECT {name} AS …",
                )
        columns = tuple(replace(line, name=name, timeline=None) for name in added)
        self._shaped(Schema((*schema.fields, *columns)))

    @property
    def words(self) -> str:
        """The bracket without its brackets."""
        keys = f" PARTITION BY {', '.join(map(name_sql, self.partition_by))}" if self.partition_by else ""
        return f"SESSION {duration_text(self.gap)}{keys}"
