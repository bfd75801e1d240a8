"""The guard against ignored syntax: an argument of the syntax tree is used by the binder, or refused here.

sqlglot reads more than Everview has: PIVOT, TABLESAMPLE, FORMAT in a cast, a LIMIT behind brackets, a
parameter in the place of a name. `USED` has, for every kind of node that is bound, the arguments that the
binder reads, and what they may be. Any other one is refused with its place, before anything is bound.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from everview.sql import ast
from everview.sql.script import Script

Kinds = tuple[type, ...]

# What the binder binds by its kind, refusing any that it does not know; other values it reads as they are.
_ANY: Kinds = (exp.Expr,)
_NAME: Kinds = (exp.Identifier,)
_TEXT: Kinds = (str,)
_FLAG: Kinds = (bool,)
_QUERY_END: dict[str, Kinds] = {
    "order": (exp.Order,),
    "limit": (exp.Limit, exp.Fetch),
    "offset": (exp.Offset,),
}
_WITH: dict[str, Kinds] = {"with_": (exp.With,)}
_ALIAS: dict[str, Kinds] = {"alias": (exp.TableAlias,)}
_JOINS: dict[str, Kinds] = {"joins": (exp.Join,)}
_ONE: dict[str, Kinds] = {"this": _ANY}
_BINARY: dict[str, Kinds] = {"this": _ANY, "expression": _ANY}
_LIST: dict[str, Kinds] = {"expressions": _ANY}

USED: dict[type[exp.Expr], dict[str, Kinds]] = {
    # queries
    exp.Select: {
        **_WITH, **_LIST, "distinct": (exp.Distinct,), "from_": (exp.From,), **_JOINS, "where": (exp.Where,),
        "group": (exp.Group,), "having": (exp.Having,), "qualify": (exp.Qualify,),
        "windows": (exp.Window,), **_QUERY_END,
    },
    exp.Subquery: _ONE | _ALIAS | _WITH | _JOINS | _QUERY_END,
    exp.Paren: _ONE,
    exp.Values: {"expressions": (exp.Tuple,), **_ALIAS, **_QUERY_END},
    **dict.fromkeys(
        (exp.Union, exp.Except, exp.Intersect), _WITH | _BINARY | {"distinct": _FLAG} | _QUERY_END
    ),
    # clauses
    exp.With: {"expressions": (exp.CTE,), "recursive": _FLAG},
    exp.CTE: _ONE | _ALIAS,
    exp.From: _ONE,
    exp.Table: {**_ONE, **_ALIAS, "db": _NAME, **_JOINS, "version": (exp.Version,)},
    exp.TableAlias: {"this": _NAME, "columns": _NAME},
    exp.Version: {"this": _TEXT, "kind": _TEXT, "expression": _ANY},
    exp.Join: {
        **_ONE, "on": _ANY, "side": _TEXT, "kind": _TEXT, "using": _NAME, "method": _TEXT,
    },
    exp.Where: _ONE,
    exp.Group: {**_LIST, "all": _FLAG, "grouping_sets": _ANY, "cube": _ANY, "rollup": _ANY},
    exp.Having: _ONE,
    exp.Qualify: _ONE,
    exp.Window: {
        **_ONE, "partition_by": _ANY, "order": (exp.Order,), "spec": (exp.WindowSpec,), "over": _TEXT,
        "alias": _NAME,
    },
    exp.WindowSpec: {
        "kind": _TEXT, "start": (*_ANY, str), "start_side": _TEXT, "end": (*_ANY, str), "end_side": _TEXT,
        "exclude": _ANY,
    },
    **dict.fromkeys((exp.IgnoreNulls, exp.RespectNulls), _ONE),
    exp.Distinct: {**_LIST, "on": _ANY},
    exp.Order: {"expressions": (exp.Ordered,)},
    exp.Ordered: {**_ONE, "desc": _FLAG, "nulls_first": _FLAG},
    exp.Limit: {"expression": _ANY},
    exp.Offset: {"expression": _ANY},
    # names, constants and types
    exp.Identifier: {"this": _TEXT, "quoted": _FLAG},
    exp.Column: {"this": (exp.Identifier, exp.Star), "table": _NAME, "db": _NAME},
    exp.Star: {"except_": (exp.Column, exp.Identifier)},
    exp.Alias: {**_ONE, "alias": _NAME},
    exp.Literal: {"this": _TEXT, "is_string": _FLAG},
    exp.Boolean: {"this": _FLAG},
    exp.Null: {},
    exp.HexString: {"this": _TEXT},
    exp.RawString: {"this": _TEXT},
    exp.Interval: {**_ONE, "unit": (exp.Var, exp.IntervalSpan)},
    exp.IntervalSpan: {"this": (exp.Var,), "expression": (exp.Var,)},
    exp.Var: {"this": _TEXT},
    exp.DataType: {"this": (exp.DType, exp.Interval), **_LIST, "nested": _FLAG, "kind": _ANY},
    exp.DataTypeParam: _ONE,
    exp.Tuple: _LIST,
    # expressions; what is `safe` about / the dialect says of itself
    **dict.fromkeys((exp.Neg, exp.Not, exp.BitwiseNot), _ONE),
    **dict.fromkeys((exp.And, exp.Or, exp.Is, exp.Escape), _BINARY),
    exp.Filter: {**_ONE, "expression": (exp.Where,)},
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), _BINARY),
    **dict.fromkeys((exp.NullSafeEQ, exp.NullSafeNEQ), _BINARY),
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.IntDiv), _BINARY),
    **dict.fromkeys((exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor), _BINARY),
    **dict.fromkeys((exp.BitwiseLeftShift, exp.BitwiseRightShift), _BINARY),
    exp.Div: {**_BINARY, "safe": _FLAG},
    exp.DPipe: _BINARY,
    **{key: {**_BINARY, "negate": _FLAG} for key in (exp.Like, exp.ILike)},
    exp.RegexpLike: _BINARY,
    exp.Any: _ONE,
    exp.All: _ONE,
    exp.Extract: {"this": (exp.Var,), "expression": _ANY},
    exp.Between: {**_ONE, "low": _ANY, "high": _ANY},
    exp.In: {**_ONE, **_LIST, "query": _ANY, "field": _ANY},
    exp.Exists: _ONE,
    exp.Case: {**_ONE, "ifs": (exp.If,), "default": _ANY},
    exp.If: {**_ONE, "true": _ANY},
    **{key: {**_ONE, "to": (exp.DataType,), "safe": _FLAG} for key in (exp.Cast, exp.TryCast)},
    exp.Trim: {**_BINARY, "position": _TEXT},
    exp.Substring: {**_ONE, "start": _ANY, "length": _ANY},
    exp.StrPosition: {**_ONE, "substr": _ANY, "position": _ANY},
    exp.Anonymous: {"this": (str, exp.Identifier), **_LIST},
    exp.CurrentTimestamp: {},
    exp.CurrentDate: {},
}  # fmt: skip
"""The arguments that are read, by the kind of node, and what each may be. Of other kinds none is bound."""

# Words for an argument whose own name differs from its SQL, and what to write instead.
_WORDS = {
    "laterals": "LATERAL VIEW",
    "sort": "SORT BY",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "windows": "WINDOW",
    "pivots": "PIVOT",
    "connect": "CONNECT BY",
    "sample": "TABLESAMPLE",
    "match": "MATCH_RECOGNIZE",
    "locks": "FOR UPDATE",
    "hint": "a hint",
    "hints": "a hint",
    "group": "GROUP BY",
    "kind": "this kind of query",
    "operation_modifiers": "this word",
    "unnest": "IN UNNEST",
}
_WORDS_OF: dict[tuple[type[exp.Expr], str], str] = {
    (exp.Star, "replace"): "* REPLACE",
    (exp.Star, "rename"): "* RENAME",
    (exp.Star, "ilike"): "* ILIKE",
    (exp.Between, "symmetric"): "BETWEEN SYMMETRIC",
    (exp.Select, "kind"): "SELECT AS",
    (exp.Join, "expressions"): "a list of joins",
    (exp.Order, "this"): "ORDER BY in a call",
    (exp.Limit, "this"): "LIMIT in a call",
}
_INSTEAD = {
    "symmetric": "write both orders",
    "hint": "leave it out",
    "hints": "leave it out",
}


def refuse_unused(statement: exp.Expr, script: Script, ad_hoc: bool = True) -> None:
    """Refuse syntax that the binder does not use; ORDER BY, LIMIT and OFFSET may only end an ad hoc query."""
    ends = {id(node) for node in _ends(statement)} if ad_hoc else set()
    for node in _walk(statement):
        for name, value in node.args.items():
            if not _is_given(value):
                continue
            if (
                name in _QUERY_END
                and isinstance(node, exp.Query | exp.Values)
                and id(node) not in ends
                and not _takes_first_rows(node)
            ):
                raise _refuse_order(name, value, script)
            used = USED.get(type(node))
            if used is None:
                continue  # our own grammar made it, or the binder refuses it
            if name not in used:
                raise _refuse(node, name, value, script)
            for each in value if isinstance(value, list) else [value]:
                if not isinstance(each, used[name]):
                    raise _refuse_kind(node, name, each, script)


def _is_given(value: object) -> bool:
    return value is not None and value is not False and value != [] and value != ""


def _walk(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield all nodes, those of windows and of SYNC among them."""
    for part in node.walk():
        yield part
        for behind in (*part.meta.get("windows", ()), part.meta.get("sync")):
            if behind is not None:
                yield from _walk(behind)


