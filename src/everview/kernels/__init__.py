"""The temporal operators as pure functions on Arrow tables, one file per family; no Spark, no files."""
