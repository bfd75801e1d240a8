"""A Delta table. A step is one commit, which has the step as the version of the sink's transaction.

An upsert is one MERGE, which also deletes; more than a million rows are several, of which the last one has
the step. Credentials of object stores come from the environment.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from everview.operators.columnar.lazy import pa, pl
from everview.sinks.delivery import REWRITE, Delivery, DeliveryPart, SinkLayout, TargetAhead
from everview.sinks.targets import load_library, require_table_columns, target_rows, target_schema

_GONE = "_everview_gone"


class DeltaTarget:
    """A table at a path; it is made if it is not there."""

    can_rewrite = True

    def __init__(self, layout: SinkLayout) -> None:
        self._layout = layout

    def prepare(self) -> None:
        """Make the table if it is not there."""
        delta, path = self._library, self._layout.path
        if not delta.DeltaTable.is_deltatable(path):
            delta.DeltaTable.create(path, schema=delta.Schema.from_arrow(target_schema(self._layout)))
        require_table_columns((field.name for field in delta.DeltaTable(path).schema().fields), self._layout)

    def write(self, delivery: Delivery) -> None:
        """Write a delivery, unless the table has its step."""
        delta, id_ = self._library, self._layout.entry.id
        table = delta.DeltaTable(self._layout.path)
        known = table.transaction_version(id_)
        if known is not None and delivery.kind != REWRITE:
            if known > delivery.store_step:
                raise TargetAhead.of(known, delivery)
            if known >= delivery.step:
                return
        done = delta.CommitProperties(app_transactions=[delta.Transaction(id_, delivery.step)])
        if self._layout.key and delivery.kind != REWRITE:
            self._merge(table, delivery, done)
            return
        schema = target_schema(self._layout)
        rows = pa.RecordBatchReader.from_batches(schema, _batches(delivery, self._layout))
        mode = "overwrite" if delivery.kind == REWRITE else "append"
        delta.write_deltalake(table, rows, mode=mode, commit_properties=done)

    def close(self) -> None:
        """There is nothing to close."""

    @property
    def _library(self) -> Any:
        return load_library("deltalake", "delta")

    def _merge(self, table: Any, delivery: Delivery, done: Any) -> None:
        for part, last in _with_last(delivery.parts()):
            names = self._layout.schema.names
            same = " AND ".join(f't."{k}" IS NOT DISTINCT FROM s."{k}"' for k in self._layout.key)
            values = {f'"{name}"': f's."{name}"' for name in names}
            source = _merge_source(part, self._layout)
            merge = table.merge(source, same, "s", "t", commit_properties=done if last else None)
            merge = merge.when_matched_delete(f"s.{_GONE}")
            merge = merge.when_matched_update(values)
            merge.when_not_matched_insert(values, f"NOT s.{_GONE}").execute()


def _merge_source(part: DeliveryPart, layout: SinkLayout) -> Any:
    """Return the rows to write and the keys to delete as one table."""
    rows = target_rows(part.rows, layout)
    gone = part.gone
    both = rows.append_column(_GONE, pa.array([False] * rows.num_rows, pa.bool_()))
    if gone is None or gone.is_empty():
        return both
    missing = [pl.lit(None).alias(n) for n in layout.schema.names if n not in layout.key]
    wide = gone.with_columns(missing).select(layout.schema.names)
    keys = wide.to_arrow().cast(target_schema(layout))
    return pa.concat_tables([both, keys.append_column(_GONE, pa.array([True] * keys.num_rows, pa.bool_()))])


def _batches(delivery: Delivery, layout: SinkLayout) -> Iterator[Any]:
    for part in delivery.parts():
        yield from target_rows(part.rows, layout).to_batches()


def _with_last(parts: Iterator[DeliveryPart]) -> Iterator[tuple[DeliveryPart, bool]]:
    """Yield parts, and whether each is the last one."""
    before: DeliveryPart | None = None
    for part in parts:
        if before is not None:
            yield before, False
        before = part
    if before is not None:
        yield before, True
