"""Algebra to better algebra: one rule, one file, one pure function, one fixture.

A rule maps a node to a better one with the same meaning, or to None where it does not apply.
"""

from everview.rewrite.cost import Choice, Costs
from everview.rewrite.lift_conditions import lift_conditions
from everview.rewrite.rules import (
    EVENT_RULES,
    FIRST_RULES,
    RULES,
    RewrittenPlan,
    Rule,
    rewrite,
    rules_with_costs,
)

__all__ = [
    "EVENT_RULES",
    "FIRST_RULES",
    "RULES",
    "Choice",
    "Costs",
    "RewrittenPlan",
    "Rule",
    "lift_conditions",
    "rewrite",
    "rules_with_costs",
]
