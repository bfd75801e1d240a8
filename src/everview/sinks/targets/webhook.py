"""An HTTP endpoint: a POST with JSON for each step, tried several times, with an idempotency key.

The key is (sink, step, part): an endpoint that remembers the keys it has seen gets each step once. One that
does not may get a step again after a crash.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator

from everview.errors import StoreError
from everview.operators.columnar.frame import Frame
from everview.sinks.delivery import Delivery, DeliveryPart, SinkLayout, plain_text

_RETRIES, _SECONDS = 3, 10
_ROWS = 10_000  # in one request
_AGAIN = (408, 425, 429)  # what may pass, besides faults of the server


class WebhookTarget:
    """An endpoint; it is told with each request what it is: changes, or the whole answer."""

    can_rewrite = True  # it is told that the answer replaces what it had

    def __init__(self, layout: SinkLayout) -> None:
        self._layout = layout
        self._retries = layout.number("retries", _RETRIES)
        self._seconds = layout.number("timeout", _SECONDS)
        if not layout.text("url").startswith(("http://", "https://")):
            raise StoreError("the url of a webhook begins with http:// or https://", next_step="mend it")

    def prepare(self) -> None:
        """An endpoint is asked nothing before there is something to say."""

    def write(self, delivery: Delivery) -> None:
        """Send all requests of a delivery, one after the other."""
        number = 0
        for part in delivery.parts():
            for body in _bodies(part, delivery):
                self._send(body, delivery, number)
                number += 1
        if number == 0:  # an answer without rows replaces what was there
            self._send({_rows_name(delivery): []}, delivery, 0)

    def close(self) -> None:
        """There is nothing to close."""

    def _send(self, body: dict[str, object], delivery: Delivery, part: int) -> None:
        entry = self._layout.entry
        head = {"sink": entry.name, "view": entry.view, "step": delivery.step, "part": part}
        data = json.dumps({**head, "kind": delivery.kind, **body}, ensure_ascii=False).encode()
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": f"{entry.id}-{delivery.step}-{part}",
        }
        token = self._layout.text("token")
        if token:
            headers["Authorization"] = f"Bearer {token}"
        for attempt in range(self._retries + 1):
            last = attempt == self._retries
            try:
                request = urllib.request.Request(self._layout.text("url"), data, headers, method="POST")
                with urllib.request.urlopen(request, timeout=self._seconds):
                    return
            except urllib.error.HTTPError as error:
                if last or (error.code < 500 and error.code not in _AGAIN):
                    said = error.read(200).decode(errors="replace")
                    raise StoreError(f"the endpoint answers {error.code} {error.reason}: {said}") from error
            except OSError as error:
                if last:
                    raise StoreError(f"the endpoint cannot be reached: {error}") from error
            time.sleep(min(2.0, 0.1 * 2**attempt))


def _rows_name(delivery: Delivery) -> str:
    return {"changes": "changes", "append": "rows", "upsert": "rows"}[delivery.layout.entry.mode]


def _bodies(part: DeliveryPart, delivery: Delivery) -> Iterator[dict[str, object]]:
    """Yield the rows of requests; in MODE upsert, the keys that are gone go with the first ones."""
    gone = [] if part.gone is None else _records(part.gone)
    for begin in range(0, max(part.rows.height, 1 if gone else 0), _ROWS):
        body: dict[str, object] = {_rows_name(delivery): _records(part.rows.slice(begin, _ROWS))}
        if delivery.layout.entry.mode == "upsert":
            body["key"] = list(delivery.layout.key)
            body["gone"] = gone if begin == 0 else []
        yield body


def _records(rows: Frame) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(plain_text(rows).write_json()) if rows.height else []
    return found
