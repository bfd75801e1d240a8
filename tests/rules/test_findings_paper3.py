"""What is printed in paper 3 and does not hold, each with its smallest counterexample.

A docstring says what is printed, what is true, and what Everview does. docs/findings.md tells the same in
prose. Formulas are worked out in plain Python over small integers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product

import pytest

INSTANTS = range(-4, 8)
OPERATORS = {
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, "=": lambda a, b: a == b,
    ">=": lambda a, b: a >= b, ">": lambda a, b: a > b, "!=": lambda a, b: a != b,
}  # fmt: skip
PRINTED = {"<": ">", "<=": ">=", "=": "!=", ">=": "<=", ">": "<", "!=": "="}
NEGATED = {"<": ">=", "<=": ">", "=": "!=", ">=": "<", ">": "<=", "!=": "="}

Bounds = Mapping[tuple[str, str], float]  # (v, w) → c: v ≤ w + c


@pytest.mark.parametrize("operator", OPERATORS)
def test_neg4_negates_less_as_greater(operator: str) -> None:
    """Printed: ¬(t1 op t2 + c) ⇔ t1 op⁻¹ t2 + c with <⁻¹ = >, ≤⁻¹ = ≥ (5.1).
    True: ¬(t1 < t2) is t1 ≥ t2.
    Everview: the negation of a comparison.
    """
    holds = OPERATORS[operator]
    pairs = list(product(INSTANTS, INSTANTS))
    assert all((not holds(a, b)) == OPERATORS[NEGATED[operator]](a, b) for a, b in pairs)
    wrong = [(a, b) for a, b in pairs if (not holds(a, b)) != OPERATORS[PRINTED[operator]](a, b)]
    assert bool(wrong) == (operator not in ("=", "!="))
    assert all(a == b for a, b in wrong)


def test_neg4_emits_too_early() -> None:
    """A row a at 5 waits for all x with NOT (x > a): those up to 5. As printed it waits for those below 5."""
    a = 5
    needed = [x for x in INSTANTS if not x > a]
    printed = [x for x in INSTANTS if OPERATORS[PRINTED[">"]](x, a)]
    assert (max(needed), max(printed)) == (5, 4)


def distance(w: str, v: str, bounds: Bounds) -> float:
    """dist(w, v) = min{c | v ≤ w + c}, by the formula of definition 21; there is no bound without one."""
    return bounds.get((v, w), math.inf)


def test_what_does_not_matter_is_at_a_distance_of_minus_infinity() -> None:
    """Printed: ξ2(v) ≤ p1 + ∞ in definitions 9 and 10, so that one side need not care about the other.
    True: v ≤ p + ∞ says nothing at all (rule Inf), so v would have no bound; v ≤ p - ∞ is what is meant.
    Everview: each side requires what is needed for its own rows only. Perhaps our copy.
    """
    # A stream bound needs a finite distance for every timestamp: definition 22 asks c < +∞.
    assert not distance("p", "v", {("v", "p"): math.inf}) < math.inf
    assert distance("p", "v", {("v", "p"): -math.inf}) < math.inf


def test_the_words_of_definition_21_turn_the_distance_round() -> None:
    """Printed: "the maximum that the second is smaller than the first"; dist(w, v) = min{c | v ≤ w + c}.
    True: the formula is the most by which the second, v, is larger than the first, w.
    Everview: the formula, as definition 24 uses it.
    """
    w, largest = 10, 13  # known: v ≤ w + 3
    least_c = min(c for c in range(-9, 9) if all(v <= w + c for v in range(w - 5, largest + 1)))
    assert least_c == largest - w == 3


def test_the_proof_of_proposition_14_turns_arguments_and_sign() -> None:
    """Printed: v ≤ p + dist(v, p) and s_ij = s - dist(v, p).
    True: by definition 21 v ≤ p + dist(p, v), so for p ≤ s all v ≤ s + dist(p, v) are needed.
    Everview: the definition.
    """
    rows = [(p, v) for p in INSTANTS for v in INSTANTS if v <= p + 3]
    from_p_to_v = max(v - p for p, v in rows)
    s = 2
    needed = max(v for p, v in rows if p <= s)
    assert needed == s + from_p_to_v == 5
    assert needed > s - from_p_to_v


def test_rule_top_and_rule_trans() -> None:
    """Printed: G ∧ ⊤ ⇔ G ∨ ⊤ ⇔ ⊤, and u ≤ v + c ∧ v ≤ w + d ⇒ u ≤ w ± (c + d).
    True: G ∧ ⊤ ⇔ G, and u ≤ w + (c + d). Perhaps our copy.
    Everview: these.
    """
    assert [(g and True) for g in (True, False)] == [True, False]  # not ⊤ for both
    u, v, w, c, d = 5, 3, 1, 2, 2
    assert u <= v + c
    assert v <= w + d
    assert u <= w + (c + d)
    assert not u <= w - (c + d)


def test_an_aggregated_time_does_not_bound_a_group() -> None:
    """Printed: grouping passes G and H on (definition 7); `last = MAX(ts)` with ts ≤ last is not forbidden.
    True: then {last} would be a stream bound, but a group is not final when its last row so far is known.
    Everview: only grouping columns bound.
    """

    def answer(rows: list[tuple[int, int]], s: int) -> set[tuple[int, int]]:
        groups = {k: max(ts for key, ts in rows if key == k) for k, _ in rows}
        return {(k, last) for k, last in groups.items() if last <= s}

    whole = [(1, 5), (1, 9)]
    known = [row for row in whole if row[1] <= 6]
    assert answer(known, 6) == {(1, 5)}
    assert answer(whole, 6) == set()


def test_less_in_discrete_time() -> None:
    """Printed: < is ≤ with c - ε, and (c - ε) + (d - ε) = (c + d) - ε (footnote 16).
    True: so it is in dense time. In discrete time two steps down are two.
    Everview: < is ≤ with one microsecond less, which is tighter and exact.
    """
    chains = [(u, v, w) for u, v, w in product(INSTANTS, repeat=3) if u < v < w]
    assert max(u - w for u, _, w in chains) == -2


def test_rows_that_are_equal_count_as_often_as_they_are() -> None:
    """Printed: relations are sets of tuples (definition 1), and NULL does not occur.
    True: SQL's relations are bags, and a timestamp may be NULL.
    Everview: copies count, DISTINCT is an operator of its own; a comparison with NULL is never true.
    """
    rows = [(1, 5), (1, 5)]
    assert (len(set(rows)), len(rows)) == (1, 2)
