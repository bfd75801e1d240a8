"""σ_p(Tagged_k(S)) is Tagged_k(σ_p(S)) where p reads the key k only (paper 5, section 4)."""

from __future__ import annotations

from dataclasses import replace

from everview.algebra import nodes as N
from everview.algebra.expressions import Column, conjuncts
from everview.rewrite.conditions import filter_plan, open_tagged_stream, reads_key


def push_filter_below_tagged(node: N.Node) -> N.Node | None:
    """Move the conditions on the key of a tagged stream below it: the updates of other keys are not read."""
    found = open_tagged_stream(node) if isinstance(node, N.Filter) else None
    if found is None:
        return None
    tagged, condition, name = found
    key = {Column.to(tagged.input.schema.find(column)) for column in tagged.key}
    parts = conjuncts(condition)
    pushed = [p for p in parts if reads_key(p, key)]
    if not pushed:
        return None
    below = replace(tagged, input=filter_plan(tagged.input, pushed))
    better = filter_plan(below, [p for p in parts if p not in pushed])
    return better if name is None else N.Alias(better, name)
