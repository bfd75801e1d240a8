"""Random entries of a catalog, for tests that print them and read them back."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from everview.algebra.schema import Field, Schema
from everview.algebra.time import DAY, INFINITY, MINUTE
from everview.algebra.types import BIGINT, BINARY, DATE, DOUBLE, INT, STRING, TIMESTAMP, DataType, decimal
from everview.catalog import (
    MAX_AHEAD,
    Defaults,
    Lateness,
    Source,
    StreamEntry,
    TableEntry,
    TaggedEntry,
    ViewEntry,
    stream_columns,
)

_ODD = [
    "a",
    "B",
    "order",
    "from",
    "timeline",
    "primary",
    "check",
    "key",
    "a b",
    "ü",
    "x`y",
    "1st",
    "ts.ms",
    "_n",
]
NAMES = st.one_of(st.sampled_from(_ODD), st.text("abz_ `.'", min_size=1, max_size=6))
TYPES: st.SearchStrategy[DataType] = st.sampled_from(
    [INT, BIGINT, DOUBLE, STRING, DATE, BINARY, TIMESTAMP, decimal(10, 2)]
)
DURATIONS = st.one_of(st.integers(1, 5).map(lambda n: n * MINUTE), st.integers(1, 3 * DAY))
_TEXTS = st.one_of(st.text(max_size=8), st.sampled_from(["it's", "a\\b", "*.csv", "true", "-1", "\n"]))


# Options by format; of a format that Everview does not know, any name may be one.
_OPTIONS = {
    "csv": ["header", "sep", "nullValue"],
    "json": ["multiLine", "timestampFormat"],
    "parquet": ["mergeSchema", "maxFilesPerTrigger"],
    "kafka": ["kafka.bootstrap.servers", "kafka.group.id", "subscribe"],
    "delta-sharing": ["header", "a b", "x.from"],
}


@st.composite
def sources(draw: st.DrawFn) -> Source | None:
    """A source, or none."""
    if draw(st.booleans()):
        return None
    format_, names = draw(st.sampled_from(list(_OPTIONS.items())))
    options = draw(st.dictionaries(st.sampled_from(names), _TEXTS, max_size=3))
    return Source(format_, draw(st.none() | _TEXTS), tuple(options.items()))


_DEFAULTS: dict[DataType, st.SearchStrategy[object]] = {
    INT: st.integers(-5, 5),
    BIGINT: st.integers(-(2**40), 2**40),
    DOUBLE: st.sampled_from([0.5, -1.0, 1e300]),
    STRING: st.sampled_from(["", "it's", "a\\b"]),
    DATE: st.integers(-9, 9),
    TIMESTAMP: st.integers(-(10**15), 10**15),
    BINARY: st.binary(max_size=3),
}


@st.composite
def constraints(
    draw: st.DrawFn, columns: Schema, plain: Sequence[str], source: Source | None
) -> tuple[tuple[str, ...], Defaults]:
    """NOT NULL and DEFAULT for some of the columns, but those that cannot have any."""
    fields = [f for f in columns if f.name not in plain]
    not_null = tuple(f.name for f in fields if draw(st.booleans()))
    some = [f for f in fields if f.type in _DEFAULTS and draw(st.booleans())]
    if source is not None:
        return not_null, ()
    return not_null, tuple((f.name, draw(_DEFAULTS[f.type])) for f in some)


_PUNCTUATE = st.sampled_from([None, "1 = 1 OR 2 = 3"])


def _time_lines(name: str) -> st.SearchStrategy[Lateness]:
    late = st.builds(Lateness, st.just(name), st.just(0) | DURATIONS)
    return late | st.just(Lateness(name, arrival=True))


@st.composite
def streams(draw: st.DrawFn) -> StreamEntry:
    """A stream with one or two time lines."""
    names = draw(st.lists(NAMES, min_size=3, max_size=6, unique_by=str.casefold))
    times = names[: draw(st.integers(1, 2))]
    fields = [Field(n, TIMESTAMP if n in times else draw(TYPES)) for n in draw(st.permutations(names))]
    lines = tuple(draw(_time_lines(n)) for n in times)
    order = tuple(draw(st.lists(st.sampled_from(names), max_size=2, unique=True)))
    idle = draw(st.none() | DURATIONS)
    columns = stream_columns(tuple(fields), times)
    source = draw(sources())
    ahead = draw(st.just(MAX_AHEAD) | st.none() | DURATIONS) if source is not None else MAX_AHEAD
    checked = draw(constraints(columns, times, source))
    clauses = draw(st.sampled_from([(), ("1 < 2",), ("NULL IS NULL", "'(' <> ')'")])), draw(_PUNCTUATE)
    return StreamEntry(draw(NAMES), columns, lines, order, idle, source, *checked, ahead, *clauses)


@st.composite
def tables(draw: st.DrawFn) -> TableEntry:
    """A table, with a key or without."""
    names = draw(st.lists(NAMES, min_size=1, max_size=5, unique_by=str.casefold))
    columns = Schema(tuple(Field(n, draw(TYPES)) for n in names))
    key = tuple(draw(st.lists(st.sampled_from(names), max_size=2, unique=True)))
    source = draw(sources())
    checked = draw(constraints(columns, key, source))
    return TableEntry(draw(NAMES), columns, key, draw(st.booleans()), source, *checked)


TAGGED = st.builds(
    TaggedEntry, NAMES, st.just("below"), st.sampled_from([("k",), ("k", "v")]),
    st.sampled_from([None, "v = 3", "k IS NULL OR v IN (1, 2)"]),
)  # fmt: skip
VIEWS = st.builds(
    ViewEntry, NAMES,
    st.sampled_from([
        "SELECT k FROM below",
        "SELECT k -- why\nFROM below [RANGE 5 SECONDS]",
        "SELECT ';' AS k, v FROM below",
    ]),
    st.booleans(), st.just(INFINITY) | DURATIONS, st.just(("below",)),
)  # fmt: skip
NAMED_VIEWS = st.builds(
    ViewEntry, NAMES, st.just("SELECT k, v FROM below"), depends_on=st.just(("below",)),
    column_names=st.lists(NAMES, min_size=2, max_size=2, unique_by=str.casefold).map(tuple),
)  # fmt: skip
ENTRIES = st.one_of(NAMED_VIEWS, streams(), tables(), TAGGED, VIEWS)
