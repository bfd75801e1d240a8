"""Version anti join: the rows of a stream without a version of a table (LEFT JOIN of ⋈NRR)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from everview.operators.base import InputColumns, Operator, StatefulOperator, StatePart
from everview.operators.columnar.frame import Frame, Increment, Slice, State, record_columns
from everview.operators.columnar.hashing import hash_keys
from everview.operators.columnar.keys import match_keys, sort_by_key
from everview.operators.columnar.lazy import np


@dataclass(frozen=True, eq=False)
class VersionAntiJoinOperator(StatefulOperator):
    """The rows of a stream that are not among those with a version of a table in the same step.

    Whether a row has a version depends on its record alone and never changes. State: none; but equal rows of
    both inputs must be in one partition, as for an operator with state.

    >>> from everview.algebra.types import INT
    >>> from everview.operators.columnar.frame import make_frame
    >>> from everview.operators.scan import ScanOperator
    >>> alone = VersionAntiJoinOperator(ScanOperator("s", (INT,)), ScanOperator("met", (INT,)))
    >>> stream = make_frame({"c0": [1, 2]}, [(5, 15, 1), (6, 16, 1)])
    >>> alone.increment([stream, stream[:1]], {}, Slice(-1, 9)).output.rows()
    [(2, 6, 16, 1)]
    """

    left: Operator
    met: Operator

    def __post_init__(self) -> None:
        self._set_types(self.left.types)

    @property
    def input_columns(self) -> tuple[InputColumns, ...]:
        return tuple(range(len(self.types))), (None,) * len(self.types)

    @property
    def state(self) -> tuple[StatePart, ...]:
        return ()

    def empty_state(self, new: Sequence[Frame]) -> dict[str, Frame]:
        return {}

    def increment(self, new: Sequence[Frame], state: State, slice_: Slice) -> Increment:
        stream, met = new
        columns = record_columns(stream)
        known = sort_by_key(met, columns)
        _, here = match_keys(known, columns, stream, columns, hash_keys(stream, columns))
        alone = np.ones(stream.height, dtype=bool)
        alone[here] = False
        return Increment(stream.filter(alone))
