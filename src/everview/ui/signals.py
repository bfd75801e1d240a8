"""Ctrl-C and SIGTERM as a request to stop, so that the current step can finish first."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class WorkStopped(Exception):
    """Raised when work has stopped on request; the store is consistent."""


@contextmanager
def catch_stop_signals(note: str = "") -> Iterator[threading.Event]:
    """Yield an event that the first signal sets, with a note to the user; a second signal stops at once.

    Only the main thread gets signals: in another thread the event is never set.
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
