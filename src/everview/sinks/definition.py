"""What a sink needs of its view: a key to upsert by, and for append that rows are never taken back."""

from __future__ import annotations

from everview.algebra import nodes as N
from everview.catalog import SinkEntry
from everview.errors import PlanError
from everview.temporal.keys import keys_of
from everview.temporal.update_patterns import Pattern, edge


def sink_key(sink: SinkEntry, plan: N.Node) -> tuple[str, ...]:
    """Return the columns by which a sink upserts: those that are declared, or the key of its view."""
    if sink.mode != "upsert":
        return ()
    return sink.key or tuple(plan.schema.names[i] for i in keys_of(plan) or ())


def is_view_key(key: tuple[str, ...], plan: N.Node) -> bool:
    """Return whether columns are known to be a key of a view: they have all of one."""
    known = keys_of(plan)
    return known is not None and {plan.schema.names[i] for i in known} <= set(key)


def require_mode(sink: SinkEntry, plan: N.Node, of_events: bool = False, history: int = 1) -> None:
    """Refuse a mode that does not go with the view. Rows of event streams are only added."""
    if sink.mode == "upsert" and not sink_key(sink, plan):
        whole = keys_of(plan) == ()
        raise PlanError(
            f"MODE upsert needs a KEY, and the view '{sink.view}' has "
            + ("one row and no column that could be one" if whole else "none that is known"),
            next_step="give the view a constant column, as in SELECT 1 AS id, …, and write KEY (id)"
            if whole
            else "write KEY (column, …), or MODE changes",
        )
    if sink.mode == "append" and not of_events:
        found = edge(plan)
        if found.pattern != Pattern.MON or found.signed:
            how = "take others back" if found.signed else "end"
            modes = "MODE changes, or MODE upsert" if keys_of(plan) else "MODE changes"
            raise PlanError(
                f"MODE append only adds rows, and rows of the view '{sink.view}' {how}",
                next_step=f"write {modes}",
            )
    if sink.mode != "upsert" and history == 0:
        raise PlanError(
            f"the view '{sink.view}' keeps no history, and MODE {sink.mode} writes its changes",
            next_step="write MODE upsert, or make the view with a history",
        )
