"""A process that works on a store and kills itself at a moment that it is told.

    python -m tests.engine.crash STORE FOLDER ROUNDS UPTO

The environment says where, at which call, and when: `run 7 half`. The same module is the daemon of Spark's
Python workers, so that a task can kill everything, too: Spark starts `python -m tests.engine.crash
pyspark.worker`.
"""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import everview
from everview.database import Database
from everview.errors import StoreError
from everview.execute import evaluate, housekeeping
from everview.execute.housekeeping import MergeTask
from everview.storage.files import Files
from everview.storage.manifest import path_of
from everview.storage.trace import Trace
from tests.engine.feeding import Feed

_GROUP, _KILL, _LOG = "EVERVIEW_TEST_GROUP", "EVERVIEW_TEST_KILL", "EVERVIEW_TEST_LOG"
_HERE = "EVERVIEW_TEST_HERE"  # up to how many rows the driver works on itself

# Where a process is killed, and at which of its calls, by chance up to so many. What tasks do, the driver
# does itself where it is little.
IN_TASKS = {"intake": 6, "run": 25, "compact": 4, "merge": 2}
IN_DRIVER = {"manifest": 4, "insert": 2, "clean": 6, "time": 30}
MOMENTS = ("before", "half", "after")


@dataclass(frozen=True)
class Kill:
    """Before, in the middle of, or after the n-th call of something; for `time`, n tenths of a second.

    The moment `full` kills nothing: that call finds the disk full.
    """

    where: str
    call: int
    moment: str

    @classmethod
    def chosen(cls, rng: random.Random, where: str, moment: str) -> Kill:
        """At a random call."""
        return cls(where, rng.randint(1, {**IN_TASKS, **IN_DRIVER}[where]), moment)

    def __str__(self) -> str:
        return f"{self.where} {self.call} {self.moment}"


class Trigger:
    """Counts calls, and kills when it is time."""

    def __init__(self, kill: Kill) -> None:
        self.kill = kill
        self.calls = 0
        self.merging = False  # the writes of a merge are its own
        self.merged = False  # what was merged is not yet written

    def around(self, call: Callable[[], Any], half: Callable[[], Any] | None = None) -> Any:
        """Makes a call, unless it is the one."""
        self.calls += 1
        if self.calls != self.kill.call:
            return call()
        if self.kill.moment == "full":
            return self._once(call)
        if self.kill.moment == "after":
            call()
        elif self.kill.moment == "half" and half is not None:
            half()
        die(str(self.kill))

    def _once(self, call: Callable[[], Any]) -> Any:
        """The disk is full; not so for a worker that starts to count anew."""
        try:
            Path(f"{os.environ[_LOG]}.{self.kill.where}").touch(exist_ok=False)
        except FileExistsError:
            return call()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def say(what: str) -> None:
    """One line in the log that all processes of a victim share."""
    with open(os.environ[_LOG], "a") as log:
        log.write(what + "\n")


def die(why: str) -> NoReturn:
    """Kills the driver, its JVM and, in a task, the Python workers: no handler runs, nothing is flushed."""
    say(f"killed {why}")
    os.killpg(int(os.environ[_GROUP]), signal.SIGKILL)
    os.killpg(0, signal.SIGKILL)
    raise SystemError("still alive")


def arm(kill: Kill, in_task: bool) -> None:
    """Puts the trigger where it belongs in this process."""
    trigger = Trigger(kill)
    merged, merge = Trace.merged, MergeTask.merged  # perhaps with another trigger already

    def watched_merge(trace: Trace, *args: Any) -> Trace:
        say("compacted")
        return _within(trigger, partial(merged, trace, *args))

    def watched_task(task: MergeTask, numbers: Any) -> Any:
        say("merged")
        return iter(_within(trigger, lambda: list(merge(task, numbers))))

    Trace.merged = watched_merge  # type: ignore[method-assign]
    MergeTask.merged = watched_task  # type: ignore[method-assign]
    if kill.where in (IN_TASKS if in_task else {**IN_TASKS, **IN_DRIVER}):
        _watch_files(trigger, in_task)


def _within(trigger: Trigger, work: Callable[[], Any]) -> Any:
    trigger.merging = True
    try:
        return work()
    finally:
        trigger.merging, trigger.merged = False, True


