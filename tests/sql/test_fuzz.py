"""Whatever is typed is bound or refused in words a person can read: nothing else ever comes out."""

from __future__ import annotations

import logging
import random
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from everview.errors import EverviewError
from everview.sql import bind_script
from tests.sql.fuzz import CORPUS, LONG, mutated
from tests.sql.oracle import known

LONGEST = 10
"""Seconds for one text; a slow machine is no hang."""
# Words of the machinery, that mean nothing to a person who typed SQL.
INTERNAL = ("sqlglot", "Traceback", "<class", "Token")


class Hang(BaseException):
    """No one but the test may catch it."""


@contextmanager
def _watched() -> Iterator[None]:
    """Ends what takes too long."""

    def stop(*_: object) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(LONGEST)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def complaint(text: str) -> str | None:
    """What is wrong with how a text was taken; None if it was bound, or refused as it should be."""
    try:
        with _watched(), warnings.catch_warnings(action="error"):
            for _ in bind_script(text, known()):
                pass
    except EverviewError as error:
        return next((f"'{word}' in: {error!s:.300}" for word in INTERNAL if word in str(error)), None)
    except Hang:
        return f"no answer in {LONGEST} s"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def require_good_answers(
    texts: list[str], caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    wrong = [f"{found}\n    {text!r:.2000}" for text in texts if (found := complaint(text)) is not None]
    assert not wrong, "\n".join(wrong[:10])
    assert not [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("text", CORPUS)
def test_the_corpus_is_bound(text: str) -> None:
    for _ in bind_script(text, known()):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_long_and_deep(
    name: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    require_good_answers([LONG[name]], caplog, capfd)


def test_mutations(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    require_good_answers([mutated(random.Random(seed)) for seed in range(250)], caplog, capfd)


@pytest.mark.slow
def test_many_mutations(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> None:
    require_good_answers([mutated(random.Random(seed)) for seed in range(1_000, 11_000)], caplog, capfd)
