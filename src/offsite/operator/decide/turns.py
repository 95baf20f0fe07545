"""Whose turn it is where namespaces share what only a few can have at once: who was served longest ago comes first. So
of two that wait none gets it twice while the other one has it not, however much either of them asks for. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
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
        return replace(self, waiting=(*self._others(owner, now_s), (owner, now_s)))

    def served(self, owner: str, *, now_s: float) -> Wishes:
        return Wishes(turns=self.turns.after(owner), waiting=self._others(owner, now_s))

    def _others(self, owner: str, now_s: float) -> tuple[tuple[str, float], ...]:
        """Who else waits still."""
        return tuple((name, at_s) for name, at_s in self.waiting if name != owner and now_s - at_s < WISH_S)


LOOK_S = 0.01
"""What each look counts at least: where nobody takes long, one comes after the other."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Of the time of one who does one thing at a time: who has used least comes next. `used_s`: of owners, beyond what
    the one used that has used least."""

    used_s: Mapping[str, float] = field(default_factory=dict)

    def among(self, owners: Collection[str]) -> Shares:
        """When these want something. Whoever was alone until now owes nothing for that, and who was away saved
        nothing."""
        least_s = min((self._of(owner) for owner in owners), default=0.0)
        left = {owner: used_s - least_s for owner, used_s in self.used_s.items()}
        return Shares({owner: used_s for owner, used_s in left.items() if used_s > 0})

    def least(self, owners: Iterable[str]) -> str:
        return min(owners, key=self._of)

    def after(self, owner: str, took_s: float) -> Shares:
        return Shares({**self.used_s, owner: self._of(owner) + max(took_s, LOOK_S)})

    def _of(self, owner: str) -> float:
        return self.used_s.get(owner, 0.0)
