"""The ledger of one resource, and whose the names of backups are.

Beside the fence of its numbers (see `numbered_log`), each entry carries the number of the lock under which it was
decided, and the ledger takes no lower one.
"""

from __future__ import annotations

from dataclasses import dataclass

from offsite.model.errors import BadName, DamagedObject
from offsite.repository.declared.entry import Entry, decode_entry, decode_owner, encode_entry, encode_owner
from offsite.repository.declared.history import History, NotAllowedError, after
from offsite.repository.declared.layout import DECLARED_PREFIX, DeclaredLayout, owner_key
from offsite.stores.numbered_log import HINT, NumberedLog, hash_of
from offsite.stores.store import PutResult, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredLedger:
    store: Store
    layout: DeclaredLayout

    def read(self, history: History | None = None) -> History:
        """The newest state, read on from `history`, or from the first entry. Raises `DamagedObject` for an entry that
        is missing, unreadable, or may not follow; `FormatTooNew`."""
        return self._log.read(history or History(uid=self.layout.uid), is_first=history is None)

    def append(self, entry: Entry, *, to: History) -> History | None:
        """The state with `entry` behind `to`; None when another process was first: then read on and think again. Raises
        `NotAllowedError` for one that may not follow, and what the store raises."""
        data = encode_entry(entry)
        state = after(to, entry, head=hash_of(data))
        return state if self._log.append(data, to=to) else None

    @property
    def _log(self) -> NumberedLog[History]:
        return NumberedLog(store=self.store, prefix=self.layout.ledger_prefix, after=_after)


def _after(history: History, data: bytes, key: str) -> History:
    try:
        return after(history, decode_entry(data, key=key), head=hash_of(data))
    except (NotAllowedError, BadName) as error:
        raise DamagedObject(f"{key}: {error}", hint=HINT) from error


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
