"""Columns of files that are not declared, and declared columns that files do not have.

Tasks see the columns of each file, and report them through an accumulator of Spark, without a job of its own.
The driver reports each difference once for a store; the manifest has those that were reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from pyspark import SparkContext
from pyspark.accumulators import Accumulator, AccumulatorParam

from everview.algebra.text import name_sql
from everview.errors import format_choices, nearest
from everview.storage.manifest import LEFT_OUT as LEFT_OUT
from everview.storage.manifest import MISSING as MISSING

ColumnDifference = tuple[str, str, str, str]
"""A stream or table, LEFT_OUT or MISSING, a column, and for a missing one what may be meant."""
ReportedDifferences = Mapping[str, Mapping[str, Sequence[str]]]

MOST_REPORTED = 100  # columns of one kind reported for a stream or table: keys of JSON objects may be data
_MOST_AT_ONCE = 10_000


class _Union(AccumulatorParam[frozenset[ColumnDifference]]):
    def zero(self, value: frozenset[ColumnDifference]) -> frozenset[ColumnDifference]:
        return frozenset()

    def addInPlace(
        self, value1: frozenset[ColumnDifference], value2: frozenset[ColumnDifference]
    ) -> frozenset[ColumnDifference]:
        united = value1 | value2
        return united if len(united) <= _MOST_AT_ONCE else value1


def new_differences(context: SparkContext) -> Accumulator[frozenset[ColumnDifference]]:
    """Return an accumulator to which tasks add differences."""
    return context.accumulator(frozenset(), _Union())


def find_differences(
    name: str, header: Iterable[str], declared: Iterable[str]
) -> frozenset[ColumnDifference]:
    """Return how the columns of a file differ from those declared for its stream or table.

    >>> sorted(find_differences("s", ["K", "tss", ""], ["k", "ts"]))
    [('s', 'left out', 'tss', ''), ('s', 'missing', 'ts', 'tss')]
    """
    there, own = ({n.strip().casefold(): n.strip() for n in names} for names in (header, declared))
    more = [column for folded, column in there.items() if folded not in own and column]
    missing = [column for folded, column in own.items() if folded not in there]
    return frozenset(
        [(name, LEFT_OUT, column, "") for column in more]
        + [(name, MISSING, column, nearest(column, more) or "") for column in missing]
    )


def left_out(name: str, columns: Iterable[str]) -> frozenset[ColumnDifference]:
    """Return columns of a stream or table that are not declared."""
    return frozenset((name, LEFT_OUT, column, "") for column in columns)


def report_differences(
    found: Iterable[ColumnDifference],
    told: ReportedDifferences,
    kinds: Mapping[str, str],
    stamped: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> tuple[list[str], ReportedDifferences]:
    """Return messages for differences that were not reported yet, and all differences reported by then.

    `kinds` says which of the names are streams, and which are tables; `stamped` has the columns of each that
    the clock stamps.

    >>> found = [("s", "left out", "x", ""), ("s", "missing", "ts", "tss")]
    >>> messages, told = report_differences(found, {}, {"s": "stream"})
    >>> for message in messages:
    ...     print(message)
    's' leaves out columns of its files: x; to take one, ALTER STREAM s ADD COLUMN x …
    a file of 's' has no column 'ts'; did you mean 'tss'?
    >>> told, report_differences(found, told, {})[0]
    ({'s': {'left out': ['x'], 'missing': ['ts']}}, [])
    >>> report_differences([("s", "left out", "At", "")], {}, {"s": "stream"}, {"s": ["at"]})[0]
    ["'s' leaves out the column 'At' of its files: the clock stamps it on ARRIVAL"]
    """
    known = {name: {kind: list(columns) for kind, columns in by.items()} for name, by in told.items()}
    left_out: dict[str, list[str]] = {}
    others = []
    for name, kind, column, meant in sorted(found):
        columns = known.setdefault(name, {}).setdefault(kind, [])
        if column in columns or len(columns) >= MOST_REPORTED:
            continue
        columns.append(column)
        if kind == LEFT_OUT and column.casefold() in (c.casefold() for c in stamped.get(name, ())):
            others.append(
                f"'{name}' leaves out the column '{column}' of its files: the clock stamps it on ARRIVAL"
            )
        elif kind == LEFT_OUT:
            left_out.setdefault(name, []).append(column)
        else:
            hint = f"; did you mean '{meant}'?" if meant else ""
            others.append(f"a file of '{name}' has no column '{column}'{hint}")
    more = [
        f"'{name}' leaves out columns of its files: {format_choices(columns)}; to take one, "
        f"ALTER {kinds[name].upper()} {name_sql(name)} ADD COLUMN {name_sql(columns[0])} …"
        for name, columns in left_out.items()
    ]
    return more + others, known
