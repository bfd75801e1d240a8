"""Shared by the readers of all sources: names of columns, paths, reasons, explanations of Spark's errors.

A reader gives the columns of a stream or a table as c0, c1, …, and beside them REASON, why a row is refused
(else NULL), and ORIGINAL, the row as it came (NULL: the columns say it all).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import unquote

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as S

from everview.algebra.schema import names_beside
from everview.algebra.text import string_sql
from everview.catalog import URI_SCHEME, FedEntry, Source, StreamEntry, TableEntry
from everview.errors import StoreError, nearest
from everview.execute.spark_errors import cause, first_line, path_with_colon
from everview.operators.base import column
from everview.storage import names

SOURCE, REASON, ORIGINAL = "_everview_source", "_everview_reason", "_everview_text"
PUNCTUATES = "_everview_punctuates"  # whether a row moves the bound of its stream to its own timestamps

PART = "_everview_part"  # which of the parts of a source that are read side by side a row comes from

# Where a row of a table with a key stands: its file, when that was written, and where its part of it begins.
FILE, TIME, BLOCK = "_everview_file", "_everview_time", "_everview_block"
FILE_POSITION = {FILE: "STRING", TIME: "BIGINT", BLOCK: "BIGINT"}


FILES_A_STEP = 1000  # of a stream, unless its options say otherwise
_SIZES = ("maxfilespertrigger", "maxbytespertrigger")
FILES = ("csv", "json", "parquet", "orc", "text", "avro", "xml")
KNOWN = (*FILES, "kafka", "rate", "rate-micro-batch", "socket", "delta")
_WILDCARDS = re.compile(r"[*?\[\]{}\\]")

# What reads a file system that Spark does not have by itself.
_LIBRARIES = {
    **dict.fromkeys(("s3", "s3a", "s3n"), "org.apache.hadoop:hadoop-aws:{hadoop}"),
    "gs": "com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.26",
    **dict.fromkeys(("abfs", "abfss", "wasb", "wasbs"), "org.apache.hadoop:hadoop-azure:{hadoop}"),
    **dict.fromkeys(("oss",), "org.apache.hadoop:hadoop-aliyun:{hadoop}"),
}
_PACKAGES = {
    "kafka": "org.apache.spark:spark-sql-kafka-0-10_2.13:{spark}",
    "avro": "org.apache.spark:spark-avro_2.13:{spark}",
    "delta": "io.delta:delta-spark_2.13:4.0.0",
}


def options_of(source: Source) -> dict[str, str]:
    """Return the options of a source by their names in lower case; Spark ignores the case, too."""
    return {name.casefold(): value for name, value in source.options}


def file_options(entry: FedEntry) -> dict[str, str]:
    """Return the options of a file source, with the defaults of Everview.

    A step has a bounded size, except for tables: all rows that exist at first hold from the beginning.
    No file is too old: by default, Spark silently skips a file that is a week older than the newest one.
    """
    assert entry.source is not None
    given = options_of(entry.source)
    sized = isinstance(entry, TableEntry) or any(size in given for size in _SIZES)
    limit = {} if sized else {_SIZES[0]: str(FILES_A_STEP)}
    return {"maxfileage": "100000d", **limit, **given}


def reads_files(entry: FedEntry) -> bool:
    """Return whether the rows of a stream or table come from files."""
    return entry.source is not None and entry.source.format in FILES


def has_json_lines(entry: FedEntry) -> bool:
    """Return whether the original text of each row of a source is the JSON object that has its columns."""
    source = entry.source
    if source is None or source.decoding is None:
        return source is not None and source.format == "json"
    return source.decoding.format == "json"


def has_versions(entry: FedEntry) -> bool:
    """Return whether later rows of a source replace earlier ones: those of a table with a key do."""
    return isinstance(entry, TableEntry) and bool(entry.key) and entry.source is not None


def place_of(entry: FedEntry, columns: Iterable[str] = ()) -> dict[str, str]:
    """Return where a row of a table with a key stands, so that it is known which of two rows came later."""
    if not has_versions(entry) or entry.source is None:
        return {}
    if reads_files(entry):
        (file,) = names_beside(columns, "_metadata")  # Spark, too, puts a _ before where the name is taken
        return {name: text.replace("_metadata", file) for name, text in PLACE_OF_FILES.items()}
    kafka = entry.source.format == "kafka"
    time, block = ("CAST(partition AS BIGINT)", "offset") if kafka else ("CAST(NULL AS BIGINT)",) * 2
    return {FILE: "CAST(NULL AS STRING)", TIME: time, BLOCK: block}


def has_parts(entry: FedEntry) -> bool:
    """Return whether a stream is read from several parts side by side, each in an order of its own."""
    return isinstance(entry, StreamEntry) and entry.source is not None and entry.source.format in _PARTS


def part_of(entry: FedEntry) -> dict[str, str]:
    """Return the column that names the part of its source that a row comes from."""
    if not has_parts(entry):
        return {}
    assert entry.source is not None
    return {PART: _PARTS[entry.source.format]}


# What names a part, from the columns that Spark's source has; parts are read side by side.
_PARTS = {"kafka": "concat(topic, '-', partition)"}

PLACE_OF_FILES = {
    FILE: "_metadata.file_path",
    TIME: "unix_millis(_metadata.file_modification_time)",
    BLOCK: "_metadata.file_block_start",
}


def columns_sql(columns: Mapping[str, str]) -> list[str]:
    """Return columns by their names, as a SELECT list.

    >>> columns_sql({"a": "1 + 1"})
    ['1 + 1 AS a']
    """
    return [f"{text} AS {name}" for name, text in columns.items()]


def encoding_of(options: Mapping[str, str]) -> str:
    """Return the encoding of text files."""
    return options.get("encoding", options.get("charset", "UTF-8"))


def unreadable_reason(name: str, text: str, type_: str) -> str:
    """Return the reason, as SQL, for a column whose text is no value of its type."""
    return f"concat({string_sql(f'{name}: ')}, {text}, {string_sql(f' is no {type_}')})"


def required_columns(entry: FedEntry) -> dict[str, str]:
    """Return the columns that must not be NULL, and the reason for a row in which one is."""
    lines = [t.column for t in entry.timelines] if isinstance(entry, StreamEntry) else []
    return dict.fromkeys(entry.not_null, "NULL, and the column is NOT NULL") | dict.fromkeys(
        lines, "there is no timestamp"
    )


def strict_columns(entry: FedEntry) -> int:
    """Return how many columns must have values that can be read; values of later ones may be NULL instead."""
    again = entry.read_as if isinstance(entry, StreamEntry) else None
    return len(entry.columns) if again is None else again


def case_sql(cases: Iterable[str]) -> str:
    """Return a CASE over some WHENs; NULL if there are none."""
    text = " ".join(cases)
    return f"CASE {text} END" if text else "CAST(NULL AS STRING)"


def required_cases(entry: FedEntry) -> list[str]:
    """Return the WHENs for columns that may not be NULL and are."""
    required, names = required_columns(entry).items(), entry.columns.names
    return [f"WHEN {column(names.index(n))} IS NULL THEN {string_sql(f'{n}: {why}')}" for n, why in required]


def source_name(entry: FedEntry) -> str:
    """Return the name under which Spark records how far a source was read."""
    return names.source_log_name(entry.created_as or entry.name, entry.incarnation)


def path_pattern(source: Source) -> str:
    """Return the path of a source as Spark reads it, which takes `* ? [ ] { }` for a pattern.

    What is there under just this name is meant literally: the whole path, or the folders at its beginning.
    Of what is not there, wildcards are a pattern.
    """
    path = source.full_path
    if URI_SCHEME.match(path) or (os.path.isdir(path) and not _WILDCARDS.search(path)):
        return path
    parts = path.split("/")
    there = next(i for i in range(len(parts), 0, -1) if os.path.exists("/".join(parts[:i]) or "/"))
    literal = "/".join(map(_literal, parts[:there]))
    # Spark reads a folder or a pattern as a stream, but no single file.
    if os.path.isfile(path) and not _WILDCARDS.search(literal):
        literal = _as_pattern(literal)
    return "/".join([literal, *parts[there:]])


def load_files(
    session: SparkSession,
    entry: FedEntry,
    format_: str,
    options: Mapping[str, str],
    schema: S.StructType | str | None = None,
    files: Sequence[str] | None = None,
) -> DataFrame:
    """Return the files of a source as a stream; or, as a batch, only those whose URIs are given."""
    assert entry.source is not None
    if files is None:
        reader = session.readStream.format(format_).options(**options)
        reader = reader if schema is None else reader.schema(schema)
        return reader.name(source_name(entry)).load(path_pattern(entry.source))
    given = session.read.format(format_).options(**options)
    given = given if schema is None else given.schema(schema)
    return given.load([_literal(unquote(uri)) for uri in files])


def _literal(text: str) -> str:
    """Return a pattern that only this text fits.

    >>> print(_literal("y[1].csv"))
    y\\[1\\].csv
    """
    return _WILDCARDS.sub(r"\\\g<0>", text)


def _as_pattern(path: str) -> str:
    """Return a path as a pattern. Hadoop takes a backslash for one, and then looks for the file alone.

    >>> print(_as_pattern("/in/a.csv"), _as_pattern("/in/a"))
    /in/a\\.csv /in/[a]
    """
    found = re.search(r"[^/\w\r\n](?=[^/]*$)", path)  # Hadoop does not unescape the end of a line
    if found is None:
        return f"{path[:-1]}[{path[-1]}]"
    return f"{path[: found.start()]}\\{path[found.start() :]}"


def explain_read_error(entry: FedEntry, error: Exception, versions: Mapping[str, str]) -> StoreError:
    """Return a readable error for Spark's error about a source; `versions` has those of Spark and Hadoop."""
    source = entry.source
    assert source is not None
    text = str(error)
    path = source.path or ""
    if "PATH_NOT_FOUND" in text:
        return StoreError(
            f"'{entry.name}' reads {source.full_path}, and there is nothing",
            next_step="check the path; a folder may be empty, but must be there",
        )
    if (colon := path_with_colon(text)) is not None:
        return colon
    if "No FileSystem for scheme" in text or re.search(r"ClassNotFoundException: Class \S*FileSystem", text):
        return _without_library(entry, path, versions)
    if "DATA_SOURCE_NOT_FOUND" in text or "Failed to find data source" in text:
        return _without_source(entry, source.format, versions)
    if "UnknownHostException" in text:
        host = re.search(r"UnknownHostException: (\S+)", text)
        return StoreError(
            f"'{entry.name}' reads {path}, and there is no machine '{host[1] if host else ''}'",
            next_step="check its name and the network",
        )
    if re.search(r"Permission denied|AccessControlException|AccessDenied|Forbidden", text):
        return StoreError(
            f"'{entry.name}' reads {source.full_path}, and this user may not read that",
            next_step="check the rights of the files and of the folders above them",
        )
    if isinstance(error, AnalysisException):
        return StoreError(f"'{entry.name}' cannot be read: {first_line(error)}", next_step="check its FROM")
    return StoreError(f"the source of '{entry.name}' failed: {cause(text)}", next_step="check its FROM")


