"""How many bytes of a store each view takes: its changes, its present answer, its operators' state."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from everview.operators.base import stateful_operators
from everview.storage.files import Files
from everview.storage.manifest import Manifest
from everview.storage.plans import PlanReader


def view_bytes(files: Files, manifest: Manifest, views: Iterable[str]) -> dict[str, int]:
    """Return the bytes of each view. State that several views share counts for each of them."""
    changes: dict[str, int] = defaultdict(int)
    state: dict[str, int] = defaultdict(int)
    for trace, runs in manifest.traces.items():
        if trace.kind in ("view", "complete"):
            changes[trace.owner] += sum(run.bytes for run in runs)
        elif trace.kind == "state":
            state[trace.owner] += sum(run.bytes for run in runs)
    read = PlanReader(files)
    found = {}
    for view in views:
        kept = manifest.plans.get(view)
        operators = [] if kept is None or view in manifest.aside else stateful_operators([read(kept.plan)])
        names = {operator.name.casefold() for operator in operators}
        found[view] = changes[view.casefold()] + sum(state[name] for name in names)
    return found
