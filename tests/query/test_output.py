"""The change streams of a view on Spark: as the plain definitions of `algebra/changes.py` say.

Many small random views are one frame: the first column of a record is the number of its view.
"""

from __future__ import annotations

import random
import struct
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession

from everview.algebra import types as T
from everview.algebra.changes import ChangeRow, Record, Tag, from_tags, profile, to_tags
from everview.algebra.changes import snapshot as snapshot_of
from everview.algebra.time import INFINITY, LEAST, Chronon
from everview.algebra.values import normal, record_ordering
from everview.execute.catalyst import spark_schema
from everview.query.output import interval_rows, snapshot_rows, tag_rows

pytestmark = pytest.mark.spark

TYPES = (T.INT, T.INT, T.DOUBLE)
"""(view, k, x)"""
WIDTH = len(TYPES)
VIEWS = range(80)
LATEST = 12
BEFORE, LAST = LEAST - 1, INFINITY - 1
INSTANTS = [LEAST, *range(-1, LATEST + 2), LAST]
KEYS: tuple[tuple[int, ...] | None, ...] = (None, (0, 1), (0, 2))


# Random views


OTHER_NAN = struct.unpack("<d", bytes.fromhex("010000000000f8ff"))[0]


def _value(rng: random.Random) -> float | None:
    return rng.choice([None, 0.0, -0.0, float("nan"), OTHER_NAN, 1.5])


def _span(rng: random.Random) -> tuple[Chronon, Chronon]:
    """From when until when: since ever and for ever among them."""
    a, b = sorted(rng.sample(range(LATEST), 2))
    return rng.choice([LEAST, a, a, a]), rng.choice([b, b, INFINITY])


def _free(rng: random.Random, view: int) -> list[ChangeRow]:
    """Records that come and go as they like, several at a time."""
    found = []
    for _ in range(rng.randrange(1, 8)):
        found.append(
            ChangeRow((view, rng.choice([None, 0, 1]), _value(rng)), *_span(rng), rng.choice([1, 1, 3]))
        )
    return found


def _keyed(rng: random.Random, view: int) -> list[ChangeRow]:
    """One record at a time for each k."""
    found = []
    for k in (None, 0, 1):
        times = sorted({rng.choice([LEAST, 0]), *rng.sample(range(LATEST), 4), INFINITY})
        for from_, until in pairwise(times):
            if rng.random() < 0.8:
                found.append(ChangeRow((view, k, _value(rng)), from_, until))
    return found


def _taken_apart(rng: random.Random, rows: list[ChangeRow]) -> list[ChangeRow]:
    """Other rows for the same snapshots: cut in two, too long and taken back, there and not there."""
    apart = []
    for record, from_, until, n in rows:
        middle = rng.choice([t for t in (*range(LATEST), INFINITY) if from_ < t <= until])
        form = rng.randrange(4)
        if form == 0 and middle < until:
            apart += [ChangeRow(record, from_, middle, n), ChangeRow(record, middle, until, n)]
        elif form == 1 and until < INFINITY:
            apart += [ChangeRow(record, from_, INFINITY, n), ChangeRow(record, until, INFINITY, -n)]
        elif form == 2:
            apart += [ChangeRow(record, from_, until, n + 1), ChangeRow(record, from_, until, -1)]
        else:
            apart.append(ChangeRow(record, from_, until, n))
        if rng.random() < 0.3:
            other = (*record[:2], _value(rng))
            apart += [ChangeRow(other, *span, m) for span, m in [(_span(rng), 2)] for m in (m, -m)]
    return rng.sample(apart, len(apart))


def _views() -> list[list[ChangeRow]]:
    rng = random.Random(7)
    return [_taken_apart(rng, (_keyed if view % 2 else _free)(rng, view)) for view in VIEWS]


ROWS = _views()
"""The change rows of every view; in those of an odd number k is a key."""


def _is_keyed(view: int) -> bool:
    return view % 2 == 1


# To Spark and back


class Piece(NamedTuple):
    """One interval of the output."""

    until: Chronon
    from_: Chronon
    record: Record
    n: int


def _frame(spark: SparkSession, rows: Iterable[ChangeRow]) -> DataFrame:
    return spark.createDataFrame([(*r.record, *r[1:]) for r in rows], spark_schema(TYPES)).repartition(3)


def _record(row: Sequence[Any]) -> Record:
    return tuple(normal(v) for v in row)


def _time(t: Chronon | None, end: Chronon) -> Chronon:
    """NULL stands for the end of the line, which itself is never shown."""
    assert t != end
    return end if t is None else t


def _all(rows: Iterable[Sequence[ChangeRow]] = ROWS) -> list[ChangeRow]:
    return [row for view in rows for row in view]


