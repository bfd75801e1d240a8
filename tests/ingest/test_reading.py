"""What is said of a source that cannot be read: one message, with the next step."""

from __future__ import annotations

import pytest

from everview.algebra import types as T
from everview.algebra.schema import Schema
from everview.catalog import Lateness, Source, StreamEntry
from everview.ingest.reading import explain_read_error

VERSIONS = {"spark": "4.3.0", "hadoop": "3.5.0"}
CALLING = "An error occurred while calling o1621.load.\n: "
NO_SCHEME = (
    'org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "{}"\n\tat org.apache'
)
NO_CLASS = (
    "java.lang.RuntimeException: java.lang.ClassNotFoundException: "
    "Class org.apache.hadoop.fs.{} not found\n\tat org.apache"
)


def message(format_: str, path: str | None, text: str) -> str:
    columns = Schema.of(("k", T.INT), ("ts", T.TIMESTAMP), timeline="ts")
    entry = StreamEntry("s", columns, (Lateness("ts"),), source=Source(format_, path))
    return str(explain_read_error(entry, Exception(text), VERSIONS))


@pytest.mark.parametrize(
    ("path", "raised", "said"),
    [
        (
            "s3://bucket/in",
            NO_SCHEME.format("s3"),
            "'s' reads s3://bucket/in, and this Spark has no library for s3://\n"
            "  next: run with "
            "PYSPARK_SUBMIT_ARGS='--packages org.apache.hadoop:hadoop-aws:3.5.0 pyspark-shell', and write s3a://bucket/in",
        ),
        (
            "s3a://bucket/in",
            NO_CLASS.format("s3a.S3AFileSystem"),
            "'s' reads s3a://bucket/in, and this Spark has no library for s3a://\n"
            "  next: run with "
            "PYSPARK_SUBMIT_ARGS='--packages org.apache.hadoop:hadoop-aws:3.5.0 pyspark-shell'",
        ),
        (
            "abfss://c@a.dfs.core.windows.net/in",
            NO_CLASS.format("azurebfs.SecureAzureBlobFileSystem"),
            "'s' reads abfss://c@a.dfs.core.windows.net/in, and this Spark has no library for abfss://\n"
            "  next: run with "
            "PYSPARK_SUBMIT_ARGS='--packages org.apache.hadoop:hadoop-azure:3.5.0 pyspark-shell'",
        ),
        (
            "hfds://host/in",
            NO_SCHEME.format("hfds"),
            "'s' reads hfds://host/in, and this Spark knows no file system 'hfds'\n"
            "  did you mean 'hdfs'?\n"
            "  next: check the path, or give Spark the package of that file system: "
            "PYSPARK_SUBMIT_ARGS='--packages … pyspark-shell'",
        ),
        (
            "hdfs://nowhere/in",
            "java.net.UnknownHostException: nowhere",
            "'s' reads hdfs://nowhere/in, and there is no machine 'nowhere'\n"
            "  next: check its name and the network",
        ),
        (
            "/closed/in",
            "java.nio.file.AccessDeniedException: /closed/in",
            "'s' reads /closed/in, and this user may not read that\n"
            "  next: check the rights of the files and of the folders above them",
        ),
        (
            "/in",
            "java.lang.IllegalStateException: odd\n\tat a\nCaused by: java.io.IOException: odder\n\tat x",
            "the source of 's' failed: odder\n  next: check its FROM",
        ),
    ],
)
def test_a_path_that_cannot_be_read(path: str, raised: str, said: str) -> None:
    assert message("csv", path, CALLING + raised) == said


def test_a_source_whose_library_is_missing() -> None:
    raised = "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: kafka."
    assert message("kafka", None, raised) == (
        "'s' reads kafka, and this Spark has no library for it\n"
        "  next: run with "
        "PYSPARK_SUBMIT_ARGS='--packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0 pyspark-shell'"
    )
    assert message("jsno", None, raised).startswith(
        "'s' reads jsno, and this Spark has no such source\n  did you mean 'json'?"
    )
