"""Pieces: every row comes to its partition once, in the slice in which it comes to be."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everview import operators as P
from everview.algebra.types import INT, TIMESTAMP
from everview.algebra.windows import Band, Fixed, Range
from everview.errors import StoreError
from everview.execute.catalyst import Row
from everview.execute.lanes import LANE_TIME, InputProjection, Lane, LaneWindow, lanes_of
from everview.execute.pieces import (
    ArrivalId,
    PartitionedInputFile,
    find_due_pieces,
    merge_waiting,
    pieces_of,
    write_piece,
)
from everview.execute.prepare import StepStages
from everview.operators import ScanOperator
from everview.operators.columnar.frame import Frame, Slice, make_frame
from everview.operators.step_slices import StepSlices
from everview.storage.compaction import Policy
from everview.storage.files import Files
from everview.storage.manifest import Manifest
from everview.storage.runs import Run, TraceId

PARTITIONS = 3
PORT = TraceId("port", "k")


def carried(
    begin: str = "_from", condition: str | None = None, place: str | None = "b0", everywhere: bool = False
) -> InputProjection:
    return InputProjection(("c1", "c0"), begin, "_until", "_n", condition, place, everywhere)


def rows(values: list[tuple[int, int, int, bool]]) -> Frame:
    """Rows (value, from, partition, whether they are wanted); their begin on the lane is 100 later."""
    frame = make_frame(
        {"c0": [v[0] for v in values], "c1": [-v[0] for v in values]}, [(v[1], 10**6, 1) for v in values]
    )
    return frame.with_columns(
        pl.Series("b0", [v[2] for v in values], pl.Int32),
        pl.Series("b1", [v[3] for v in values], pl.Boolean),
        (pl.col("_from") + 100).alias("b2"),
    )


def read(run: Run, lane: InputProjection, files: Files, slice_: Slice) -> list[list[tuple[object, ...]]]:
    """What each partition gets."""
    piece = PartitionedInputFile(run, lane.broadcast, (slice_.b0, slice_.b1))
    found = [piece.read(files, p) for p in range(PARTITIONS)]
    return [[] if frame is None else frame.rows() for frame in found]


VALUES = st.lists(
    st.tuples(st.integers(0, 9), st.integers(0, 50), st.integers(0, PARTITIONS - 1), st.booleans()),
    min_size=1,
)


@given(VALUES, st.integers(-1, 50), st.integers(0, 50), st.booleans(), st.booleans())
def test_each_row_comes_to_its_partition_once(
    tmp_path_factory: pytest.TempPathFactory,
    values: list[tuple[int, int, int, bool]],
    b0: int,
    length: int,
    moved: bool,
    asks: bool,
) -> None:
    files = Files(str(tmp_path_factory.mktemp("ports")), durable=False)
    lane = carried(begin="b2" if moved else "_from", condition="b1" if asks else None)
    run = write_piece(PORT, lane, rows(values), ArrivalId.of(1, ["k"]), files, PARTITIONS, here=0)
    expected: list[list[tuple[object, ...]]] = [[] for _ in range(PARTITIONS)]
    for value, at, partition, wanted in values:
        if b0 < at <= b0 + length and (wanted or not asks):
            expected[partition].append((-value, value, at + 100 * moved, 10**6, 1))
    if run is None:
        assert asks
        assert not any(value[3] for value in values)
        return
    assert read(run, lane, files, Slice(b0, b0 + length)) == expected


def test_rows_without_a_place(tmp_path: Path) -> None:
    files = Files(str(tmp_path), durable=False)
    two = rows([(1, 5, 2, True), (2, 6, 1, True)])
    everywhere, anywhere = carried(place=None, everywhere=True), carried(place=None)
    for lane, expected in ((everywhere, [2, 2, 2]), (anywhere, [0, 2, 0])):
        written = write_piece(PORT, lane, two, ArrivalId.of(1, ["k"]), files, PARTITIONS, here=4)
        assert written is not None
        assert [len(part) for part in read(written, lane, files, Slice(0, 9))] == expected


def test_a_damaged_piece_is_named(tmp_path: Path) -> None:
    files = Files(str(tmp_path), durable=False)
    arrival = ArrivalId(1, "", "p")
    written = write_piece(PORT, carried(), rows([(1, 5, 0, True)]), arrival, files, PARTITIONS, here=0)
    assert written is not None
    files.write(written.path, b"no Arrow file")
    with pytest.raises(StoreError, match=r"p\.arrow is damaged"):
        read(written, carried(), files, Slice(0, 9))


def test_runs_from_before_a_lane_was_there_are_read_by_spark() -> None:
    scan = ScanOperator("s", (INT,))
    old, new = (
        Lane(scan, 0, port, Row.of(["c0"], (INT,)), InputProjection(("c0",), partition=place))
        for port, place in enumerate(("0", "1"))
    )
    arrivals = [ArrivalId.of(1, [old.key]), ArrivalId.of(2, [old.key, new.key])]
    inbox = tuple(
        Run("inbox/s/x", 1, 9, 9, at, at, 0, arrival=a.id, lanes=a.lanes) for at, a in enumerate(arrivals, 1)
    )
    ports = {TraceId("port", old.key): inbox, TraceId("port", new.key): inbox[1:]}
    manifest = Manifest(traces={TraceId("inbox", "s"): inbox, **ports})
    both = find_due_pieces([old, new], manifest, StepSlices(Slice(0, 5)))
    assert both.rest == {scan: inbox[:1]}
    assert {place: [p.run for p in pieces] for place, pieces in both.pieces.items()} == {
        (0, 0): [inbox[1]],
        (0, 1): [inbox[1]],
    }
    assert find_due_pieces([old], manifest, StepSlices(Slice(0, 5))).rest == {scan: inbox[1:]}
    assert find_due_pieces([old, new], manifest, StepSlices(Slice(1, 5))).rest == {scan: ()}


@given(st.lists(VALUES, min_size=8, max_size=8), st.integers(-1, 50), st.integers(0, 50))
def test_many_runs_that_wait_are_merged_with_their_pieces(
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[list[tuple[int, int, int, bool]]],
    b0: int,
    length: int,
) -> None:
    files = Files(str(tmp_path_factory.mktemp("ports")), durable=False)
    scan, inbox = ScanOperator("s", (INT, INT)), TraceId("inbox", "s")
    row = Row.of(["c1", "c0"], (INT, INT))
    lane = Lane(scan, 0, 0, row, InputProjection.of(row, partition="b0"))
    port = TraceId("port", lane.key)
    traces: dict[TraceId, tuple[Run, ...]] = {}
    for number, values in enumerate(batches):
        arrival, frame = ArrivalId.of(number, [lane.key]), rows(values)
        raw = arrival.write(inbox, frame, files)
        piece = write_piece(port, carried(), frame, arrival, files, PARTITIONS, here=0)
        assert piece is not None
        traces[inbox] = (*traces.get(inbox, ()), raw)
        traces[port] = (*traces.get(port, ()), piece)
    before = Manifest(step=8, traces=traces)
    after = before.with_traces(merge_waiting(before, files, Policy(cancelling=False, fan=8)))
    assert [len(after.runs(trace)) for trace in (inbox, port)] == [1, 1]
    slice_ = Slice(b0, b0 + length)

    def there(manifest: Manifest) -> list[list[tuple[object, ...]]]:
        found = find_due_pieces([lane], manifest, StepSlices(slice_))
        assert not any(found.rest.values())
        read_ = [read(piece.run, carried(), files, slice_) for piece in found.pieces.get((0, 0), ())]
        return [sorted(row for parts in read_ for row in parts[p]) for p in range(PARTITIONS)]

    assert there(after) == there(before)
    assert pieces_of(after.with_traces({inbox: ()})) == {port: ()}


WINDOWS = st.one_of(
    st.builds(Range, st.integers(1, 30), st.integers(1, 12), st.integers(0, 20), st.integers(0, 9)),
    st.builds(Fixed, st.integers(1, 30), st.integers(0, 9)),
)


@given(WINDOWS, st.lists(st.tuples(st.integers(-60, 60), st.integers(0, 9), st.integers(1, 40))))
def test_a_lane_cuts_rows_to_the_interval_of_the_window(
    window: Range | Fixed, given_rows: list[tuple[int, int, int]]
) -> None:
    changes = [(ts + later, ts + later + length, 1) for ts, later, length in given_rows]
    frame = make_frame({"c0": list(range(len(changes)))}, changes)
    frame = frame.with_columns(pl.Series(LANE_TIME, [ts for ts, *_ in given_rows], pl.Int64))
    expected = []
    for i, ((ts, *_), (begin, end, n)) in enumerate(zip(given_rows, changes, strict=True)):
        inside = window.interval(ts)
        if inside is not None and max(begin, inside.from_) < min(end, inside.until):
            expected.append((i, max(begin, inside.from_), min(end, inside.until), n))
    assert LaneWindow(window).cut(frame).rows() == expected


def window_lanes(*windows: Range | Fixed | Band) -> tuple[Lane, ...]:
    """The lanes of views that each have every record of a window of s once."""
    scan = ScanOperator("s", (INT, TIMESTAMP))
    plans = {
        f"v{i}": P.DistinctOperator(P.TimeWindowOperator(scan, 1, window), signed=False)
        for i, window in enumerate(windows)
    }
    return lanes_of(StepStages.of(plans, {}).stages, frozenset({"s"}), PARTITIONS)


def test_views_that_differ_in_their_windows_share_their_pieces() -> None:
    lanes = window_lanes(Range(5), Range(7, slide=2), Fixed(3))
    assert len({lane.key for lane in lanes}) == 1
    assert [lane.window for lane in lanes] == [
        LaneWindow(window) for window in (Range(5), Range(7, slide=2), Fixed(3))
    ]


def test_the_window_of_a_landmark_is_part_of_the_row() -> None:
    first, second = window_lanes(Band(lower=3), Range(5))
    assert first.window is None
    assert first.projection.time is None
    assert first.key != second.key


def test_each_port_reads_shared_rows_in_its_own_window(tmp_path: Path) -> None:
    files = Files(str(tmp_path), durable=False)
    frame = rows([(1, 5, 0, True), (2, 6, 0, True)]).with_columns(pl.col("_from").alias("b3"))
    lane = InputProjection(("c0",), partition="b0", time="b3")
    run = write_piece(PORT, lane, frame, ArrivalId.of(1, ["k"]), files, PARTITIONS, here=0)
    assert run is not None
    known: dict[PartitionedInputFile, Frame] = {}
    for extent in (10, 20):
        piece = PartitionedInputFile(run, False, (0, 5), LaneWindow(Range(extent)))
        found = piece.read(files, 0, known)
        assert found is not None
        assert found.rows() == [(1, 5, 5 + extent, 1)]
    assert len(known) == 1
