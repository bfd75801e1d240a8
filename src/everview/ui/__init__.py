"""The command line and the web page; they call database.py only."""

DEFAULT_PATH = "everview-store"  # the store, if no path is given
