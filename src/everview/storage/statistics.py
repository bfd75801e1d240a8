"""What a store has measured, from its manifest alone: rates of streams, rows of tables, sizes of states."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from everview.algebra.time import SECOND
from everview.catalog import Catalog, TableEntry
from everview.plan.explain import MeasuredSize, MeasuredStore
from everview.plan.statistics import RelationStatistics, Statistics, declared_statistics
from everview.storage.manifest import Manifest
from everview.storage.runs import TraceId

_LEAST_ROWS = 100  # of a stream; the rate of fewer is not worth a change of plans


def measure_store(manifest: Manifest, catalog: Catalog) -> MeasuredStore:
    """Return what a store has measured; what it has not is as the catalog declares it."""
    state: defaultdict[str, MeasuredSize] = defaultdict(MeasuredSize)
    for trace, runs in manifest.of("state").items():
        state[trace.owner] += MeasuredSize(sum(r.rows for r in runs), sum(r.bytes for r in runs))
    return MeasuredStore(measured_statistics(manifest, catalog), dict(state), manifest.plans)


def measured_statistics(manifest: Manifest, catalog: Catalog) -> Statistics:
    """Return the rates of streams over the time of their rows, and how much of it a step evaluates.

    Columns have the values that are declared: a manifest does not count them.
    """
    declared = declared_statistics(catalog)
    declared = replace(declared, relations={**declared.relations, **_tables(manifest, catalog, declared)})
    if manifest.start is None or manifest.present <= manifest.start:
        return declared
    newest = {name.casefold(): max(lines.values()) for name, lines in manifest.newest.items() if lines}
    relations = dict(declared.relations)
    for name, counts in manifest.counts.items():
        known = relations.get(name.casefold())
        if known is not None and known.rows is None:
            span = (newest.get(name.casefold(), manifest.present) - manifest.start) / SECOND
            relations[name.casefold()] = _measured(known, counts[0], span)
    steps = [bound for _, bound in manifest.marks if manifest.start <= bound <= manifest.present]
    length = (steps[-1] - steps[0]) / SECOND / (len(steps) - 1) if len(steps) > 1 else 0.0
    return replace(declared, relations=relations, step=length or declared.step)


def _tables(manifest: Manifest, catalog: Catalog, known: Statistics) -> dict[str, RelationStatistics]:
    """Return the rows of tables; a row that retracts another one counts for neither."""
    found = {}
    for entry in catalog:
        if not isinstance(entry, TableEntry):
            continue
        runs = manifest.runs(TraceId("inbox", entry.name))
        rows = float(sum(run.rows - 2 * (run.negative or 0) for run in runs))
        if rows > 0:
            values = known.relations[entry.name.casefold()].values
            unique = entry.key if len(entry.key) == 1 else ()
            own = zip(entry.columns.names, values, strict=True)
            values = tuple(rows if name in unique else count for name, count in own)
            found[entry.name.casefold()] = RelationStatistics(0.0, rows, values, "measured")
    return found


def _measured(known: RelationStatistics, rows: int, span: float) -> RelationStatistics:
    return known if rows < _LEAST_ROWS or span <= 0 else replace(known, rate=rows / span, known="measured")
