"""Inputs that several operators of a stage keep by the same key, and that are kept once.

A join, an EXCEPT ALL or a δ keeps its input as it is, sorted by a key: an arrangement. Where operators of a
stage arrange the same rows by the same key, one of them, the keeper, adds to the state and merges its runs.
The traces of the others name the same runs: a run is a file that never changes, and stays as long as any
trace names it. So nothing has to be moved when operators come and go: one whose keeper is dropped has the
runs already, and goes on by itself. Operators that kept equal rows in runs of their own, in a store of an
earlier release or after a backfill, have those of the keeper after the next step.

Both have the same rows, because an operator is identified by all that is below it: what reads a stream from a
later instant on is another operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from everview import operators as P
from everview.plan.stages import Stage

StatePlace = tuple[int, str]  # the place of an operator in a stage, and a part of its state
SharedParts = Mapping[StatePlace, StatePlace]  # parts that other operators keep, and where


@lru_cache(maxsize=128)
def find_shared_parts(stage: Stage) -> SharedParts:
    """Return the parts of states in a stage that another operator keeps, or the same one on its other side.

    Rows of one register lie in the partition in which they are, so equal registers and keys are enough.
    """
    keepers: dict[tuple[int, tuple[int, ...], bool], StatePlace] = {}
    shared: dict[StatePlace, StatePlace] = {}
    for place, work in enumerate(stage.nodes):
        if work.kernel is None:
            continue
        for part, arranged in work.kernel.arrangements.items():
            register = work.node.inputs[arranged.input]
            assert isinstance(register, P.RegisterOperator)
            keeper = keepers.setdefault((register.number, arranged.key, arranged.nulls), (place, part))
            if keeper != (place, part):
                shared[place, part] = keeper
    return shared