def _ends(statement: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the ad hoc query of a statement, and what stands in its brackets."""
    if isinstance(statement, (ast.ExplainSyntax, ast.InsertSyntax, ast.CreateTableAsSyntax)):
        statement = statement.args.get("query") or statement.this
    node = statement.this if isinstance(statement, ast.AsOfSyntax) else statement
    while isinstance(node, exp.Subquery):
        yield node
        node = node.this
    yield node


def _takes_first_rows(node: exp.Expr) -> bool:
    """Return whether the ORDER BY of a query says which rows it has: with LIMIT, OFFSET or DISTINCT ON."""
    if not isinstance(node, (exp.Select, exp.SetOperation, exp.Subquery)):
        return False
    distinct = node.args.get("distinct")
    on = isinstance(distinct, exp.Distinct) and distinct.args.get("on") is not None
    return on or any(node.args.get(name) is not None for name in ("limit", "offset"))


def _refuse_order(name: str, clause: exp.Expr, script: Script) -> Exception:
    words = {"order": "ORDER BY"}.get(name, name.upper())
    return script.error(
        f"{words} without LIMIT may only end an ad hoc SELECT: views and subqueries have no order"
        if name == "order"
        else f"{words} cannot stand here",
        clause,
        next_step="leave it out here and order the answer when you ask for it"
        if name == "order"
        else "put it into the SELECT",
    )


def _refuse_kind(node: exp.Expr, name: str, value: object, script: Script) -> Exception:
    """Refuse what is no name where a name belongs, and any other value that the binder would misread."""
    place = _nearest_place(value, node, script)
    if isinstance(value, exp.ColumnDef):
        return script.error("a name in this list has no type", place, next_step=f"write {value.name}")
    if USED[type(node)][name] == _NAME:
        return script.error("expected a name", place, next_step="write a name, or leave this out")
    return script.error("this cannot stand here", place)


def _refuse(node: exp.Expr, name: str, value: object, script: Script) -> Exception:
    plain = name.strip("_").upper().replace("_", " ")
    words = _WORDS_OF.get((type(node), name)) or _WORDS.get(name, plain)
    first = value[0] if isinstance(value, list) else value
    if name == "kind" and isinstance(value, str):
        words = f"{words} {value}"
    place = _nearest_place(None if name == "this" else first, node, script)
    if isinstance(node, exp.Subquery) and name in USED[exp.Select]:
        return script.error(
            f"{words} cannot stand behind brackets",
            place,
            next_step="write SELECT * FROM before the brackets",
        )
    return script.error(f"{words} is not available", place, next_step=_INSTEAD.get(name))


def _nearest_place(value: object, node: exp.Expr, script: Script) -> exp.Expr:
    """Return the place to underline for an argument of a node: its own if it has one, else that around it."""
    own = [value] if isinstance(value, exp.Expr) and not isinstance(value, exp.Hint) else []
    around = [*own, node, *_ancestors(node)]
    return next((n for n in around if script.place(n) is not None), node)


def _ancestors(node: exp.Expr) -> Iterator[exp.Expr]:
    while node.parent is not None:
        node = node.parent
        yield node
