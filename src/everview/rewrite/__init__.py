"""Algebra to better algebra: one rule, one file, one pure function, one fixture.

A rule takes a node and gives a better one that means the same, or None where it has nothing to say.
"""

from everview.rewrite.rules import RULES, Rewritten, rewrite

__all__ = ["RULES", "Rewritten", "rewrite"]
