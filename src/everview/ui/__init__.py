"""The command line and the prompt; they call database.py, without_spark.py and server/ only."""

DEFAULT_PATH = "everview-store"  # the store, if no path is given
