"""Whose turn it is where namespaces share what only a few can have at once: who was served longest ago comes first. So
of two that wait none gets it twice while the other one has it not, however much either of them asks for. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

Item = TypeVar("Item")

WISH_S = 60.0
"""Who asks no more for so long does not want it any more: whoever waits asks again with each look."""


@dataclass(frozen=True, slots=True)
class Turns:
    """`owners`: that were served, the last one at the end."""

    owners: tuple[str, ...] = ()

    def after(self, owner: str) -> Turns:
        """When `owner` was served."""
        return Turns((*(name for name in self.owners if name != owner), owner))

    def ordered(self, items: Iterable[Item], owner_of: Callable[[Item], str]) -> tuple[Item, ...]:
        """One of each owner after the other. Those of one owner stay in their order."""
        by_owner: dict[str, list[Item]] = {}
        for item in items:
            by_owner.setdefault(owner_of(item), []).append(item)
        places = [
            (number, self.rank(owner), item) for owner, mine in by_owner.items() for number, item in enumerate(mine)
        ]
        return tuple(item for _, _, item in sorted(places, key=lambda place: place[:2]))

    def rank(self, owner: str) -> int:
        """Lower is sooner. Who was never served comes before all that were."""
        return self.owners.index(owner) if owner in self.owners else -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """Of those who ask by themselves, one by one. `waiting`: owner and when it was last refused."""

    turns: Turns = Turns()
    waiting: tuple[tuple[str, float], ...] = ()

    def is_turn(self, owner: str, *, now_s: float) -> bool:
        """Whether nobody waits that was served longer ago."""
        mine = self.turns.rank(owner)
        return all(self.turns.rank(other) >= mine for other, at_s in self.waiting if now_s - at_s < WISH_S)

    def asked(self, owner: str, *, now_s: float) -> Wishes:
        """When `owner` asked, and was refused."""
        others = tuple((name, at_s) for name, at_s in self.waiting if name != owner and now_s - at_s < WISH_S)
        return replace(self, waiting=(*others, (owner, now_s)))

    def served(self, owner: str, *, now_s: float) -> Wishes:
        others = tuple((name, at_s) for name, at_s in self.waiting if name != owner and now_s - at_s < WISH_S)
        return Wishes(turns=self.turns.after(owner), waiting=others)
