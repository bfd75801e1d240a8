"""The files of a batch, where Spark would not read just those.

Spark's source of files knows which files a batch has, but then takes their paths for patterns if there are
wildcards in them, and reads others, or the same ones several times. Its log says which files are meant.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from pyspark.sql import SparkSession

from everview.catalog import FedEntry
from everview.ingest.reading import reads_files, source_name
from everview.storage.files import Files
from everview.storage.source_log import log_entries, source_offsets

# The wildcards * ? [ ] { } \ as they stand in a URI.
_WILDCARDS = re.compile(rb"\*|%(?:3F|5B|5C|5D|7B|7D)", re.IGNORECASE)


def files_with_wildcards(checkpoint: Files, entries: Iterable[FedEntry], batch: int) -> dict[str, list[str]]:
    """Return all files of a batch, as URIs, for each source of which one file has wildcards in its path."""
    fed = [entry for entry in entries if reads_files(entry)]
    if not fed:
        return {}
    ends, begins = (source_offsets(checkpoint, number) for number in (batch, batch - 1))
    found: dict[str, list[str]] = {}
    for entry in fed:
        name = source_name(entry)
        begin, end = begins.get(name, -1), ends.get(name, -1)
        uris = _uris(checkpoint, name, begin, end) if begin < end else []
        if any(_WILDCARDS.search(uri.encode()) for uri in uris):
            found[entry.name] = uris
    return found


def _uris(checkpoint: Files, name: str, begin: int, end: int) -> list[str]:
    """Return the files of the log entries in (begin, end]; none if no path has wildcards."""
    logs = log_entries(checkpoint, name)
    texts = [checkpoint.read(logs[n][0]) for n in range(begin + 1, end + 1) if n in logs]
    if not any(map(_WILDCARDS.search, texts)):
        return []
    files = [json.loads(line) for text in texts for line in text.splitlines()[1:]]
    return list(dict.fromkeys(file["path"] for file in files if begin < file["batchId"] <= end))


def files_there(session: SparkSession, uris: Sequence[str]) -> list[str]:
    """Return the files that still exist; Spark, too, leaves out what is gone before it is read."""
    jvm = session._jvm
    assert jvm is not None
    conf = session.sparkContext._jsc.hadoopConfiguration()
    paths = [(uri, jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI(uri))) for uri in uris]
    return [uri for uri, path in paths if path.getFileSystem(conf).exists(path)]
