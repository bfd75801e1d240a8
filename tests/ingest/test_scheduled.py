"""Changes that are scheduled are kept in the manifest, until the bound has passed them."""

from __future__ import annotations

import json
from dataclasses import replace

from everview.algebra import types as T
from everview.algebra.schema import Schema
from everview.catalog import TableEntry
from everview.ingest.scheduled import changes_after, with_change
from everview.storage import manifest as manifests
from everview.storage.manifest import Manifest
from everview.storage.scheduled_change import Change, MatchCondition

TABLE = TableEntry("Stations", Schema.of(("id", T.INT), ("name", T.STRING)))
UPDATE = Change(
    20,
    7,
    "c0 = 1",
    ("c0", "upper(c1)"),
    (MatchCondition("m0", "m0_0 = c0", True),),
    (("m0", (T.INT, T.decimal(5, 2))),),
    (("c1 IS NULL", "'why'"),),
)
DELETE = Change(10, 8, "true")


def scheduled(*changes: Change) -> Manifest:
    manifest = Manifest()
    for change in changes:
        manifest = replace(manifest, scheduled=with_change(manifest, TABLE, change))
    return manifest


def test_changes_come_back_in_the_order_of_their_instants() -> None:
    later = replace(DELETE, at=20, number=9)
    again = Manifest.from_json(scheduled(later, UPDATE, DELETE).to_json())
    assert changes_after(again, TABLE, 9) == [DELETE, UPDATE, later]
    assert changes_after(again, TABLE, 10) == [UPDATE, later]
    assert changes_after(again, TABLE, 20) == []
    assert (UPDATE.statement, DELETE.statement) == (
        "the UPDATE AT 1970-01-01T00:00:00.000020",
        "the DELETE AT 1970-01-01T00:00:00.000010",
    )


def test_what_the_bound_has_passed_is_forgotten() -> None:
    manifest = scheduled(UPDATE, DELETE)
    left = replace(manifest, bound=10).still_scheduled()
    assert left == {"stations": (UPDATE,)}
    assert replace(manifest, bound=20).still_scheduled() == {}


def test_a_manifest_that_was_written_before_has_nothing_scheduled() -> None:
    whole = json.loads(Manifest(3, 7).to_json())
    del whole["body"]["scheduled"]
    parts = [json.dumps(whole[name], separators=(",", ":")).encode() for name in ("body", "traces")]
    whole["crc32"] = manifests._checksum(*parts)
    text = json.dumps(whole, separators=(",", ":")).encode()
    assert Manifest.from_json(text) == Manifest(3, 7)
