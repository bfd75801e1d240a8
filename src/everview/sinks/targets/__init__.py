"""The targets of sinks, one file for each kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from everview.catalog import SPARK_FILES
from everview.errors import StoreError
from everview.execute.catalyst import spark_schema
from everview.operators.columnar.frame import Frame
from everview.operators.columnar.lazy import pa
from everview.sinks.delivery import SinkLayout, Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The module of each format, loaded when it is needed, and the class in it.
_TARGETS = {
    "parquet": ("files", "FolderTarget"),
    "json": ("files", "FolderTarget"),
    "csv": ("files", "FolderTarget"),
    "postgres": ("postgres", "PostgresTarget"),
    "webhook": ("webhook", "WebhookTarget"),
    "delta": ("delta", "DeltaTarget"),
    "iceberg": ("iceberg", "IcebergTarget"),
}
# Those that Spark writes; every format that has no line here is the name of a batch writer.
_SPARK_TARGETS = {
    "kafka": ("kafka", "KafkaTarget"),
    **dict.fromkeys(SPARK_FILES, ("spark_writers", "SparkFolderTarget")),
}
_ANY_WRITER = ("spark_writers", "SparkTarget")


def open_target(layout: SinkLayout, session: Callable[[], SparkSession] | None = None) -> Target:
    """Return the target of a sink; it connects when it is first used."""
    format_ = layout.entry.format
    module, name = _TARGETS.get(format_) or _SPARK_TARGETS.get(format_, _ANY_WRITER)
    kind = getattr(import_module(f"everview.sinks.targets.{module}"), name)
    made: Target = kind(layout) if format_ in _TARGETS else kind(layout, session)
    return made


def target_schema(layout: SinkLayout) -> Any:
    """Return the columns of a table that a sink writes, as Arrow has them."""
    from pyspark.sql.pandas.types import to_arrow_schema

    types = to_arrow_schema(spark_schema(layout.schema.types), timezone="UTC").types
    fields = [pa.field(name, type_) for name, type_ in zip(layout.schema.names, types, strict=False)]
    if layout.entry.mode == "changes":
        tag, at, _ = layout.change_names
        fields = [pa.field(tag, pa.string()), pa.field(at, pa.timestamp("us", "UTC")), *fields]
    return pa.schema(fields)


def target_rows(rows: Frame, layout: SinkLayout) -> Any:
    """Return rows as an Arrow table with the columns of the target."""
    schema = target_schema(layout)
    return rows.select(schema.names).to_arrow().cast(schema)


def require_table_columns(there: Iterable[str], layout: SinkLayout) -> None:
    """Refuse a table that is there and does not have the columns of the sink."""
    known = list(there)
    missing = [name for name in target_schema(layout).names if name not in known]
    if missing:
        raise StoreError(
            f"the table of the sink '{layout.entry.name}' has no column '{missing[0]}'",
            choices=known,
            next_step="choose another table; one that is not there is made",
        )


def load_library(module: str, extra: str) -> Any:
    """Return a library that only one target needs; say how to get it if it is not there."""
    try:
        return import_module(module)
    except ImportError:
        raise StoreError(
            f"a sink into {extra} needs {module.split('.')[0]}, which is not installed",
            next_step=f"pip install 'everview[{extra}]'",
        ) from None
