"""The harness of the benchmarks measures what it says."""

import time

import pytest

from bench.harness import compare


@pytest.mark.slow
def test_the_ratio_says_how_many_times_as_fast_we_are(capsys: pytest.CaptureFixture[str]) -> None:
    result = compare("naps", ours=lambda: time.sleep(0.002), peer=lambda: time.sleep(0.02), runs=3)
    assert result.ratio > 2
    assert "naps" in capsys.readouterr().out


def test_runs_alternate_after_the_warm_up() -> None:
    calls: list[str] = []
    compare("turns", lambda: calls.append("o"), lambda: calls.append("p"), runs=2, warm_ups=1)
    assert "".join(calls) == "op" + "op" + "po"
