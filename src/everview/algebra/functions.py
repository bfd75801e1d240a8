"""Spark SQL's scalar functions by name: what they take, what they yield, what they mean.

The functions themselves stand in tables, one file a family; a function that a table does not
hold does not exist in Everview.

>>> from everview.algebra import types as T
>>> str(function("substr").result_type((T.STRING, T.INT))), function("UCASE").name
('STRING', 'upper')
>>> [str(t) for t in function("sqrt").parameter_types((T.INT,))]
['DOUBLE']
"""

from __future__ import annotations

from collections.abc import Iterable

from everview.algebra.functions_conditional import CONDITIONAL_FUNCTIONS
from everview.algebra.functions_math import MATH_FUNCTIONS
from everview.algebra.functions_text import TEXT_FUNCTIONS
from everview.algebra.functions_time import TIME_FUNCTIONS
from everview.algebra.signatures import Function, Signature
from everview.errors import AlgebraError, nearest

__all__ = ["FUNCTIONS", "NONDETERMINISTIC", "Function", "function"]

_CLOCK = "use the stream's time line, or the clock stream"
_ENVIRONMENT = "write the value itself into the query"
_CHANCE = "derive the value from the row, for example md5(key)"

NONDETERMINISTIC = {
    **dict.fromkeys(
        ("current_timestamp", "now", "current_date", "curdate", "current_time", "localtimestamp"), _CLOCK
    ),
    **dict.fromkeys(("rand", "random", "randn", "uuid", "randstr", "uniform", "shuffle"), _CHANCE),
    **dict.fromkeys(
        (
            "monotonically_increasing_id", "spark_partition_id", "input_file_name", "input_file_block_start",
            "input_file_block_length",
        ),
        "use a key column of the stream",
    ),
    **dict.fromkeys(
        (
            "current_user", "user", "session_user", "current_catalog", "current_database", "current_schema",
            "current_timezone", "version",
        ),
        _ENVIRONMENT,
    ),
}  # fmt: skip
"""Functions that are not functions of their arguments, each with what to use instead."""


def _by_name(rows: Iterable[Signature]) -> dict[str, Function]:
    grouped: dict[str, list[Signature]] = {}
    for row in rows:
        grouped.setdefault(row.name, []).append(row)
    return {name: Function(name, tuple(signatures)) for name, signatures in grouped.items()}


FUNCTIONS = _by_name((*TEXT_FUNCTIONS, *MATH_FUNCTIONS, *TIME_FUNCTIONS, *CONDITIONAL_FUNCTIONS))
"""Every function by its canonical name."""

_ALIASES = {alias: f.name for f in FUNCTIONS.values() for s in f.signatures for alias in s.aliases}


LIKE_A_SLIP = 0.75
"""How like a name must be to be proposed: there are so many functions that some name is like any other."""


def function_names() -> list[str]:
    """Return the names of all functions, aliases included."""
    return [*FUNCTIONS, *_ALIASES]


def function(name: str) -> Function:
    """Return the function of this name or alias, in upper or lower case; raise an error if there is none.

    >>> function("Upper").name, function("power").strict, function("coalesce").strict
    ('upper', True, False)
    >>> function("uper")
    Traceback (most recent call last):
    everview.errors.AlgebraError: there is no function 'uper'
      did you mean 'upper'?
    """
    folded = name.casefold()
    folded = _ALIASES.get(folded, folded)
    found = FUNCTIONS.get(folded)
    if found is not None:
        return found
    if folded in NONDETERMINISTIC:
        raise AlgebraError(
            f"{folded} is not a function of its arguments, so no continuous query can keep it up to date",
            next_step=NONDETERMINISTIC[folded],
        )
    raise AlgebraError(f"there is no function '{name}'", meant=nearest(name, function_names(), LIKE_A_SLIP))
