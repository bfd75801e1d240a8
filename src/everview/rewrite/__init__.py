"""Algebra to better algebra: one rule, one file, one pure function, one fixture.

A rule maps a node to a better one with the same meaning, or to None where it does not apply.
"""

from everview.rewrite.rules import RULES, Rewritten, rewrite

__all__ = ["RULES", "Rewritten", "rewrite"]
