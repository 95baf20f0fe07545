"""A log of decisions: dense numbers, create-only objects, every entry with the hash of the previous entry.

The creator of number n+1 has decided. Of several processes that read entry n and try the same key, the store lets one
through. The rest have decided nothing, read on, and think again. The key is the fence: a process suspended for a month,
and awake again before an append, finds the number taken. No entry of such a log is ever deleted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from offsite.model.errors import DamagedObject
from offsite.stores.store import PutResult, Store

HINT = (
    "restore the object from the store's versions or from a copy; until then nothing is decided and nothing is removed"
)


class NumberedState(Protocol):
    """A state behind entry `seq`."""

    @property
    def seq(self) -> int: ...


StateT = TypeVar("StateT", bound=NumberedState)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntryInfo:
    """The record of one entry: hash of the bytes, author and time (epoch ms) as told by the entry."""

    hash: str
    by: str
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedLog(Generic[StateT]):
    """Entries below `prefix`; entry n is at `prefix` + 20 digits + `.json`. `after` returns the state behind an entry,
    from the entry's bytes and key. `after` raises `DamagedObject` for an entry that may not follow, and
    `FormatTooNew`."""

    store: Store
    prefix: str
    after: Callable[[StateT, bytes, str], StateT]

    def key(self, seq: int) -> str:
        return f"{self.prefix}{seq:020d}.json"

    def read(self, state: StateT, *, is_first: bool) -> StateT:
        """Return the newest state, read on from `state`. `is_first`: nobody has read up to `state` before, so the
        method looks for a gap. Raises `DamagedObject` for a missing entry, and the errors of `after`."""
        while (data := self.store.get(self.key(state.seq + 1))) is not None:
            state = self.after(state, data, self.key(state.seq + 1))
        if is_first:
            self._check_end(state)
        return state

    def append(self, data: bytes, *, to: StateT) -> bool:
        """Append an entry. Returns False when another process was first. Raises the store's errors: after
        `PutOutcomeUnknown` a further read shows the outcome."""
        # equal bytes are our own, after a lost answer: entries hold a random word
        return self.store.put_if_absent(self.key(to.seq + 1), data) is not PutResult.OTHER

    def _check_end(self, state: StateT) -> None:
        """Check that no entry lies behind a missing entry: a writer before the gap would decide twice."""
        for info in self.store.list(self.prefix, start_after=self.key(state.seq)):
            if info.key != self.key(_number(info.key.removeprefix(self.prefix))):
                continue  # a stranger's file is no entry, and hides none
            # an entry appended meanwhile is not behind a gap
            if self.store.head(self.key(state.seq + 1)) is None:
                raise DamagedObject(f"{self.key(state.seq + 1)} is missing, but {info.key} exists", hint=HINT)
            return


def hash_of(data: bytes) -> str:
    """Return the SHA-256 of the stored bytes, hexadecimal: the `previous` of the next entry."""
    return hashlib.sha256(data).hexdigest()


def _number(name: str) -> int:
    digits = name.removesuffix(".json")
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) == 20 else -1
