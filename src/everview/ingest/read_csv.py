"""CSV files: Spark splits records into texts, and each text is then read as a value of its column.

Spark's reader takes columns by position, by one schema for all files. So it reads here more columns than
there are, all of them texts: such a record never fits the schema, and Spark hands on its whole text with it,
which we keep for rows that are late or refused. Where files have headers, `csv_header.py` puts the texts of
each file in the order of the declared columns. Values are made by CAST, so that a reason can name the column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from pyspark.accumulators import Accumulator
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as S

from everview.algebra import types as T
from everview.algebra.text import string_sql, type_sql
from everview.catalog import FedEntry, Source
from everview.execute.guards import try_cast_sql
from everview.ingest.csv_header import (
    EMPTY,
    FIELD_COUNT,
    RECORD,
    REFUSED,
    Dialect,
    HeaderTask,
    text_column,
)
from everview.ingest.differences import ColumnDifference
from everview.ingest.reading import (
    ORIGINAL,
    PLACE_OF_FILES,
    REASON,
    case_sql,
    columns_sql,
    encoding_of,
    file_options,
    load_files,
    options_of,
    path_pattern,
    place_of,
    required_cases,
    required_columns,
    strict_columns,
    unreadable_reason,
)
from everview.operators.base import column

_MORE = 8  # columns that are read beyond those that are known
_COUNT = "_everview_count"  # how many columns a record has
_OF_STREAMS = ("maxfilespertrigger", "maxbytespertrigger", "maxfileage", "multiline")
_FORMATS = {
    T.DATE: ("dateformat", "locale"),
    T.TIMESTAMP: ("timestampformat", "timezone", "locale"),
    T.DOUBLE: ("nanvalue", "positiveinf", "negativeinf"),
    T.FLOAT: ("nanvalue", "positiveinf", "negativeinf"),
}


def open_csv(
    session: SparkSession,
    entry: FedEntry,
    source: Source,
    found_columns: Accumulator[frozenset[ColumnDifference]],
    files: Sequence[str] | None = None,
) -> DataFrame:
    """Return the rows of CSV files: by position, or with `header => true` by name in every file."""
    csv = CsvValues(entry, source)
    found = _header_of_first_file(session, source) if csv.header else []
    wide = max(len(entry.columns), len(found)) + _MORE
    texts = [text_column(i) for i in range(wide)]
    schema = S.StructType([S.StructField(name, S.StringType()) for name in (*texts, RECORD)])
    place = place_of(entry)
    frame = load_files(session, entry, "csv", csv.reader_options, schema, files)
    frame = frame.withColumn(RECORD, F.expr(f"coalesce({RECORD}, {csv.joined(texts)})"))
    if csv.header:
        required = frozenset(required_columns(entry))
        task = HeaderTask(
            entry.columns.names, required, csv.dialect, wide, tuple(place), entry.name, found_columns,
            strict_columns(entry),
        )  # fmt: skip
        frame = frame.selectExpr("*", *columns_sql(PLACE_OF_FILES)).mapInArrow(task, task.schema)
    else:
        beside = (f"{strict_columns(entry)} AS {FIELD_COUNT}", f"CAST(NULL AS STRING) AS {REFUSED}")
        frame = frame.selectExpr(*texts[: len(entry.columns)], RECORD, *beside, *columns_sql(place))
        frame = frame.where(f"{RECORD} <> '\ufeff'")  # a file that has only a byte order mark
    return csv.values(frame, list(place))


def _header_of_first_file(session: SparkSession, source: Source) -> list[str]:
    """Return the names in a file that is there already; none if there is no file."""
    options = {k: v for k, v in options_of(source).items() if k not in _OF_STREAMS}
    try:
        return session.read.format("csv").options(**options).load(path_pattern(source)).columns
    except PySparkException:
        return []


@dataclass(frozen=True)
class CsvValues:
    """The CSV records of a stream or a table: the options of Spark's reader, and how texts become values."""

    entry: FedEntry
    source: Source

    @cached_property
    def options(self) -> dict[str, str]:
        return options_of(self.source)

    @cached_property
    def header(self) -> bool:
        return self.options.get("header", "false").casefold() == "true"

    @cached_property
    def dialect(self) -> Dialect:
        return Dialect.of(self.options)

    @cached_property
    def reader_options(self) -> dict[str, str]:
        """Options for common CSV: a quote in quotes is doubled, a value may have several lines."""
        usual = {"multiline": "true", "escape": self.dialect.escape, "emptyvalue": EMPTY}
        ours = {"header": "false", "mode": "PERMISSIVE", "columnnameofcorruptrecord": RECORD}
        return usual | file_options(self.entry) | ours

    def joined(self, texts: list[str]) -> str:
        """Return the text of a record with just as many columns as Spark reads: Spark returns none for it.

        It is written again in the dialect of the file, and so read again as these columns.
        """
        quote, escape = map(string_sql, (self.dialect.quote, self.dialect.escape))
        separator = string_sql(self.dialect.separator)
        shown = "coalesce(x, '')"
        if self.dialect.quote:
            inside = f"replace(x, {escape}, {escape} || {escape})"
            if self.dialect.escape != self.dialect.quote:
                inside = f"replace({inside}, {quote}, {escape} || {quote})"
            odd = f"x RLIKE {string_sql(self.dialect.odd)}"
            shown = f"IF({odd}, {quote} || {inside} || {quote}, {shown})"
        if "emptyvalue" not in self.options:
            shown = f"IF(x = {string_sql(EMPTY)}, {string_sql(self.dialect.quote * 2)}, {shown})"
        return f"array_join(transform(array({', '.join(texts)}), x -> {shown}), {separator})"

    def values(self, frame: DataFrame, place: list[str]) -> DataFrame:
        """Return the columns as values of their types, the reason, and the record as it came."""
        columns = self.entry.columns
        texts = [f"_everview_value{i}" for i in range(len(columns))]
        shown = [f"{self._text(i)} AS {text}" for i, text in enumerate(texts)]
        own = [
            f"{self._value(text, f.type)} AS {column(i)}"
            for i, (f, text) in enumerate(zip(columns, texts, strict=True))
        ]
        cases = [f"WHEN {REFUSED} IS NOT NULL THEN {REFUSED}", *self._bytes_case(), self._count_case()]
        cases += [
            f"WHEN {text} IS NOT NULL AND {column(i)} IS NULL "
            f"THEN {unreadable_reason(f.name, text, str(f.type))}"
            for i, (f, text) in enumerate(zip(columns, texts, strict=True))
            if f.type != T.STRING and i < strict_columns(self.entry)
        ]
        reason = case_sql([*cases, *required_cases(self.entry)])
        beside = [RECORD, FIELD_COUNT, REFUSED, *place]
        frame = frame.selectExpr(*shown, f"{self._count()} AS {_COUNT}", *beside)
        frame = frame.selectExpr(*texts, *own, _COUNT, *beside)
        names = [column(i) for i in range(len(columns))]
        return frame.selectExpr(*names, f"{reason} AS {REASON}", f"{RECORD} AS {ORIGINAL}", *place)

    def _text(self, position: int) -> str:
        """Return a field as text: NULL if it is empty; empty quotes are '', and NULL for other types."""
        name = text_column(position)
        if "emptyvalue" in self.options:
            return name
        if self.entry.columns.types[position] == T.STRING:
            return f"IF({name} = {string_sql(EMPTY)}, '', {name})"
        return f"nullif({name}, {string_sql(EMPTY)})"

    def _value(self, text: str, type_: T.DataType) -> str:
        """Return a text as a value, by the options of the source if they say how; NULL if it is none."""
        if type_ == T.STRING:
            return text
        given = [(k, self.options[k]) for k in _FORMATS.get(type_, ()) if k in self.options]
        if given:
            options = ", ".join(f"{string_sql(k)}, {string_sql(v)}" for k, v in [*given, ("escape", '"')])
            quoted = f"concat('\"', replace(trim({text}), '\"', '\"\"'), '\"')"
            return f"from_csv({quoted}, 'v {type_sql(type_)}', map({options})).v"
        return try_cast_sql(text, type_, is_text=True)

    def _bytes_case(self) -> list[str]:
        """Return the WHEN for bytes that are no text: Java replaces them with U+FFFD."""
        why = string_sql(f"it holds U+FFFD, which stands for bytes that are no {encoding_of(self.options)}")
        return [f"WHEN instr({RECORD}, '\ufffd') > 0 THEN {why}"]

    def _count_case(self) -> str:
        """Return the WHEN for a record with too many columns, or too few.

        Files without a header that were written before columns were added to the stream have fewer.
        """
        fewer = 0 if self.header else strict_columns(self.entry) - len(self.entry.columns) + self.entry.added
        words = f"IF({_COUNT} = 1, ' column', ' columns')"
        return (
            f"WHEN {_COUNT} NOT BETWEEN {FIELD_COUNT} - {max(fewer, 0)} AND {FIELD_COUNT}"
            f" THEN concat('it has ', {_COUNT}, {words}, ', not ', {FIELD_COUNT})"
        )

    def _count(self) -> str:
        """Return how many columns a record has: the separators outside of quoted fields, plus one."""
        separator, quote = self.dialect.separator, self.dialect.quote
        bare = RECORD
        if quote:
            pattern, whole = string_sql(self.dialect.quoted), string_sql(quote)
            bare = f"IF(instr({RECORD}, {whole}) = 0, {RECORD}, regexp_replace({RECORD}, {pattern}, '$1'))"
        gone = f"octet_length({bare}) - octet_length(replace({bare}, {string_sql(separator)}, ''))"
        return f"1 + ({gone}) div {len(separator.encode())}"
