"""The upkeep of a store: it is checked, repaired, backed up and restored. Only a repair may need Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from everview.query.backup import backup_report
from everview.query.check import check_report
from everview.query.repair import repair_report
from everview.query.report import Report
from everview.storage.backup import backup_store, restore_store
from everview.storage.check import check_store
from everview.storage.files import Files
from everview.storage.store import Store

if TYPE_CHECKING:
    from everview.pipeline import SparkSession


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
    spark: SparkSession | None = None,
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
