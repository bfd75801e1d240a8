"""A topic of Kafka: a record for each row, written by Spark's connector in the order of the changes.

The header `everview` of a record is (sink, step, row): a record that is sent again after a crash has the same
one. In MODE upsert the topic may be compacted: the key is the KEY as JSON, and a row that is gone is a record
without a value.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from everview.errors import StoreError
from everview.ingest.read_kafka import has_kafka, open_kafka, topic_ids_of
from everview.ingest.reading import package_of
from everview.operators.columnar.frame import Frame
from everview.operators.columnar.hashing import hash_keys
from everview.operators.columnar.lazy import pl
from everview.sinks.delivery import ANSWER, REWRITE, Delivery, DeliveryPart, SinkLayout, plain_text
from everview.sinks.secrets import plain_value

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

KEY, VALUE, _ID = "key", "value", "id"
_HEADERS = f"array(named_struct('key', 'everview', 'value', CAST({_ID} AS BINARY))) AS headers"
# A broker that is down must not hold up the steps for long: Kafka would wait for a minute and more.
_PATIENCE = {
    "kafka.max.block.ms": "5000",
    "kafka.request.timeout.ms": "5000",
    "kafka.delivery.timeout.ms": "15000",
}
_OPERATIONS = {"+": "c", "u": "u", "-": "d"}


class KafkaTarget:
    """A topic, which must be there."""

    def __init__(self, layout: SinkLayout, session: Callable[[], SparkSession]) -> None:
        self._layout = layout
        self._session = session
        self.can_rewrite = layout.entry.mode == "upsert"  # other records are there for good

    def prepare(self) -> None:
        """Refuse a topic that is not there, and brokers that do not answer."""
        session, topic = self._session(), self._layout.text("topic")
        if not has_kafka(session):
            raise StoreError(
                "a sink into kafka needs a library that this Spark does not have",
                next_step=f"run with {package_of('kafka', session.version)}",
            )
        with open_kafka(session, self._layout.entry.name, list(self._options().items())) as admin:
            if topic not in topic_ids_of(session._jvm, admin, [topic]):
                raise StoreError(
                    f"Kafka has no topic '{topic}'",
                    next_step=f"create it, as by kafka-topics.sh --create --topic {topic}",
                )

    def write(self, delivery: Delivery) -> None:
        """Send the records of a delivery. An answer in place of what is there removes all other keys."""
        rewritten = delivery.kind == REWRITE
        parts = [topic_records(part, delivery) for part in delivery.parts()] if rewritten else None
        gone = self._other_keys(parts) if parts is not None else None
        for records in parts or (topic_records(part, delivery) for part in delivery.parts()):
            self._send(self._frame(records))
        if gone is not None:
            mark = f"concat('{self._layout.entry.id}-{delivery.step}-', key) AS {_ID}"
            self._send(gone.selectExpr(KEY, f"CAST(NULL AS STRING) AS {VALUE}", mark))

    def close(self) -> None:
        """Spark keeps the connections, and closes them after a while."""

    def _options(self) -> dict[str, str]:
        given = {
            n: plain_value(v) for n, v in self._layout.entry.options if n.casefold().startswith("kafka.")
        }
        return {**_PATIENCE, **given}

    def _frame(self, records: Frame) -> DataFrame:
        schema = f"{KEY} STRING, {VALUE} STRING, {_ID} STRING"
        return self._session().createDataFrame(records.to_arrow(), schema)

    def _send(self, records: DataFrame) -> None:
        ordered = records.coalesce(1).selectExpr(KEY, VALUE, _HEADERS)  # one task, so that the order stays
        to = {**self._options(), "topic": self._layout.text("topic")}
        ordered.write.format("kafka").options(**to).save()

    def _other_keys(self, parts: list[Frame]) -> DataFrame:
        """Return the keys in the topic whose last record has a value, and that an answer does not have."""
        asked = {**self._options(), "subscribe": self._layout.text("topic")}
        read = self._session().read.format("kafka").options(**asked).load()
        last = read.where("key IS NOT NULL").selectExpr("CAST(key AS STRING) AS key", "value", "offset")
        held = last.groupBy(KEY).agg({"offset": "max"}).withColumnRenamed("max(offset)", "offset")
        alive = last.join(held, [KEY, "offset"]).where("value IS NOT NULL").select(KEY).distinct()
        return alive.join(self._frame(pl.concat(parts)).select(KEY), KEY, "left_anti")


def topic_records(part: DeliveryPart, delivery: Delivery) -> Frame:
    """Return the records of a part: key and value as JSON, and the id."""
    layout = delivery.layout
    if layout.entry.mode == "upsert":
        rows = [_upserted(part.rows, layout, delivery.step)]
        if part.gone is not None:
            rows.append(_upserted(part.gone, layout, delivery.step))
        return pl.concat(rows)
    text = plain_text(part.rows)
    own = [name for name in part.rows.columns if name != layout.change_names[2]]
    if layout.entry.mode == "append":
        value, key = _json(text.columns), None
    else:
        key = layout.schema.names if layout.view_key is None else layout.view_key
        value = _json(text.columns)
    ids = _ids(part.rows.select(own), layout, delivery.step)
    if layout.text("format") != "debezium":
        shown = pl.lit(None, pl.String) if key is None else _json(key)
        return text.select(shown.alias(KEY), value.alias(VALUE), ids.alias(_ID))
    keys = None if layout.view_key is None else _json(layout.view_key)
    return pl.concat(_envelopes(part.rows, text, keys, ids, delivery))


def _upserted(rows: Frame, layout: SinkLayout, step: int) -> Frame:
    """Return rows as records with a value; keys alone as records without."""
    text = plain_text(rows)
    whole = rows.columns == list(layout.schema.names)
    value = _json(text.columns) if whole else pl.lit(None, pl.String)
    ids = _ids(rows, layout, step)
    return text.select(_json(layout.key).alias(KEY), value.alias(VALUE), ids.alias(_ID))


def _envelopes(
    rows: Frame, text: Frame, keys: pl.Expr | None, ids: pl.Series, delivery: Delivery
) -> Iterator[Frame]:
    """Yield change events as Debezium writes them; a deletion is followed by a record without a value."""
    layout = delivery.layout
    tag, at, old = layout.change_names
    names = list(layout.schema.names)
    first = pl.lit("r") if delivery.kind == ANSWER else pl.lit("c")
    operation = pl.when(pl.col(tag) == "+").then(first).otherwise(
        pl.col(tag).replace_strict(_OPERATIONS, default=None, return_dtype=pl.String)
    )  # fmt: skip
    row, nothing = _json(names), pl.lit("null")
    before = pl.when(pl.col(tag) == "-").then(row).when(pl.col(tag) == "u").then(
        pl.col(old).struct.json_encode()
    ).otherwise(nothing)  # fmt: skip
    after = pl.when(pl.col(tag) == "-").then(nothing).otherwise(row)
    millis = rows[at].dt.timestamp("us").fill_null(0) // 1000
    source = {
        "version": "1", "connector": "everview", "name": layout.entry.name, "table": layout.entry.view,
        "step": delivery.step, "snapshot": "true" if delivery.kind == ANSWER else "false",
    }  # fmt: skip
    about = json.dumps(source, ensure_ascii=False)
    shape = '{{"before":{},"after":{},"source":{},"op":"{}","ts_ms":{}}}'
    value = pl.format(shape, before, after, pl.lit(about), operation, pl.lit(millis))
    key = pl.lit(None, pl.String) if keys is None else keys
    events = text.select(key.alias(KEY), value.alias(VALUE), ids.alias(_ID), pl.col(tag).alias("tag"))
    events = events.with_row_index("place")
    if keys is not None:
        gone = events.filter(pl.col("tag") == "-").with_columns(
            pl.lit(None, pl.String).alias(VALUE), (pl.col(_ID) + "-gone").alias(_ID)
        )
        events = pl.concat([events, gone]).sort("place", maintain_order=True)
    yield events.select(KEY, VALUE, _ID)


def _json(names: Any) -> pl.Expr:
    columns = list(names)
    return pl.struct(columns).struct.json_encode() if columns else pl.lit("{}")


def _ids(rows: Frame, layout: SinkLayout, step: int) -> pl.Series:
    """Return (sink, step, row) of each row: a row is a hash of its values, and the number of its copy."""
    hashes = pl.Series("hash", hash_keys(rows, rows.columns)).reinterpret(signed=False)
    copies = pl.select(hash=hashes).select(
        pl.format(f"{layout.entry.id}-{step}-{{}}-{{}}", "hash", pl.int_range(pl.len()).over("hash"))
    )
    return copies.to_series()
