"""Writes notes about resources into repositories, for readers of a repository: news at once, and regularly a sign of a
running operator."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from offsite.model.clock import Clock
from offsite.model.errors import OffsiteError
from offsite.operator.decide.wanted import Place
from offsite.operator.world.look import Eyes
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.declared.told import DeclaredTold, put_told

TOLD_MS = 60_000
"""Time between two equal notes."""
KEPT_MS = 600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Saying:
    """Of one resource. `conditions`: (type, message); `member`: what names it among those that share a backup."""

    kind: str
    name: str
    conditions: Sequence[tuple[str, str]]
    facts: Mapping[str, str] = field(default_factory=dict)
    member: str = ""


@dataclass(slots=True, kw_only=True)
class Telling:
    """Writes notes. Notes are hints: a note that cannot be written is skipped."""

    clock: Clock
    _said: dict[tuple[str, Place, str], tuple[Saying, int]] = field(default_factory=dict)

    def tell(self, eyes: Eyes, uid: str, place: Place, saying: Saying) -> None:
        before, now_ms = self._said.get((uid, place, saying.member)), self.clock.now_ms()
        if before is not None and before[0] == saying and 0 <= now_ms - before[1] < TOLD_MS:
            return
        told = DeclaredTold(
            name=saying.name,
            kind=saying.kind,
            at_ms=now_ms,
            by=eyes.identity.text,
            conditions=tuple(saying.conditions),
            facts=tuple(saying.facts.items()),
        )
        with suppress(OffsiteError):
            put_told(eyes.open_store(place), DeclaredLayout(uid=uid), told, member=saying.member)
            self._said[uid, place, saying.member] = (saying, now_ms)

    def keep_only(self, uids: Collection[str]) -> None:
        """Forget deleted resources after a while: until then `forget` may be called."""
        since_ms = self.clock.now_ms() - KEPT_MS
        self._said = {key: said for key, said in self._said.items() if key[0] in uids or said[1] > since_ms}

    def forget(self, eyes: Eyes, uid: str) -> None:
        """Delete the notes of a deleted resource that left nothing else in repositories."""
        for key in [each for each in self._said if each[0] == uid]:
            with suppress(OffsiteError):
                eyes.open_store(key[1]).delete(DeclaredLayout(uid=uid).told_key(key[2]))
            del self._said[key]
