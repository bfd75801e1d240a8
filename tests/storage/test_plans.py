"""Plans as JSON: whatever a view compiles to is read back as it was."""

from __future__ import annotations

import zlib
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
from hypothesis import given

from everview import operators as P
from everview.algebra.expressions import Literal
from everview.algebra.types import BINARY, DOUBLE, INT, STRING, decimal
from everview.compile import compile_view
from everview.errors import EverviewError, StoreError
from everview.storage.files import Files
from everview.storage.plans import PlanReader, decode_plan, encode_plan, plan_path, save_plans
from tests.sql.oracle import catalog
from tests.sql.queries import CASES
from tests.sql.random_sql import queries

CATALOG = catalog()


def parts(plan: P.Operator) -> list[P.Operator]:
    return [plan, *(part for below in plan.inputs for part in parts(below))]


def same(plan: P.Operator, other: P.Operator) -> None:
    """Every part has the same digest, also if it is computed again, and what is no part of it."""
    for a, b in zip(parts(plan), parts(other), strict=True):
        assert (a.digest, a.types, a.rows, type(a)) == (b.digest, b.types, b.rows, type(b))
        assert b.with_inputs(b.inputs).digest == a.digest


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.sql)
def test_plans_of_queries(case) -> None:  # type: ignore[no-untyped-def]
    plan = compile_view(case.sql, CATALOG).physical
    same(plan, decode_plan(encode_plan(plan)))


@given(queries())
def test_plans_of_random_queries(sql: str) -> None:
    try:
        plan = compile_view(sql, CATALOG).physical
    except EverviewError:
        return
    same(plan, decode_plan(encode_plan(plan)))


@pytest.mark.parametrize(
    "value",
    [
        Literal(Decimal("1.20"), decimal(5, 2)), Literal(float("nan"), DOUBLE),
        Literal(float("-inf"), DOUBLE),
        Literal(-0.0, DOUBLE), Literal(1e300, DOUBLE), Literal(b"\x00\xff", BINARY),
        Literal("\ud800", STRING),
        Literal(2**31 - 1, INT), Literal(None, INT),
    ],
    ids=repr,
)  # fmt: skip
def test_values(value: Literal) -> None:
    plan = P.ProjectOperator(P.ScanOperator("s", (INT,)), (value,))
    again = decode_plan(encode_plan(plan))
    assert isinstance(again, P.ProjectOperator)
    assert repr(again.outputs) == repr(plan.outputs)
    same(plan, again)


def test_a_plan_is_read_alone(tmp_path: Path) -> None:
    """It has all its parts: a view that has one of them, too, may be dropped or get another plan."""
    below = P.DistinctOperator(P.ScanOperator("s", (INT,)), signed=False)
    above = P.UnionOperator(below, P.ScanOperator("r", (INT,)))
    files = Files(str(tmp_path))
    assert len(save_plans(files, [below, above], ())) == 2
    assert save_plans(files, [below, above], {below.digest, above.digest}) == []
    (tmp_path / plan_path(below.digest)).unlink()
    same(above, PlanReader(files)(above.digest))


def test_damage_is_named(tmp_path: Path) -> None:
    plan = P.ScanOperator("s", (INT,))
    files = Files(str(tmp_path))
    save_plans(files, [plan], ())
    path = tmp_path / plan_path(plan.digest)
    whole = path.read_bytes()
    for changed in (whole.replace(b'"relation":"s"', b'"relation":"r"'), whole[:-9], b"", b"{}", b"[1]"):
        path.write_bytes(changed)
        with pytest.raises(StoreError) as found:
            PlanReader(files)(plan.digest)
        assert plan_path(plan.digest) in str(found.value)


def test_what_this_release_does_not_know() -> None:
    body = msgspec.json.decode(encode_plan(P.ScanOperator("s", (INT,))))
    body["operators"][0]["is"] = "WonderOperator"
    operators = msgspec.json.encode(body["operators"])
    data = msgspec.json.encode({**body, "crc32": zlib.crc32(operators)})
    with pytest.raises(StoreError) as found:
        decode_plan(data)
    assert str(found.value) == (
        "a stored plan has a part that this release does not know: WonderOperator\n"
        "  next: use the release that wrote it, or a newer one"
    )
