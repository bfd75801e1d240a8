"""Ctrl-C and SIGTERM as a wish to end, so that the step under way can be finished first."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class WorkStopped(Exception):
    """Work that was asked to end, and has: what was done is whole."""


@contextmanager
def catch_stop_signals(note: str = "") -> Iterator[threading.Event]:
    """An event that the first signal sets, with a note to the person; the second ends the work at once.

    Only the main thread gets signals: elsewhere nobody can ask.
    """
    stop = threading.Event()

    def hear(number: int, frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()
        if note:
            print(note, file=sys.stderr, flush=True)

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, hear) for number in _SIGNALS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
