"""Algebra to Spark stages: what Catalyst evaluates, where rows are exchanged, which kernels run where."""
