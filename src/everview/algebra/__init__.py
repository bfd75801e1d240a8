"""What a query means: frozen nodes over change rows, windows, time; and `reference.py`, the oracle."""
