"""Golden cases of the SQL front end: titled SQL with what it is bound to, in files a person can read.

A file begins with the CREATE statements that all its cases share. A case is a title, some SQL, a line of
dashes, and what the last of its statements is bound to: a plan, a catalog entry, or the refusal.

    CREATE STREAM s (v INT, ts TIMESTAMP, TIMELINE ts);

    -- title: the last minute
    SELECT v FROM s [RANGE 1 MINUTE]
    ----
    columns: v INT
    Project s.v
      Window [RANGE 1 MINUTE]
        Stream s (v INT, ts TIMESTAMP TIMELINE)
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from everview.algebra.explain import explain
from everview.algebra.nodes import Node
from everview.algebra.text import expression_sql, literal_sql, name_sql
from everview.algebra.time import duration_text, timestamp_sql
from everview.catalog import Catalog, Entry
from everview.errors import EverviewError
from everview.sql import bind_script, declare
from everview.sql import statements as S
from everview.sql.ad_hoc import Query

_TITLE = "-- title: "
_DASHES = "----"
REFUSED = "refused: "


@dataclass(frozen=True)
class Case:
    """One titled piece of SQL and what it should be bound to."""

    title: str
    sql: str
    expected: str


@dataclass(frozen=True)
class GoldenFile:
    """The statements that come first, and the cases."""

    header: str
    cases: tuple[Case, ...]

    @classmethod
    def parsed(cls, text: str) -> GoldenFile:
        header, *parts = re.split(rf"^{_TITLE}", text, flags=re.M)
        cases = []
        for part in parts:
            title, _, rest = part.partition("\n")
            sql, _, expected = f"\n{rest}\n".partition(f"\n{_DASHES}\n")
            cases.append(Case(title.strip(), sql.strip("\n"), expected.strip("\n")))
        return cls(header.strip("\n"), tuple(cases))

    def written(self) -> str:
        parts = [self.header, *(f"{_TITLE}{c.title}\n{c.sql}\n{_DASHES}\n{c.expected}" for c in self.cases)]
        return "\n\n".join(parts) + "\n"

    def regenerated(self) -> GoldenFile:
        """The same cases with what they are bound to now."""
        found = tuple(Case(c.title, c.sql, outcome(self.header, c.sql)) for c in self.cases)
        return GoldenFile(self.header, found)


def golden_files() -> list[Path]:
    return sorted((Path(__file__).parent / "golden").glob("*.sql.txt"))


def outcome(header: str, sql: str) -> str:
    """What the last statement is bound to when those before it have been carried out; or the refusal."""
    try:
        return run(sql, prepared(header))
    except EverviewError as error:
        return f"{REFUSED}{error}"


def prepared(header: str) -> Catalog:
    """A catalog of its own in which the header has been carried out."""
    done = _carried_out(header)
    return Catalog(dict(done.entries), done.clock_grain)


@lru_cache
def _carried_out(header: str) -> Catalog:
    catalog = Catalog()
    run(header, catalog)
    return catalog


def run(sql: str, catalog: Catalog) -> str:
    """Carries out a script as far as the catalog goes, and says what its last statement was."""
    said = "nothing"
    for statement in bind_script(sql, catalog):
        said = shown(statement, catalog)
    return said


def shown(statement: S.Statement, catalog: Catalog) -> str:
    """A bound statement as text; what it changes in the catalog is done."""
    match statement:
        case S.Create():
            replaced = statement.entry.name in catalog
            changed = catalog.add(statement.entry, statement.replace)
            did = "no change" if not changed else "replace" if replaced else "create"
            plan = "" if statement.plan is None else "\n" + _plan(statement.plan)
            return f"{did} {_entry(statement.entry)}{plan}"
        case S.CreateAs():
            did = "create" if catalog.add(statement.entry) else "no change"
            return f"{did} {_entry(statement.entry)}\n{_query(statement.query)}"
        case S.Drop():
            gone = [] if statement.name is None else catalog.drop(statement.name, statement.cascade)
            return "drop " + (", ".join(gone) or "nothing")
        case S.Resume(name):
            return f"resume {name}"
        case S.ReplayRows(stream, kind, where):
            return f"replay {stream}${kind}" + ("" if where is None else f" where {expression_sql(where)}")
        case S.Rename(name, new_name, rewritten):
            declare(statement, catalog)
            texts = [_entry(e) for e in rewritten]
            return "\n  ".join([f"rename {name} to {new_name}", *texts])
        case S.AddColumns(name, fields):
            declare(statement, catalog)
            return f"add to {name}: {', '.join(f'{f.name} {f.type}' for f in fields) or 'nothing'}"
        case S.SetAnswerFromViews(on):
            return f"answer from views: {'on' if on else 'off'}"
        case S.SetClock():
            catalog.clock_grain = statement.grain
            return f"clock every {duration_text(statement.grain)}"
        case S.Insert():
            fields = catalog.get(statement.target).columns  # type: ignore[union-attr]
            rows = [
                ", ".join(literal_sql(value, f.type) for f, value in zip(fields, row, strict=True))
                for row in statement.rows
            ]
            return "\n  ".join([f"insert into {statement.target}{_at(statement.at)}", *rows])
        case S.InsertQuery():
            columns = ", ".join(map(name_sql, statement.columns))
            into = f"insert into {statement.target} ({columns}){_at(statement.at)}"
            return f"{into}\n{_query(statement.query)}"
        case S.Update():
            new = [f"{name_sql(name)} := {expression_sql(e)}" for name, e in statement.assignments]
            return "\n  ".join(
                [f"update {statement.target}{_at(statement.at)}", *new, *_rows(statement.rows)]
            )
        case S.Delete():
            return "\n  ".join([f"delete from {statement.target}{_at(statement.at)}", *_rows(statement.rows)])
        case S.Select():
            return _query(statement.query)
        case S.Explain():
            return f"explain\n{_query(statement.query)}"
        case S.ExplainCreate():
            return f"explain {shown(statement.created, catalog.copy())}"
        case S.Show():
            return f"show {statement.kind.lower()}"
        case S.Describe():
            return f"describe {statement.name}"


def _rows(rows: S.Selection) -> list[str]:
    """Which rows of a table a change takes, one line an item."""
    said = [f"where {expression_sql(rows.where)}"]
    for match in rows.matches:
        how = "without" if match.negated else "with"
        said += [f"{how} a match where {expression_sql(match.condition)}", *_indented(match.plan)]
    return said if rows.beside is None else [*said, "from", *_indented(rows.beside)]


def _indented(plan: Node) -> list[str]:
    return [f"  {line}" for line in explain(plan).splitlines()]


def _at(at: int | None) -> str:
    return "" if at is None else f" at {timestamp_sql(at)}"


def _query(query: Query) -> str:
    lines = [_plan(query.plan)]
    if query.names != query.plan.schema.names:
        lines.append(f"shown as {', '.join(map(name_sql, query.names))}")
    for part in query.parts:
        for key in part.order:
            direction = "descending" if key.descending else "ascending"
            nulls = "first" if key.nulls_first else "last"
            lines.append(f"order by {expression_sql(key.expression)} {direction}, NULLs {nulls}")
        if part.limit is not None:
            lines.append(f"limit {part.limit}")
        if part.offset:
            lines.append(f"offset {part.offset}")
    if query.as_of is not None:
        lines.append(f"as of {timestamp_sql(query.as_of)}")
    return "\n".join(lines)


def _plan(plan: Node) -> str:
    """The columns of the answer with their types and time lines, then the EXPLAIN text."""
    lines = {None: "", 0: " TIMELINE"}
    columns = [
        f"{name_sql(f.name)} {f.type}{lines.get(f.timeline, f' TIMELINE {(f.timeline or 0) + 1}')}"
        for f in plan.schema
    ]
    return f"columns: {', '.join(columns)}\n{explain(plan)}"


def _entry(entry: Entry) -> str:
    """A catalog entry as the catalog keeps it, one line an item; what is not there is left out."""
    found = json.loads(Catalog({entry.name: entry}).to_json())["entries"][0]
    lines = [f"{found.pop('kind')} {found.pop('name')}"]
    lines += [f"{key}: {_item(value)}" for key, value in found.items() if value not in (None, [], False)]
    return "\n  ".join(lines)


def _item(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_item, value))
    if isinstance(value, dict) and "options" in value:
        options = [f"{name} => {given!r}" for name, given in value["options"].items()]
        path = [] if value["path"] is None else [repr(value["path"])]
        return f"{value['format']}({', '.join(path + options)})"
    if isinstance(value, dict):
        return " ".join(map(str, value.values()))
    return "\n    ".join(value.splitlines()) if isinstance(value, str) else json.dumps(value)
