"""Window brackets to window nodes, and paper 5's predicate windows to the same nodes (4.4)."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from everview.algebra.time import duration_text
from everview.algebra.windows import NOW, AnyWindow, Band, Fixed, Range, Rows, tumble
from everview.sql import ast
from everview.sql.literals import bind_instant, constant_int, duration
from everview.sql.script import Script


def bind_window(bracket: ast.WindowBracketSyntax, script: Script) -> AnyWindow:
    """Return the window of a bracket."""
    args = bracket.args

    def length(name: str, default: int = 0) -> int:
        return duration(args[name], script) if args.get(name) is not None else default

    origin = bind_instant(args["origin"], script) if args.get("origin") is not None else 0
    wrong = [args[part] for part in ("slide", "lag") if args.get(part) is not None and length(part) <= 0]
    with script.blame(wrong[0] if wrong and length("extent") > 0 else bracket):
        match args["kind"]:
            case "RANGE":
                return Range(length("extent"), length("slide", 1), length("lag"), origin)
            case "TUMBLE":
                _refuse(bracket, "slide", script)
                if (extent := length("extent")) <= 0:
                    raise script.error(
                        f"a window of TUMBLE {duration_text(extent)} holds nothing",
                        bracket,
                        next_step="give an extent of at least one microsecond",
                    )
                return tumble(extent, length("lag"), origin)
            case "FIXED":
                _refuse(bracket, "slide", script)
                _refuse(bracket, "lag", script)
                return Fixed(length("extent"), origin)
            case "NOW":
                return NOW
            case "UNBOUNDED":
                return Band()
            case "BAND":
                lower, upper = (
                    bind_instant(args[n], script) if args.get(n) else None for n in ("lower", "upper")
                )
                return Band(lower, upper)
            case "ROWS":
                keys = tuple(k.name for k in args.get("keys") or ())
                slide = args.get("row_slide")
                step = 1 if slide is None else constant_int(slide, script, "SLIDE")
                with script.blame(bracket if slide is None or step > 0 else slide):
                    return Rows(constant_int(args["count"], script, "ROWS"), keys, step)
    raise AssertionError(args["kind"])


def _refuse(bracket: ast.WindowBracketSyntax, part: str, script: Script) -> None:
    given = bracket.args.get(part)
    if given is not None:
        raise script.error(
            f"a {bracket.args['kind']} window takes no {part.upper()}",
            given,
            next_step=f"leave it out, or use RANGE … {part.upper()} …",
        )


@dataclass(frozen=True)
class NowBound:
    """column > NOW - by (lower) or column <= NOW - by (upper)."""

    column: exp.Column
    by: int
    lower: bool


def now_bounds(condition: exp.Expr, script: Script) -> list[NowBound] | None:
    """Return the bounds that a condition sets on a time line relative to NOW; None if it has no NOW."""
    if not mentions_now(condition):
        return None
    condition = condition.unnest()
    if isinstance(condition, exp.Between):
        column = condition.this
        low = _bound(exp.GTE(this=column, expression=condition.args["low"]), script)
        high = _bound(exp.LTE(this=column, expression=condition.args["high"]), script)
        if low is not None and high is not None:
            return [low, high]
    found = _bound(condition, script)
    if found is None:
        raise script.error(
            "NOW may only bound a time line from below and above",
            condition,
            next_step="write it as NOW - INTERVAL '5' SECOND < s.ts AND s.ts <= NOW",
        )
    return [found]


def mentions_now(node: exp.Expr) -> bool:
    """Return whether NOW stands in an expression; that of a subquery is the subquery's own."""
    return any(is_now(part) for part in node.walk(prune=lambda part: isinstance(part, exp.Query)))


def is_now(node: exp.Expr) -> bool:
    return (
        isinstance(node, exp.Column)
        and not node.table
        and node.name.upper() == "NOW"
        and not node.this.quoted
    )


_FLIPPED = {exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE}


def _bound(condition: exp.Expr, script: Script) -> NowBound | None:
    """Return a comparison of a column with NOW ± a length of time, brought to > or <=."""
    kind = type(condition)
    if kind not in _FLIPPED:
        return None
    left, right = condition.this, condition.expression
    if not (isinstance(left, exp.Column) and not is_now(left)):
        left, right, kind = right, left, _FLIPPED[kind]
    if not isinstance(left, exp.Column) or is_now(left):
        return None
    by = _before_now(right, script)
    if by is None:
        return None
    # On a discrete line >= x is > x-1, and < x is <= x-1.
    lower = kind in (exp.GT, exp.GTE)
    return NowBound(left, by + (1 if kind in (exp.GTE, exp.LT) else 0), lower)


def _before_now(node: exp.Expr, script: Script) -> int | None:
    """Return how long before NOW an expression lies, if that is what it says."""
    if is_now(node):
        return 0
    if isinstance(node, exp.Paren):
        return _before_now(node.this, script)
    if isinstance(node, (exp.Sub, exp.Add)) and is_now(node.this):
        by = duration(node.expression, script)
        return by if isinstance(node, exp.Sub) else -by
    return None


def predicate_window(bounds: list[NowBound], script: Script) -> Range | None:
    """Return the RANGE window that bounds on one relation's time line mean; None for ts <= NOW alone."""
    lowers = [b.by for b in bounds if b.lower]
    uppers = [b.by for b in bounds if not b.lower]
    lag = max(uppers, default=0)
    if not lowers:
        if lag > 0:
            raise script.error(
                "a window that lags behind NOW needs a beginning too",
                bounds[0].column,
                next_step="add NOW - INTERVAL '5' MINUTE < the time line",
            )
        return None
    extent = min(lowers) - max(lag, 0)
    if extent <= 0:
        raise script.error(
            "no row lies within these bounds on NOW",
            bounds[0].column,
            next_step="write them as NOW - INTERVAL '5' SECOND < s.ts AND s.ts <= NOW",
        )
    return Range(extent, lag=max(lag, 0))
