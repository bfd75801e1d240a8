"""The events of Nexmark are what their generator says, and the queries bind over their streams."""

from pathlib import Path

import polars as pl
import pytest

from bench.nexmark.generator import Format, Skew, make_events, write_events
from bench.nexmark.streams import (
    ARRIVAL_QUERIES,
    QUERIES,
    declare_arrivals,
    declare_side_input,
    declare_streams,
    read_query,
)
from everview.catalog import Catalog
from everview.without_spark import bind_on_copy


def test_of_50_events_one_is_a_person_and_three_are_auctions() -> None:
    events = make_events(5_000)
    assert {name: frame.height for name, frame in events.items()} == {
        "person": 100,
        "auction": 300,
        "bid": 4600,
    }
    assert pl.concat([frame["arrival"] for frame in events.values()]).sort().to_list() == list(range(5_000))


def test_a_seed_gives_the_same_events() -> None:
    first, again, other = (make_events(500, seed=seed, disorder=0.1) for seed in (1, 1, 2))
    assert all(first[name].equals(again[name]) for name in first)
    assert not first["bid"].equals(other["bid"])


def test_events_refer_to_what_was_made_before_them() -> None:
    events = make_events(5_000)
    for stream, column, made in (("bid", "auction", "auction"), ("auction", "seller", "person")):
        born = events[made].select(pl.col("id").alias(column), pl.col("dateTime").alias("born"))
        rows = events[stream].join(born, on=column)
        assert rows.height == events[stream].height
        assert (rows["born"] <= rows["dateTime"]).all()


def test_skew_makes_some_auctions_hot() -> None:
    hot, even = (
        make_events(20_000, skew=Skew(auctions=share))["bid"]["auction"].value_counts()["count"].max()
        for share in (0.5, 0.0)
    )
    assert isinstance(hot, int)
    assert isinstance(even, int)
    assert hot > 5 * even


@pytest.mark.parametrize("disorder", [0.0, 0.05])
def test_no_event_is_later_than_the_disorder(disorder: float) -> None:
    events = make_events(5_000, disorder=disorder)
    every = pl.concat([frame.select("dateTime", "arrival") for frame in events.values()]).sort("arrival")
    behind = every["dateTime"].cum_max() - every["dateTime"]
    furthest = behind.dt.total_microseconds().max()
    assert isinstance(furthest, int)
    assert (0 < furthest < 50_000) if disorder else furthest == 0


@pytest.mark.parametrize("file_format", ["csv", "json", "parquet"])
def test_files_hold_all_events_in_the_order_of_arrival(tmp_path: Path, file_format: Format) -> None:
    events = make_events(1_000, disorder=0.02)
    write_events(events, tmp_path, files=3, file_format=file_format)
    read = {"csv": pl.read_csv, "json": pl.read_ndjson, "parquet": pl.read_parquet}[file_format]
    for name, frame in events.items():
        paths = sorted((tmp_path / name).iterdir(), key=lambda path: path.stat().st_mtime)
        found = pl.concat([read(path) for path in paths])
        assert found.columns == frame.drop("arrival").columns
        assert found["extra"].to_list() == frame["extra"].to_list()


@pytest.mark.parametrize("name", QUERIES)
def test_every_query_binds(name: str) -> None:
    folder = Path("events")
    streams = declare_arrivals(folder) if name in ARRIVAL_QUERIES else declare_streams(folder, lateness=0.5)
    statements = bind_on_copy(streams + declare_side_input() + read_query(name), Catalog())
    assert len(statements) > 3 if name not in ARRIVAL_QUERIES else statements


@pytest.mark.parametrize("name", QUERIES)
def test_the_page_shows_the_query(name: str) -> None:
    page = (Path(__file__).parents[1] / "docs" / "nexmark.md").read_text("utf-8")
    _, _, statements = read_query(name).partition("\n")  # without the comment that says what it is
    assert f"\n{statements.strip()}\n```\n" in page
