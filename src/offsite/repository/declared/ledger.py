"""The ledger of one resource: dense numbers, create-only objects, each naming the hash of the one before.

The same fence as that of generations: of those who read entry n and try to create n+1 the store lets one. What is
here beside it: each entry carries the number of the lock under which it was decided, and the ledger takes no lower one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from offsite.model.errors import BadName, DamagedObject
from offsite.repository.declared.entry import Entry, decode_entry, decode_owner, encode_entry, encode_owner
from offsite.repository.declared.history import History, NotAllowedError, after
from offsite.repository.declared.layout import DECLARED_PREFIX, DeclaredLayout, owner_key, parse_entry_key
from offsite.stores.store import PutResult, Store

_HINT = "bring it back from the store's versions or from a copy; until then nothing is decided and nothing removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredLedger:
    store: Store
    layout: DeclaredLayout

    def read(self, history: History | None = None) -> History:
        """The newest state, read on from `history`, or from the first entry. Raises `DamagedObject` for an entry that
        is missing, unreadable, or may not follow; `FormatTooNew`."""
        is_first = history is None
        history = history or History(uid=self.layout.uid)
        while (data := self.store.get(self.layout.entry_key(history.seq + 1))) is not None:
            history = self._after(history, data)
        if is_first:
            self._check_end(history)
        return history

    def append(self, entry: Entry, *, to: History) -> History | None:
        """The state with `entry` behind `to`; None when another process was first: then read on and think again. Raises
        `NotAllowedError` for one that may not follow, and what the store raises: after `PutOutcomeUnknown` reading on
        tells."""
        data = encode_entry(entry)
        state = after(to, entry, head=_hash(data))
        is_other = self.store.put_if_absent(self.layout.entry_key(entry.seq), data) is PutResult.OTHER
        return None if is_other else state

    def _after(self, history: History, data: bytes) -> History:
        key = self.layout.entry_key(history.seq + 1)
        try:
            return after(history, decode_entry(data, key=key), head=_hash(data))
        except (NotAllowedError, BadName) as error:
            raise DamagedObject(f"{key}: {error}", hint=_HINT) from error

    def _check_end(self, history: History) -> None:
        """What lies behind a missing entry shows that it was there: to go on before it would decide twice."""
        for info in self.store.list(self.layout.ledger_prefix, start_after=self.layout.entry_key(history.seq)):
            is_gap = self.store.head(self.layout.entry_key(history.seq + 1)) is None
            if parse_entry_key(info.key) is not None and is_gap:
                raise DamagedObject(
                    f"{self.layout.entry_key(history.seq + 1)} is missing, {info.key} is there", hint=_HINT
                )
            return


def claim_name(store: Store, backup: str, uid: str) -> str:
    """Whose the name of a backup is: the uid that claimed it first, which is `uid` unless somebody else was before.
    Raises `DamagedObject`, and what the store raises."""
    key, data = owner_key(backup), encode_owner(uid)
    if store.put_if_absent(key, data) is not PutResult.OTHER:
        return uid
    return decode_owner(store.get(key) or data, key=key)


def declared_uids(store: Store) -> tuple[str, ...]:
    """The uids of the resources that have a ledger here, sorted."""
    found, past = list[str](), ""
    while info := next((each for each in store.list(DECLARED_PREFIX, start_after=past) if each.key > past), None):
        uid, slash, _ = info.key.removeprefix(DECLARED_PREFIX).partition("/")
        past = f"{DECLARED_PREFIX}{uid}0" if slash else info.key  # behind everything in it: `0` follows `/`
        try:
            DeclaredLayout(uid=uid)
        except BadName:
            continue
        found.append(uid)
    return tuple(sorted(found))


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
