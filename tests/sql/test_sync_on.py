"""SYNC ON takes instants of insertion: another timestamp is refused, with its place."""

from __future__ import annotations

import pytest

from everview.errors import EverviewError
from everview.sql import plan_of
from tests.sql.oracle import catalog


def test_a_computed_timestamp_is_no_point() -> None:
    sql = "WITH hours AS (SELECT date_trunc('HOUR', ts) AS h FROM r)\nSELECT k FROM rooms SYNC ON hours"
    with pytest.raises(EverviewError) as refused:
        plan_of(sql, catalog())
    assert str(refused.value) == (
        "SYNC ON takes the instants at which rows are inserted into 'hours', "
        "and its column 'h' is not their time line\n"
        "  line 2, column 29\n"
        "    SELECT k FROM rooms SYNC ON hours\n"
        "                                ^^^^^\n"
        "  next: select the time line column of the stream below as it is"
    )
    plan_of("WITH hours AS (SELECT ts AS h FROM r)\nSELECT k FROM rooms SYNC ON hours", catalog())
