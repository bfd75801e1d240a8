"""Aggregates over change rows: accumulators, exact sums, events, MIN and MAX."""
