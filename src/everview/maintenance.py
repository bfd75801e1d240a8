"""The upkeep of a store: check, repair, backup, restore, rewind. Some of it needs Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from everview.algebra.time import instant_words
from everview.errors import PlanError
from everview.query.backup import backup_report
from everview.query.charts.view import Instant, chronon_of
from everview.query.check import check_report
from everview.query.repair import repair_report
from everview.query.report import Report
from everview.query.rewind import rewind_report
from everview.settings import SparkSettings
from everview.storage.backup import backup_store, restore_store
from everview.storage.check import check_store
from everview.storage.files import Files
from everview.storage.store import Store

if TYPE_CHECKING:
    from everview.catalog import Catalog
    from everview.pipeline import Pipeline, SparkSession


def check_at(path: str) -> tuple[Report, bool]:
    """Read all files of the store at a path; return a report, and whether all is well. No Spark."""
    found = check_store(Store.open(path))
    return check_report(found), not found.problems


def backup_at(path: str, folder: str) -> Report:
    """Copy the store at a path into an empty folder, while other processes may write it. No Spark."""
    return backup_to(Store.open(path), folder)


def backup_to(store: Store, folder: str) -> Report:
    """Copy an open store into an empty folder."""
    return backup_report(backup_store(store, Files(folder)), f"copied to {folder}")


def restore(folder: str, path: str) -> Report:
    """Put a backup back, as a store at a path where there is none yet. No Spark."""
    return backup_report(restore_store(Files(folder), Files(path)), f"put back to {path}")


def repair(
    path: str,
    dry_run: bool = False,
    accept_losses: bool = False,
    spark: SparkSession | SparkSettings | None = None,
    show: Callable[[str], None] = lambda _: None,
) -> tuple[Report, bool]:
    """Mend the store at a path; return a report, and whether the store is whole now.

    What cannot be had again is given up only with `accept_losses`. With `dry_run` nothing is done.
    """
    from everview.pipeline import open_repair

    with open_repair(path, spark, lambda done: show(f"{', '.join(done.views)}: {done.text}")) as work:
        found, notes = work.diagnosis.problems, work.notes
        whole = not work.needed
        if whole:
            outcome = "all is well: there is nothing to repair"
        elif notes.unmendable:
            outcome = "nothing was done: everview restore puts a backup back, if there is one"
        elif dry_run:
            outcome = "nothing was done: this is what everview repair would do"
        elif notes.losses and not accept_losses:
            outcome = "nothing was done: --yes accepts what is lost, everview restore puts a backup back"
        else:
            work.carry_out()
            whole, outcome = True, "done: the store is whole"
    return repair_report(found, notes, outcome), whole


def rewind(
    path: str,
    to: Instant,
    dry_run: bool = False,
    accept_losses: bool = False,
    reject_after: Instant = None,
    spark: SparkSession | SparkSettings | None = None,
    show: Callable[[str], None] = lambda _: None,
) -> tuple[Report, bool]:
    """Take the store at a path back to an instant; return a report, and whether nothing more is to be done.

    What cannot be had again is given up only with `accept_losses`. With `dry_run` nothing is done.
    """
    from everview.pipeline import Pipeline

    pipeline = Pipeline(Store.open(path), spark)
    try:
        pipeline.store.lock()
        pipeline.report_backfill = lambda done: show(f"{', '.join(done.views)}: {done.text}")
        catalog = pipeline.store.load_catalog()
        return rewind_store(pipeline, catalog, to, reject_after, accept_losses, dry_run)
    finally:
        pipeline.close()


def rewind_store(
    pipeline: Pipeline,
    catalog: Catalog,
    to: Instant,
    reject_after: Instant = None,
    accept_losses: bool = False,
    dry_run: bool = False,
) -> tuple[Report, bool]:
    """Take an open store back to an instant; its steps do not run."""
    instant = chronon_of(to, "to")
    if instant is None:
        raise PlanError("to: there is no instant", next_step="write it as 2026-01-31T23:59:59 (UTC)")
    work = pipeline.plan_rewind(catalog, instant, chronon_of(reject_after, "reject_after"))
    before, shown = work.before, instant_words(instant)
    if not work.needed:
        known = instant_words(before.bound)
        outcome = f"there is nothing to take back: the store is known to {known}, and {shown} is no earlier"
        return rewind_report(work.notes, outcome), True
    if dry_run:
        return rewind_report(work.notes, "nothing was done: this is what everview rewind would do"), False
    if work.notes.losses and not accept_losses:
        outcome = "nothing was done: --yes accepts what is lost"
        return rewind_report(work.notes, outcome), False
    after = work.carry_out()
    reached = work.next_bound(after)
    outcome = f"done: the store is known to {instant_words(after.bound)}"
    if reached > after.bound:
        outcome += f"; the rows that are there take the next run to {instant_words(reached)}"
    if reached >= before.bound > after.bound:
        outcome += (
            ", as far as before: if a row took it too far, mend the file that has it and rewind again, "
            "or rewind with --reject-after TS"
        )
    return rewind_report(work.notes, outcome), True
