"""LIMIT and OFFSET, with the ORDER BY that they go by."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from everview.algebra.expressions import SortKey
from everview.sql.context import Context
from everview.sql.literals import constant_int

_MOST = 2**31 - 1  # Spark's


@dataclass(frozen=True)
class OrderAndLimit:
    """ORDER BY, LIMIT and OFFSET of a query or of the brackets around it."""

    order: tuple[SortKey, ...] = ()
    limit: int | None = None
    offset: int = 0


def bind_part(node: exp.Expr, keys: tuple[SortKey, ...], context: Context) -> OrderAndLimit:
    """Bind LIMIT and OFFSET of a query, with the keys of its ORDER BY."""
    limit, offset = node.args.get("limit"), node.args.get("offset")
    return OrderAndLimit(
        keys,
        None if limit is None or _is_all(limit) else _count(limit, "LIMIT", context),
        0 if offset is None else _count(offset, "OFFSET", context),
    )


def _is_all(limit: exp.Expr) -> bool:
    """Return whether it is LIMIT ALL, which means no limit."""
    return isinstance(limit.expression, exp.Var) and limit.expression.name.upper() == "ALL"


def _count(clause: exp.Expr, what: str, context: Context) -> int:
    """Return the number of LIMIT and of OFFSET."""
    if not isinstance(clause, (exp.Limit, exp.Offset)):
        raise context.script.error(
            "this way to limit the answer is not available", clause, next_step="write LIMIT 10 OFFSET 20"
        )
    number = constant_int(clause.expression, context.script, what)
    if number < 0:
        raise context.script.error(f"{what} cannot be negative", clause)
    if number > _MOST:
        raise context.script.error(f"{what} is at most {_MOST}", clause)
    return number


def has_first_rows(node: exp.Expr) -> bool:
    """Return whether a query, or brackets around one, have LIMIT or OFFSET."""
    return any(node.args.get(name) is not None for name in ("limit", "offset"))
