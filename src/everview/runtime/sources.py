"""The sources of a store as one streaming frame: Spark reads, remembers how far it came, and retries.

Sources differ in their columns. They are united with the number of the source and the union of their
columns; a row that does not parse comes with the reason and its original text instead of values.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as S

from everview.algebra.schema import names_beside
from everview.algebra.text import name_sql, string_sql, type_sql
from everview.algebra.time import INFINITY
from everview.catalog import Source, StreamEntry, TableEntry
from everview.errors import StoreError, nearest
from everview.runtime.spark_rows import cast_rows
from everview.spark.catalyst import FROM, UNTIL, N, null_sql, spark_type
from everview.spark.exchange import Layout, slot
from everview.spark.lanes import Carriage, Carried, Lane, brought
from everview.spark.physical import column

SOURCE, REASON, ORIGINAL = "_everview_source", "_everview_reason", "_everview_text"

# Where a row of a table with a key stands: its file, when that was written, and where its part of it begins.
FILE, TIME, BLOCK = PLACE = "_everview_file", "_everview_time", "_everview_block"

Fed = StreamEntry | TableEntry

_TEXTS = ("csv", "json")
_FILES = (*_TEXTS, "parquet", "orc", "text", "avro", "xml")
_KNOWN = (*_FILES, "kafka", "rate", "rate-micro-batch", "socket", "delta")
_SIZES = ("maxfilespertrigger", "maxbytespertrigger")
FILES_A_STEP = 1000  # of a stream, unless its options say otherwise
_BROKEN = "_everview_broken"  # where Spark puts the text of a row that does not parse
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


@dataclass(frozen=True)
class Sources:
    """All sources of a store, in one frame; rows of source i have i in the column SOURCE.

    `carried` has for each source what its rows bring along, by the keys of the lanes that it is for.
    """

    entries: tuple[Fed, ...]
    frame: DataFrame
    layout: Layout
    carried: tuple[Mapping[str, Carried], ...]

    @classmethod
    def open(
        cls, session: SparkSession, entries: Sequence[Fed], lanes: Sequence[Lane], heartbeat: bool = False
    ) -> Sources:
        """Opens every source under its own name, so that others can come and go beside it.

        Rows bring along what their lanes take of them. A heartbeat lets time go on when no data comes:
        without new rows Spark runs no batch.
        """
        frames = [_open(session, e) for e in entries]
        return cls._placed(frames, entries, lanes, _heartbeat(session) if heartbeat else None)

    @classmethod
    def _placed(
        cls,
        frames: Sequence[DataFrame],
        entries: Sequence[Fed],
        lanes: Sequence[Lane] = (),
        heartbeat: DataFrame | None = None,
    ) -> Sources:
        mine = [{lane.key: lane for lane in lanes if lane.scan.name == e.name} for e in entries]
        carriages = [
            Carriage(tuple(of_one.values()), tuple(column(i) for i in range(len(e.columns))))
            for of_one, e in zip(mine, entries, strict=True)
        ]
        layout = Layout.of([e.columns.types for e in entries])
        beside = Layout.of([list(c.texts.values()) for c in carriages])
        versions = any(map(has_versions, entries))
        placed = [
            _in_slots(_with_change(f, e), i, layout, c, beside, versions)
            for i, (f, e, c) in enumerate(zip(frames, entries, carriages, strict=True))
        ]
        if heartbeat is not None:
            placed.append(_in_slots(heartbeat, -1, layout, Carriage(()), beside, versions))
        carried = tuple(
            dict(zip(of_one, c.carried(dict(zip(c.texts, map(brought, places), strict=True))), strict=True))
            for of_one, c, places in zip(mine, carriages, beside.sides, strict=True)
        )
        return cls(tuple(entries), reduce(DataFrame.unionAll, placed), layout, carried)

    @classmethod
    def of_frame(cls, rows: DataFrame, entry: Fed, lossless: bool = True) -> Sources:
        """A frame that is given for a stream or a table, its columns by their names."""
        shown = cast_rows(rows, entry, REASON, lossless).selectExpr(
            "*", f"CAST(NULL AS STRING) AS {ORIGINAL}"
        )
        return cls._placed([shown], [entry])


def _heartbeat(session: SparkSession) -> DataFrame:
    beats = session.readStream.format("rate").option("rowsPerSecond", 1).name("heartbeat").load()
    return beats.selectExpr(*(f"CAST(NULL AS STRING) AS {name}" for name in (REASON, ORIGINAL)), *_CHANGE)


_CHANGE = (f"CAST(NULL AS BIGINT) AS {FROM}", f"{INFINITY}L AS {UNTIL}", f"1L AS {N}")


def _with_change(frame: DataFrame, entry: Fed) -> DataFrame:
    """The columns c0, c1, … with the change; when rows of tables begin is not known yet."""
    columns = [column(i) for i in range(len(entry.columns))]
    begin = _CHANGE[0]
    if isinstance(entry, StreamEntry):
        line = columns[entry.columns.names.index(entry.timelines[0].column)]
        begin = f"unix_micros({line}) AS {FROM}"
    place = [c for c in PLACE if c in frame.columns]
    return frame.selectExpr(*columns, REASON, ORIGINAL, *place, begin, *_CHANGE[1:])


def _in_slots(
    frame: DataFrame, number: int, layout: Layout, carriage: Carriage, beside: Layout, versions: bool
) -> DataFrame:
    """The columns of one source in their slots, and in others what they bring along."""
    for texts in carriage.lets():
        frame = frame.selectExpr("*", *texts)
    own = {} if number < 0 else {place: column(i) for i, place in enumerate(layout.sides[number])}
    more = {} if number < 0 else dict(zip(beside.sides[number], carriage.texts, strict=True))
    slots = [f"{own.get(i, null_sql(t))} AS {slot(i)}" for i, t in enumerate(layout.slots)]
    slots += [f"{more.get(i, null_sql(t))} AS {brought(i)}" for i, t in enumerate(beside.slots)]
    types = {FILE: "STRING", TIME: "BIGINT", BLOCK: "BIGINT"} if versions else {}
    place = [c if c in frame.columns else f"CAST(NULL AS {t}) AS {c}" for c, t in types.items()]
    return frame.selectExpr(f"{number} AS {SOURCE}", *slots, REASON, ORIGINAL, *place, FROM)


def _open(session: SparkSession, entry: Fed) -> DataFrame:
    """One source: the columns of its stream or table, the reason if a row was refused, its original text."""
    source = entry.source
    assert source is not None
    try:
        if source.format in _TEXTS:
            return _opened_text(session, entry, source)
        return _opened_typed(session, entry, source)
    except (PySparkException, Py4JJavaError) as error:
        raise explained(entry, error) from error


def _opened_text(session: SparkSession, entry: Fed, source: Source) -> DataFrame:
    """Lines of text: Spark parses them, and keeps the text of those that it cannot."""
    names = _names_in_file(session, entry, source)
    own = {f.name.casefold(): f for f in entry.columns}
    fields = [
        S.StructField(n, spark_type(own[n.casefold()].type) if n.casefold() in own else S.StringType())
        for n in names
    ]
    (mark,) = names_beside(names, _BROKEN)
    schema = S.StructType([*fields, S.StructField(mark, S.StringType())])
    options = {"enforceSchema": "false"} if source.format == "csv" else {}
    options |= (
        _file_options(entry)
        | dict(source.options)
        | {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": mark}
    )
    reader = session.readStream.format(source.format).schema(schema).options(**options)
    frame = reader.name(source_name(entry)).load(path_of(source))
    broken = name_sql(mark)
    why = _why_csv(names, entry, source, broken) if source.format == "csv" else _why_json(entry, broken)
    reason = f"CASE WHEN {broken} IS NOT NULL THEN {why} {_no_time(entry)} END"
    written = f"struct({', '.join(map(name_sql, names))})"
    text = f"to_{source.format}({written})"
    return _with_reason(frame, entry, reason, f"coalesce({broken}, {text})")


def _file_options(entry: Fed) -> dict[str, str]:
    """What Everview asks of a source of files, unless its options say otherwise.

    A step is of bounded size, but for tables: all that is there when a store begins holds from the beginning.
    No file is too old: by itself, Spark skips a file that is a week older than the newest one without a word.
    """
    source = entry.source
    if source is None or not reads_files(entry):
        return {}
    sized = any(name.casefold() in _SIZES for name, _ in source.options)
    limit = {} if sized or isinstance(entry, TableEntry) else {"maxFilesPerTrigger": str(FILES_A_STEP)}
    return {"maxFileAge": "100000d", **limit}


def _names_in_file(session: SparkSession, entry: Fed, source: Source) -> list[str]:
    """The columns as they stand in the file: by its header if it has one."""
    own = list(entry.columns.names)
    if source.format != "csv" or dict(source.options).get("header", "false").casefold() != "true":
        return own
    options = {k: v for k, v in source.options if k.casefold() not in (*_SIZES, "enforceschema")}
    found = session.read.format("csv").options(**options).load(path_of(source)).columns
    if not found:
        return own  # nothing there yet: the first file will have to have these
    known = {name.casefold() for name in found}
    missing = [name for name in own if name.casefold() not in known]
    if missing:
        raise StoreError(
            f"the files of '{entry.name}' have no column '{missing[0]}'",
            meant=nearest(missing[0], found),
            choices=found,
            next_step="name the columns as in the header, or leave out header => true to go by position",
        )
    return list(found)


def _why_csv(names: Sequence[str], entry: Fed, source: Source, broken: str) -> str:
    """Why a line did not parse: the first column whose text is no value of its type, or their number."""
    wanted = dict(source.options)
    pairs = [(k, wanted[k]) for k in ("sep", "delimiter", "quote", "escape") if k in wanted]
    listed = ", ".join(f"{string_sql(k)}, {string_sql(v)}" for k, v in pairs)
    options = f", map({listed})" if pairs else ""
    columns = ", ".join(f"{name_sql(n)} STRING" for n in names)
    parsed = f"from_csv({broken}, {string_sql(columns)}{options})"
    return _first_wrong(entry, lambda name: f"{parsed}.{name_sql(name)}", f"it has not {len(names)} columns")


def _why_json(entry: Fed, broken: str) -> str:
    parsed = f"from_json({broken}, 'map<string,string>')"
    wrong = _first_wrong(
        entry, lambda name: f"{parsed}[{string_sql(name)}]", "its values do not fit the columns"
    )
    return f"CASE WHEN {parsed} IS NULL THEN 'it is no JSON object' ELSE {wrong} END"


def _first_wrong(entry: Fed, text_of: Callable[[str], str], otherwise: str) -> str:
    cases = [
        f"WHEN {text_of(f.name)} IS NOT NULL AND try_cast({text_of(f.name)} AS {type_sql(f.type)}) IS NULL "
        f"THEN {_said(f.name, text_of(f.name), str(f.type))}"
        for f in entry.columns
    ]
    return f"CASE {' '.join(cases)} ELSE {string_sql(otherwise)} END"


def _said(name: str, text: str, type_: str) -> str:
    return f"concat({string_sql(f'{name}: ')}, {text}, {string_sql(f' is no {type_}')})"


def _opened_typed(session: SparkSession, entry: Fed, source: Source) -> DataFrame:
    """A source that has columns of its own: ours are found among them by their names."""
    options = _file_options(entry) | dict(source.options)
    reader = session.readStream.format(source.format).options(**options)
    if source.format in _FILES:
        fields = [S.StructField(f.name, spark_type(f.type)) for f in entry.columns]
        reader = reader.schema(S.StructType(fields))
    reader = reader.name(source_name(entry))
    frame = reader.load() if source.path is None else reader.load(path_of(source))
    there = {name.casefold(): name for name in frame.columns}
    missing = [name for name in entry.columns.names if name.casefold() not in there]
    if missing:
        raise StoreError(
            f"the source {source.format} of '{entry.name}' has no column '{missing[0]}'",
            meant=nearest(missing[0], frame.columns),
            choices=frame.columns,
            next_step="declare the columns that the source has",
        )
    wrong = []
    for field in entry.columns:
        given, type_ = name_sql(there[field.name.casefold()]), type_sql(field.type)
        if frame.schema[there[field.name.casefold()]].dataType != spark_type(field.type):
            said = _said(field.name, f"CAST({given} AS STRING)", str(field.type))
            wrong.append(f"WHEN {given} IS NOT NULL AND try_cast({given} AS {type_}) IS NULL THEN {said}")
    cases = " ".join([*wrong, _no_time(entry)]).strip()
    reason = f"CASE {cases} END" if cases else "CAST(NULL AS STRING)"
    text = f"to_json(struct({', '.join(map(name_sql, frame.columns))}))"
    return _with_reason(frame, entry, reason, text)


def _with_reason(frame: DataFrame, entry: Fed, reason: str, text: str) -> DataFrame:
    """The columns c0, c1, …, the reason, the original text, and where the row stands.

    A user's columns may have any name, also those that we give to ours.
    """
    columns = [
        f"try_cast({name_sql(f.name)} AS {type_sql(f.type)}) AS {column(i)}"
        for i, f in enumerate(entry.columns)
    ]
    place = _place(entry, frame.columns)
    why, *placed = names_beside(frame.columns, REASON, *place)
    said = zip((why, *placed), (reason, *place.values()), strict=True)
    marked = frame.selectExpr("*", *(f"{expression} AS {name}" for name, expression in said))
    original = f"CASE WHEN {why} IS NOT NULL THEN {text} END AS {ORIGINAL}"
    named = [f"{name} AS {ours}" for name, ours in zip(placed, place, strict=True)]
    return marked.selectExpr(*columns, f"{why} AS {REASON}", original, *named)


def reads_files(entry: Fed) -> bool:
    """Whether a stream or table is fed by files."""
    return entry.source is not None and entry.source.format in _FILES


def has_versions(entry: Fed) -> bool:
    """Whether later rows of a source take the place of earlier ones: those of a table with a key."""
    return isinstance(entry, TableEntry) and bool(entry.key) and entry.source is not None


def _place(entry: Fed, columns: Iterable[str]) -> dict[str, str]:
    """Where a row of a table with a key stands, so that it is known which of two rows came later."""
    if not has_versions(entry) or entry.source is None:
        return {}
    if entry.source.format in _FILES:
        (file,) = names_beside(columns, "_metadata")  # Spark, too, puts a _ before where the name is taken
        time = f"unix_millis({file}.file_modification_time)"
        return {FILE: f"{file}.file_path", TIME: time, BLOCK: f"{file}.file_block_start"}
    kafka = entry.source.format == "kafka"
    time, block = ("CAST(partition AS BIGINT)", "offset") if kafka else ("CAST(NULL AS BIGINT)",) * 2
    return {FILE: "CAST(NULL AS STRING)", TIME: time, BLOCK: block}


def _no_time(entry: Fed) -> str:
    """A row of a stream without a time has no place in it."""
    lines = [t.column for t in entry.timelines] if isinstance(entry, StreamEntry) else []
    cases = [f"WHEN {name_sql(n)} IS NULL THEN {string_sql(f'{n}: there is no timestamp')}" for n in lines]
    return " ".join(cases)


def source_name(entry: Fed) -> str:
    """The name under which Spark remembers how far a source was read: letters, digits and _ only."""
    return "s_" + entry.name.casefold().encode().hex()


def path_of(source: Source) -> str:
    """The path of a source; relative to the folder in which Everview runs."""
    path = source.path or ""
    if _SCHEME.match(path):
        return path
    full = os.path.abspath(os.path.expanduser(path))
    # Spark reads a folder or a pattern as a stream, but no single file; a file is a pattern too.
    return f"{full[:-1]}[{full[-1]}]" if os.path.isfile(full) else full


def explained(entry: Fed, error: Exception) -> StoreError:
    """What Spark says of a source, in words that help."""
    source = entry.source
    assert source is not None
    text = str(error)
    if "PATH_NOT_FOUND" in text:
        return StoreError(
            f"'{entry.name}' reads {path_of(source)}, and there is nothing",
            next_step="check the path; a folder may be empty, but must be there",
        )
    if "DATA_SOURCE_NOT_FOUND" in text or "Failed to find data source" in text:
        return StoreError(
            f"'{entry.name}' reads {source.format}, and this Spark has no such source",
            meant=nearest(source.format, _KNOWN),
            choices=_KNOWN,
            next_step="check the name, or give Spark the package of that source",
        )
    if isinstance(error, AnalysisException):
        return StoreError(f"'{entry.name}' cannot be read: {first_line(error)}", next_step="check its FROM")
    return StoreError(f"the source of '{entry.name}' failed: {first_line(error)}")


def first_line(error: BaseException) -> str:
    """The first line of what Spark says, without its error class."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return re.sub(r"^\[[A-Z_.0-9]+\]\s*", "", line)
