"""Change rows as Polars frames: keys, hashes, pairs, step functions of time."""
