"""The sinks of a store that runs: after each step each of them is written, from where it stopped.

The manifest of a step is there before its sinks are written: no target has what the store could still lose.
A sink that fails is set aside with its error, the others go on, and it is tried again after a while. What it
missed is worked out from the kept changes of its view.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from uuid import uuid4

from everview.algebra.text import name_sql
from everview.algebra.time import instant_words
from everview.catalog import Catalog, QueryEntry, SinkEntry
from everview.compile_store import CompiledStore
from everview.errors import EverviewError, StoreError
from everview.execute.event_bounds import MARKS
from everview.operators.columnar.frame import BEFORE_ALL
from everview.sinks.definition import require_mode, sink_key
from everview.sinks.delivery import ANSWER, REWRITE, SinkLayout, Target, TargetAhead
from everview.sinks.position import SinkPosition, SinkPositions, function_id
from everview.sinks.rows import ViewRows
from everview.sinks.steps import SinkDeliveries
from everview.sinks.targets import open_target
from everview.sinks.targets.functions import FunctionTarget, SinkFunction
from everview.storage.manifest import Manifest
from everview.storage.store import Store
from everview.temporal.keys import keys_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LONGEST_WAIT = 60.0  # seconds until a sink that failed is tried again
_WRITE_EVERY = 100  # steps without changes after which the position is written all the same
_LOST = (
    "how far it has come is not known: the store was put back from a backup, or repaired from an earlier step"
)


class _Stopped(StoreError):
    """What only RESUME, or another sink, can mend."""


@dataclass
class SinkRunner:
    """Writes the sinks of one store; only who holds its lock may call it.

    `session` returns the Spark session, for the targets that Spark writes.
    """

    store: Store
    session: Callable[[], SparkSession] | None = None
    functions: dict[str, tuple[SinkEntry, FunctionTarget]] = field(default_factory=dict)
    _targets: dict[str, tuple[SinkEntry, Target]] = field(default_factory=dict)
    _seen: dict[str, int] = field(default_factory=dict)  # up to which step a sink has nothing to write
    _waits: dict[str, tuple[int, float]] = field(default_factory=dict)  # failures, and until when it waits

    @property
    def positions(self) -> SinkPositions:
        """How far the sinks have come."""
        return SinkPositions(self.store.files)

    # After a step

    def write_all(self, views: CompiledStore, at_once: bool = False) -> None:
        """Write what the steps have changed to all sinks; those that failed wait for a while, or not."""
        for sink in self._sinks(views.catalog):
            failures, until = self._waits.get(sink.id, (0, 0.0))
            if not at_once and time.monotonic() < until:
                continue
            try:
                self._advance(sink, views)
                self._waits.pop(sink.id, None)
            except Exception as error:
                wait = min(_LONGEST_WAIT, 2.0**failures)
                self._waits[sink.id] = failures + 1, time.monotonic() + wait
                self._set_aside(sink, views, error)

    def close(self) -> None:
        """Close the connections of all targets."""
        for _, target in self._targets.values():
            target.close()
        self._targets.clear()

    def _sinks(self, catalog: Catalog) -> Iterator[SinkEntry]:
        yield from list(catalog.sinks.values())
        for sink, _ in list(self.functions.values()):
            if sink.view.casefold() in catalog.entries:
                yield sink

    def _advance(self, sink: SinkEntry, views: CompiledStore) -> None:
        """Write to one sink all that it has not got yet."""
        manifest = self.store.manifest()
        position = self.positions.read(sink.id)
        if position is None:
            raise _Stopped(_LOST)
        if position.stopped or sink.view in manifest.aside or manifest.bound == BEFORE_ALL:
            return
        deliveries = self._deliveries(sink, views, manifest)
        target = self._target(deliveries.layout)
        if position.rewrite or not position.begun:
            # The answer after the step in which it was to begin: if it is written again, it is the same one.
            if manifest.voided(position.step) or _lost_history(manifest, deliveries.rows, position.step):
                position = replace(position, step=manifest.step)
                self.positions.write(sink.id, position)
            target.write(deliveries.answer(REWRITE if position.rewrite else ANSWER, position.step))
            position = self._reached(sink, position, position.step)
        _require_valid(manifest, position)
        begin = max(position.step, self._seen.get(sink.id, 0))
        begin = position.step if manifest.voided(begin) else begin
        lost = _lost_history(manifest, deliveries.rows, begin)
        if lost and sink.mode != "upsert":
            raise _Stopped(f"it needs the changes after step {begin}, and {lost}")
        if lost:
            target.write(deliveries.answer(REWRITE, manifest.step))
            self._reached(sink, position, manifest.step)
            return
        for upto in _steps_after(manifest, begin, sink.mode):
            delivery = deliveries.changes(begin, upto)
            if not all(part.is_empty for part in delivery.parts()):
                target.write(delivery)
                position = self._reached(sink, position, upto)
            begin = upto
        self._seen[sink.id] = begin
        if position.aside or begin - position.step >= _WRITE_EVERY:
            self._reached(sink, position, begin)

    def _reached(self, sink: SinkEntry, position: SinkPosition, step: int) -> SinkPosition:
        after = position.reached(step)
        self.positions.write(sink.id, after)
        return after

    def _set_aside(self, sink: SinkEntry, views: CompiledStore, error: Exception) -> None:
        """Record why a sink failed; say it if that is new."""
        step = self.store.manifest().step
        found = self.positions.read(sink.id) or SinkPosition(sink.name, sink.view)
        stopped = isinstance(error, (_Stopped, TargetAhead))
        text = _layout(sink, views).shown(_words(error))
        next_step = (error.next_step or "") if isinstance(error, EverviewError) else ""
        aside = replace(found, error=text, next_step=next_step, failed=found.failed or step, stopped=stopped)
        if aside != found:
            self.positions.write(sink.id, aside)
        if not found.aside:
            then = f"{aside.resume_sql} goes on from the present answer" if stopped else "it is tried again"
            warnings.warn(
                f"the sink '{sink.name}' was set aside, and the others go on: {text}; {then}", stacklevel=4
            )
        self._close(sink.id)

    # Statements

    def create(self, sink: SinkEntry, views: CompiledStore) -> None:
        """Begin a sink that is in the catalog: with the present answer of its view, if there is one.

        An error leaves it without a position; who made it removes it from the catalog.
        """
        manifest = self.store.manifest()
        position = SinkPosition(sink.name, sink.view, manifest.step, begun=manifest.bound == BEFORE_ALL)
        try:
            self._target(_layout(sink, views)).prepare()
            self.positions.write(sink.id, position)
            self._advance(sink, views)
        except Exception as error:
            self.forget(sink)
            if isinstance(error, EverviewError):
                raise
            raise StoreError(
                f"the sink '{sink.name}' cannot be written: {_layout(sink, views).shown(_words(error))}",
                next_step="mend that, and create the sink again",
            ) from error

    def resume(self, sink: SinkEntry, views: CompiledStore) -> None:
        """Let a sink go on that was set aside, now; one that cannot go on gets the present answer anew."""
        found = self.positions.read(sink.id)
        if found is not None and not found.aside:
            raise StoreError(
                f"the sink '{sink.name}' goes on: it was not set aside", next_step="nothing needs to be done"
            )
        if found is None or found.stopped:
            if not self._target(_layout(sink, views)).can_rewrite:
                raise StoreError(
                    f"the sink '{sink.name}' cannot go on: what {sink.format} was given cannot be taken back",
                    next_step=f"DROP SINK {name_sql(sink.name)}, and create it with another target",
                )
            position = found or SinkPosition(sink.name, sink.view)
            step = self.store.manifest().step
            self.positions.write(sink.id, replace(position, step=step, rewrite=True, stopped=False))
        self._seen.pop(sink.id, None)
        try:
            self._advance(sink, views)
            self._waits.pop(sink.id, None)
        except Exception as error:
            self._set_aside(sink, views, error)
            raise StoreError(
                f"the sink '{sink.name}' does not go on yet: {_layout(sink, views).shown(_words(error))}",
                next_step="mend that; it is tried again after each step",
            ) from error

    def forget(self, sink: SinkEntry) -> None:
        """Forget a sink that was dropped, or could not be made."""
        self.positions.delete(sink.id)
        self._close(sink.id)
        self._seen.pop(sink.id, None)
        self._waits.pop(sink.id, None)

    def forget_dropped(self, catalog: Catalog) -> None:
        """Forget the sinks that went with their views."""
        known = {sink.id for sink in catalog.sinks.values()}
        for id_ in list(self.positions.ids()):
            position = self.positions.read(id_)
            if position is not None and position.function:
                if position.view.casefold() not in catalog.entries:
                    self.functions.pop(position.name, None)
                    self.positions.delete(id_)
            elif id_ not in known:
                self.positions.delete(id_)

    def rename_view(self, old: str, new: str) -> None:
        """Let functions follow a view that has another name."""
        for name, (sink, target) in list(self.functions.items()):
            if sink.view == old:
                self.functions[name] = replace(sink, view=new), target
        for id_ in list(self.positions.ids()):
            position = self.positions.read(id_)
            if position is not None and position.view == old:
                self.positions.write(id_, replace(position, view=new))

    def give_to(
        self, view: QueryEntry, function: SinkFunction, name: str, views: CompiledStore, anew: bool
    ) -> None:
        """Give the changes of a view to a function from now on, and what it has missed at once.

        A function of a new name begins with the present answer, and so does one that begins `anew`.
        """
        sink = SinkEntry(name, view.name, "function", id=function_id(name))
        require_mode(sink, views.views[view.name].plan, history=view.history)
        self.functions[name] = sink, FunctionTarget(function)
        self._seen.pop(sink.id, None)
        found = self.positions.read(sink.id)
        if found is not None and found.view != view.name and not anew:
            del self.functions[name]
            raise StoreError(
                f"the function '{name}' was given the changes of '{found.view}' before",
                next_step="give it another name, or begin anew=True",
            )
        if found is None or anew:
            manifest = self.store.manifest()
            begun = manifest.bound == BEFORE_ALL
            start = SinkPosition(name, view.name, manifest.step, begun=begun, function=True)
            self.positions.write(sink.id, start)
        elif found.aside and not found.stopped:
            self.positions.write(sink.id, replace(found, error="", failed=0))
        try:
            self._advance(sink, views)
        except Exception as error:
            self._set_aside(sink, views, error)

    def _deliveries(self, sink: SinkEntry, views: CompiledStore, manifest: Manifest) -> SinkDeliveries:
        layout, view = _layout(sink, views), views.views[sink.view]
        key = keys_of(view.plan)
        if sink.mode == "upsert":
            key = tuple(map(view.plan.schema.names.index, layout.key))
        rows = ViewRows(self.store.files, manifest, views.catalog, sink.view, view, key)
        return SinkDeliveries(layout, rows)

    def _target(self, layout: SinkLayout) -> Target:
        sink = layout.entry
        if _is_function(sink):
            return self.functions[sink.name][1]
        known = self._targets.get(sink.id)
        if known is None or known[0] != sink:
            self._close(sink.id)
            known = self._targets[sink.id] = sink, open_target(layout, self.session)
        return known[1]

    def _close(self, id_: str) -> None:
        known = self._targets.pop(id_, None)
        if known is not None:
            known[1].close()


def new_sink(sink: SinkEntry) -> SinkEntry:
    """Return a sink with an id that no other has."""
    return replace(sink, id=uuid4().hex)


def _is_function(sink: SinkEntry) -> bool:
    return sink.format == "function"


def _layout(sink: SinkEntry, views: CompiledStore) -> SinkLayout:
    plan = views.views[sink.view].plan
    known = keys_of(plan)
    view_key = None if known is None else tuple(plan.schema.names[i] for i in known)
    return SinkLayout(sink, plan.schema, sink_key(sink, plan), view_key)


def _words(error: Exception) -> str:
    """Return what an error says, on one line."""
    text = error.what if isinstance(error, EverviewError) else str(error) or type(error).__name__
    return " ".join(text.split())


def _steps_after(manifest: Manifest, begin: int, mode: str) -> list[int]:
    """Return the steps to write, in order; an upsert writes the last one, whatever lies between."""
    steps = [s for s, _ in manifest.marks if s > begin and manifest.voided(s) is None]
    return steps[-1:] if mode == "upsert" else steps


def _require_valid(manifest: Manifest, position: SinkPosition) -> None:
    """Raise an error if what a sink has counts no longer."""
    void = manifest.voided(position.step)
    if void is not None:
        raise _Stopped(
            f"the store was taken back to {instant_words(void.to)} in step {void.step}, "
            f"and the sink has the changes up to step {position.step}, which count no longer"
        )
    if position.step > manifest.step:
        raise _Stopped(
            f"it has step {position.step}, and the store is at step {manifest.step}: it was put back"
        )


def _lost_history(manifest: Manifest, rows: ViewRows, begin: int) -> str:
    """Return why the changes after a step cannot be had any more; nothing if they can."""
    marks = [step for step, _ in manifest.marks]
    if len(marks) >= MARKS and begin < marks[0]:
        return f"where step {begin} ended is not known any more"
    replaced = manifest.replaced.get(rows.name)
    if replaced is not None and begin < replaced.followed_from:
        return f"the changes of the view '{rows.name}' begin anew in step {replaced.followed_from}"
    after = rows.bound(begin)
    if rows.begin > BEFORE_ALL and after < rows.begin:
        return f"the history of the view '{rows.name}' is kept from {instant_words(rows.begin)} on"
    return ""
