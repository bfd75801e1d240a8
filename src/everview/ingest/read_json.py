"""JSON, an object a line: Spark reads lines, and `from_json` reads their values.

So the text of every line stays at hand for rows that are late or refused, and a line that holds no object,
or more than one, is refused. Keys are found by exact name, else in any case as Spark finds columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession

from everview.algebra import types as T
from everview.algebra.schema import Field, Schema, names_beside
from everview.algebra.text import name_sql, string_sql, type_sql
from everview.catalog import FedEntry, Source, StreamEntry
from everview.execute.guards import without_date_null
from everview.ingest.reading import (
    ORIGINAL,
    REASON,
    case_sql,
    columns_sql,
    encoding_of,
    file_options,
    load_files,
    options_of,
    place_of,
    required_cases,
    strict_columns,
    unreadable_reason,
)
from everview.operators.base import column

JSON_LINE, _PARSED, _MENDED = "_everview_line", "_everview_parsed", "_everview_mended"
_BROKEN = "_everview_broken"  # where from_json puts the text of what it cannot read
_SIGN, _ESCAPE = r"\S", r"\u"
# The beginning of a text that may be a time without a date: such a time, or an escaped character. The end of
# a key must not match: then every line would be parsed twice.
TIME_OF_DAY = r'"\s*(?:T[0-9]|[0-9]{1,3}:|[^"\\]{0,4}\\)'
_OF_LINES = ("linesep", "encoding", "charset")  # options of the reader of lines


def open_json(
    session: SparkSession, entry: FedEntry, source: Source, files: Sequence[str] | None = None
) -> DataFrame:
    """Return the rows of JSON files; with `multiLine => true` a file is an object or an array of them."""
    json = JsonValues(entry, source)
    whole = json.whole
    place = place_of(entry)
    ours = {"encoding": encoding_of(options_of(source)), "wholetext": str(whole).lower()}
    frame = load_files(session, entry, "text", file_options(entry) | ours, files=files)
    # Bytes that are no text become U+FFFD, as they do in CSV; else they would come into Arrow as they are.
    valid = "IF(is_valid_utf8(value), value, make_valid_utf8(value)) AS value"
    frame = frame.selectExpr(valid, *columns_sql(place))
    line = f"explode({_elements('value')})" if whole else "value"
    lines = frame.selectExpr(f"{line} AS {JSON_LINE}", *place).where(f"{JSON_LINE} RLIKE {string_sql(_SIGN)}")
    return json.values(lines, list(place))


def _elements(text: str) -> str:
    """Return the objects of a file that is an array of them, as texts; any other file is one."""
    found = f"from_json({text}, 'ARRAY<STRING>')"
    array = f"ltrim({text}) LIKE '[%' AND {found} IS NOT NULL"
    return f"IF({array}, transform({found}, x -> coalesce(x, 'null')), array({text}))"


@dataclass(frozen=True)
class JsonValues:
    """The JSON objects of a stream or a table: how a line, or the value of a record, becomes a row or not."""

    entry: FedEntry
    source: Source
    of_files: bool = True

    @cached_property
    def whole(self) -> bool:
        """Whether a file is one object or an array of them, instead of an object a line."""
        return options_of(self.source).get("multiline", "false").casefold() == "true"

    @cached_property
    def broken(self) -> str:
        """Where from_json puts the text of what it cannot read, beside the columns."""
        return names_beside(self.entry.columns.names, _BROKEN)[0]

    @cached_property
    def options(self) -> str:
        given = {k: v for k, v in options_of(self.source).items() if k not in _OF_LINES}
        ours = {"mode": "PERMISSIVE", "columnnameofcorruptrecord": self.broken}
        pairs = (given | ours).items()
        return f"map({', '.join(f'{string_sql(k)}, {string_sql(v)}' for k, v in pairs)})"

    def values(self, lines: DataFrame, place: list[str]) -> DataFrame:
        """Return the columns, the reason, and the line."""
        if (strict := strict_columns(self.entry)) < len(self.entry.columns):
            return self._values_again(lines, place, strict)
        columns = list(self.entry.columns)
        shown = [f"{_PARSED}.{name_sql(f.name)} AS {column(i)}" for i, f in enumerate(columns)]
        mended = f"IF({self._other_case()}, {self._by_own_names()}, NULL) AS {_MENDED}"
        parsed = f"IF({_MENDED} IS NULL, {_PARSED}, {self._parsed(_MENDED, columns)}) AS {_PARSED}"
        kept = [JSON_LINE, *place]
        frame = lines.selectExpr(*kept, f"{self._parsed(JSON_LINE, columns)} AS {_PARSED}")
        frame = frame.selectExpr(*kept, _PARSED, mended).selectExpr(*kept, _MENDED, parsed)
        frame = frame.selectExpr(*kept, _MENDED, _PARSED, *shown)
        names = [column(i) for i in range(len(columns))]
        return frame.selectExpr(*names, f"{self._reason()} AS {REASON}", f"{JSON_LINE} AS {ORIGINAL}", *place)

    def _values_again(self, lines: DataFrame, place: list[str], strict: int) -> DataFrame:
        """Return the rows as they were first read, and beside them what later columns hold, or NULL."""
        entry, fields = self.entry, self.entry.columns.fields
        assert isinstance(entry, StreamEntry)
        first, later = (
            JsonValues(replace(entry, columns=Schema(part), read_as=None), self.source, self.of_files)
            for part in (fields[:strict], fields[strict:])
        )
        frame = first.values(lines, place).withColumnRenamed(ORIGINAL, JSON_LINE)
        parsed = later._parsed(later._by_own_names(), list(fields[strict:]))
        frame = frame.selectExpr("*", f"{parsed} AS {_PARSED}")
        values = enumerate(fields[strict:], strict)
        shown = [f"{_PARSED}.{name_sql(f.name)} AS {column(i)}" for i, f in values]
        own = [column(i) for i in range(strict)]
        return frame.selectExpr(*own, *shown, REASON, f"{JSON_LINE} AS {ORIGINAL}", *place)

    def _parsed(self, text: str, columns: list[Field]) -> str:
        fields = [f"{name_sql(f.name)} {type_sql(f.type)}" for f in columns]
        schema = ", ".join([*fields, f"{self.broken} STRING"])
        return f"from_json({text}, {string_sql(schema)}, {self.options})"

    # Keys in another case

    def _other_case(self) -> str:
        """Return the SQL test whether a column without a value may have one under a key in another case."""
        small = f"lower({JSON_LINE})"
        found = [
            f"({_PARSED}.{name_sql(f.name)} IS NULL AND instr({small}, {string_sql(_key(f.name))}) > 0)"
            for f in self.entry.columns
        ]
        escaped = f"instr({JSON_LINE}, {string_sql(_ESCAPE)}) > 0"
        return f"({' OR '.join([*found, escaped])}) AND json_object_keys({JSON_LINE}) IS NOT NULL"

    def _by_own_names(self) -> str:
        """Return the object again, with the keys as the columns are named."""
        values = f"from_json({JSON_LINE}, 'MAP<STRING, VARIANT>', {self.options})"
        fields = [
            f"{string_sql(f.name)}, {values}[coalesce(get({self._spelt(f.name)}, 0), '')]"
            for f in self.entry.columns
        ]
        return f"to_json(named_struct({', '.join(fields)}))"

    def _spelt(self, name: str) -> str:
        """Return the keys that are a column: the exact name, or all that are it in any case."""
        keys = f"array_distinct(json_object_keys({JSON_LINE}))"
        any_case = f"filter({keys}, x -> lower(x) = {string_sql(name.lower())})"
        return f"IF(array_contains({keys}, {string_sql(name)}), array({string_sql(name)}), {any_case})"

    # Reasons

    def _reason(self) -> str:
        text = f"coalesce({_MENDED}, {JSON_LINE})"
        encoding = encoding_of(options_of(self.source))
        bytes_ = f"it holds U+FFFD, which stands for bytes that are no {encoding}"
        hint = "" if self.whole or not self.of_files else "; if each file is one, say multiLine => true"
        array = string_sql(f"it is an array and no JSON object{hint}")
        several = string_sql("there is more in the line than one JSON object")
        wrong = [
            f"WHEN {self._parsed(text, [f])}.{self.broken} IS NOT NULL THEN {_wrong(f, text)}"
            for f in self.entry.columns
        ]
        first = case_sql([*wrong, "ELSE 'its values do not fit the columns'"])
        nothing = f"CASE WHEN ltrim({JSON_LINE}) LIKE '[%' THEN {array} ELSE 'it is no JSON object' END"
        any_object = f"from_json({JSON_LINE}, 'MAP<STRING, STRING>', {self.options})"
        cases = [
            f"WHEN instr({JSON_LINE}, '\ufffd') > 0 THEN {string_sql(bytes_)}",
            f"WHEN {_PARSED}.{self.broken} IS NOT NULL OR {_PARSED} IS NULL THEN "
            f"CASE WHEN {any_object} IS NULL THEN {nothing} ELSE {first} END",
            f"WHEN {self._is_more()} THEN {several}",
            *self._times_of_day(text),
            *self._ambiguous(),
        ]
        return case_sql([*cases, *required_cases(self.entry)])

    def _times_of_day(self, text: str) -> list[str]:
        """Return the WHENs for times without a date, to which Spark would add the current day."""
        if "timestampformat" in options_of(self.source):
            return []
        cases = []
        for field in (f for f in self.entry.columns if f.type == T.TIMESTAMP):
            value = f"from_json({text}, 'MAP<STRING, STRING>')[{string_sql(field.name)}]"
            there = f"{JSON_LINE} RLIKE {string_sql(TIME_OF_DAY)} AND {value} IS NOT NULL"
            why = unreadable_reason(field.name, value, str(field.type))
            cases.append(f"WHEN {there} AND {without_date_null(value)} IS NULL THEN {why}")
        return cases

    def _is_more(self) -> str:
        """Return whether something follows the object: Spark would ignore it.

        Where the first closing brace ends the line, nothing does. Else the line must be one value in an
        array, and one in an object: whatever came after it would break one of the two.
        """
        plain = f"instr({JSON_LINE}, '}}') = length(rtrim({JSON_LINE}))"
        as_array, as_object = f"concat('[', {JSON_LINE}, ']')", f"concat('{{\"a\":', {JSON_LINE}, '}}')"
        strict = f"json_array_length({as_array}) = 1 AND json_object_keys({as_object}) IS NOT NULL"
        # What the options of the source allow beyond the standard, only from_json knows.
        one = f"size(from_json({as_array}, 'ARRAY<STRING>', {self.options})) = 1"
        broken = f"from_json({as_object}, 'a STRING, {self.broken} STRING', {self.options}).{self.broken}"
        allowed = f"{one} AND {broken} IS NULL"
        return f"NOT {plain} AND NOT coalesce({strict}, false) AND NOT coalesce({allowed}, false)"

    def _ambiguous(self) -> list[str]:
        return [
            f"WHEN {_MENDED} IS NOT NULL AND size({self._spelt(f.name)}) > 1 "
            f"THEN concat({string_sql(f'{f.name}: ')}, array_join({self._spelt(f.name)}, ' and '), "
            "' are both there')"
            for f in self.entry.columns
        ]


def _wrong(field: Field, text: str) -> str:
    """Return the reason for a value that does not fit; it says so if the value would fit without quotes."""
    value = f"from_json({text}, 'MAP<STRING, STRING>')[{string_sql(field.name)}]"
    if not (field.type.is_numeric or field.type == T.BOOLEAN):
        return unreadable_reason(field.name, f"coalesce({value}, 'null')", str(field.type))
    written = f"to_json(from_json({text}, 'MAP<STRING, VARIANT>')[{string_sql(field.name)}])"
    fits = f"try_cast({value} AS {type_sql(field.type)}) IS NOT NULL"
    return unreadable_reason(field.name, f"coalesce(IF({fits}, {written}, {value}), 'null')", str(field.type))


def _key(name: str) -> str:
    """Return a key in lower case as it stands in an object."""
    escaped = name.lower().replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
