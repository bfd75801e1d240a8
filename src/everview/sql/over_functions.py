"""Functions with OVER: their arguments, and the frames that they see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from sqlglot import exp

from everview.algebra.aggregates import is_aggregate
from everview.algebra.expressions import NULL, Cast, Expression, Literal
from everview.algebra.over import FRAME_VALUES, OVER_AGGREGATES, RANK_FUNCTIONS, SHIFT_FUNCTIONS, OverFrame
from everview.algebra.time import DAY
from everview.algebra.types import BOOLEAN, DATE, TIMESTAMP, VOID, DataType
from everview.errors import nearest
from everview.sql.literals import constant_int, duration

if TYPE_CHECKING:
    from everview.sql.expressions import ExpressionBinder

_SPELLED = {
    "first": "first_value",
    "last": "last_value",
    "mean": "avg",
    "std": "stddev",
    "stddev_samp": "stddev",
}
ONLY_OVER = (*RANK_FUNCTIONS, *SHIFT_FUNCTIONS, *FRAME_VALUES)
_KNOWN = (*RANK_FUNCTIONS, *SHIFT_FUNCTIONS, *FRAME_VALUES, *OVER_AGGREGATES)
_INSTEAD_OF_OVER = "aggregate in a subquery with GROUP BY, and join it"
_ORDERED = "write {}(…) OVER (PARTITION BY … ORDER BY …)"


@dataclass(frozen=True)
class BoundFunction:
    """A function before its OVER: what an OverCall has, without its frame."""

    function: str
    argument: Expression | None = None
    offset: int = 1
    default: Expression | None = None
    where: Expression | None = None
    skips_nulls: bool = False


def bind_function(binder: ExpressionBinder, node: exp.Window) -> str | BoundFunction:
    """Bind what stands before OVER; of a rank, return its name."""
    call, skips_nulls = node.this, False
    if isinstance(call, (exp.IgnoreNulls, exp.RespectNulls)):
        skips_nulls = isinstance(call, exp.IgnoreNulls)
        call = call.this
    where = None
    if isinstance(call, exp.Filter):
        call, where = call.this, call.expression.this
    name = call.name.casefold() if isinstance(call, exp.Anonymous) else ""
    function = _SPELLED.get(name, name)
    if function not in _KNOWN:
        raise binder.script.error(
            f"{call.name.upper() or 'this'} OVER (…) is not available",
            node,
            meant=nearest(name, _KNOWN),
            next_step=_INSTEAD_OF_OVER
            if is_aggregate(name)
            else f"OVER follows {', '.join(f.upper() for f in _KNOWN)}",
        )
    _require_order(binder, node, function)
    if where is not None and function not in OVER_AGGREGATES:
        raise binder.script.error("FILTER follows an aggregate", node)
    if skips_nulls and function not in (*SHIFT_FUNCTIONS, *FRAME_VALUES):
        raise binder.script.error(f"{function.upper()} takes no IGNORE NULLS", node, next_step="leave it out")
    if function in RANK_FUNCTIONS:
        if call.expressions:
            raise binder.script.error(f"{function.upper()} takes no argument", call.expressions[0])
        return function
    inner = replace(binder, no_aggregates=None)
    found = _bind_arguments(inner, call, function)
    condition = None if where is None else inner.condition(where, "FILTER")
    return replace(found, where=condition, skips_nulls=found.skips_nulls or skips_nulls)


def _require_order(binder: ExpressionBinder, node: exp.Window, function: str) -> None:
    frameless = (*RANK_FUNCTIONS, *SHIFT_FUNCTIONS)
    if function in frameless and node.args.get("spec") is not None:
        raise binder.script.error(
            f"{function.upper()} is about the whole partition and takes no ROWS or RANGE",
            node,
            next_step="leave it out",
        )
    if function not in OVER_AGGREGATES and node.args.get("order") is None:
        raise binder.script.error(
            f"{function.upper()} needs an order",
            node,
            next_step=_ORDERED.format(function.upper()).replace("(…)", "()", function in RANK_FUNCTIONS),
        )


def _bind_arguments(binder: ExpressionBinder, call: exp.Anonymous, function: str) -> BoundFunction:
    arguments, shown = call.expressions, function.upper()
    if len(arguments) == 1 and isinstance(arguments[0], exp.Distinct):
        raise binder.script.error(
            f"{shown}(DISTINCT …) OVER (…) is not available",
            call,
            next_step=_INSTEAD_OF_OVER,
        )
    skips_nulls = bool(arguments) and isinstance(arguments[0], exp.IgnoreNulls)
    if arguments and isinstance(arguments[0], (exp.IgnoreNulls, exp.RespectNulls)):
        arguments = [arguments[0].this, *arguments[1:]]
    most = {**dict.fromkeys(SHIFT_FUNCTIONS, 3), **dict.fromkeys(FRAME_VALUES, 2)}.get(function, 1)
    if not 1 <= len(arguments) <= most or (function == "nth_value" and len(arguments) == 1):
        raise binder.script.error(f"{shown} takes {_ARGUMENTS.get(function, 'one argument')}", call)
    if isinstance(arguments[0], exp.Star):
        if function != "count":
            raise binder.script.error("* may only be counted, as COUNT(*)", call)
        return BoundFunction(function)
    argument = binder.bind(arguments[0])
    if function == "count" and isinstance(argument, Literal) and argument.value is not None:
        return BoundFunction(function)  # COUNT(1) counts rows
    found = BoundFunction(function, argument, skips_nulls=skips_nulls)
    if len(arguments) == 1:
        return found
    if function in ("first_value", "last_value"):
        flag = binder.bind(arguments[1])
        if not isinstance(flag, Literal) or flag.type != BOOLEAN:
            raise binder.script.error(
                f"the second argument of {shown} is TRUE, to skip NULLs, or FALSE", call
            )
        return replace(found, skips_nulls=skips_nulls or flag.value is True)
    offset = constant_int(arguments[1], binder.script, f"the second argument of {shown}")
    if function == "nth_value" and offset < 1:
        raise binder.script.error("NTH_VALUE counts rows from 1 on", arguments[1])
    if abs(offset) > 2**31 - 1:
        raise binder.script.error(f"{shown} looks at most {2**31 - 1} rows away", arguments[1])
    default = None if len(arguments) < 3 else _bind_default(binder, arguments[2], argument.type)
    return replace(found, offset=offset, default=default)


_ARGUMENTS = {
    **dict.fromkeys(
        SHIFT_FUNCTIONS, "a value, how many rows away it is, and a value where there is no such row"
    ),
    "nth_value": "two arguments: a value, and the number of a row",
    **dict.fromkeys(("first_value", "last_value"), "a value, and perhaps TRUE to skip NULLs"),
}


def _bind_default(binder: ExpressionBinder, node: exp.Expr, type_: DataType) -> Expression | None:
    """Bind the value of LAG and LEAD where there is no such row; it has the type of their argument."""
    default = binder.beside(binder.bind(node), type_, node)
    if default == NULL:
        return None
    if default.type == type_ or type_ == VOID:
        return default
    if not (default.type.is_numeric and type_.is_numeric):
        raise binder.script.error(
            f"the default is {default.type.a}, and the value {type_.a}",
            node,
            next_step=f"CAST it to {type_}",
        )
    return Cast(default, type_)


def bind_frame(
    binder: ExpressionBinder, node: exp.Window, function: str, keys: Sequence[DataType]
) -> OverFrame | None:
    """Bind ROWS or RANGE BETWEEN … AND …; without it, up to the peers of the row, or the whole partition."""
    spec = node.args.get("spec")
    if function in SHIFT_FUNCTIONS:
        return None
    if spec is None:
        return OverFrame("RANGE", None, 0 if keys else None)
    unit = spec.args["kind"]
    if unit not in ("ROWS", "RANGE"):
        raise binder.script.error(f"{unit} is not available", node, next_step="use ROWS or RANGE")
    if spec.args.get("exclude") is not None:
        raise binder.script.error("EXCLUDE is not available", node, next_step="leave it out")
    type_ = keys[0] if unit == "RANGE" and len(keys) == 1 else None
    start = _bound(binder, node, spec, "start", unit, type_)
    end = _bound(binder, node, spec, "end", unit, type_) if spec.args.get("end") is not None else 0
    if unit == "ROWS" and not keys and (start, end) != (None, None):
        raise binder.script.error(
            "ROWS needs an order: without one, any rows could be the ones before",
            node,
            next_step=_ORDERED.format(function.upper()).replace("ORDER BY …", "ORDER BY … ROWS …"),
        )
    if start is not None and end is not None and start > end:
        raise binder.script.error(
            "the frame ends before it begins", node, next_step="write the earlier bound first"
        )
    return OverFrame("RANGE" if (start, end) == (None, None) else unit, start, end)


def _bound(
    binder: ExpressionBinder,
    node: exp.Window,
    spec: exp.WindowSpec,
    which: str,
    unit: str,
    type_: DataType | None,
) -> int | None:
    """Return a bound of a frame: rows or a distance before (negative) or after the row; None: UNBOUNDED."""
    bound, side = spec.args[which], spec.args.get(f"{which}_side")
    if bound == "CURRENT ROW":
        return 0
    if bound == "UNBOUNDED":
        if side != ("PRECEDING" if which == "start" else "FOLLOWING"):
            raise binder.script.error(
                f"a frame cannot {'begin' if which == 'start' else 'end'} with UNBOUNDED {side}",
                node,
                next_step="write UNBOUNDED PRECEDING first, UNBOUNDED FOLLOWING last",
            )
        return None
    if unit == "ROWS":
        size = constant_int(bound, binder.script, "ROWS")
    else:
        size = _distance_of(binder, node, bound, type_)
    if size < 0:
        raise binder.script.error(
            "a distance cannot be negative", bound, next_step="write PRECEDING or FOLLOWING"
        )
    if size >= 2**63:
        raise binder.script.error("this distance is too large", bound, next_step="write UNBOUNDED")
    return -size if side == "PRECEDING" else size


def _distance_of(binder: ExpressionBinder, node: exp.Window, bound: exp.Expr, type_: DataType | None) -> int:
    """Return a distance of RANGE in the unit of the sort key."""
    if type_ is None:
        raise binder.script.error(
            "RANGE with a distance needs one ORDER BY key", node, next_step="use ROWS, or order by one column"
        )
    if type_ == TIMESTAMP:
        return duration(bound, binder.script)
    if type_ == DATE and isinstance(bound, exp.Interval):
        size = duration(bound, binder.script)
        if size % DAY:
            raise binder.script.error("a distance of a DATE is in days", bound)
        return size // DAY
    if not type_.is_integer and type_ != DATE:
        raise binder.script.error(
            f"RANGE with a distance goes by a whole number, a DATE or a TIMESTAMP, not by {type_.a}",
            node,
            next_step="use ROWS, or CAST the key to BIGINT",
        )
    return constant_int(bound, binder.script, f"RANGE over {type_.a}")
