"""Turns among namespaces with a shared scarce resource: the namespace served longest ago comes first. Hence of two
waiting namespaces neither is served twice before the other, at any number of requests. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

Item = TypeVar("Item")

WISH_S = 60.0
"""A namespace that has not asked for so long no longer waits: a waiting namespace asks in every round."""


@dataclass(frozen=True, slots=True)
class Turns:
    """`owners`: owners that were served, the last one at the end."""

    owners: tuple[str, ...] = ()

    def after(self, owner: str) -> Turns:
        """Return the turns after `owner` was served."""
        return Turns((*(name for name in self.owners if name != owner), owner))

    def ordered(self, items: Iterable[Item], owner_of: Callable[[Item], str]) -> tuple[Item, ...]:
        """Interleave the items of owners. Items of an owner keep their order."""
        by_owner: dict[str, list[Item]] = {}
        for item in items:
            by_owner.setdefault(owner_of(item), []).append(item)
        places = [
            (number, self.rank(owner), item) for owner, mine in by_owner.items() for number, item in enumerate(mine)
        ]
        return tuple(item for _, _, item in sorted(places, key=lambda place: place[:2]))

    def rank(self, owner: str) -> int:
        """Lower is sooner. An owner that was never served comes before all served owners."""
        return self.owners.index(owner) if owner in self.owners else -1


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingList:
    """Owners with single requests. `waiting`: owner, and time of the last refusal."""

    turns: Turns = Turns()
    waiting: tuple[tuple[str, float], ...] = ()

    def is_turn(self, owner: str, *, now_s: float) -> bool:
        """Whether no waiting owner was served longer ago."""
        mine = self.turns.rank(owner)
        return all(self.turns.rank(other) >= mine for other, at_s in self.waiting if now_s - at_s < WISH_S)

    def add(self, owner: str, *, now_s: float) -> WaitingList:
        """Return the list after `owner` asked and was refused."""
        return replace(self, waiting=(*self._others(owner, now_s), (owner, now_s)))

    def serve(self, owner: str, *, now_s: float) -> WaitingList:
        return WaitingList(turns=self.turns.after(owner), waiting=self._others(owner, now_s))

    def _others(self, owner: str, now_s: float) -> tuple[tuple[str, float], ...]:
        """Return the other owners that still wait."""
        return tuple((name, at_s) for name, at_s in self.waiting if name != owner and now_s - at_s < WISH_S)


LOOK_S = 0.01
"""Minimum time counted for every round: if no owner takes long, owners come one after the other."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of the time of a single worker: the owner with the least used time comes next. `used_s`: used time of
    every owner above the least one."""

    used_s: Mapping[str, float] = field(default_factory=dict)

    def among(self, owners: Collection[str]) -> Shares:
        """Return the shares among `owners`. A formerly lone owner owes nothing for the time alone, and an absent owner
        has saved nothing."""
        least_s = min((self._of(owner) for owner in owners), default=0.0)
        beyond_least_s = {owner: used_s - least_s for owner, used_s in self.used_s.items()}
        return Shares({owner: used_s for owner, used_s in beyond_least_s.items() if used_s > 0})

    def least(self, owners: Iterable[str]) -> str:
        return min(owners, key=self._of)

    def after(self, owner: str, took_s: float) -> Shares:
        return Shares({**self.used_s, owner: self._of(owner) + max(took_s, LOOK_S)})

    def _of(self, owner: str) -> float:
        return self.used_s.get(owner, 0.0)