def _watch_files(trigger: Trigger, in_task: bool) -> None:
    write, delete = Files.write, Files.delete

    def watched_write(files: Files, path: str, *data: bytes | memoryview) -> None:
        call = partial(write, files, path, *data)
        packed = "/packed-" in path  # what was merged is written with all else of the task
        merging = trigger.merging or (packed and trigger.merged)
        trigger.merged = trigger.merged and not packed
        if _place(path, merging, in_task) == trigger.kill.where:
            with files._explained("write", path):
                trigger.around(call, partial(_half, files, path, b"".join(data)))
        else:
            call()

    def watched_delete(files: Files, path: str) -> None:
        call = partial(delete, files, path)
        trigger.around(call) if trigger.kill.where == "clean" else call()

    Files.write = watched_write  # type: ignore[method-assign]
    Files.delete = watched_delete  # type: ignore[method-assign]


def _place(path: str, merging: bool, in_task: bool) -> str:
    """Which kind of write this is."""
    folder = path.split("/", 1)[0]
    if merging:
        return "compact" if folder == "runs" else "merge"
    if folder in ("inbox", "late", "ports"):
        return "intake" if in_task else "insert"
    if path == path_of(0):  # of names that were created before the first step
        return "other"
    return {"manifests": "manifest", "runs": "run", "views": "run"}.get(folder, "other")


def _half(files: Files, path: str, data: bytes | memoryview) -> None:
    """What is left of a write that was cut off: half a file, under a name that nobody reads."""
    folder, name = files.full_path(path).rsplit("/", 1)
    os.makedirs(folder, exist_ok=True)
    Path(folder, f".{name}.cut.tmp").write_bytes(data[: len(data) // 2])


def work(store: str, folder: str, rounds: int, upto: int) -> None:
    """Opens the store as any process does, and goes on with what is to be done."""
    feed = Feed(Path(folder), rounds)
    evaluate.SMALL = housekeeping.MERGE_ON_DRIVER = int(os.environ[_HERE])
    housekeeping.POLICY = replace(housekeeping.POLICY, fan=3)  # there is more to merge
    with everview.connect(store, _session(), partitions=2) as db:
        db.execute(feed.script)
        kills = _told()
        for kill in kills:
            if kill.where == "time":
                threading.Timer(kill.call / 10, die, [str(kill)]).start()
        _go_on(db, feed, upto)
        if any(kill.moment != "full" for kill in kills):
            die("at rest")
        db.run(finish=True)


def _go_on(db: Database, feed: Feed, upto: int) -> None:
    """Tries again when the disk was full; anything else is not expected."""
    while True:
        try:
            return feed.work(db, upto)
        except StoreError as error:
            if "space" not in str(error):
                raise
            say("refused " + str(error).replace("\n", ""))


def _session() -> Any:
    """A session on one core that starts soon: its JVM does not compile much, as it does not live long."""
    from pyspark.sql import SparkSession

    from everview.execute.session import SPARK_SETTINGS

    java = (
        SPARK_SETTINGS["spark.driver.extraJavaOptions"]
        + " -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
    )
    builder = SparkSession.builder.master("local[1]").appName("everview-victim")
    settings = {**SPARK_SETTINGS, "spark.driver.extraJavaOptions": java, "spark.sql.shuffle.partitions": "1"}
    for name, value in {**settings, "spark.python.daemon.module": "tests.engine.crash"}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


def _told() -> list[Kill]:
    found = [text.split() for text in os.environ[_KILL].split(",") if text]
    return [Kill(where, int(call), moment) for where, call, moment in found]


def run_victim(
    folder: Path, rounds: int, upto: int, *kills: Kill, here: int = 0
) -> subprocess.CompletedProcess[str]:
    """Starts a victim, and waits for its end; its store, its input and its log are in the folder.

    `here` is up to how many rows the driver works on itself.
    """
    root = str(Path(__file__).parents[2])
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    told = {_KILL: ",".join(map(str, kills)), _LOG: str(folder / "log"), _HERE: str(here)}
    around = {"PYTHONPATH": root, "PYSPARK_PYTHON": sys.executable, "POLARS_MAX_THREADS": "1"}
    arguments = [str(folder / "store"), str(folder / "in"), str(rounds), str(upto)]
    return subprocess.run(
        [sys.executable, "-m", "tests.engine.crash", *arguments],
        env={**kept, **around, **told}, cwd=root, start_new_session=True, capture_output=True, text=True,
    )  # fmt: skip


def main() -> None:
    """A victim, or the daemon of its workers."""
    in_task = sys.argv[1] == "pyspark.worker"
    for kill in _told():
        arm(kill, in_task)
    if in_task:
        from pyspark.daemon import manager

        manager()
    else:
        os.environ[_GROUP] = str(os.getpgrp())
        store, folder, rounds, upto = sys.argv[1:5]
        work(store, folder, int(rounds), int(upto))


if __name__ == "__main__":
    main()
