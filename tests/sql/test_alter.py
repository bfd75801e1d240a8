"""ALTER in the catalog: what views read after columns were added, and after names have changed."""

from __future__ import annotations

import random

import pytest

from everview.catalog import Catalog, ViewEntry
from everview.errors import EverviewError
from everview.sql import bind_script, declare, relation_of, view_plan

MADE = """
    CREATE STREAM s (k STRING, op STRING, ts TIMESTAMP, TIMELINE ts);
    CREATE TABLE t (k STRING, n INT);
    CREATE TAGGED STREAM latest OVER s KEY (k) DELETE WHEN s.op = 'D';
    CREATE VIEW w AS SELECT * FROM s;
    CREATE VIEW v AS SELECT * FROM latest;
    CREATE VIEW both AS SELECT * FROM s NATURAL JOIN t;
    CREATE VIEW over AS SELECT * FROM w;
    CREATE VIEW lates AS SELECT * FROM s$late;
    CREATE VIEW refused AS SELECT * FROM s$rejected;
"""


def made(script: str, catalog: Catalog | None = None) -> Catalog:
    catalog = Catalog() if catalog is None else catalog.copy()
    for statement in bind_script(script, catalog):
        declare(statement, catalog)
    assert Catalog.from_json(catalog.to_json()) == catalog
    return Catalog.from_json(catalog.to_json())


def plans(catalog: Catalog) -> dict[str, object]:
    return {e.name: view_plan(e, catalog) for e in catalog if isinstance(e, ViewEntry)}


def test_views_keep_the_columns_that_they_read() -> None:
    """Also those that a NATURAL JOIN would share now, and names of ours that a new column has."""
    before = plans(made(MADE))
    catalog = made(
        MADE + "ALTER STREAM s ADD COLUMNS (n INT, _reason STRING); ALTER TABLE t ADD COLUMN op INT"
    )
    assert plans(catalog) == before
    assert view_plan(ViewEntry("x", "SELECT * FROM s$rejected"), catalog) != before["refused"]
    again = made(MADE.split(";", 2)[2], catalog)  # the same CREATE VIEW again is no change
    assert again == catalog
    assert plans(again) == before
    later = made("CREATE OR REPLACE VIEW w AS SELECT * FROM s; CREATE VIEW x AS SELECT n FROM s", catalog)
    assert relation_of("w", later).schema.names == ("k", "op", "ts", "n", "_reason")
    assert relation_of("over", later).schema.names == ("k", "op", "ts", "n", "_reason")
    assert plans(later)["v"] == before["v"]


def test_a_view_made_between_two_alterations_keeps_its_columns() -> None:
    catalog = made(MADE + "ALTER STREAM s ADD COLUMN a INT; CREATE VIEW x AS SELECT * FROM s")
    catalog = made("ALTER STREAM s ADD COLUMN b INT; CREATE VIEW y AS SELECT * FROM s", catalog)
    widths = {name: len(relation_of(name, catalog).schema) for name in ("w", "x", "y", "s")}
    assert widths == {"w": 3, "x": 4, "y": 5, "s": 5}
    renamed = made("ALTER STREAM s RENAME TO r", catalog)
    assert {name: len(relation_of(name, renamed).schema) for name in ("w", "x", "y", "r")} == {
        "w": 3, "x": 4, "y": 5, "r": 5,
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_names_that_change_and_change_back(seed: int) -> None:
    """Any chain of new names that ends where it began leaves every text as it was."""
    rng = random.Random(seed)
    catalog = first = made(MADE)
    names = {e.name: e.name for e in first}
    steps = []
    for number in range(6):
        known = rng.choice(list(names))
        new = f"{rng.choice(['x', 'my name ', 'select', 'R'])}{number}"
        steps.append((known, names[known]))
        catalog = made(_rename(catalog, names[known], new), catalog)
        names[known] = new
    for known, earlier in reversed(steps):
        catalog = made(_rename(catalog, names[known], earlier), catalog)
        names[known] = earlier
    assert list(catalog) == list(first)
    assert plans(catalog) == plans(first)


def _rename(catalog: Catalog, old: str, new: str) -> str:
    return f"ALTER {catalog.get(old).kind.split()[-1]} `{old}` RENAME TO `{new}`"


def test_what_is_refused_changes_nothing() -> None:
    catalog = made(MADE)
    text = catalog.to_json()
    for sql in (
        "ALTER STREAM s RENAME TO v",
        "ALTER STREAM s ADD COLUMN K INT",
        "ALTER VIEW v ADD COLUMN b INT",
    ):
        with pytest.raises(EverviewError):
            made(f"ALTER {sql}", catalog)
    assert catalog.to_json() == text