def _with_package(package: str) -> str:
    """Return the environment variable with which Spark, as Everview starts it, loads a package."""
    return f"PYSPARK_SUBMIT_ARGS='--packages {package} pyspark-shell'"


def package_of(format_: str, spark: str) -> str:
    """Return how Spark of some version gets the package of a format."""
    return _with_package(_PACKAGES[format_].format(spark=spark))


def _without_library(entry: FedEntry, path: str, versions: Mapping[str, str]) -> StoreError:
    scheme = path.partition(":")[0].casefold()
    package = _LIBRARIES.get(scheme)
    if package is None:
        return StoreError(
            f"'{entry.name}' reads {path}, and this Spark knows no file system '{scheme}'",
            meant=nearest(scheme, [*_LIBRARIES, "hdfs", "file"]),
            next_step="check the path, or give Spark the package of that file system: " + _with_package("…"),
        )
    # Hadoop calls the file system of S3 s3a; s3 is the name that Amazon's own tools use.
    spelt = "s3a" if scheme in ("s3", "s3n") else scheme
    step = f"run with {_with_package(package.format(**versions))}"
    if spelt != scheme:
        step += f", and write {spelt}:{path.partition(':')[2]}"
    return StoreError(
        f"'{entry.name}' reads {path}, and this Spark has no library for {scheme}://", next_step=step
    )


def _without_source(entry: FedEntry, format_: str, versions: Mapping[str, str]) -> StoreError:
    if format_ in _PACKAGES:
        return StoreError(
            f"'{entry.name}' reads {format_}, and this Spark has no library for it",
            next_step=f"run with {_with_package(_PACKAGES[format_].format(**versions))}",
        )
    return StoreError(
        f"'{entry.name}' reads {format_}, and this Spark has no such source",
        meant=nearest(format_, KNOWN),
        choices=KNOWN,
        next_step="check the name, or give Spark the package of that source",
    )
