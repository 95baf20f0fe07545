"""A log of decisions: dense numbers, create-only objects, each naming the hash of the one before.

Who creates number n+1 has decided. Of those who read entry n and try the same key the store lets one through: the
others have decided nothing, read on, and think again. That is the fence: a process that was stopped for a month and
wakes up in front of its append finds the number taken. Nothing in such a log is ever deleted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from offsite.model.errors import DamagedObject
from offsite.stores.store import PutResult, Store

HINT = "bring it back from the store's versions or from a copy; until then nothing is decided and nothing removed"


class Numbered(Protocol):
    """A state behind entry `seq`."""

    @property
    def seq(self) -> int: ...


StateT = TypeVar("StateT", bound=Numbered)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerWord:
    """That one entry says something: the hash of its bytes, in whose name and when (epoch ms), as it says itself."""

    hash: str
    by: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedLog(Generic[StateT]):
    """Entries below `prefix`, entry n at `prefix` + 20 digits + `.json`. `after` gives the state behind an entry by its
    bytes and key; it raises `DamagedObject` for one that may not follow, and `FormatTooNew`."""

    store: Store
    prefix: str
    after: Callable[[StateT, bytes, str], StateT]

    def key(self, seq: int) -> str:
        return f"{self.prefix}{seq:020d}.json"

    def read(self, state: StateT, *, is_first: bool) -> StateT:
        """The newest state, read on from `state`. `is_first`: nobody has read to there before, so that a gap is looked
        for. Raises `DamagedObject` for an entry that is missing, and what `after` raises."""
        while (data := self.store.get(self.key(state.seq + 1))) is not None:
            state = self.after(state, data, self.key(state.seq + 1))
        if is_first:
            self._check_end(state)
        return state

    def append(self, data: bytes, *, to: StateT) -> bool:
        """Whether it is ours: False when another process was first. Raises what the store raises: after
        `PutOutcomeUnknown` reading on tells."""
        # the same bytes are our own, whose answer was lost: entries hold a random word
        return self.store.put_if_absent(self.key(to.seq + 1), data) is not PutResult.OTHER

    def _check_end(self, state: StateT) -> None:
        """What lies behind a missing entry shows that it was there: to go on before it would decide twice."""
        for info in self.store.list(self.prefix, start_after=self.key(state.seq)):
            if info.key != self.key(_number(info.key.removeprefix(self.prefix))):
                continue  # a stranger's file is no entry, and hides none
            # one that was appended since is not behind a gap
            if self.store.head(self.key(state.seq + 1)) is None:
                raise DamagedObject(f"{self.key(state.seq + 1)} is missing, {info.key} is there", hint=HINT)
            return


def hash_of(data: bytes) -> str:
    """What the next entry names as `previous`: SHA-256 of the stored bytes, hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def _number(name: str) -> int:
    digits = name.removesuffix(".json")
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) == 20 else -1
