"""The harness of the benchmarks measures what it says."""

import time
from pathlib import Path

import pytest

from bench.harness import compare
from bench.paper2 import QUERIES, find_losses, generated_links, logged_links, measure_query


@pytest.mark.slow
def test_the_ratio_says_how_many_times_as_fast_we_are(capsys: pytest.CaptureFixture[str]) -> None:
    result = compare("naps", ours=lambda: time.sleep(0.002), peer=lambda: time.sleep(0.02), runs=3)
    assert result.ratio > 2
    assert "naps" in capsys.readouterr().out


def test_runs_alternate_after_the_warm_up() -> None:
    calls: list[str] = []
    compare("turns", lambda: calls.append("o"), lambda: calls.append("p"), runs=2, warm_ups=1)
    assert "".join(calls) == "op" + "op" + "po"


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
