"""SQL text to algebra; the only place that knows sqlglot."""

from everview.sql.bind import bind_script, bind_statement
from everview.sql.definitions import (
    check_conditions,
    computed_columns,
    plan_of,
    punctuation_condition,
    relation_of,
    view_plan,
    with_computed_values,
)
from everview.sql.script import Script, parse_script
from everview.sql.statements import declare

__all__ = [
    "Script",
    "bind_script",
    "bind_statement",
    "check_conditions",
    "computed_columns",
    "declare",
    "parse_script",
    "plan_of",
    "punctuation_condition",
    "relation_of",
    "view_plan",
    "with_computed_values",
]
