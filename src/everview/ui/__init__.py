"""The command line and the web page; they call engine.py only."""
