"""Nexmark: persons, auctions and bids of an auction site, and 23 queries over them.

`generator.py` makes the events, `streams.py` declares the streams that read them, `queries/q0.sql` to
`q22.sql` are the views, and `witness.py` answers the same queries by DuckDB.
"""
