"""A table of PostgreSQL. Rows and the step are written in one transaction: each step counts once.

The table `everview_positions` beside it has the last step of each sink. Rows come by COPY into a temporary
table, and from there by one statement: nothing is done row by row.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from everview.algebra.types import DataType
from everview.errors import StoreError
from everview.operators.columnar.frame import Frame
from everview.operators.columnar.lazy import pl
from everview.sinks.delivery import REWRITE, Delivery, DeliveryPart, SinkLayout, TargetAhead
from everview.sinks.targets import load_library

POSITIONS_TABLE = "everview_positions"
_SECONDS = 10  # until a server that does not answer is taken for down

_TYPES = {
    "BOOLEAN": "boolean", "TINYINT": "smallint", "SMALLINT": "smallint", "INT": "integer",
    "BIGINT": "bigint", "FLOAT": "real", "DOUBLE": "double precision", "STRING": "text", "BINARY": "bytea",
    "DATE": "date", "TIMESTAMP": "timestamptz", "TIMESTAMP_NTZ": "timestamp", "VOID": "integer",
}  # fmt: skip


class PostgresTarget:
    """A table; it is made if it is not there. The connection is kept open between steps."""

    can_rewrite = True

    def __init__(self, layout: SinkLayout) -> None:
        self._layout = layout
        self._connection: Any = None
        names = list(layout.schema.names)
        tag, at, _ = layout.change_names
        self._names = [tag, at, *names] if layout.entry.mode == "changes" else names

    def prepare(self) -> None:
        """Make the table if it is not there; refuse one that another sink writes, or that does not fit."""
        with self._transaction() as cursor:
            cursor.execute(self._sql(_CREATE_POSITIONS))
            cursor.execute(
                self._sql("SELECT name FROM {positions} WHERE target = %s AND sink <> %s"),
                (self._table_text, self._layout.entry.id),
            )
            other = cursor.fetchone()
            if other is not None:
                raise StoreError(
                    f"the table {self._table_text} is written by the sink '{other[0]}'",
                    next_step="choose another table; if that sink was dropped, "
                    f"DELETE FROM {POSITIONS_TABLE} WHERE name = '{other[0]}'",
                )
            cursor.execute(self._create_table())
            cursor.execute(self._sql("SELECT {columns} FROM {table} LIMIT 0"))
            if self._layout.key:  # there must be a unique index to upsert by
                self._make_temporary(cursor, "everview_rows", self._names)
                cursor.execute(self._sql("EXPLAIN " + _UPSERT))

    def write(self, delivery: Delivery) -> None:
        """Write rows and step in one transaction, unless the step is there."""
        with self._transaction() as cursor:
            cursor.execute(self._sql(_CREATE_POSITIONS))
            cursor.execute(
                self._sql("SELECT step FROM {positions} WHERE sink = %s FOR UPDATE"),
                (self._layout.entry.id,),
            )
            found = cursor.fetchone()
            if found is not None and delivery.kind != REWRITE:
                if found[0] > delivery.store_step:
                    raise TargetAhead.of(found[0], delivery)
                if found[0] >= delivery.step:
                    return
            if delivery.kind == REWRITE:
                cursor.execute(self._sql("DELETE FROM {table}"))
            for part in delivery.parts():
                self._write_part(cursor, part)
            entry = self._layout.entry
            cursor.execute(self._sql(_SET_POSITION), (entry.id, entry.name, self._table_text, delivery.step))

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            with suppress(Exception):
                self._connection.close()
            self._connection = None

    def _write_part(self, cursor: Any, part: DeliveryPart) -> None:
        if part.gone is not None and part.gone.height:
            keys = list(self._layout.key)
            self._copy(cursor, "everview_gone", keys, part.gone)
            same = " AND ".join(f"t.{_quoted(k)} IS NOT DISTINCT FROM g.{_quoted(k)}" for k in keys)
            cursor.execute(f"DELETE FROM {self._table_text} t USING everview_gone g WHERE {same}")
        if part.rows.height:
            self._copy(cursor, "everview_rows", self._names, part.rows.select(self._names))
            cursor.execute(self._sql(_UPSERT if self._layout.key else _INSERT))

    def _make_temporary(self, cursor: Any, temporary: str, names: list[str]) -> str:
        """Make a temporary table that has columns of the target; return the columns as SQL."""
        columns = ", ".join(map(_quoted, names))
        source = f"SELECT {columns} FROM {self._table_text} LIMIT 0"
        cursor.execute(f"DROP TABLE IF EXISTS pg_temp.{temporary}")
        cursor.execute(f"CREATE TEMP TABLE {temporary} ON COMMIT DROP AS {source}")
        return columns

    def _copy(self, cursor: Any, temporary: str, names: list[str], rows: Frame) -> None:
        """Fill a temporary table that has columns of the target with rows."""
        columns = self._make_temporary(cursor, temporary, names)
        with cursor.copy(f"COPY {temporary} ({columns}) FROM STDIN (FORMAT csv)") as copy:
            copy.write(_csv(rows))

    def _transaction(self) -> Any:
        """Return a transaction with a cursor; a connection that is broken is made anew."""
        psycopg = load_library("psycopg", "postgres")
        if self._connection is not None and self._connection.closed:
            self._connection = None
        if self._connection is None:
            # The options of the URL win: it may have a connect_timeout of its own.
            url = self._layout.text("url")
            given = psycopg.conninfo.conninfo_to_dict(url)
            wait = {} if "connect_timeout" in given else {"connect_timeout": _SECONDS}
            self._connection = psycopg.connect(url, autocommit=True, **wait)
            self._connection.execute("SET TIME ZONE 'UTC'")
            self._connection.execute("SET client_min_messages TO warning")
        return _Transaction(self._connection)

    @property
    def _table_text(self) -> str:
        schema = self._layout.text("schema")
        table = _quoted(self._layout.text("table"))
        return f"{_quoted(schema)}.{table}" if schema else table

    def _sql(self, text: str) -> str:
        """Return a statement with the names of this target; one with parameters has no names of a user.

        A % in a name would be taken for a parameter there.
        """
        schema = self._layout.text("schema")
        positions = f"{_quoted(schema)}.{POSITIONS_TABLE}" if schema else POSITIONS_TABLE
        others = [name for name in self._names if name not in self._layout.key]
        update = ", ".join(f"{_quoted(name)} = EXCLUDED.{_quoted(name)}" for name in others)
        return text.format(
            table=self._table_text,
            positions=positions,
            columns=", ".join(map(_quoted, self._names)),
            key=", ".join(map(_quoted, self._layout.key)),
            update=f"DO UPDATE SET {update}" if update else "DO NOTHING",
        )

    def _create_table(self) -> str:
        types = {f.name: _type(f.type) for f in self._layout.schema}
        tag, at, _ = self._layout.change_names
        if self._layout.entry.mode == "changes":
            types |= {tag: "text", at: "timestamptz"}
        columns = [f"{_quoted(name)} {types[name]}" for name in self._names]
        columns += [f"PRIMARY KEY ({', '.join(map(_quoted, self._layout.key))})"] if self._layout.key else []
        return f"CREATE TABLE IF NOT EXISTS {self._table_text} ({', '.join(columns)})"


_CREATE_POSITIONS = (
    "CREATE TABLE IF NOT EXISTS {positions} (sink text PRIMARY KEY, name text, target text, step bigint)"
)
_SET_POSITION = (
    "INSERT INTO {positions} (sink, name, target, step) VALUES (%s, %s, %s, %s) "
    "ON CONFLICT (sink) DO UPDATE SET step = EXCLUDED.step, name = EXCLUDED.name"
)
_INSERT = "INSERT INTO {table} ({columns}) SELECT {columns} FROM everview_rows"
_UPSERT = _INSERT + " ON CONFLICT ({key}) {update}"


class _Transaction:
    """All or nothing on one connection; gives a cursor."""

    def __init__(self, connection: Any) -> None:
        self._transaction = connection.transaction()
        self._cursor = connection.cursor()

    def __enter__(self) -> Any:
        self._transaction.__enter__()
        return self._cursor

    def __exit__(self, *error: Any) -> Any:
        return self._transaction.__exit__(*error)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _type(type_: DataType) -> str:
    return f"numeric({type_.precision},{type_.scale})" if type_.is_decimal else _TYPES[type_.name]


def _csv(rows: Frame) -> bytes:
    """Return rows as COPY reads them: a NULL is nothing, an empty text two quotes."""
    shown = []
    for name, type_ in rows.schema.items():
        column = pl.col(name)
        if type_ == pl.Binary:
            column = pl.concat_str(pl.lit("\\x"), column.bin.encode("hex"))
        elif isinstance(type_, pl.Datetime):
            column = column.dt.strftime("%Y-%m-%dT%H:%M:%S%.6f" + ("Z" if type_.time_zone else ""))
        elif type_ in (pl.Float32, pl.Float64):
            column = (
                pl.when(column.is_nan())
                .then(pl.lit("NaN"))
                .when(column.is_infinite())
                .then(pl.when(column > 0).then(pl.lit("Infinity")).otherwise(pl.lit("-Infinity")))
                .otherwise(column.cast(pl.String))
            )
        elif type_ != pl.String:
            column = column.cast(pl.String)
        shown.append(column.alias(name))
    text: str = rows.select(shown).write_csv(include_header=False, quote_style="non_numeric", null_value="")
    return text.encode()
