"""The streams of Nexmark over the generated files, and the queries."""

from functools import cache
from pathlib import Path

from bench.nexmark.generator import Format

QUERIES = tuple(f"q{number}" for number in range(23))
ARRIVAL_QUERIES = ("q12",)  # by the clock of the machine: these need a store of their own
SIDE_INPUT = 10_000  # rows of the table side_input of q13
_FOLDER = Path(__file__).parent / "queries"

_COLUMNS = {
    "person": "id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING, "
    "dateTime TIMESTAMP, extra STRING",
    "auction": "id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, "
    "dateTime TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, "
    "dateTime TIMESTAMP, extra STRING",
}


def declare_streams(
    folder: Path,
    file_format: Format = "parquet",
    *,
    lateness: float = 0.0,
    streams: tuple[str, ...] = ("person", "auction", "bid"),
    files_per_step: int = 1,
) -> str:
    """Return the CREATE STREAM statements over the files in `folder`; `lateness` is in seconds."""
    options = f"maxFilesPerTrigger => {files_per_step}" + (", header => true" * (file_format == "csv"))
    late = f" LATENESS INTERVAL '{round(lateness * 1000)}' MILLISECOND" if lateness else ""
    return "\n".join(
        f"CREATE STREAM {name} ({_COLUMNS[name]}, TIMELINE dateTime{late})\n"
        f"FROM {file_format}('{folder / name}', {options});"
        for name in streams
    )


def declare_arrivals(folder: Path, file_format: Format = "parquet", *, files_per_step: int = 1) -> str:
    """Return the CREATE STREAM statement of q12: bids by the time at which they are taken in."""
    options = f"maxFilesPerTrigger => {files_per_step}" + (", header => true" * (file_format == "csv"))
    return (
        f"CREATE STREAM bid ({_COLUMNS['bid']}, received TIMESTAMP, TIMELINE received ARRIVAL)\n"
        f"FROM {file_format}('{folder / 'bid'}', {options});"
    )


def declare_side_input() -> str:
    """Return the statements that make the table side_input of q13: 10,000 keys, each with its name."""
    digits = "(VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)) AS {0} ({0})"
    crossed = " CROSS JOIN ".join(digits.format(name) for name in "abcd")
    return (
        "CREATE TABLE side_input (key BIGINT, value STRING, PRIMARY KEY (key));\n"
        "INSERT INTO side_input SELECT CAST(a + 10 * b + 100 * c + 1000 * d AS BIGINT),"
        f" concat('side-', a + 10 * b + 100 * c + 1000 * d) FROM {crossed};"
    )


@cache
def read_query(name: str) -> str:
    """Return the statements of a query, such as q5: its CREATE VIEW is the last one."""
    return (_FOLDER / f"{name}.sql").read_text()
