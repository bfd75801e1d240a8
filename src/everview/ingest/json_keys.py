"""Keys of JSON objects for which no column is declared.

`from_json` drops them silently. So Polars looks at all lines again: with its values removed, a line is an
outline of its keys. There are few different outlines, and one line of each is parsed for its keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import polars as pl

from everview.ingest.differences import MOST_REPORTED

# What comes after a key, if it is neither an object nor an array; and arrays of such values.
_VALUE = r'"\s*:\s*(?:"(?:[^"\\]|\\.)*"|[^"{}\[\],]*)'
_ARRAY = r'(?s)\[[^\[\]{}"]*(?:"(?:[^"\\]|\\.)*"[^\[\]{}"]*)*\]'
_MOST_OUTLINES = 1_000  # the different outlines that a task examines
_LONGEST = 100  # characters of a key that are reported


def undeclared_keys(lines: pl.Series, declared: Iterable[str]) -> list[str]:
    """Return the keys of objects, each a text, that are no declared column; not those of objects inside them.

    >>> lines = pl.Series(['{"K": 1, "a": {"b": "x: \\\\"c\\\\": 2"}}', '{"k": 2, "d": [{"e": 1}]}'])
    >>> undeclared_keys(lines, ["k"])
    ['a', 'd']
    """
    own = {name.casefold() for name in declared}
    outline = pl.col("line").str.replace_all(_VALUE, '"').alias("outline")
    rows = pl.DataFrame([lines.drop_nulls().alias("line")]).select("line", outline)
    if rows.get_column("outline").str.contains("[", literal=True).any():
        rows = rows.with_columns(pl.col("outline").str.replace_all(_ARRAY, "[]"))
    chosen = rows.unique("outline", keep="first", maintain_order=True).head(_MOST_OUTLINES)
    keys: dict[str, None] = {}
    for line in chosen.get_column("line"):
        keys.update(dict.fromkeys(_keys(line)))
    left_out = (key[:_LONGEST] for key in keys if key.strip() and key.casefold() not in own)
    return list(dict.fromkeys(left_out))[:MOST_REPORTED]


def _keys(line: str) -> Iterable[str]:
    """Return the keys of an object; none where options of Spark allow what is no JSON."""
    try:
        found = json.loads(line, strict=False)
    except (ValueError, RecursionError):
        return ()
    return found if isinstance(found, dict) else ()
