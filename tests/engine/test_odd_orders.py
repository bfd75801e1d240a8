"""Random acts on a store in a random order: its answers stay those of the definitions.

Views are renamed, replaced, dropped, made late, set aside and resumed; time is taken back, late rows count
after all; files are damaged and mended; a backup takes the place of the store; the strategy changes. Several
views are answered from others, and joins share what they keep. After each step all views are compared with
the reference.
"""

from __future__ import annotations

import os
import random
import warnings
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import everview
from everview.algebra.changes import snapshot
from everview.algebra.time import SECOND, format_timestamp
from everview.database import Database
from everview.maintenance import check_at, repair
from everview.operators.columnar.frame import BEFORE_ALL
from everview.reference.work_out import work_out
from tests.engine.damages import damaged_last_manifest, flip_run
from tests.seeds import seeds

pytestmark = [pytest.mark.spark, pytest.mark.slow]

START = datetime(2026, 1, 1)
Row = tuple[int, int, int]  # k, v, second

# Each view has two definitions of the same columns; {s}, {r} and the views stand for their present names.
VIEWS = {
    "wide": (
        "SELECT k, v, ts FROM {s} [RANGE 20 SECONDS] WHERE v > 0",
        "SELECT k, v, ts FROM {s} [RANGE 20 SECONDS] WHERE v > 1",
    ),
    "narrow": (  # answered from wide
        "SELECT k, v FROM {s} [RANGE 20 SECONDS] WHERE v > 2 AND k < 2",
        "SELECT k, v FROM {s} [RANGE 20 SECONDS] WHERE v > 1 AND k > 0",
    ),
    "counted": (  # likewise
        "SELECT k, COUNT(*) AS n FROM {s} [RANGE 20 SECONDS] WHERE v > 1 GROUP BY k",
        "SELECT k, COUNT(*) AS n FROM {s} [RANGE 20 SECONDS] WHERE v > 2 GROUP BY k",
    ),
    "joined": (
        "SELECT a.k, a.v, b.v AS w FROM {s} [RANGE 9 SECONDS] a JOIN {r} [RANGE 9 SECONDS] b ON a.k = b.k",
        "SELECT a.k, a.v, b.v AS w FROM {s} [RANGE 9 SECONDS] a JOIN {r} [RANGE 5 SECONDS] b ON a.k = b.k",
    ),
    "padded": (  # keeps what joined keeps
        "SELECT a.k, b.v AS w FROM {s} [RANGE 9 SECONDS] a LEFT JOIN {r} [RANGE 9 SECONDS] b ON a.k = b.k",
        "SELECT a.k, b.v AS w FROM {s} [RANGE 9 SECONDS] a LEFT JOIN {r} [RANGE 4 SECONDS] b ON a.k = b.k",
    ),
    "total": (
        "SELECT COUNT(*) AS n, MAX(w) AS w FROM {joined}",
        "SELECT COUNT(*) AS n, MIN(v) AS w FROM {joined}",
    ),
    "ever": (
        "SELECT k, SUM(v) AS v FROM {s} GROUP BY k",
        "SELECT k, MAX(v) AS v FROM {s} GROUP BY k",
    ),
    "rest": (
        "SELECT k FROM {s} EXCEPT ALL SELECT k FROM {r}",
        "SELECT k FROM {s} [RANGE 30 SECONDS] EXCEPT ALL SELECT k FROM {r} [RANGE 30 SECONDS]",
    ),
}


def at(second: float) -> str:
    return (START + timedelta(seconds=second)).isoformat(sep=" ")


