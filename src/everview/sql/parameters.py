"""Named parameters: `:name` in a statement stands for a value of Python, as a literal of its type.

A value is never pasted into the text that is parsed: the syntax tree gets a literal where the name stood. A
view keeps its definition as text; there, the literal stands in the place of the name.

>>> from everview.sql.script import parse_script
>>> text = "SELECT v FROM s WHERE car = :car"
>>> bound = bind_parameters(parse_script(text), Script(text), {"car": "it's"})
>>> bound[0].args["where"].this.expression.this
"it's"
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from sqlglot import exp

from everview.algebra import types as T
from everview.algebra.text import literal_sql
from everview.errors import SqlError, nearest
from everview.sql.script import Script, parse_one

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TYPES = "str, int, float, bool, Decimal, datetime, date, timedelta, bytes, None"


def bind_parameters(
    statements: Sequence[exp.Expr], script: Script, values: Mapping[str, object]
) -> list[exp.Expr]:
    """Return the statements with a literal in the place of each parameter; every value must be used."""
    found = [each for statement in statements for each in _places(statement)]
    names = {str(place.this) for place, _ in found if place.this}
    unused = [name for name in values if name not in names]
    if unused:
        raise SqlError(
            f"no parameter is called :{unused[0]}",
            meant=None if (meant := nearest(unused[0], names)) is None else f":{meant}",
            choices=[f":{name}" for name in sorted(names)],
            next_step=None if names else f"write :{unused[0]} where its value belongs",
        )
    literals = {name: parameter_sql(name, values[name]) for name in values}
    for place, definition in found:
        if not place.this:
            raise script.error("a parameter needs a name", place, next_step="write it as :name")
        name = str(place.this)
        if name not in values:
            raise script.error(f"the parameter :{name} has no value", place, next_step=f"give one: {name}=…")
        if isinstance(place.parent, (exp.Table, exp.Column)):
            raise script.error(f"the parameter :{name} is a value, and here a name belongs", place)
        text, value = literals[name], values[name]
        if isinstance(place.parent, (exp.Limit, exp.Offset)) and isinstance(value, str) and value.isdecimal():
            text = value  # on the command line all values are texts
        if definition is not None:
            _keep_in_text(place, text, definition)
        literal = parse_one(f"SELECT {text}").expressions[0]
        for part in literal.walk():
            part.meta.pop("start", None)
        literal.meta.update(place.meta)
        place.replace(literal)
    return list(statements)


def _places(statement: exp.Expr) -> list[tuple[exp.Expr, exp.Expr | None]]:
    """Return the parameters of a statement, each with the definition around it whose text is kept.

    Windows and synchronizations hang beside the syntax tree. The tree may be deeper than Python can recurse.
    """
    found: list[tuple[exp.Expr, exp.Expr | None]] = []
    ahead: list[tuple[object, exp.Expr | None]] = [(statement, None)]
    while ahead:
        node, definition = ahead.pop()
        if isinstance(node, list):
            ahead += [(part, definition) for part in node]
        elif isinstance(node, exp.Expr):
            definition = node if "text_start" in node.meta else definition
            if isinstance(node, exp.Placeholder):
                found.append((node, definition))
            ahead += [(part, definition) for part in (*node.args.values(), *node.meta.values())]
    return sorted(found, key=lambda each: each[0].meta["start"])


def _keep_in_text(place: exp.Expr, literal: str, definition: exp.Expr) -> None:
    """Put a literal into the text that a view keeps of its definition; those before it are in already."""
    owner = definition.parent
    assert owner is not None
    text: str = owner.args["text"]
    longer: int = definition.meta.get("longer", 0)
    at, end = (place.meta[edge] - definition.meta["text_start"] + longer for edge in ("start", "end"))
    owner.set("text", text[:at] + literal + text[end + 1 :])
    definition.meta["longer"] = longer + len(literal) - (end + 1 - at)


def parameter_sql(name: str, value: object) -> str:
    """Return a value of Python as a SQL literal; in brackets if it begins with a sign.

    >>> [parameter_sql("p", value) for value in (-5, "a'b", Decimal("1.50"), 2**40)]
    ['(-5)', "'a\\\\'b'", '1.50', '1099511627776L']
    """
    text = literal_sql(*_typed(name, value))
    return f"({text})" if text.startswith("-") else text


def _typed(name: str, value: object) -> tuple[object, T.DataType]:
    match value:
        case None:
            return None, T.VOID
        case bool():
            return value, T.BOOLEAN
        case int() if -(2**31) <= value < 2**31:
            return int(value), T.INT
        case int() if -(2**63) <= value < 2**63:
            return int(value), T.BIGINT
        case int():
            return _decimal(name, Decimal(value))
        case float():
            return float(value), T.DOUBLE
        case Decimal():
            return _decimal(name, value)
        case str():
            return str(value), T.STRING
        case bytes() | bytearray():
            return bytes(value), T.BINARY
        case datetime():
            moment = value.replace(tzinfo=value.tzinfo or UTC)
            return (moment - _EPOCH) // timedelta(microseconds=1), T.TIMESTAMP
        case date():
            return (value - _EPOCH.date()).days, T.DATE
        case timedelta():
            return value // timedelta(microseconds=1), T.INTERVAL
    raise SqlError(
        f"the parameter :{name} is {type(value).__name__}, which has no type in SQL",
        next_step=f"give one of {_TYPES}",
    )


def _decimal(name: str, value: Decimal) -> tuple[Decimal, T.DataType]:
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise SqlError(f"the parameter :{name} is {value}, which no DECIMAL can be", next_step="give a float")
    scale = max(0, -exponent)
    precision = max(1, scale, len(digits) + max(0, exponent))
    if precision > T.MAX_PRECISION:
        raise SqlError(f"the parameter :{name} has {precision} digits", next_step="give a float")
    return value, T.decimal(precision, scale)
