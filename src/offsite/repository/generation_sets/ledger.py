"""The ledger of a set of generations. The number of the next entry fences deciders: see `numbered_log`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from offsite.model.errors import BadName, DamagedObject
from offsite.repository.generation_sets.entry import (
    GenerationEntry,
    StoredEntry,
    decode_entry,
    encode_entry,
    entry_hash,
)
from offsite.repository.generation_sets.generation_set import GenerationEntryNotAllowedError, GenerationSet, apply_entry
from offsite.repository.generation_sets.layout import SETS_PREFIX, SetLayout, parse_entry_key
from offsite.repository.layout import folders_below, own_objects
from offsite.stores.numbered_log import HINT, NumberedLog
from offsite.stores.store import Store

_FEW, _READERS = 256, 16
"""From so many entries on, entries are read in parallel: that hides the latency of an object store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    store: Store
    layout: SetLayout

    def read(self, state: GenerationSet | None = None) -> GenerationSet:
        """The newest state, read on from `state`, or from the first entry. Raises `DamagedObject` for a missing,
        unreadable or forbidden entry; `FormatTooNew`."""
        return self._log.read(self._read_many() if state is None else state, is_first=state is None)

    def append(self, entry: GenerationEntry, *, to: GenerationSet) -> GenerationSet | None:
        """The state with `entry` behind `to`; None when another process was first: read on and decide again. Raises
        `GenerationEntryNotAllowedError` for a forbidden entry, and the errors of the store: after `PutOutcomeUnknown`,
        reading on tells the outcome."""
        data = encode_entry(entry)
        state = apply_entry(to, StoredEntry(entry=entry, hash=entry_hash(data)))
        return state if self._log.append(data, to=to) else None

    @property
    def _log(self) -> NumberedLog[GenerationSet]:
        return NumberedLog(store=self.store, prefix=self.layout.ledger_prefix, after=_after)

    def _read_many(self) -> GenerationSet:
        """Read the entries shown by a listing; a few are left to be read in sequence."""
        state = GenerationSet(name=self.layout.name)
        keys = [info.key for info in own_objects(self.store.list(self.layout.ledger_prefix))]
        if len(keys) <= _FEW:
            return state
        with ThreadPoolExecutor(max_workers=_READERS, thread_name_prefix="ledger") as pool:
            for key, data in zip(keys, pool.map(self.store.get, keys), strict=True):
                if data is None or key != self.layout.entry_key(state.seq + 1):
                    break  # reported with the following entries
                state = _after(state, data, key)
        return state


def _after(state: GenerationSet, data: bytes, key: str) -> GenerationSet:
    try:
        return apply_entry(state, decode_entry(data, key=key))
    except GenerationEntryNotAllowedError as error:
        raise DamagedObject(f"{key}: {error}", hint=HINT) from error


def set_names(store: Store) -> tuple[str, ...]:
    """The names of the sets of a repository, sorted, without foreign files."""
    return tuple(sorted(name for name in folders_below(store, SETS_PREFIX) if _is_set(store, name)))


def _is_set(store: Store, name: str) -> bool:
    try:
        layout = SetLayout(name=name)
    except BadName:
        return False
    return any(parse_entry_key(info.key) is not None for info in own_objects(store.list(layout.ledger_prefix)))
