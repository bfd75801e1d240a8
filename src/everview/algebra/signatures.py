"""What a scalar function takes and yields: one row of a table per signature.

A signature is written as people read it: `STRING, INT[, INT]`; `...` after the last parameter says
that it may be repeated. A word is a kind of parameter (`KINDS`): a type with what is implicitly
converted to it, or a class of types. All T of a signature become the narrowest type they all fit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from everview.algebra.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    INTERVAL,
    SIMPLE_TYPES,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    VOID,
    DataType,
    wider_type,
)
from everview.errors import AlgebraError

Types = tuple[DataType, ...]
Constants = Sequence[object]
ResultRule = str | Callable[[Types, Constants], DataType]

VARIABLE = object()
"""Stands among the constants of a call for an argument that is none."""


@dataclass(frozen=True)
class Kind:
    """Which types a parameter takes, and which type they become before the call."""

    takes: Callable[[DataType], bool]
    becomes: Callable[[DataType], DataType]


def _number_as(target: DataType) -> Kind:
    return Kind(lambda t: t.is_numeric, lambda _: target)


def _only(type_: DataType) -> Kind:
    return Kind(lambda t: t == type_, lambda _: type_)


KINDS = {
    "ANY": Kind(lambda t: True, lambda t: t),
    "T": Kind(lambda t: True, lambda t: t),
    "BOOLEAN": _only(BOOLEAN),
    "STRING": _only(STRING),
    "TEXT": Kind(lambda t: t not in (BINARY, INTERVAL), lambda _: STRING),
    "BINARY": Kind(lambda t: t in (BINARY, STRING), lambda _: BINARY),
    "INT": _number_as(INT),
    "BIGINT": _number_as(BIGINT),
    "DOUBLE": _number_as(DOUBLE),
    "SECONDS": _number_as(DataType("DECIMAL", 16, 6)),
    "DAYS": Kind(lambda t: t in (TINYINT, SMALLINT, INT), lambda _: INT),
    "SINGLE": _only(FLOAT),
    "INTEGER": Kind(lambda t: t.is_integer, lambda t: INT if t == VOID else t),
    "WORD": Kind(lambda t: t.is_numeric, lambda t: BIGINT if t == BIGINT else INT),
    "NUMBER": Kind(lambda t: t.is_numeric, lambda t: DOUBLE if t == VOID else t),
    "DECIMAL": Kind(lambda t: t.is_decimal, lambda t: t),
    "INTERVAL": _only(INTERVAL),
    "DATE": Kind(lambda t: t in (DATE, TIMESTAMP), lambda _: DATE),
    "TIMESTAMP": Kind(lambda t: t in (DATE, TIMESTAMP), lambda _: TIMESTAMP),
    "INSTANT": _only(TIMESTAMP),
    "CIVIL": _only(DATE),
}
"""The words of a signature. TEXT takes anything but BINARY and turns it into a STRING."""

# Kinds whose name would mean nothing to the reader of an error message.
_SHOWN = {
    "TEXT": "STRING",
    "DAYS": "INT",
    "SINGLE": "FLOAT",
    "WORD": "INT",
    "SECONDS": "DECIMAL",
    "INSTANT": "TIMESTAMP",
    "CIVIL": "DATE",
}


@dataclass(frozen=True)
class Signature:
    """One way to call a function: its parameters, its result, what it means.

    `strict`: NULL for any argument gives NULL, and `meaning` never sees one. `typed`: the meaning takes
    the types of its (converted) arguments first. `constant`: the position at which Spark wants a constant.
    """

    name: str
    parameters: str
    result: ResultRule
    meaning: Callable[..., Any]
    aliases: tuple[str, ...] = ()
    strict: bool = True
    typed: bool = False
    constant: int | None = None

    @property
    def shown(self) -> str:
        """The parameters as an error message shows them."""
        return "(" + re.sub(r"[A-Z]+", lambda m: _SHOWN.get(m[0], m[0]), self.parameters) + ")"

    def converted(self, types: Types) -> Types | None:
        """Return the types that arguments of these types become before the call, or None if they do not fit.

        >>> row = Signature("f", "STRING, INT[, INT]", "STRING", str)
        >>> [str(t) for t in row.converted((STRING, DOUBLE)) or ()], row.converted((STRING,))
        (['STRING', 'INT'], None)
        """
        kinds = self.kinds(len(types))
        if kinds is None or not all(
            t == VOID or KINDS[k].takes(t) for k, t in zip(kinds, types, strict=True)
        ):
            return None
        common: DataType | None = VOID
        for kind, t in zip(kinds, types, strict=True):
            if kind == "T" and common is not None:
                common = wider_type(common, t)
        if common is None:
            return None
        return tuple(common if k == "T" else KINDS[k].becomes(t) for k, t in zip(kinds, types, strict=True))

    def kinds(self, count: int) -> list[str] | None:
        """Return the kind of each of so many arguments, or None if it takes more or fewer."""
        required, _, optional = self.parameters.partition("[")
        least, all_ = _words(required), _words(required + optional)
        repeated = "..." in self.parameters
        if count < len(least) or (count > len(all_) and not repeated):
            return None
        return [all_[min(i, len(all_) - 1)] for i in range(count)]

    def result_type(self, types: Types, constants: Constants) -> DataType:
        """Return the type of the result for arguments of these types, which are known to fit."""
        converted = self.converted(types) or ()
        if not isinstance(self.result, str):
            return self.result(converted, constants)
        if self.result == "T":
            return next(t for k, t in zip(self.kinds(len(types)) or (), converted, strict=True) if k == "T")
        return SIMPLE_TYPES[self.result]


def _words(parameters: str) -> list[str]:
    return re.findall(r"[A-Z]+", parameters)


def first_type(types: Types, _: Constants) -> DataType:
    """Return the result rule of a function that yields what it takes."""
    return types[0]


@dataclass(frozen=True)
class Function:
    """A scalar function by its canonical name, with all its signatures."""

    name: str
    signatures: tuple[Signature, ...]

    @property
    def strict(self) -> bool:
        """Whether NULL for any argument gives NULL."""
        return self.signatures[0].strict

    def signature(self, types: Types) -> Signature:
        """Return the first signature that arguments of these types fit; refused if none does."""
        for signature in self.signatures:
            if signature.converted(types) is not None:
                return signature
        takes = " or ".join(s.shown for s in self.signatures)
        raise AlgebraError(
            f"{self.name} takes {takes}, not ({', '.join(map(str, types))})",
            next_step="CAST the arguments to types that fit" if types else None,
        )

    def result_type(self, types: Types, constants: Constants | None = None) -> DataType:
        """Return the type of a call with arguments of these types.

        `constants` holds the value of each argument that is a literal, VARIABLE for the others: some
        arguments must be constants, and may decide on the type. Without it they are taken to be so.
        """
        signature = self.signature(types)
        if constants is None:
            return signature.result_type(types, ())
        at = signature.constant
        if at is not None and at < len(constants) and constants[at] is VARIABLE:
            raise AlgebraError(f"{self.name} needs a constant as argument {at + 1}")
        return signature.result_type(types, constants)

    def parameter_types(self, types: Types) -> Types:
        """Return the types to which arguments of these types are converted before the call."""
        return self.signature(types).converted(types) or ()

    def meaning(self, types: Types) -> Callable[..., Any]:
        """Return the function that a call with arguments of these types applies to the converted values."""
        signature = self.signature(types)
        return (
            partial(signature.meaning, self.parameter_types(types)) if signature.typed else signature.meaning
        )
