"""The queries of Nexmark in DuckDB's SQL: their batch answers over the events up to an instant.

Most are the text of the view. The others say in DuckDB's own words which windows are over, or which sessions
are open, at the instant.
"""

import re
from datetime import datetime

import duckdb

from bench.nexmark.generator import Events
from bench.nexmark.streams import SIDE_INPUT, read_query

Rows = list[tuple[object, ...]]

_ENDS = "make_timestamp((epoch_us(dateTime) // {slide} + 1 + {number}) * {slide})"
_LAST_10_SECONDS = _ENDS.format(slide=10_000_000, number=0)
_HOP = _ENDS.format(slide=2_000_000, number="hop")

_OWN_WORDS = {
    "q5": f"""
        WITH counts AS (SELECT auction, COUNT(*) AS num, {_HOP} AS endtime
                        FROM bid, range(5) AS hops (hop) GROUP BY ALL)
        SELECT auction, num, endtime, endtime FROM counts c
        WHERE endtime <= $t AND num >= (SELECT MAX(num) FROM counts m WHERE m.endtime = c.endtime)""",
    "q7": f"""
        SELECT b.auction, b.price, b.bidder, b.dateTime, b.extra, m.endtime
        FROM bid b JOIN (SELECT MAX(price) AS maxprice, {_LAST_10_SECONDS} AS endtime FROM bid GROUP BY 2) m
        ON b.price = m.maxprice AND b.dateTime BETWEEN m.endtime - INTERVAL 10 SECOND AND m.endtime
        WHERE m.endtime <= $t""",
    "q8": f"""
        SELECT DISTINCT p.id, p.name, p.endtime - INTERVAL 10 SECOND, p.endtime
        FROM (SELECT id, name, {_LAST_10_SECONDS} AS endtime FROM person) p
        JOIN (SELECT seller, {_LAST_10_SECONDS} AS endtime FROM auction) a
        ON p.id = a.seller AND p.endtime = a.endtime
        WHERE p.endtime <= $t""",
    "q11": """
        WITH marked AS (SELECT bidder, dateTime, dateTime - lag(dateTime) OVER (PARTITION BY bidder
                        ORDER BY dateTime) < INTERVAL 10 SECOND AS goes_on FROM bid),
             numbered AS (SELECT bidder, dateTime, count_if(goes_on IS NOT TRUE) OVER (PARTITION BY bidder
                          ORDER BY dateTime) AS session FROM marked)
        SELECT bidder, COUNT(*), MIN(dateTime), MAX(dateTime) + INTERVAL 10 SECOND FROM numbered
        GROUP BY bidder, session HAVING MAX(dateTime) + INTERVAL 10 SECOND > $t""",
    "q12": "SELECT bidder, COUNT(*) FROM bid GROUP BY bidder",  # over all windows of the clock
    "q13": """
        SELECT b.auction, b.bidder, b.price, b.dateTime, s.value
        FROM bid b JOIN side_input s ON b.auction % 10000 = s.key""",
}


class NexmarkWitness:
    """DuckDB with all events, which answers a query over those up to an instant."""

    def __init__(self, events: Events) -> None:
        self.duck = duckdb.connect(config={"threads": 1})
        for name, frame in events.items():
            self.duck.register("given", frame.drop("arrival").to_arrow())
            self.duck.execute(f"CREATE TABLE every_{name} AS SELECT * FROM given")
            self.duck.unregister("given")
        self.duck.execute("CREATE MACRO to_date(moment) AS CAST(moment AS DATE)")
        self.duck.execute(
            "CREATE TABLE side_input AS SELECT key, concat('side-', key) AS value"
            f" FROM range({SIDE_INPUT}) AS keys (key)"
        )

    def answer(self, query: str, instant: datetime) -> Rows:
        """Return the rows of a query, such as q5, at an instant in UTC."""
        for name in ("person", "auction", "bid"):
            self.duck.execute(
                f"CREATE OR REPLACE TEMP VIEW {name} AS"
                f" SELECT * FROM every_{name} WHERE dateTime <= TIMESTAMP '{instant}'"
            )
        return self.duck.execute(_select(query).replace("$t", f"TIMESTAMP '{instant}'")).fetchall()


def _select(query: str) -> str:
    """Return the SELECT that DuckDB is asked."""
    if query in _OWN_WORDS:
        return _OWN_WORDS[query]
    return re.sub(r"(?s)^.*CREATE VIEW \w+ AS\s", "", read_query(query)).rstrip().rstrip(";")
