"""σ_p(Tagged DELETE WHEN d) is Tagged DELETE WHEN d OR NOT p OR p IS NULL (paper 5, section 6).

A row that the filter drops still replaces the previous row of its key: it deletes it. It is neither
kept nor emitted.
"""

from __future__ import annotations

from dataclasses import replace

from everview.algebra import nodes as N
from everview.algebra.expressions import Expression, IsNull, Not, Or, conjunction, conjuncts
from everview.rewrite.conditions import filter_plan, open_tagged_stream, tells_equal_rows_apart


def fold_filter_into_tagged(node: N.Node) -> N.Node | None:
    """Let the rows of a tagged stream delete their key where the filter above it drops them."""
    found = open_tagged_stream(node) if isinstance(node, N.Filter) else None
    if found is None:
        return None
    tagged, condition, name = found
    parts = conjuncts(condition)
    folded = [p for p in parts if not tells_equal_rows_apart(p)]
    if not folded:
        return None
    kept = conjunction(folded)
    deletes: Expression = Or(Not(kept), IsNull(kept))
    if tagged.delete_when is not None:
        deletes = Or(Or(tagged.delete_when, Not(kept)), IsNull(kept))
    better = filter_plan(
        replace(tagged, delete_when=deletes), [p for p in parts if tells_equal_rows_apart(p)]
    )
    return better if name is None else N.Alias(better, name)
