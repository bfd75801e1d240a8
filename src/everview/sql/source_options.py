"""The options of the sources that Everview knows, so that a misspelt one is refused where it is written.

Spark takes every option and silently leaves out those that it does not know: `hedaer => true` would read the
header as a row.
"""

from __future__ import annotations

# Of all sources that read files.
_FILES = (
    "maxFilesPerTrigger", "maxBytesPerTrigger", "latestFirst", "fileNameOnly", "maxFileAge", "maxCachedFiles",
    "discardCachedInputRatio", "cleanSource", "sourceArchiveDir", "pathGlobFilter", "recursiveFileLookup",
    "modifiedBefore", "modifiedAfter", "ignoreCorruptFiles", "ignoreMissingFiles", "basePath",
)  # fmt: skip

# Of sources that read text as values.
_VALUES = (
    "mode", "columnNameOfCorruptRecord", "dateFormat", "timestampFormat", "timestampNTZFormat", "timeZone",
    "locale", "enableDateTimeParsingFallback", "samplingRatio", "encoding", "charset", "lineSep", "multiLine",
)  # fmt: skip

_OWN: dict[str, tuple[str, ...]] = {
    "csv": (
        "header", "sep", "delimiter", "quote", "escape", "comment", "nullValue", "emptyValue", "nanValue",
        "positiveInf", "negativeInf", "ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace", "inferSchema",
        "preferDate", "enforceSchema", "maxColumns", "maxCharsPerColumn", "charToEscapeQuoteEscaping",
        "unescapedQuoteHandling", "inputBufferSize", *_VALUES, *_FILES,
    ),
    "json": (
        "primitivesAsString", "prefersDecimal", "dropFieldIfAllNull", "allowComments",
        "allowUnquotedFieldNames", "allowSingleQuotes", "allowNumericLeadingZeros",
        "allowBackslashEscapingAnyCharacter", "allowUnquotedControlChars", "allowNonNumericNumbers",
        "maxNestingDepth", "maxNumLen", "maxStringLen", *_VALUES, *_FILES,
    ),
    "parquet": ("mergeSchema", "datetimeRebaseMode", "int96RebaseMode", *_FILES),
    "orc": ("mergeSchema", *_FILES),
    "text": ("wholetext", "lineSep", "encoding", *_FILES),
    "kafka": (
        "subscribe", "subscribePattern", "assign", "startingOffsets", "startingOffsetsByTimestamp",
        "startingOffsetsByTimestampStrategy", "startingTimestamp", "failOnDataLoss", "includeHeaders",
        "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions",
        "maxRecordsPerPartition", "groupIdPrefix", "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries",
        "fetchOffset.retryIntervalMs",
    ),
    "rate": ("rowsPerSecond", "rampUpTime", "numPartitions"),
    "rate-micro-batch": ("rowsPerBatch", "numPartitions", "startTimestamp", "advanceMillisPerBatch"),
    "socket": ("host", "port", "includeTimestamp"),
}  # fmt: skip

# Prefixes of options that Spark passes on to a library unchanged.
_PREFIXES = {"kafka": ("kafka.",)}


def known_options(format_: str) -> tuple[str, ...]:
    """Return the options of a source; none if any may stand there.

    >>> known_options("rate")
    ('rowsPerSecond', 'rampUpTime', 'numPartitions')
    """
    return _OWN.get(format_, ())


def is_option(format_: str, name: str) -> bool:
    """Return whether a source has an option; of a source that Everview does not know it may have any.

    >>> is_option("csv", "HEADER"), is_option("csv", "hedaer"), is_option("delta", "hedaer")
    (True, False, True)
    >>> is_option("kafka", "kafka.bootstrap.servers")
    True
    """
    folded = name.casefold()
    known = known_options(format_)
    if not known or folded.startswith(_PREFIXES.get(format_, ("\0",))):
        return True
    return folded in (option.casefold() for option in known)
