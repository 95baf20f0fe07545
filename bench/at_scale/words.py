"""Figures as the page writes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence


def time_of(seconds: float) -> str:
    for unit, name in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= unit * (2 if unit == 86_400 else 1):
            return f"{seconds / unit:,.3g} {name}"
    return f"{seconds:.0f} s"


def count(number: float) -> str:
    for unit, name in ((10**6, " M"), (10**3, " k")):
        if number >= 10 * unit or (unit == 10**6 and number >= unit):
            return f"{number / unit:,.3g}{name}"
    return f"{number:,.0f}"


def dollars(amount: float) -> str:
    return f"${amount:,.0f}" if amount >= 10 else f"${amount:,.2f}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(_lines([head, ["---"] * len(head), *rows]))


def _lines(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    return (f"| {' | '.join(row)} |" for row in rows)
