"""The harness of the benchmarks measures what it says."""

import time
from pathlib import Path

import pytest

from bench.harness import compare
from bench.paper2 import QUERIES, find_losses, generated_links, logged_links, measure_query
from bench.paper5 import (
    CONDITIONS,
    WORKLOADS,
    Readings,
    measure_groupings,
    measure_merged,
    measure_presync,
    measure_shared_join,
    measure_synchronizer,
)
from everview import operators as P


@pytest.mark.slow
def test_the_ratio_says_how_many_times_as_fast_we_are(capsys: pytest.CaptureFixture[str]) -> None:
    result = compare("naps", ours=lambda: time.sleep(0.002), peer=lambda: time.sleep(0.02), runs=3)
    assert result.ratio > 2
    assert "naps" in capsys.readouterr().out


@pytest.mark.slow
def test_runs_alternate_after_the_warm_up() -> None:
    calls: list[str] = []
    compare("turns", lambda: calls.append("o"), lambda: calls.append("p"), runs=2, warm_ups=1)
    assert "".join(calls) == "op" + "op" + "po"


@pytest.mark.slow
@pytest.mark.parametrize("name", QUERIES)
def test_update_patterns_keep_and_emit_the_fewest_rows(name: str) -> None:
    """Paper 2's queries on small windows; their snapshots are compared, too."""
    ways = {strategy: (strategy, None) for strategy in ("NT", "DIRECT", "UPA")}
    counts = measure_query(name, generated_links(600, per_source=60), ways)
    assert not list(find_losses(counts))
    if name in (
        "1, ftp",
        "1, telnet",
    ):  # here this design makes no difference between the two: both have rows with ends
        assert (counts["UPA"].emitted, counts["UPA"].negative) == (counts["DIRECT"].emitted, 0)
        assert counts["UPA"].state_rows == counts["DIRECT"].state_rows


def test_logs_that_are_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("bench.paper2.LOGS", tmp_path)
    assert logged_links(2_000) is None


# Paper 5, in counts; each compares snapshots as well


def test_a_merged_select_tagger_keeps_and_emits_what_the_select_lets_through() -> None:
    readings = Readings(100, rate=2_000, seconds=2)
    for condition, kept in (("degrees > 80", 75), ("room < 20", 20)):
        separate, merged, _ = measure_merged(condition, readings, runs=1)
        assert separate.state_rows() == 100
        assert merged.state_rows() <= kept
        taggers = [
            run.emitted[node]
            for run in (separate, merged)
            for node in run.emitted
            if node.kind == "LatestPerKey"
        ]
        assert taggers[1] < taggers[0]


def test_presynchronization_lets_an_aggregate_take_a_fifth_of_the_rows() -> None:
    above, below = measure_presync(500, Readings(100, rate=4_000, seconds=2), runs=1)
    assert above.count(P.AggregateOperator) > 5 * below.count(P.AggregateOperator)


def test_a_synchronizer_emits_by_points_and_keys() -> None:
    found = {
        (rooms, every): measure_synchronizer(rooms, every, 1)[1]
        for rooms in (50, 150)
        for every in (100, 200)
    }
    assert 1.8 < found[50, 100] / found[50, 200] < 2.3
    assert 2.5 < found[150, 100] / found[50, 100] < 3.5


@pytest.mark.slow
@pytest.mark.parametrize(("number", "wins"), [(0, True), (3, False)])
def test_groupings_over_a_finer_one_take_fewer_rows_in_figure_13_and_more_in_figure_15(
    number: int, wins: bool
) -> None:
    found = measure_groupings(WORKLOADS[number], 30, runs=1)
    own, shared = found.tuples(found.separate), found.tuples(found.shared)
    assert (sum(shared) < sum(own) and shared[1] < own[1] / 5) if wins else sum(shared) > sum(own)
    assert found.separate_cost < found.shared_cost, "so nothing is shared, and the times agree with that"


@pytest.mark.slow
def test_a_join_is_shared_where_filters_keep_much_and_not_where_they_drop_most() -> None:
    much, _, little = (measure_shared_join(c, 6, runs=1, rate=400) for c in CONDITIONS.values())
    assert much.is_shared
    assert 3 * much.shared.state_rows() < much.separate.state_rows()
    assert not little.is_shared
