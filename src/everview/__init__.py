"""Everview keeps SQL views over streams and tables continuously correct, on Spark.

The way of a query, and the folders that it passes through:

    SQL text → sql/ → algebra/ → temporal/ → rewrite/ → plan/ → operators/ on execute/ → storage/
                                     ingest/ brings rows in · query/ brings answers out · ui/ shows them

`compile.py` is the way of a view up to its physical plan, `pipeline/` runs the steps, `database.py` is a
store that is open for work, `maintenance.py` checks, repairs and backs up, `server/` lets other processes
ask. `reference/` says what a query means; tests hold everything else to it.

A first query:

    import everview

    with everview.connect("store") as db:
        db.execute("CREATE STREAM s (v INT, ts TIMESTAMP, TIMELINE ts)")
        db.execute("CREATE VIEW total AS SELECT SUM(v) AS total FROM s [RANGE 10 SECONDS]")
        db.insert("s", [{"v": 1, "ts": "2026-01-01 00:00:01"}, {"v": 2, "ts": "2026-01-01 00:00:02"}])
        db.run()
        db.query("SELECT * FROM total").show()
"""

from typing import TYPE_CHECKING

from everview.errors import EverviewError
from everview.settings import SparkSettings

if TYPE_CHECKING:
    from everview.database import Database, connect
    from everview.maintenance import restore

__all__ = ["Database", "EverviewError", "SparkSettings", "connect", "restore"]
__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Import `database` at the first use: `everview --help` does not need it."""
    if name == "restore":
        from everview import maintenance

        return maintenance.restore
    if name in __all__:
        from everview import database

        return getattr(database, name)
    raise AttributeError(f"module 'everview' has no attribute '{name}'")
