"""The plans that the state of a store belongs to, as JSON: one file each (DESIGN section 9).

A plan is a list of operators, each after its inputs. An operator is stored with its digest, so that its
state is found again also by a release in which the same fields would give another one. A file is named by
the digest and never changed.

>>> from everview.algebra.types import INT
>>> from everview.operators import DistinctOperator, ScanOperator
>>> plan = DistinctOperator(ScanOperator("s", (INT,)), signed=False)
>>> print(encode_plan(plan).decode())  # doctest: +ELLIPSIS
{"format":1,"crc32":...,"operators":[{"is":"ScanOperator","digest":"...","rows":[],"relation":"s",...
>>> decode_plan(encode_plan(plan)) == plan
True
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Any

import msgspec

from everview import operators as P
from everview.algebra import windows as W
from everview.algebra.expressions import Expression
from everview.algebra.over import OverFrame, RankLimit
from everview.algebra.time import Grid
from everview.algebra.types import DataType
from everview.errors import StoreError
from everview.operators.aggregates.accumulators import AggregateColumn
from everview.operators.base import Growth, InputRows
from everview.operators.columnar.standings import SortColumn
from everview.operators.columnar.time_bands import TimeBand
from everview.storage.files import Files
from everview.storage.runs import PLANS
from everview.temporal.clocks import Clock, Moment, StreamLine

PLAN_FORMAT = 1

_SURROGATE = re.compile("[\ud800-\udfff]")

_RECORDS = (
    AggregateColumn, Clock, DataType, Grid, InputRows, Moment, OverFrame, P.EventWait, P.OverColumn,
    RankLimit, SortColumn, StreamLine, TimeBand, W.Range, W.Fixed, W.Band,
)  # fmt: skip


class StoredPlan(msgspec.Struct):
    """A plan as it is stored: its operators, each after its inputs. The last one is the plan."""

    format: int
    crc32: int
    operators: msgspec.Raw


def save_plans(files: Files, plans: Iterable[P.Operator], stored: Container[str]) -> list[str]:
    """Write the plans whose digests are not among those that are stored; return the new files."""
    wanted = {plan.digest: plan for plan in plans}
    new = {plan_path(d): encode_plan(plan) for d, plan in wanted.items() if d not in stored}
    for path, data in new.items():
        files.write(path, data)
    return list(new)


def plan_path(digest: str) -> str:
    """Return the path of the plan with a digest.

    >>> plan_path("0a1b")
    'plans/0a1b.json'
    """
    return f"{PLANS}/{digest}.json"


class PlanReader:
    """Reads the plans of a store, each once."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._known: dict[str, P.Operator] = {}

    def __call__(self, digest: str) -> P.Operator:
        """Return the plan with a digest; raise an error that names the file if it is damaged."""
        if digest not in self._known:
            path = plan_path(digest)
            data = self._files.read(path)
            try:
                plan = decode_plan(data)
                if plan.digest != digest:
                    raise ValueError(f"it is the plan {plan.digest}")
            except (ValueError, KeyError, TypeError, IndexError) as error:
                raise self._files.damaged(path, str(error).splitlines()[0]) from error
            self._known[digest] = plan
        return self._known[digest]


def encode_plan(plan: P.Operator) -> bytes:
    """Return a plan as JSON."""
    operators: list[dict[str, Any]] = []
    numbers: dict[P.Operator, int] = {}

    def reference(part: P.Operator) -> dict[str, Any]:
        if part not in numbers:
            encoded = _encode_fields(part, reference)
            numbers[part] = len(operators)
            operators.append({"is": type(part).__name__, "digest": part.digest, **encoded})
        return {"is": "operator", "number": numbers[part]}

    reference(plan)
    body = msgspec.json.encode(operators)
    return msgspec.json.encode(StoredPlan(PLAN_FORMAT, zlib.crc32(body), msgspec.Raw(body)))


def decode_plan(data: bytes) -> P.Operator:
    """Return the plan that was stored; ValueError if it is none, StoreError if it is of a later release."""
    stored = msgspec.json.decode(data, type=StoredPlan)
    if zlib.crc32(memoryview(stored.operators)) != stored.crc32:
        raise ValueError("its checksum is wrong")
    if stored.format != PLAN_FORMAT:
        raise StoreError(
            f"a stored plan has the format {stored.format}, and this release reads the format {PLAN_FORMAT}",
            next_step="use the release that wrote it",
        )
    known: list[P.Operator] = []

    def decode(value: Any) -> Any:
        match value:
            case {"is": "operator", "number": number}:
                return known[number]
            case {"is": "Decimal", "value": text}:
                return Decimal(text)
            case {"is": "bytes", "value": text}:
                return bytes.fromhex(text)
            case {"is": "str", "value": text}:
                return bytes.fromhex(text).decode("utf-8", "surrogatepass")
            case {"is": "float", "value": text}:
                return float(text)
            case {"is": "Growth", "value": name}:
                return Growth[name]
            case {"is": name, **values}:
                return _class_of(name)(**{str(field): decode(v) for field, v in values.items()})
            case list():
                return tuple(decode(item) for item in value)
        return value

    for operator in msgspec.json.decode(stored.operators, type=list[dict[str, Any]]):
        digest = operator.pop("digest")
        made = decode(operator)
        object.__setattr__(made, "digest", digest)
        known.append(made)
    return known[-1]


def _encode_fields(record: object, reference: Callable[[P.Operator], object]) -> dict[str, Any]:
    """Return the fields of a record that its constructor takes."""

    def encode(value: object) -> Any:
        match value:
            case P.Operator():
                return reference(value)
            case Enum():
                return {"is": type(value).__name__, "value": value.name}
            case Decimal():
                return {"is": "Decimal", "value": str(value)}
            case bytes():
                return {"is": "bytes", "value": value.hex()}
            case str() if _SURROGATE.search(value):  # a lone surrogate, which JSON cannot hold
                return {"is": "str", "value": value.encode("utf-8", "surrogatepass").hex()}
            case float() if not math.isfinite(value):
                return {"is": "float", "value": str(value)}
            case tuple():
                return [encode(item) for item in value]
            case None | bool() | int() | float() | str():
                return value
        if not is_dataclass(value) or type(value).__name__ not in _classes():
            raise TypeError(f"a plan has {value!r}, which cannot be stored")
        return {"is": type(value).__name__, **_encode_fields(value, reference)}

    return {f.name: encode(getattr(record, f.name)) for f in fields(record) if f.init}  # type: ignore[arg-type]


def _class_of(name: str) -> type:
    found = _classes().get(name)
    if found is None:
        raise StoreError(
            f"a stored plan has a part that this release does not know: {name}",
            next_step="use the release that wrote it, or a newer one",
        )
    return found


@cache
def _classes() -> dict[str, type]:
    """Return the records that a plan consists of, by their names."""

    def below(root: type) -> Iterator[type]:
        subclasses: list[type] = root.__subclasses__()
        for subclass in subclasses:
            yield subclass
            yield from below(subclass)

    every: tuple[type, ...] = (*_RECORDS, *below(P.Operator), *below(Expression))
    return {found.__name__: found for found in every}
