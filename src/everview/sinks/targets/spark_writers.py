"""What any batch writer of Spark writes: files, a folder for each step, or rows appended to a table."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any

from everview.errors import StoreError
from everview.execute.spark_errors import cause
from everview.sinks.delivery import Delivery, SinkLayout
from everview.sinks.secrets import plain_value
from everview.sinks.targets import target_rows
from everview.sinks.targets.files import SUCCESS, FolderTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter, SparkSession


class SparkFolderTarget(FolderTarget):
    """A folder with the steps of one sink, of which Spark writes the files; one with `_SUCCESS` counts."""

    def __init__(self, layout: SinkLayout, session: Callable[[], SparkSession]) -> None:
        super().__init__(layout)
        self._session = session

    def prepare(self) -> None:
        """Take the folder, and refuse a format that this Spark cannot write."""
        _require_writer(self._session(), self._layout)
        super().prepare()

    def _is_whole(self, folder: str) -> bool:
        return self._files.exists(f"{folder}/{SUCCESS}")

    def _write_step(self, folder: str, delivery: Delivery) -> None:
        rows = _whole_frame(self._session(), delivery).coalesce(1)
        _writer(rows, self._layout).mode("overwrite").save(f"{self._layout.path.rstrip('/')}/{folder}")


class SparkTarget:
    """A table that a batch writer of Spark appends to. After a crash it may get its last step again."""

    can_rewrite = False

    def __init__(self, layout: SinkLayout, session: Callable[[], SparkSession]) -> None:
        self._layout = layout
        self._session = session

    def prepare(self) -> None:
        """Refuse a writer that this Spark does not have."""
        _require_writer(self._session(), self._layout)

    def write(self, delivery: Delivery) -> None:
        """Append the rows of a delivery."""
        writer = _writer(_whole_frame(self._session(), delivery), self._layout).mode("append")
        writer.save(self._layout.path or None)

    def close(self) -> None:
        """There is nothing to close."""


def _writer(rows: DataFrame, layout: SinkLayout) -> DataFrameWriter:
    options = {name: plain_value(value) for name, value in layout.entry.options}
    return rows.write.format(layout.entry.format).options(**options)


def _whole_frame(session: SparkSession, delivery: Delivery) -> DataFrame:
    """Return all rows of a delivery as a DataFrame."""
    frames = [session.createDataFrame(target_rows(part.rows, delivery.layout)) for part in delivery.parts()]
    return reduce(lambda a, b: a.union(b), frames)


def _require_writer(session: SparkSession, layout: SinkLayout) -> None:
    """Refuse a format for which this Spark has no library."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

    name = layout.entry.format
    jvm: Any = session._jvm
    conf = session._jsparkSession.sessionState().conf()
    try:
        jvm.org.apache.spark.sql.execution.datasources.DataSource.lookupDataSource(name, conf)
    except Py4JJavaError as error:
        raise StoreError(
            f"this Spark has no batch writer '{name}': {cause(str(error))}",
            next_step="check the name, or give Spark its package: everview run --packages …",
        ) from error
