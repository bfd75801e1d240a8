"""Queries answered from views: titled pairs, cases that must not match, random pairs under the reference."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from everview.algebra import nodes as N
from everview.algebra.explain import explain
from everview.reference.meaning import meaning
from everview.rewrite import rewrite
from everview.rewrite.answer_from_view import Comparing, PeeledView, answer_from_view
from everview.sql import plan_of
from tests.rewrite.random_pairs import random_pair
from tests.seeds import seeds
from tests.sql.oracle import DOMAIN, catalog, random_inputs

FIXTURE = Path(__file__).parent / "fixtures" / "answer_from_view.sql.txt"
KNOWN = catalog()


@dataclass(frozen=True)
class AnswerCase:
    """A case of the fixture: a view, a query, and the query over the view, or what the view lacks."""

    title: str
    view: str
    query: str
    after: str

    @classmethod
    def parse(cls, text: str) -> AnswerCase:
        head, _, after = text.partition("\n----\n")
        title, view, query = head.split("\n", 2)
        return cls(title, view.removeprefix("-- view: "), query.strip(), after.strip())

    def __str__(self) -> str:
        return f"-- title: {self.title}\n-- view: {self.view}\n{self.query}\n----\n{self.after}\n"


CASES = [AnswerCase.parse(text) for text in FIXTURE.read_text().split("-- title: ")[1:]]


def answered(view: str, query: str) -> tuple[N.Node, N.Node | None, Comparing]:
    """The query, the query over the view if it contains it, and what it lacks."""
    plan, comparing = plan_of(query, KNOWN), Comparing()
    found = answer_from_view(plan, "v", PeeledView.of(plan_of(view, KNOWN)), comparing)
    return plan, found, comparing


def outcome(case: AnswerCase) -> str:
    _, found, comparing = answered(case.view, case.query)
    if found is not None:
        return explain(_without_definition(found))
    lack = comparing.lacks.get("v")
    return "not answered" if lack is None else f"not answered: it lacks {lack.what}"


def _without_definition(node: N.Node) -> N.Node:
    """A plan in which the view that was found is shown as a relation."""
    if isinstance(node, N.View) and node.name == "v":
        return N.Table("v", node.definition.schema)
    below = [_without_definition(i) for i in node.inputs]
    return N.with_inputs(node, below) if below else node


def test_fixture(regenerate: bool) -> None:
    for case in CASES:
        assert regenerate or outcome(case) == case.after, case.title
        refused = outcome(case).startswith("not answered")
        assert refused == case.title.startswith("no: "), case.title
    if regenerate:
        FIXTURE.write_text("\n".join(str(replace(case, after=outcome(case))) for case in CASES))


def check(plan: N.Node, found: N.Node, seed: int) -> None:
    """Before and after mean the same at every instant, also when the rules have rewritten it."""
    assert found.schema == plan.schema
    inputs = random_inputs(random.Random(seed))
    expected = meaning(plan, inputs, DOMAIN)
    assert meaning(found, inputs, DOMAIN) == expected
    assert meaning(rewrite(found).plan, inputs, DOMAIN) == expected


@pytest.mark.parametrize("case", [c for c in CASES if not c.title.startswith("no: ")], ids=lambda c: c.title)
def test_before_is_after(case: AnswerCase) -> None:
    plan, found, _ = answered(case.view, case.query)
    assert found is not None
    for seed in range(4):
        check(plan, found, seed)


@pytest.mark.slow
def test_random_pairs() -> None:
    """Of a thousand pairs in `make fuzz`, all that match mean the same; most do match."""
    matched = 0
    for seed in (numbers := seeds(200, 1000)):
        plan, found, _ = answered(*random_pair(seed))
        if found is not None:
            matched += 1
            check(plan, found, seed)
    assert matched > len(numbers) / 2
