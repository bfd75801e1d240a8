"""Waiting rows: they were taken in, and begin after the bound of the store."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from everview.operators.columnar.frame import FROM
from everview.storage.files import Files
from everview.storage.manifest import Manifest
from everview.storage.runs import TraceId


def waiting_rows(files: Files, manifest: Manifest, names: Iterable[str]) -> dict[str, int]:
    """Return how many rows of each stream or table wait; a run is read only if a part of its rows wait."""
    return {name: _count_waiting(files, manifest, TraceId("inbox", name)) for name in names}


def _count_waiting(files: Files, manifest: Manifest, trace: TraceId) -> int:
    number = 0
    for run in manifest.runs(trace):
        if run.least_from > manifest.bound:
            number += run.rows
        elif run.greatest_from > manifest.bound:
            number += files.read_frame(run.path, [FROM], pl.col(FROM) > manifest.bound).height
    return number
