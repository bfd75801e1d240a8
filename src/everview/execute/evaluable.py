"""Whether Spark accepts the expressions of a view, checked when the view is made and not in each step.

The binder refuses what is known to be wrong, with its place. This module finds the rest: regular expressions
that only Java can judge, and expressions that Spark refuses for reasons of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from everview import operators as P
from everview.algebra.expressions import Call, Column, Expression, Literal
from everview.algebra.text import expression_sql, string_sql
from everview.algebra.text_patterns import is_surely_valid
from everview.algebra.types import DataType
from everview.catalog import QueryEntry, StreamEntry
from everview.errors import PlanError
from everview.execute.catalyst import Row, spark_schema
from everview.execute.spark_errors import first_line
from everview.sql.script import place_of_text

_REGEX = ("rlike", "regexp_count", "regexp_extract", "regexp_replace")


def require_evaluable(
    session: SparkSession, views: Sequence[QueryEntry], plans: Mapping[str, P.Operator]
) -> None:
    """Refuse a view with an expression that Spark does not accept. No job runs.

    Each expression is checked once, however many views have it; those of the other plans were checked before.
    """
    seen: set[P.Operator] = set()
    names = {view.name for view in views}
    others = [_all_operators(plan) for name, plan in plans.items() if name not in names]
    for view in views:
        for node, expressions in _expressions(plans[view.name], seen):
            if not any(node in operators for operators in others):
                _require_expressions(session, view, node, expressions)


def _require_expressions(
    session: SparkSession, view: QueryEntry, node: P.Operator, expressions: Sequence[Expression]
) -> None:
    where = f"the view '{view.name}'"
    for expression in expressions:
        broken = _broken_pattern(session, where, view.sql, expression)
        if broken is not None:
            raise broken.of_view(view.name)
    types = node.inputs[0].types
    if _refusal(session, types, expressions) is None:
        return
    for expression in expressions:
        error = _refusal(session, types, [expression])
        if error is not None:
            shown = f"{expression_sql(expression)} in {where}"
            what = f"Spark cannot evaluate {shown}: {first_line(error)}"
            raise PlanError(what, next_step="write it in another way").of_view(view.name) from error


def require_stream_conditions(
    session: SparkSession, stream: StreamEntry, conditions: Mapping[str, Expression]
) -> None:
    """Refuse a stream with a condition over c0, c1, … that Spark does not accept. No job runs.

    Conditions have the text of their clause as a key.
    """
    where = f"the stream '{stream.name}'"
    for clause, condition in conditions.items():
        broken = _broken_pattern(session, where, None, condition)
        if broken is not None:
            raise broken
        error = _refusal(session, stream.columns.types, [condition])
        if error is not None:
            raise PlanError(
                f"Spark cannot evaluate {clause} of {where}: {first_line(error)}",
                next_step="write it in another way",
            ) from error


def _refusal(
    session: SparkSession, types: tuple[DataType, ...], expressions: Sequence[Expression]
) -> Exception | None:
    """Return the error that Spark raises for expressions over rows with columns of these types, if any."""
    row = Row.of([P.column(i) for i in range(len(types))], types)
    try:
        frame = session.createDataFrame([], spark_schema(types)).selectExpr(*map(row.text, expressions))
        frame._jdf.queryExecution().optimizedPlan()
    except (PySparkException, Py4JError) as error:
        return error
    return None


@lru_cache(maxsize=10_000)
def _all_operators(plan: P.Operator) -> frozenset[P.Operator]:
    """Return the operators of a plan."""
    return frozenset({plan}.union(*map(_all_operators, plan.inputs)))


def _expressions(
    plan: P.Operator, seen: set[P.Operator]
) -> Iterator[tuple[P.Operator, tuple[Expression, ...]]]:
    """Yield the operators of a plan that Catalyst evaluates, with their expressions."""
    if plan in seen:
        return
    seen.add(plan)
    match plan:
        case P.ProjectOperator(outputs=outputs) if any(not isinstance(e, Column) for e in outputs):
            yield plan, tuple(e for e in outputs if not isinstance(e, Column))
        case P.FilterOperator(condition=condition):
            yield plan, (condition,)
    for below in plan.inputs:
        yield from _expressions(below, seen)


def _broken_pattern(
    session: SparkSession, where: str, sql: str | None, expression: Expression
) -> PlanError | None:
    """Return the error for a constant pattern that Java cannot read; it would give NULL for every row."""
    for part in expression.walk():
        match part:
            case Call(name, (_, Literal(str(pattern)), *_)) if name in _REGEX and not is_surely_valid(
                pattern
            ):
                try:
                    session._jvm.java.util.regex.Pattern.compile(pattern)  # type: ignore[union-attr]
                except (PySparkException, Py4JJavaError) as error:
                    found = PlanError(
                        f"{string_sql(pattern)} in {where} is no regular expression: {first_line(error)}",
                        place=None if sql is None else place_of_text(sql, pattern),
                        next_step="a backslash, written \\\\, before a character makes it stand for itself",
                    )
                    found.__cause__ = error
                    return found
    return None
