"""The command line and the web page; they call database.py only."""