@dataclass
class Life:
    """A store, what was done with it, and what its sources have brought."""

    spark: SparkSession
    folder: Path
    rng: random.Random
    names: dict[str, str] = field(default_factory=lambda: {"s": "s", "r": "r"})
    chosen: dict[str, int] = field(default_factory=dict)  # which definition a view has
    taken: dict[str, list[Row]] = field(default_factory=lambda: {"s": [], "r": []})
    late: list[Row] = field(default_factory=list)
    aside: set[str] = field(default_factory=set)  # views that are set aside
    backups: list[tuple[Path, Any]] = field(default_factory=list)
    told: list[str] = field(default_factory=list)  # what was done
    stores: int = 0
    files: int = 0
    second: int = 0
    db: Database = field(init=False)

    def __post_init__(self) -> None:
        self.open()
        for stream in ("s", "r"):
            (self.folder / stream).mkdir()
            self.execute(
                f"CREATE STREAM {stream} (k INT, v INT, ts TIMESTAMP, TIMELINE ts) "
                f"FROM csv('{self.folder / stream}')"
            )
        for view in VIEWS:
            self.chosen[view] = 0
            self.execute(f"CREATE VIEW {view} AS {self.sql(view)}")
            self.names[view] = view

    @property
    def path(self) -> Path:
        return self.folder / f"store-{self.stores}"

    def open(self, strategy: str | None = None) -> None:
        self.db = everview.connect(str(self.path), self.spark, partitions=2, strategy=strategy)

    def execute(self, sql: str) -> None:
        self.told.append(sql)
        self.db.execute(sql)

    def sql(self, view: str) -> str:
        return VIEWS[view][self.chosen[view]].format(**self.names)

    def readers(self, view: str) -> set[str]:
        """The view and those over it that are there."""
        return {view} | ({"total"} & set(self.chosen) if view == "joined" else set())

    def step(self) -> None:
        """Bring rows of ten seconds, some of them late, run, and compare."""
        begin, self.second = self.second + 1, self.second + 10
        for stream in ("s", "r"):
            new = [
                (self.rng.randrange(3), self.rng.randrange(5), self.rng.randrange(begin, self.second))
                for _ in range(6)
            ]
            new.append((self.rng.randrange(3), self.rng.randrange(5), self.second))
            self.taken[stream] += new
            if stream == "s" and begin > 1 and self.rng.random() < 0.4:
                old = (self.rng.randrange(3), self.rng.randrange(5), begin - self.rng.randrange(2, 8))
                own = self.db.manifest().bounds[self.names["s"]]["ts"]  # after a rewind it lies before
                (self.late if _micros(old[2]) <= own else self.taken["s"]).append(old)
                new.append(old)
            self.files += 1
            path = self.folder / stream / f"{self.files}.csv"
            path.write_text("".join(f"{k},{v},{at(t)}\n" for k, v, t in new))
            os.utime(path, (1_700_000_000 + self.files,) * 2)
        self.told.append(f"step to {self.second}")
        self.db.run()
        self.compare()

    def compare(self) -> None:
        manifest = self.db.manifest()
        assert set(manifest.aside) == {self.names[v] for v in self.aside}, self.told
        script = "".join(
            f"CREATE STREAM {self.names[s]} (k INT, v INT, ts TIMESTAMP, TIMELINE ts);" for s in ("s", "r")
        )
        ordered = sorted(self.chosen, key=lambda view: view == "total")
        script += "".join(f"CREATE VIEW {self.names[view]} AS {self.sql(view)};" for view in ordered)
        micros = {self.names[s]: [(k, v, _micros(t)) for k, v, t in rows] for s, rows in self.taken.items()}
        for answer in work_out(script, micros):
            if answer.name in manifest.aside:
                continue
            found = Counter(
                tuple(_plain(value) for value in r)
                for r in self.db.query(f"SELECT * FROM {answer.name}").collect()
            )
            expected = Counter(snapshot(answer.rows, manifest.bound))
            assert found == expected, (answer.name, format_timestamp(manifest.bound), self.told)

    # The acts

    def rename_a_view(self) -> None:
        view = self.rng.choice(sorted(self.chosen))
        new = f"{view}_{len(self.told)}"
        self.execute(f"ALTER VIEW {self.names[view]} RENAME TO {new}")
        self.names[view] = new

    def rename_a_stream(self) -> None:
        stream = self.rng.choice("sr")
        new = f"{stream}_{len(self.told)}"
        self.execute(f"ALTER STREAM {self.names[stream]} RENAME TO {new}")
        self.names[stream] = new

    def replace_a_view(self) -> None:
        view = self.rng.choice(sorted(self.chosen))
        if view == "total" and "joined" in self.aside:
            return
        self.chosen[view] = 1 - self.chosen[view]
        self.execute(f"CREATE OR REPLACE VIEW {self.names[view]} AS {self.sql(view)}")
        self.aside -= self.readers(view)

    def drop_or_make(self) -> None:
        view = self.rng.choice(sorted(set(VIEWS) - {"joined"}))
        if view in self.chosen:
            self.execute(f"DROP VIEW {self.names[view]}")
            del self.chosen[view]
            self.aside.discard(view)
        elif view != "total" or "joined" not in self.aside:
            self.chosen[view] = self.rng.randrange(2)
            self.names[view] = view
            if self.rng.random() < 0.3:
                self.execute("SET answer_from_views = off")
            self.execute(f"CREATE VIEW {view} AS {self.sql(view)}")
            self.execute("SET answer_from_views = on")

    def set_one_aside(self) -> None:
        """Its state is damaged; the next step finds it."""
        views, state = self.db._views(), self.db.manifest().of("state")
        for view in sorted({"ever", "rest", "total"} & set(self.chosen) - self.aside):  # with no view over it
            own = views.operator_names() - views.operator_names(without={self.names[view]})
            others = {run.path for trace, runs in state.items() if trace.owner not in own for run in runs}
            paths = {run.path for trace, runs in state.items() if trace.owner in own for run in runs}
            if paths - others:
                self.told.append(f"damage the state of {view}")
                for path in paths - others:
                    flip_run(self.path, path)
                self.aside.add(view)
                self.step()
                return

    def resume(self) -> None:
        for view in sorted(self.aside)[:1]:
            self.execute(f"ALTER VIEW {self.names[view]} RESUME")
            self.aside -= self.readers(view)

    def rewind(self) -> None:
        bound = self.db.manifest().bound
        if bound == BEFORE_ALL:
            return
        to = self.rng.randrange(1, self.second)
        self.told.append(f"rewind to {to}")
        self.db.rewind(at(to))
        if bound > _micros(to):
            self.taken["s"] += [row for row in self.late if row[2] > to]
            self.late = [row for row in self.late if row[2] <= to]

    def count_late_rows(self) -> None:
        self.execute(f"REPLAY {self.names['s']}$late")
        self.taken["s"] += self.late
        self.late = []

    def damage_and_repair(self) -> None:
        self.db.close()
        runs = [run for t, runs in _runs(self.path) if t.kind in ("view", "state") for run in runs]
        if self.rng.random() < 0.4:
            damaged_last_manifest(self.path)
        elif runs:
            flip_run(self.path, self.rng.choice(runs).path)
        self.told.append("damage and repair")
        report, whole = repair(str(self.path), accept_losses=True, spark=self.spark)
        assert whole, (str(report), self.told)
        self.aside = set()
        assert check_at(str(self.path))[1], self.told
        self.open()

    def back_up(self) -> None:
        target = self.folder / f"backup-{len(self.told)}"
        self.told.append("backup")
        self.db.backup(str(target))
        model = (dict(self.names), dict(self.chosen), set(self.aside), len(self.told))
        self.backups.append((target, model))

    def restore(self) -> None:
        """The store of the last backup goes on: it reads the files that came since."""
        if not self.backups or self.late:  # which of the rows would be late is another matter
            return
        target, (names, chosen, aside, told) = self.backups.pop()
        if any("REPLAY" in done or "rewind" in done for done in self.told[told:]):
            return
        self.told.append("restore")
        self.db.close()
        self.stores += 1
        everview.restore(str(target), str(self.path))
        self.names, self.chosen, self.aside = names, chosen, aside
        self.open()

    def open_again(self) -> None:
        self.db.close()
        strategy = self.rng.choice(["upa", "direct", "nt", None])
        self.told.append(f"open again, {strategy}")
        self.open(strategy)


def _runs(path: Path) -> list[tuple[Any, Any]]:
    from everview.storage.store import Store

    return list(Store.open(str(path)).manifest().traces.items())


def _micros(second: int) -> int:
    return int(datetime(2026, 1, 1).timestamp()) * SECOND + second * SECOND


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return round((value - START).total_seconds()) * SECOND + _micros(0)
    return value


ACTS = (
    "rename_a_view", "rename_a_stream", "replace_a_view", "replace_a_view", "drop_or_make", "drop_or_make",
    "set_one_aside", "resume", "rewind", "count_late_rows", "damage_and_repair", "back_up", "restore",
    "open_again",
)  # fmt: skip


@pytest.mark.parametrize("seed", seeds(1, 30))
def test_acts_in_any_order(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        life = Life(spark, tmp_path, rng)
        life.step()
        try:
            for _ in range(3):
                for act in rng.choices(ACTS, k=3):
                    getattr(life, act)()
                life.step()
        finally:
            life.db.close()
        assert check_at(str(life.path))[1], life.told
