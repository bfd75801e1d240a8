"""An Iceberg table. A step is one commit, with its number as a property of the table and of its snapshots."""

from __future__ import annotations

import warnings
from typing import Any

from everview.errors import StoreError
from everview.operators.columnar.lazy import pl
from everview.sinks.delivery import REWRITE, Delivery, SinkLayout, TargetAhead
from everview.sinks.targets import load_library, require_table_columns, target_rows, target_schema

_CATALOG = "catalog."  # what an option begins with that is one of the catalog


class IcebergTarget:
    """A table of a catalog; it is made if it is not there."""

    can_rewrite = True

    def __init__(self, layout: SinkLayout) -> None:
        self._layout = layout
        self._table: Any = None

    def prepare(self) -> None:
        """Make the table if it is not there."""
        catalog, name = self._catalog(), self._layout.text("table")
        errors = load_library("pyiceberg.exceptions", "iceberg")
        if "." not in name:
            raise StoreError(
                f"the table '{name}' has no namespace", next_step=f"write table => 'default.{name}'"
            )
        catalog.create_namespace_if_not_exists(name.rsplit(".", 1)[0])
        try:
            self._table = catalog.load_table(name)
        except errors.NoSuchTableError:
            self._table = catalog.create_table(name, target_schema(self._layout))
        require_table_columns((field.name for field in self._table.schema().fields), self._layout)

    def write(self, delivery: Delivery) -> None:
        """Delete, append and set the step in one commit, unless the table has the step."""
        if self._table is None:
            self._table = self._catalog().load_table(self._layout.text("table"))
        table = self._table.refresh()
        position = f"everview.sink.{self._layout.entry.id}"
        known = table.properties.get(position)
        if known is not None and delivery.kind != REWRITE:
            if int(known) > delivery.store_step:
                raise TargetAhead.of(int(known), delivery)
            if int(known) >= delivery.step:
                return
        marked = {"everview.sink": self._layout.entry.id, "everview.step": str(delivery.step)}
        with table.transaction() as changes:
            if delivery.kind == REWRITE and table.current_snapshot() is not None:
                everything = load_library("pyiceberg.expressions", "iceberg").AlwaysTrue()
                changes.delete(everything, snapshot_properties=marked)
            for part in delivery.parts():
                keys = self._touched(part.rows, part.gone, table.current_snapshot() is None)
                if keys is not None and delivery.kind != REWRITE:
                    with warnings.catch_warnings():  # new keys match nothing, as expected
                        warnings.simplefilter("ignore")
                        changes.delete(keys, snapshot_properties=marked)
                if part.rows.height:
                    changes.append(target_rows(part.rows, self._layout), snapshot_properties=marked)
            changes.set_properties({position: str(delivery.step)})

    def close(self) -> None:
        """The catalog is opened anew when it is needed."""
        self._table = None

    def _catalog(self) -> Any:
        given = [name for name, _ in self._layout.entry.options if name.casefold().startswith(_CATALOG)]
        options = {name[len(_CATALOG) :]: self._layout.text(name) for name in given}
        return load_library("pyiceberg.catalog", "iceberg").load_catalog("everview", **options)

    def _touched(self, rows: Any, gone: Any, empty: bool) -> Any:
        """Return the condition that holds for all rows of the keys of a part; None if there are none."""
        key = list(self._layout.key)
        if not key or empty:
            return None
        keys = rows.select(key) if gone is None else pl.concat([rows.select(key), gone.select(key)])
        if keys.is_empty():
            return None
        if any(keys[name].null_count() for name in key):
            raise StoreError(
                f"a row of the view '{self._layout.entry.view}' has NULL in its KEY, and Iceberg allows none",
                next_step="leave such rows out in the view, or write MODE changes",
            )
        match = load_library("pyiceberg.table.upsert_util", "iceberg").create_match_filter
        return match(keys.unique().to_arrow(), key)
