"""A log of decisions: dense numbers, create-only objects, every entry with the hash of the previous entry.

The creator of number n+1 has decided. Of several processes that read entry n and try the same key, the store lets one
through. The rest have decided nothing, read on, and think again. The key is the fence: a process suspended for a month,
and awake again before an append, finds the number taken. No entry of such a log is ever deleted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from offsite.model.errors import BadName, DamagedObject
from offsite.stores.store import PutResult, Store

HINT = (
    "restore the object from the store's versions or from a copy; until then nothing is decided and nothing is removed"
)
_FEW, _READERS = 256, 16
"""From so many entries on, the entries of a long ledger are read in parallel: that hides the latency of a store."""


class NumberedState(Protocol):
    """A state behind entry `seq`."""

    @property
    def seq(self) -> int: ...


StateT = TypeVar("StateT", bound=NumberedState)
EntryT = TypeVar("EntryT")


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntryInfo:
    """The record of one entry: hash of the bytes, author and time (epoch ms) as told by the entry."""

    hash: str
    by: str
    at_ms: int


class EntryRefusedError(Exception):
    """The state before an entry does not allow the entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerForm(Generic[EntryT, StateT]):
    """One kind of ledger. `encode` and `decode`: the bytes of an entry. `decode` gets the key of the object for its
    errors, and raises `DamagedObject`, `FormatTooNew`, `BadName`. `apply`: the state after an entry with the hash of
    its bytes. `apply` raises `EntryRefusedError`."""

    encode: Callable[[EntryT], bytes]
    decode: Callable[[bytes, str], EntryT]
    apply: Callable[[StateT, EntryT, str], StateT]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger(Generic[EntryT, StateT]):
    """Entries below `prefix`; entry n is at `prefix` + 20 digits + `.json`. `first`: the state before entry 1.
    `is_long`: there may be hundreds of entries. `hint`: the next step where an entry is not allowed."""

    store: Store
    prefix: str
    form: LedgerForm[EntryT, StateT]
    first: StateT
    is_long: bool = False
    hint: str = HINT

    def key(self, seq: int) -> str:
        return f"{self.prefix}{seq:020d}.json"

    def read(self, state: StateT | None = None) -> StateT:
        """Return the newest state, read on from `state`, or from the first entry: then with a look for a gap. Raises
        `DamagedObject` for an entry that is missing, unreadable, or not allowed; `FormatTooNew`; and the errors of the
        store."""
        newest = (self._read_many() if self.is_long else self.first) if state is None else state
        while (data := self.store.get(self.key(newest.seq + 1))) is not None:
            newest = self._after(newest, data)
        if state is None:
            self._check_end(newest)
        return newest

    def read_again(self, state: StateT | None) -> StateT:
        """As `read`, but from the first entry where the last entry of `state` is gone: a person may delete the entries
        of this ledger."""
        return self.read(state if state is not None and self.holds(state) else None)

    def append(self, entry: EntryT, *, to: StateT) -> StateT | None:
        """Return the state with `entry` after `to`; None if another process was first: read on and decide again. Raises
        `EntryRefusedError` for an entry that `to` does not allow, `DamagedObject` if the last entry of `to` is gone:
        its numbers would be used twice. Raises the errors of the store: after `PutOutcomeUnknown` a further read shows
        the outcome."""
        data = self.form.encode(entry)
        state = self.form.apply(to, entry, hash_of(data))
        if not self.holds(to):
            raise DamagedObject(
                f"{self.key(to.seq)} was read before and is missing now: there is an older state of the store, or "
                "another store in its place",
                hint=HINT,
            )
        # equal bytes are our own, after a lost answer: entries hold a random word
        return state if self.store.put_if_absent(self.key(to.seq + 1), data) is not PutResult.OTHER else None

    def holds(self, state: StateT) -> bool:
        """Whether the last entry of a state read before is still there. Raises the errors of the store."""
        return not state.seq or self.store.head(self.key(state.seq)) is not None

    def _after(self, state: StateT, data: bytes) -> StateT:
        key = self.key(state.seq + 1)
        try:
            return self.form.apply(state, self.form.decode(data, key), hash_of(data))
        except (EntryRefusedError, BadName) as error:
            raise DamagedObject(f"{key}: {error}", hint=self.hint) from error

    def _read_many(self) -> StateT:
        """Read the entries shown by a listing; a few are left to be read in sequence."""
        state, keys = self.first, [info.key for info in self.store.list(self.prefix) if self._is_entry(info.key)]
        if len(keys) <= _FEW:
            return state
        with ThreadPoolExecutor(max_workers=_READERS, thread_name_prefix="ledger") as pool:
            for key, data in zip(keys, pool.map(self.store.get, keys), strict=True):
                if data is None or key != self.key(state.seq + 1):
                    break  # reported with the following entries
                state = self._after(state, data)
        return state

    def _check_end(self, state: StateT) -> None:
        """Check that no entry lies behind a missing entry: a writer before the gap would decide twice."""
        for info in self.store.list(self.prefix, start_after=self.key(state.seq)):
            if not self._is_entry(info.key):
                continue  # a stranger's file is no entry, and hides none
            # an entry appended meanwhile is not behind a gap
            if self.store.head(self.key(state.seq + 1)) is None:
                raise DamagedObject(f"{self.key(state.seq + 1)} is missing, but {info.key} exists", hint=HINT)
            return

    def _is_entry(self, key: str) -> bool:
        digits = key.removeprefix(self.prefix).removesuffix(".json")
        return digits.isascii() and digits.isdecimal() and key == self.key(int(digits))


def hash_of(data: bytes) -> str:
    """Return the SHA-256 of the stored bytes, hexadecimal: the `previous` of the next entry."""
    return hashlib.sha256(data).hexdigest()
