"""The physical plan on Spark: expressions for Catalyst, exchanges, tasks, a step as few jobs."""
