"""The report of REPLAY."""

from __future__ import annotations

from everview.algebra.time import Chronon, instant_words
from everview.errors import format_count
from everview.operators.columnar.frame import BEFORE_ALL
from everview.query.report import Report


def admission_report(name: str, rows: int, begin: Chronon, without_effect: int, refused: int) -> Report:
    """Return what became of late or rejected rows that were taken in.

    >>> print(admission_report("s$late", 3, 0, 1, 0))
    3 rows of 's$late' count from 1970-01-01T00:00:00.000000 on; 1 of them has no effect on any view
    >>> print(admission_report("s$rejected", 0, 0, 0, 2))
    no row of 's$rejected' counts now: 2 still cannot be read, and stay
    """
    still = "still cannot be read, and stays" if refused == 1 else "still cannot be read, and stay"
    if not rows:
        what = f"no row of '{name}' counts now: "
        what += f"{refused} {still}" if refused else "there is none, or none for which the condition holds"
    else:
        verb = "counts" if rows == 1 else "count"
        since = "its own time" if begin == BEFORE_ALL + 1 else instant_words(begin)
        what = f"{format_count(rows, 'row')} of '{name}' {verb} from {since} on"
        if without_effect:
            verb = "has" if without_effect == 1 else "have"
            what += f"; {without_effect} of them {verb} no effect on any view"
        if refused:
            what += f"; {refused} {still}"
    known = None if begin == BEFORE_ALL + 1 else instant_words(begin)
    record = {"name": name, "rows": rows, "from": known, "without_effect": without_effect, "refused": refused}
    return Report(what, (record,))
