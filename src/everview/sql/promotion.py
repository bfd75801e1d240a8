"""Values that are read as another type where Spark does so: string constants, and values of mixed types."""

from __future__ import annotations

from collections.abc import Sequence

from everview.algebra import types as T
from everview.algebra.expressions import Arithmetic, Call, Cast, Expression, Literal
from everview.algebra.functions import function
from everview.errors import EverviewError
from everview.sql.literals import cast

# What a parameter that takes no text makes of a string constant.
_READ_AS = {
    "BOOLEAN": T.BOOLEAN, "INT": T.INT, "BIGINT": T.BIGINT, "DOUBLE": T.DOUBLE, "DAYS": T.INT,
    "SECONDS": T.decimal(16, 6), "INTEGER": T.INT, "WORD": T.INT, "NUMBER": T.DOUBLE, "DATE": T.DATE,
    "TIMESTAMP": T.TIMESTAMP, "INSTANT": T.TIMESTAMP, "CIVIL": T.DATE,
}  # fmt: skip


def is_text_literal(e: Expression) -> bool:
    """Return whether an expression is a string constant."""
    return isinstance(e, Literal) and e.type == T.STRING


def text_targets(name: str, arguments: Sequence[Expression]) -> list[T.DataType | None]:
    """Return for each argument of a function the type that a string constant is read as; None: it stays text.

    It stays where the function takes text, and where nothing else would make the arguments fit.
    """
    types = tuple(a.type for a in arguments)
    stays: list[T.DataType | None] = [None] * len(arguments)
    try:
        signatures = function(name).signatures
    except EverviewError:
        return stays  # what is wrong with the name is said when the call is made
    if any(s.converted(types) is not None for s in signatures) or not any(map(is_text_literal, arguments)):
        return stays
    for signature in signatures:
        kinds = signature.kinds(len(arguments))
        if kinds is None:
            continue
        read = [
            _READ_AS.get(k) if is_text_literal(a) else None for k, a in zip(kinds, arguments, strict=True)
        ]
        if signature.converted(tuple(r or t for r, t in zip(read, types, strict=True))) is not None:
            return read
    return stays


def as_text_if_mixed(values: Sequence[Expression]) -> list[Expression]:
    """Return the values, all as text if some are: so Spark widens the branches of CASE, IF and coalesce."""
    kinds = {v.type for v in values} - {T.VOID}
    if T.STRING not in kinds or kinds & {T.BINARY, T.BOOLEAN, T.INTERVAL}:
        return list(values)
    return [v if v.type in (T.STRING, T.VOID) else cast(v, T.STRING) for v in values]


def one_key(values: Sequence[Expression]) -> Expression:
    """Return one text for several values: distinct for distinct values, NULL if one of them is NULL.

    No part has a comma: text and bytes are written in hexadecimal digits, numbers and times as they are. 0.0
    and -0.0 are one value, and so are all NaN.
    """
    parts: list[Expression] = []
    for value in values:
        parts += [Literal(",", T.STRING), _part(value)] if parts else [_part(value)]
    return Call("concat", tuple(parts))


def _part(value: Expression) -> Expression:
    if value.type in (T.STRING, T.BINARY):
        return Call("hex", (value,))
    if value.type.is_float:
        wide = value if value.type == T.DOUBLE else Cast(value, T.DOUBLE)
        value = Arithmetic("+", wide, Literal(0.0, T.DOUBLE))
    return Cast(value, T.STRING)