def _tags(frame: DataFrame) -> list[Tag]:
    assert frame.columns == ["tag", "at", "c0", "c1", "c2", "old"]
    return [
        Tag(tag, _record(record), _time(at, LEAST), None if old is None else _record(old))
        for tag, at, *record, old in frame.collect()
    ]


def _pieces(frame: DataFrame) -> list[Piece]:
    assert frame.columns == ["from", "until", "n", "c0", "c1", "c2"]
    return [
        Piece(_time(until, INFINITY), _time(from_, LEAST), _record(record), n)
        for from_, until, n, *record in frame.collect()
    ]


def _normal(rows: Iterable[ChangeRow]) -> list[ChangeRow]:
    return [r._replace(record=_record(r.record)) for r in rows]


def _by_view(found: Iterable[Any]) -> dict[object, list[Any]]:
    views: dict[object, list[Any]] = defaultdict(list)
    for item in found:
        views[item.record[0]].append(item)
    return views


def _tag_order(tag: Tag) -> tuple[object, ...]:
    return tag.at, "-u+".index(tag.tag), record_ordering(tag.record), record_ordering(tag.old or ())


def _piece_order(piece: Piece) -> tuple[object, ...]:
    return piece.until, piece.from_, record_ordering(piece.record)


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    return _frame(spark, _all()).persist()


@pytest.fixture(scope="module", params=KEYS, ids=str)
def tagged(rows: DataFrame, request: pytest.FixtureRequest) -> tuple[tuple[int, ...] | None, list[Tag]]:
    """A key, and all tags of all views with it."""
    return request.param, _tags(tag_rows(rows, WIDTH, request.param, BEFORE, LAST))


# Tags


def test_tags_are_those_of_the_definition(tagged: tuple[tuple[int, ...] | None, list[Tag]]) -> None:
    key, found = tagged
    views = _by_view(found)
    for view in VIEWS:
        wanted = to_tags(_normal(ROWS[view]), key)
        if key is None or (key == (0, 1) and _is_keyed(view)):
            assert Counter(views[view]) == Counter(wanted)
        elif key == (0, 1):  # a key that occurs several times: which are paired is our choice
            assert _kinds(views[view], key) == _kinds(wanted, key)
    if key == (0, 1):
        assert {t.tag for t in found} == {"+", "-", "u"}


def _kinds(found: Iterable[Tag], key: Sequence[int]) -> Counter[object]:
    return Counter((t.tag, t.at, tuple(t.record[i] for i in key)) for t in found)


def test_replayed_tags_are_the_snapshots(tagged: tuple[tuple[int, ...] | None, list[Tag]]) -> None:
    views = _by_view(tagged[1])
    for view in VIEWS:
        replayed, rows = from_tags(views[view]), _normal(ROWS[view])
        for t in INSTANTS:
            assert snapshot_of(replayed, t) == snapshot_of(rows, t)


def test_replayed_in_order_nothing_is_taken_that_is_not_there(
    tagged: tuple[tuple[int, ...] | None, list[Tag]],
) -> None:
    there: Counter[Record] = Counter()
    for tag, record, _, old in tagged[1]:
        if tag != "+":
            gone = record if old is None else old
            there[gone] -= 1
            assert there[gone] >= 0
        if tag != "-":
            there[record] += 1


def test_tags_are_as_few_as_can_be(tagged: tuple[tuple[int, ...] | None, list[Tag]]) -> None:
    """Of each key as many as come, or as go, whichever is more; without a key as many as come and go."""
    key, found = tagged
    views = _by_view(found)
    for view in VIEWS:
        rows, before = _normal(ROWS[view]), {}
        for t in INSTANTS:
            now = snapshot_of(rows, t)
            come: Counter[Record] = Counter()
            gone: Counter[Record] = Counter()
            for record in {**before, **now}:
                more = now.get(record, 0) - before.get(record, 0)
                kept = record if key is None else tuple(record[i] for i in key)
                come[kept] += max(more, 0)
                gone[kept] += max(-more, 0)
            least = sum(max(come[k], gone[k]) for k in come)
            assert sum(tag.at == t for tag in views[view]) == least
            before = now


def test_tags_are_in_order(tagged: tuple[tuple[int, ...] | None, list[Tag]]) -> None:
    _, found = tagged
    assert found == sorted(found, key=_tag_order)


def test_only_a_u_has_an_old_record_and_it_agrees_in_the_key(
    tagged: tuple[tuple[int, ...] | None, list[Tag]],
) -> None:
    key, found = tagged
    for tag in found:
        assert (tag.old is not None) == (tag.tag == "u")
        if tag.old is not None:
            assert key is not None
            assert [tag.old[i] for i in key] == [tag.record[i] for i in key]
            assert tag.old != tag.record


