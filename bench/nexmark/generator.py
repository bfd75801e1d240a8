"""The events of Nexmark: of every 50 one is a person, three are auctions and 46 are bids.

The n-th event has the n-th timestamp. What it refers to was made before it: a bid is for one of the latest
auctions, by one of the latest persons, and a share of the bids is for a few hot ones. `disorder` delays each
event by a random time up to that length before it is written; a stream with that LATENESS takes all of them.
The same seed gives the same events, whatever the number of files is. All is computed a column at a time.

>>> events = make_events(100, seed=1)
>>> {name: frame.height for name, frame in events.items()}
{'person': 2, 'auction': 6, 'bid': 92}
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

Format = Literal["csv", "json", "parquet"]
Events = dict[
    str, pl.DataFrame
]  # by the name of the stream, in the order of arrival; `arrival` is its place there

SECOND = 1_000_000
START = 1_767_225_600 * SECOND  # 2026-01-01 00:00:00 UTC
CYCLE, PERSONS, AUCTIONS, BIDS = 50, 1, 3, 46  # events of a cycle: persons first, then auctions, then bids
FIRST_ID, FIRST_CATEGORY, CATEGORIES = 1000, 10, 5
HOT_GROUP = 100  # of so many persons or auctions in a row one is hot
ACTIVE_PERSONS, OPEN_AUCTIONS = 1000, 100  # the latest ones, to which events refer
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
CHANNELS = 10_000
TEXTS = 10_000

_CITIES = (
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
)
_STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
_FIRST_NAMES = (
    "Peter",
    "Paul",
    "Luke",
    "John",
    "Saul",
    "Vicky",
    "Kate",
    "Julie",
    "Sarah",
    "Deiter",
    "Walter",
)
_LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_EXTRA = {"person": 20, "auction": 40, "bid": 20}  # characters of the column `extra`


@dataclass(frozen=True)
class Skew:
    """The shares of hot sellers, auctions, bidders and channels among those that events refer to."""

    sellers: float = 0.75
    auctions: float = 0.5
    bidders: float = 0.75
    channels: float = 0.5


def make_events(
    events: int,
    *,
    seed: int = 7,
    per_second: int = 10_000,
    disorder: float = 0.0,
    skew: Skew | None = None,
    extra: float = 1.0,
) -> Events:
    """Return the events of each stream, in the order of arrival.

    `per_second` is the number of events in a second of event time, `disorder` the greatest delay in seconds,
    and `extra` makes the filling of the rows so many times as long.
    """
    skew = skew or Skew()
    rng = np.random.default_rng(seed)
    number = np.arange(events)
    cycle, offset = number // CYCLE, number % CYCLE
    ts = START + number * SECOND // per_second
    delay = rng.random(events) * disorder * SECOND
    arrival = np.empty(events, dtype=np.int64)
    arrival[np.argsort(ts + delay, kind="stable")] = number
    made = _Maker(rng, ts, arrival, skew, extra, SECOND / per_second)
    kinds = {
        "person": offset < PERSONS,
        "auction": (offset >= PERSONS) & (offset < PERSONS + AUCTIONS),
        "bid": offset >= PERSONS + AUCTIONS,
    }
    person = np.flatnonzero(kinds["person"])
    auction = np.flatnonzero(kinds["auction"])
    bid = np.flatnonzero(kinds["bid"])
    newest_auction = cycle * AUCTIONS + np.clip(offset - PERSONS, 0, AUCTIONS - 1)
    frames = {
        "person": made.persons(person, cycle[person]),
        "auction": made.auctions(auction, newest_auction[auction], cycle[auction]),
        "bid": made.bids(bid, newest_auction[bid], cycle[bid]),
    }
    return {name: frame.sort("arrival") for name, frame in frames.items()}


@dataclass(frozen=True)
class _Maker:
    """What all streams share; `of` are the numbers of events, `newest` the newest ids before them."""

    rng: np.random.Generator
    ts: np.ndarray
    arrival: np.ndarray
    skew: Skew
    extra: float
    gap: float  # microseconds between two events

    def persons(self, of: np.ndarray, newest: np.ndarray) -> pl.DataFrame:
        size = len(of)
        first, last = self._choose(_FIRST_NAMES, size), self._choose(_LAST_NAMES, size)
        numbers = {f"n{i}": self.rng.integers(1000, 10_000, size) for i in range(4)}
        return pl.DataFrame({"id": FIRST_ID + newest, "first": first, "last": last, **numbers}).select(
            "id",
            pl.format("{} {}", "first", "last").alias("name"),
            pl.format(
                "{}@{}.com", pl.col("first").str.to_lowercase(), pl.col("last").str.to_lowercase()
            ).alias("emailAddress"),
            pl.format("{} {} {} {}", *numbers).alias("creditCard"),
            pl.Series("city", self._choose(_CITIES, size)),
            pl.Series("state", self._choose(_STATES, size)),
            *self._end_of_row("person", of),
        )

    def auctions(self, of: np.ndarray, newest: np.ndarray, person: np.ndarray) -> pl.DataFrame:
        size = len(of)
        initial = self._prices(size)
        open_for = (
            2 * OPEN_AUCTIONS * CYCLE / AUCTIONS * self.gap
        )  # on average, about that many are open at a time
        expires = self.ts[of] + np.maximum(1000, self.rng.random(size) * open_for).astype(np.int64)
        return pl.DataFrame(
            {
                "id": FIRST_ID + newest,
                "itemName": self._texts(size, 12),
                "description": self._texts(size, 60),
                "initialBid": initial,
                "reserve": initial + self._prices(size),
                "expires": _times(expires),
                "seller": FIRST_ID + self._refer(person, ACTIVE_PERSONS, self.skew.sellers),
                "category": FIRST_CATEGORY + self.rng.integers(0, CATEGORIES, size),
            }
        ).select(
            "id", "itemName", "description", "initialBid", "reserve", self._times_of(of), "expires", "seller",
            "category", *self._end_of_row("auction", of)[1:],
        )  # fmt: skip

    def bids(self, of: np.ndarray, newest: np.ndarray, person: np.ndarray) -> pl.DataFrame:
        size = len(of)
        hot_channel = self.rng.random(size) < self.skew.channels
        channel = self.rng.integers(0, CHANNELS, size)
        rows = pl.DataFrame(
            {
                "auction": FIRST_ID + self._refer(newest, OPEN_AUCTIONS, self.skew.auctions),
                "bidder": FIRST_ID + self._refer(person, ACTIVE_PERSONS, self.skew.bidders, 1),
                "price": self._prices(size),
                "hot": hot_channel,
                "hot_name": self._choose(HOT_CHANNELS, size),
                "number": channel,
                "told": self.rng.random(size) < 0.9,
                **{f"folder{i}": self._texts(size, 3 + i) for i in range(3)},
            }
        )
        base = pl.format(
            "https://auctions.example/{}/{}/{}/item.htm?query=1", "folder0", "folder1", "folder2"
        )
        told = pl.col("told") & ~pl.col("hot")
        return rows.select(
            "auction",
            "bidder",
            "price",
            pl.when("hot").then("hot_name").otherwise(pl.format("channel-{}", "number")).alias("channel"),
            pl.when(told).then(pl.format("{}&channel_id={}", base, "number")).otherwise(base).alias("url"),
            *self._end_of_row("bid", of),
        )

    def _refer(self, newest: np.ndarray, latest: int, hot: float, place: int = 0) -> np.ndarray:
        """Return which one each event refers to: the hot one of its group, or one of the latest."""
        group = newest // HOT_GROUP * HOT_GROUP
        hottest = np.minimum(group + place, newest)
        known = np.minimum(newest + 1, latest)
        any_one = newest - (self.rng.random(len(newest)) * known).astype(np.int64)
        return np.where(self.rng.random(len(newest)) < hot, hottest, any_one)

    def _prices(self, size: int) -> np.ndarray:
        """Return prices between 1 and 1,000,000, of every order of magnitude as many, in hundredths."""
        return np.round(10 ** (self.rng.random(size) * 6) * 100).astype(np.int64)

    def _choose(self, of: tuple[str, ...], size: int) -> pl.Series:
        return pl.Series(of).gather(self.rng.integers(0, len(of), size))

    def _texts(self, size: int, length: int) -> pl.Series:
        """Return random texts, each one of 10,000: so a million take a moment."""
        letters = self.rng.integers(0, len(_LETTERS), TEXTS * length, dtype=np.uint8) + ord("a")
        text = letters.tobytes().decode()
        pool = pl.Series([text[at : at + length] for at in range(0, TEXTS * length, length)], dtype=pl.String)
        return pool.gather(self.rng.integers(0, TEXTS, size))

    def _times_of(self, of: np.ndarray) -> pl.Series:
        return _times(self.ts[of]).alias("dateTime")

    def _end_of_row(self, stream: str, of: np.ndarray) -> tuple[pl.Series, pl.Series, pl.Series]:
        extra = self._texts(len(of), int(_EXTRA[stream] * self.extra)).alias("extra")
        return self._times_of(of), extra, pl.Series("arrival", self.arrival[of])


def _times(micros: np.ndarray) -> pl.Series:
    return pl.Series(micros).cast(pl.Datetime("us"))


def write_events(events: Events, folder: Path, files: int, file_format: Format = "parquet") -> None:
    """Write the streams to `folder/person`, `folder/auction` and `folder/bid`, in so many files each.

    The i-th files of all streams hold what arrived in the i-th part of the time. Their modification times are
    a second apart, as Spark reads files in that order. CSV files have a header; text has timestamps such as
    `2026-01-01 00:00:00.000100`, in UTC.
    """
    total = sum(frame.height for frame in events.values())
    for name, frame in events.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(files):
            begin, end = (total * i // files for i in (number, number + 1))
            part = frame.filter(pl.col("arrival").is_between(begin, end, closed="left")).drop("arrival")
            path = folder / name / f"{number:05}.{file_format}"
            _write(part, path, file_format)
            os.utime(path, (START // SECOND + number,) * 2)


def _write(rows: pl.DataFrame, path: Path, file_format: Format) -> None:
    if file_format == "parquet":
        zoned = rows.with_columns(pl.col(pl.Datetime).dt.replace_time_zone("UTC"))
        zoned.write_parquet(path)
        return
    texts = rows.with_columns(pl.col(pl.Datetime).dt.strftime("%Y-%m-%d %H:%M:%S%.6f"))
    if file_format == "csv":
        texts.write_csv(path)
    else:
        texts.write_ndjson(path)
