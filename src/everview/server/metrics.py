"""The state of a store as Prometheus reads it: text, one line for each number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from everview.algebra.time import INFINITY, SECOND, UNDATED, Chronon
from everview.plan.explain import MeasuredSize
from everview.query.status import Status
from everview.storage.arrivals import Progress

Sample = tuple[Mapping[str, str], float]


def render_metrics(status: Status, state: Mapping[str, MeasuredSize], steps: Sequence[Progress]) -> str:
    """Return the state of a store in Prometheus's text format; `steps` are the last steps of this process."""
    names = [{"stream": s.name} for s in status.streams]
    streams = list(zip(names, status.streams, strict=True))
    views = [({"view": v.name}, v) for v in status.views]
    families = [
        _family("step", "gauge", "The last step of the store.", [({}, status.step)]),
        _family("watermark_seconds", "gauge", "Up to when all is known, in seconds since 1970.",
                [({}, at) for at in _seconds(status.watermark)]),
        _family("lag_seconds", "gauge", "The newest timestamp less the watermark.",
                [({}, lag_seconds(status.present, status.watermark))]),
        _family("failed", "gauge", "1 if a step failed and the steps stopped.",
                [({}, float(status.error is not None))]),
        _family("stream_watermark_seconds", "gauge", "The watermark of a stream.",
                [(n, at) for n, s in streams for at in _seconds(s.watermark)]),
        _family("rows_total", "counter", "Rows taken in.", [(n, s.rows) for n, s in streams]),
        _family("late_rows_total", "counter", "Rows that were late.", [(n, s.late) for n, s in streams]),
        _family("rejected_rows_total", "counter", "Rows that were rejected.",
                [(n, s.rejected) for n, s in streams]),
        _family("waiting_rows", "gauge", "Rows that wait for the watermark.",
                [(n, s.waiting) for n, s in streams]),
        _family("view_watermark_seconds", "gauge", "Up to when a view is known.",
                [(n, at) for n, v in views for at in _seconds(v.watermark)]),
        _family("view_bytes", "gauge", "Bytes of the changes that a view keeps.",
                [(n, v.bytes) for n, v in views]),
        _family("view_set_aside", "gauge", "1 if a view was set aside.",
                [(n, float(v.note.startswith("set aside"))) for n, v in views]),
        _family("sink_step", "gauge", "The last step that a sink has.",
                [({"sink": s.name}, s.step) for s in status.sinks]),
        _family("state_rows", "gauge", "Rows of state of an operator.",
                [({"operator": name}, size.rows) for name, size in sorted(state.items())]),
        _family("state_bytes", "gauge", "Bytes of state of an operator.",
                [({"operator": name}, size.bytes) for name, size in sorted(state.items())]),
        _family("last_step_seconds", "gauge", "How long the last step of this process took.",
                [({}, step.seconds) for step in steps[-1:]]),
    ]  # fmt: skip
    return "".join(line for family in families for line in family)


def lag_seconds(present: Chronon, bound: Chronon) -> float:
    """Return by how many seconds the newest timestamp is ahead of a watermark.

    >>> lag_seconds(7_500_000, 5_000_000), lag_seconds(5, INFINITY - 1)
    (2.5, 0.0)
    """
    return 0.0 if present <= bound or bound < UNDATED else (present - bound) / SECOND


def _seconds(t: Chronon) -> list[float]:
    """Return an instant, or nothing if it is no finite one."""
    return [] if t < UNDATED or t >= INFINITY - 1 else [t / SECOND]


def _family(name: str, kind: str, meaning: str, samples: Iterable[Sample]) -> list[str]:
    lines = [f"everview_{name}{_labels(labels)} {value!r}\n" for labels, value in samples]
    head = [f"# HELP everview_{name} {meaning}\n", f"# TYPE everview_{name} {kind}\n"]
    return [*head, *lines] if lines else []


def _labels(labels: Mapping[str, str]) -> str:
    r"""Return labels in braces.

    >>> print(_labels({"view": 'a"b\n'}))
    {view="a\"b\n"}
    """
    if not labels:
        return ""
    escaped = {
        name: value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
        for name, value in labels.items()
    }
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped.items()) + "}"
