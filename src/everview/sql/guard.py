"""Nothing that was written is dropped: an argument of the syntax tree is used by the binder, or refused here.

sqlglot reads more than Everview has: PIVOT, TABLESAMPLE, FORMAT in a cast, a LIMIT behind brackets. `USED`
has, for every kind of node that is bound, the arguments that the binder reads. Any other one is refused with
its place, before anything is bound.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from everview.sql import ast
from everview.sql.script import Script

_QUERY_END = ("order", "limit", "offset")
_BINARY = ("this", "expression")

USED: dict[type[exp.Expr], tuple[str, ...]] = {
    # queries
    exp.Select: (
        "with_", "expressions", "distinct", "from_", "joins", "where", "group", "having", *_QUERY_END,
    ),
    exp.Subquery: ("this", "alias", "with_", "joins", *_QUERY_END),
    exp.Paren: ("this",),
    exp.Values: ("expressions", "alias", *_QUERY_END),
    **dict.fromkeys((exp.Union, exp.Except, exp.Intersect), ("with_", *_BINARY, "distinct", *_QUERY_END)),
    # clauses
    exp.With: ("expressions", "recursive"),
    exp.CTE: ("this", "alias"),
    exp.From: ("this",),
    exp.Table: ("this", "alias", "db", "joins", "version"),
    exp.TableAlias: ("this", "columns"),
    exp.Version: ("this", "kind", "expression"),
    exp.Join: ("this", "on", "side", "kind", "using", "method"),
    exp.Where: ("this",),
    exp.Group: ("expressions", "all", "grouping_sets", "cube", "rollup"),
    exp.Having: ("this",),
    exp.Distinct: ("expressions",),
    exp.Order: ("expressions",),
    exp.Ordered: ("this", "desc", "nulls_first"),
    exp.Limit: ("expression",),
    exp.Offset: ("expression",),
    # names, constants and types
    exp.Identifier: ("this", "quoted"),
    exp.Column: ("this", "table", "db"),
    exp.Star: ("except_",),
    exp.Alias: ("this", "alias"),
    exp.Literal: ("this", "is_string"),
    exp.Boolean: ("this",),
    exp.Null: (),
    exp.HexString: ("this",),
    exp.RawString: ("this",),
    exp.Interval: ("this", "unit"),
    exp.IntervalSpan: _BINARY,
    exp.Var: ("this",),
    exp.DataType: ("this", "expressions", "nested", "kind"),
    exp.DataTypeParam: ("this",),
    exp.Tuple: ("expressions",),
    # expressions; what is `safe` about / the dialect says of itself
    **dict.fromkeys((exp.Neg, exp.Not, exp.BitwiseNot), ("this",)),
    **dict.fromkeys((exp.And, exp.Or, exp.Is, exp.Escape, exp.Filter, exp.Extract), _BINARY),
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), _BINARY),
    **dict.fromkeys((exp.NullSafeEQ, exp.NullSafeNEQ), _BINARY),
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.IntDiv), _BINARY),
    **dict.fromkeys((exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor), _BINARY),
    **dict.fromkeys((exp.BitwiseLeftShift, exp.BitwiseRightShift), _BINARY),
    exp.Div: (*_BINARY, "safe"),
    exp.DPipe: _BINARY,
    **dict.fromkeys((exp.Like, exp.ILike), (*_BINARY, "negate")),
    exp.RegexpLike: _BINARY,
    exp.Between: ("this", "low", "high"),
    exp.In: ("this", "expressions", "query", "field"),
    exp.Exists: ("this",),
    exp.Case: ("this", "ifs", "default"),
    exp.If: ("this", "true"),
    exp.Cast: ("this", "to", "safe"),
    exp.TryCast: ("this", "to", "safe"),
    exp.Trim: ("this", "expression", "position"),
    exp.Substring: ("this", "start", "length"),
    exp.StrPosition: ("this", "substr", "position"),
    exp.Anonymous: ("this", "expressions"),
    exp.CurrentTimestamp: (),
    exp.CurrentDate: (),
}  # fmt: skip
"""The arguments that are read, by the kind of node. Of other kinds none is bound."""

# Words for an argument, where its own name is not what people write, and what to write instead.
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
    (exp.Distinct, "on"): "DISTINCT ON",
    (exp.Select, "kind"): "SELECT AS",
    (exp.Join, "expressions"): "a list of joins",
}
_INSTEAD = {
    "symmetric": "write both orders",
    "hint": "leave it out",
    "hints": "leave it out",
}


def refuse_unused(statement: exp.Expr, script: Script, ad_hoc: bool = True) -> None:
    """Refuses what the binder would not read; ORDER BY, LIMIT and OFFSET may only end an ad hoc query."""
    ends = {id(node) for node in _ends(statement)} if ad_hoc else set()
    for node in _walk(statement):
        for name, value in node.args.items():
            if not _is_given(value):
                continue
            if name in _QUERY_END and isinstance(node, exp.Query | exp.Values) and id(node) not in ends:
                raise _refuse_order(name, value, script)
            if name not in USED.get(type(node), node.arg_types):
                raise _refuse(node, name, value, script)


def _is_given(value: object) -> bool:
    return value is not None and value is not False and value != [] and value != ""


def _walk(node: exp.Expr) -> Iterator[exp.Expr]:
    """All nodes, those of windows and of SYNC among them."""
    for part in node.walk():
        yield part
        for behind in (*part.meta.get("windows", ()), part.meta.get("sync")):
            if behind is not None:
                yield from _walk(behind)


def _ends(statement: exp.Expr) -> Iterator[exp.Expr]:
    """The ad hoc query of a statement, and what stands in its brackets."""
    if isinstance(statement, (ast.Explain, ast.Insert, ast.CreateTableAs)):
        statement = statement.args.get("query") or statement.this
    node = statement.this if isinstance(statement, ast.AsOf) else statement
    while isinstance(node, exp.Subquery):
        yield node
        node = node.this
    yield node


def _refuse_order(name: str, clause: exp.Expr, script: Script) -> Exception:
    words = {"order": "ORDER BY"}.get(name, name.upper())
    return script.error(
        f"{words} may only end an ad hoc SELECT: views and subqueries have no order",
        clause,
        next_step="leave it out here and order the answer when you ask for it",
    )


def _refuse(node: exp.Expr, name: str, value: object, script: Script) -> Exception:
    plain = name.strip("_").upper().replace("_", " ")
    words = _WORDS_OF.get((type(node), name)) or _WORDS.get(name, plain)
    first = value[0] if isinstance(value, list) else value
    if name == "kind" and isinstance(value, str):
        words = f"{words} {value}"
    own = [first] if isinstance(first, exp.Expr) and not isinstance(first, exp.Hint) else []
    around = [*own, node, *_ancestors(node)]
    place = next((n for n in around if script.place(n) is not None), node)
    if isinstance(node, exp.Subquery):
        return script.error(
            f"{words} cannot stand behind brackets",
            place,
            next_step="write SELECT * FROM before the brackets",
        )
    return script.error(f"{words} is not available", place, next_step=_INSTEAD.get(name))


def _ancestors(node: exp.Expr) -> Iterator[exp.Expr]:
    while node.parent is not None:
        node = node.parent
        yield node
