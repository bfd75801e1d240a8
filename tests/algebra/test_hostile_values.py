"""No value can make an expression fail: `evaluate` has an answer for every one."""

from __future__ import annotations

import pytest

from tests.algebra.hostile import answers, calls, casts, operations, records


@pytest.mark.slow
def test_every_expression_has_an_answer_for_every_value() -> None:
    rows = records()
    for expression in (*calls(), *operations(), *casts()):
        assert len(answers(expression, rows)) == len(rows)