def test_the_empty_key_replaces_whatever_was_there(spark: SparkSession) -> None:
    rows = [
        ChangeRow((0, 1, 1.5), LEAST, 3),
        ChangeRow((0, 2, None), 3, 5),
        ChangeRow((0, 3, 0.5), 5, INFINITY),
    ]
    found = _tags(tag_rows(_frame(spark, rows), WIDTH, (), BEFORE, 4))
    assert found == [Tag("+", (0, 1, 1.5), LEAST), Tag("u", (0, 2, None), 3, (0, 1, 1.5))]
    assert found == to_tags(rows, [], until=5)


# Intervals


@pytest.fixture(scope="module")
def pieces(rows: DataFrame) -> list[Piece]:
    return _pieces(interval_rows(rows, WIDTH, BEFORE, LAST, finished=True))


def _defined(rows: Iterable[ChangeRow]) -> list[Piece]:
    found = [Piece(until, from_, e, n) for e, steps in profile(rows).items() for from_, until, n in steps]
    return sorted(found, key=_piece_order)


def test_intervals_are_the_maximal_pieces(pieces: list[Piece]) -> None:
    assert pieces == _defined(_normal(_all()))
    assert any(p.until == INFINITY for p in pieces)
    assert any(p.from_ == LEAST for p in pieces)


def test_finished_means_every_end_after_the_last_cut(rows: DataFrame, pieces: list[Piece]) -> None:
    found = _pieces(interval_rows(rows, WIDTH, 5, 7, finished=True))
    assert found == [p for p in pieces if p.until > 5]


def test_a_piece_that_ends_after_the_cut_is_not_closed(spark: SparkSession) -> None:
    begun, later = ChangeRow((0, 1, 1.5), 2, 6), ChangeRow((0, 1, 1.5), 6, 9)
    assert _pieces(interval_rows(_frame(spark, [begun]), WIDTH, BEFORE, 5, finished=False)) == []
    longer = _pieces(interval_rows(_frame(spark, [begun, later]), WIDTH, 5, 9, finished=False))
    assert longer == [Piece(9, 2, (0, 1, 1.5), 1)]


# Cuts


def _emitted(bounds: Sequence[Chronon], rng: random.Random) -> list[list[ChangeRow]]:
    """What is known after each step: a row comes in any step that its begin lies in, or after."""
    steps: list[list[ChangeRow]] = [[] for _ in bounds[1:]]
    for row in _all():
        step = rng.choice([i for i, b0 in enumerate(bounds[:-1]) if b0 < row.from_])
        steps[step].append(row)
    return [[r for rows in steps[: i + 1] for r in rows] for i in range(len(steps))]


@pytest.mark.parametrize("bounds", [(BEFORE, 3, 4, LAST), (BEFORE, LEAST, 6, LATEST, LAST)])
def test_cuts_are_together_one_cut(
    spark: SparkSession, rows: DataFrame, pieces: list[Piece], bounds: tuple[Chronon, ...]
) -> None:
    found_tags: list[Tag] = []
    found_pieces: list[Piece] = []
    known = _emitted(bounds, random.Random(len(bounds)))
    for (after, upto), so_far in zip(pairwise(bounds), known, strict=True):
        frame = _frame(spark, so_far)
        new = _tags(tag_rows(frame, WIDTH, (0, 1), after, upto))
        assert all(after < t.at <= upto for t in new)
        found_tags += new
        found_pieces += _pieces(interval_rows(frame, WIDTH, after, upto, finished=upto == LAST))
    assert found_tags == _tags(tag_rows(rows, WIDTH, (0, 1), BEFORE, LAST))
    assert found_pieces == pieces


# Snapshots


@pytest.mark.parametrize("t", [LEAST, 4, 9, LAST])
def test_snapshots(rows: DataFrame, t: Chronon) -> None:
    found = Counter(_record(r) for r in snapshot_rows(rows, WIDTH, t).collect())
    assert found == snapshot_of(_normal(_all()), t)


# On Spark


@pytest.mark.parametrize(("output", "exchanges"), [("tags", 1), ("intervals", 2), ("snapshot", 1)])
def test_rows_cross_few_exchanges(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], output: str, exchanges: int
) -> None:
    """Also with floats in the key, which Spark changes before it groups by them."""
    rows = spark.createDataFrame([(0, 1, 1.5, 2, 6, 1)], spark_schema(TYPES))
    frames = {
        "tags": tag_rows(rows, WIDTH, (0, 2), BEFORE, 9),
        "intervals": interval_rows(rows, WIDTH, BEFORE, 9, finished=False),
        "snapshot": snapshot_rows(rows, WIDTH, 3),
    }
    frames[output].explain()
    assert capsys.readouterr().out.count("Exchange ") == exchanges
