"""From the rows of a view to deliveries: the changes of steps, or the whole answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from everview.compile import CompiledEventStream
from everview.errors import StoreError
from everview.ingest.bounds import LAST
from everview.operators.columnar.frame import BEFORE_ALL, FROM, UNTIL, Frame
from everview.operators.columnar.lazy import pl
from everview.sinks.definition import is_view_key
from everview.sinks.delivery import (
    CHANGES,
    Delivery,
    DeliveryPart,
    RepeatedParts,
    SinkLayout,
    named_changes,
    named_records,
)
from everview.sinks.rows import ViewRows
from everview.sinks.tags import (
    answer_frame,
    net_frames,
    repeated_key,
    tagged_frame,
    touched_keys,
    upsert_frames,
)
from everview.temporal.keys import keys_of


@dataclass(frozen=True)
class SinkDeliveries:
    """Makes the deliveries of one sink in the state of a manifest."""

    layout: SinkLayout
    rows: ViewRows

    @property
    def _size(self) -> int:
        return len(self.layout.schema)

    @property
    def _key(self) -> tuple[int, ...]:
        return tuple(map(self.layout.schema.names.index, self.layout.key))

    def changes(self, after: int, upto: int) -> Delivery:
        """Return what the steps after one have changed, up to another."""
        return self._delivery(upto, CHANGES, lambda: self._changed_parts(after, upto))

    def answer(self, kind: str, step: int) -> Delivery:
        """Return the whole answer after a step, for a new target or instead of what it has."""
        return self._delivery(step, kind, lambda: self._answer_parts(step))

    def _delivery(self, step: int, kind: str, parts: Callable[[], Iterator[DeliveryPart]]) -> Delivery:
        return Delivery(self.layout, step, kind, RepeatedParts(parts), self.rows.manifest.step)

    def _changed_parts(self, after: int, upto: int) -> Iterator[DeliveryPart]:
        times = self.rows.bound(after), self.rows.bound(upto)
        if self._of_events:  # `changed` has only rows that became known in these steps
            times = BEFORE_ALL, LAST
        for rows in self.rows.changed(after, upto):
            if self.layout.entry.mode != "upsert":
                yield self._tagged(tagged_frame(rows, self._size, self._tag_key, *times))
            elif self._is_proven:
                yield self._upsert(*net_frames(rows, self._size, self._key, *times))
            else:
                touched = touched_keys(rows, self._size, self._key, *times)
                there = rows if self._of_events or touched.is_empty() else self.rows.rows_of(touched)
                yield self._upsert(*upsert_frames(there, self._size, self._key, *times))

    def _answer_parts(self, step: int) -> Iterator[DeliveryPart]:
        bound, present = self.rows.bound(step), self.rows.manifest.present
        for rows in self.rows.all_rows(step):
            if self.layout.entry.mode == "upsert":
                yield self._upsert(rows.head(0), answer_frame(rows, self._size, min(bound, LAST)))
            elif self._of_events:
                yield self._tagged(tagged_frame(rows, self._size, None, BEFORE_ALL, LAST))
            else:
                t = min(bound, present)
                first = self._held(rows, t)
                later = tagged_frame(rows, self._size, self._tag_key, t, bound)
                yield self._tagged(pl.concat([first, later]))

    @property
    def _is_proven(self) -> bool:
        """Whether the key of the sink follows from the view."""
        return is_view_key(self.layout.key, self.rows.view.plan)

    @property
    def _of_events(self) -> bool:
        return isinstance(self.rows.view, CompiledEventStream)

    @property
    def _tag_key(self) -> tuple[int, ...] | None:
        return keys_of(self.rows.view.plan)

    def _held(self, rows: Frame, t: int) -> Frame:
        """Return what holds at an instant as rows that come then."""
        held = rows.filter((pl.col(FROM) <= t) & (pl.col(UNTIL) > t))
        moved = held.with_columns(pl.lit(t).alias(FROM), pl.lit(t + 1).alias(UNTIL))
        return tagged_frame(moved, self._size, self._tag_key, t - 1, t)

    def _tagged(self, tagged: Frame) -> DeliveryPart:
        found = named_changes(tagged, self.layout)
        if self.layout.entry.mode == "append":
            tag, at, old = self.layout.change_names
            if (found[tag] != "+").any():
                raise StoreError(
                    f"rows of the view '{self.layout.entry.view}' were taken back, and MODE append only adds",
                    next_step="drop the sink, and create it with MODE changes",
                )
            found = found.drop(tag, at, old)
        return DeliveryPart(found)

    def _upsert(self, gone: Frame, come: Frame) -> DeliveryPart:
        layout = self.layout
        if not self._is_proven:
            twice = repeated_key(come, self._key)
            if twice is not None:
                shown = ", ".join(f"{n} = {v}" for n, v in zip(layout.key, twice, strict=True))
                raise StoreError(
                    f"the KEY of the sink '{layout.entry.name}' is none: the view "
                    f"'{layout.entry.view}' has several rows with {shown}",
                    next_step="drop the sink, and create it with more columns in its KEY",
                )
        return DeliveryPart(
            named_records(come, range(self._size), layout), named_records(gone, self._key, layout)
        )
