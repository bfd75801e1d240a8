"""Algebra to physical plans, and physical plans to the stages of a step."""
