"""The algebra: frozen nodes over change rows, expressions, types, windows, time."""
