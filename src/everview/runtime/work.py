"""What a pipeline works on, and what it tells of a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from everview.algebra import nodes as N
from everview.algebra.time import Chronon
from everview.catalog import Catalog, StreamEntry, TableEntry
from everview.runtime.bounds import Arrived
from everview.runtime.manifest import Manifest
from everview.runtime.plans import physical_plans
from everview.runtime.prepare import Prepared
from everview.spark import physical as P
from everview.spark.fuse import kernels_of
from everview.spark.lanes import Lane, lanes


@dataclass(frozen=True)
class Progress:
    """One step: what came, how far time went, what it took, and what is kept."""

    step: int
    rows: int
    bound: Chronon
    present: Chronon
    seconds: float
    state_rows: int
    arrived: Mapping[str, Arrived] = field(default_factory=dict)
    changes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Work:
    """What a pipeline works on: the names of its store, and what its views mean."""

    catalog: Catalog
    views: Mapping[str, N.Node]
    _plans: dict[object, dict[str, P.Physical]] = field(default_factory=dict, compare=False, repr=False)

    def plans(self, since: Mapping[str, int]) -> dict[str, P.Physical]:
        """The physical plans of the views; they are the same in every step, and are made once."""
        key = frozenset(since.items())
        if key not in self._plans:
            self._plans[key] = physical_plans(self.views, self.catalog, since)
        return self._plans[key]

    def operators(self, since: Mapping[str, int], without: str | None = None) -> set[str]:
        """The names under which the kernels of all views, or all but one, keep their state."""
        plans = (plan for view, plan in self.plans(since).items() if view != without)
        return {P.operator_name(kernel).casefold() for kernel in kernels_of(plans)}

    def lanes(self, manifest: Manifest, partitions: int) -> tuple[Lane, ...]:
        """How the rows of sources come to the kernels."""
        streams = {e.name for e in self.fed if isinstance(e, StreamEntry)}
        return lanes(Prepared.of(self.plans(manifest.since), manifest.traces).stages, streams, partitions)

    @property
    def streams(self) -> list[StreamEntry]:
        return [e for e in self.catalog if isinstance(e, StreamEntry)]

    @property
    def fed(self) -> list[StreamEntry | TableEntry]:
        """The streams and tables that have a source."""
        return [e for e in self.catalog if isinstance(e, (StreamEntry, TableEntry)) and e.source is not None]
