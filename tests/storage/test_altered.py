"""A manifest after ALTER: everything that it has of a name, and the places of columns in older files."""

from __future__ import annotations

from dataclasses import fields

import pytest

from everview.catalog import Alteration, Catalog
from everview.plan.views import KeptPlan, NextPlan
from everview.storage.altered import PARTS_BY_NAME, altered_manifest, altered_since
from everview.storage.manifest import Manifest, Replacement, SetAside
from everview.storage.runs import Run, TraceId
from everview.storage.scheduled_change import Change


def run(path: str, step: int) -> Run:
    return Run(path, 1, 0, 9, 0, 0, 10, step=step)


def manifest_of(name: str, other: str = "o") -> Manifest:
    """A manifest that has all that there can be of a name, and the same of another one."""
    kept, next_ = KeptPlan("p", "c"), NextPlan("n", "c", 9)
    traces = {}
    for owner in (name, other):
        for kind in ("inbox", "late", "rejected", "view", "complete"):
            traces[TraceId(kind, owner)] = (run(f"{kind}/{owner.casefold()}", 2),)
        traces[TraceId("view", owner, "replaced")] = (run("replaced", 2),)
        traces[TraceId("view", f"{owner}$next")] = (run("next", 2),)
        traces[TraceId("scheduled", owner, "m0", change=3)] = (run("scheduled", 2),)
    traces[TraceId("state", "join-1")] = (run("state", 2),)
    both = (name, other)
    return Manifest(
        step=5, bound=7, traces=traces, since=dict.fromkeys(both, 1),
        partial={name: (other, name), other: (name,)}, replaced=dict.fromkeys(both, Replacement(1, 2)),
        plans=dict.fromkeys(both, kept), next=dict.fromkeys(both, next_),
        aside={n: SetAside(1, 2, name, "error") for n in both}, bounds={n: {"ts": 7} for n in both},
        newest={n: {"ts": 8} for n in both}, heard=dict.fromkeys(both, 3),
        counts=dict.fromkeys(both, (1, 1, 1)), changed={n: {"f": 1} for n in both},
        scheduled={n.casefold(): (Change(9, 3, "true", ("c0", "c1 + 1")),) for n in both},
        told={n: {"left out": ["b", "x"], "missing": ["y"]} for n in both},
    )  # fmt: skip


@pytest.mark.parametrize("new", ["t", "S", "My Name"])
def test_everything_of_a_name_goes_by_the_new_one(new: str) -> None:
    found = altered_manifest(manifest_of("s"), Alteration(6, "s", new))
    wanted = manifest_of(new)
    for field in fields(Manifest):
        if field.name != "traces":
            assert getattr(found, field.name) == getattr(wanted, field.name), field.name
    assert set(found.traces) == set(wanted.traces)
    assert found.run_paths() == manifest_of("s").run_paths(), "files stay where they are"
    assert altered_manifest(found, Alteration(7, new, "s")) == manifest_of("s")
    assert Manifest.from_json(found.to_json()) == found


def test_every_part_that_goes_by_name_is_known() -> None:
    mappings = {f.name for f in fields(Manifest) if isinstance(getattr(Manifest(), f.name), dict)}
    assert mappings - {"traces"} == set(PARTS_BY_NAME)


def test_the_places_of_columns() -> None:
    """Of runs from before, also through several alterations; later ones have their columns in order."""
    before = manifest_of("s")
    catalog = Catalog(
        alterations=(
            Alteration(3, "s", columns=1, added=("a",)),
            Alteration(6, "s", columns=2, added=("b",)),
            Alteration(7, "s", "t"),
            Alteration(8, "t", columns=3, added=("c", "d")),
        )
    )
    after = altered_since(before, catalog)
    (inbox,), (late,) = after.runs(TraceId("inbox", "t")), after.runs(TraceId("late", "t"))
    assert inbox.places == (0, 1, -1, -1, -1)
    assert late.places == (0, 1, -1, -1, -1, 2, 3, 4)
    assert after.runs(TraceId("inbox", "o")) == before.runs(TraceId("inbox", "o"))
    (change,) = after.scheduled["t"]
    assert change.new == ("c0", "c1 + 1", "c2", "c3", "c4")
    assert after.told["t"] == {"left out": ("x",), "missing": ("y", "b", "c", "d")}
    assert Manifest.from_json(after.to_json()).runs(TraceId("late", "t")) == (late,)
    assert altered_since(after, Catalog()) is after
