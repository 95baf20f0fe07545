"""Slots of the throttle: a limit on backups in their initial copy at a time, over all operators. In Kubernetes every
namespace has its own slots: a backup that copies for ever blocks no other namespace.

The slots are a log in the shared store of the home: slots taken and returned. A slot belongs to a resource, not to a
process: a dead operator holds nothing, and the next operator continues with the same slots.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from offsite.model.errors import DamagedObject
from offsite.model.ids import random_id
from offsite.model.untrusted.json_object import JsonValue
from offsite.operator.decide.backup import SlotAvailability
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.stores.numbered_log import NumberedLog, hash_of
from offsite.stores.store import Store

PREFIX = "operator/slots/"
PREFIX_OF_NAMESPACES = "operator/slots-of/"
_TRIES = 20
"""Other operators may be faster so often: then the slot is left to the next round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotsState:
    """The state after entry `seq`: the uids that hold a slot."""

    seq: int = 0
    head: str = ""
    holders: tuple[str, ...] = ()


class Slots:
    """The slots of a home, or of a `namespace` of the home. `limit`: number of slots, as set for this operator."""

    def __init__(self, store: Store, *, limit: int, namespace: str = "") -> None:
        self._store, self._limit = store, limit
        self._prefix = f"{PREFIX_OF_NAMESPACES}{namespace}/" if namespace else PREFIX
        self._state = SlotsState()

    def availability(self, uid: str) -> SlotAvailability:
        """Return whether the slot of `uid` is held, free or taken. Raises `DamagedObject`, and the errors of the store,
        like all methods."""
        holders = self._read().holders
        if uid in holders:
            return SlotAvailability.HELD
        return SlotAvailability.FREE if len(holders) < self._limit else SlotAvailability.TAKEN

    def holders(self) -> tuple[str, ...]:
        """Return the uids that hold a slot."""
        return self._read().holders

    def take(self, uid: str) -> bool:
        """Take a slot; return whether `uid` holds a slot now."""
        for _ in range(_TRIES):
            now = self._read()
            if uid in now.holders:
                return True
            if len(now.holders) >= self._limit:
                return False
            self._append(now, "took", uid)
        return False

    def give(self, uid: str) -> None:
        for _ in range(_TRIES):
            now = self._read()
            if uid not in now.holders:
                return
            self._append(now, "gave", uid)

    def keep_only(self, uids: Collection[str]) -> None:
        """Free the slots of deleted resources."""
        for uid in self._read().holders:
            if uid not in uids:
                self.give(uid)

    def _read(self) -> SlotsState:
        self._state = self._log.read(self._state, is_first=self._state.seq == 0)
        return self._state

    def _append(self, now: SlotsState, kind: str, uid: str) -> None:
        entry: dict[str, JsonValue] = {
            "format": FORMAT,
            "seq": now.seq + 1,
            "previous": now.head,
            "kind": kind,
            "uid": uid,
            "limit": self._limit,
            "word": random_id(16),
        }
        self._log.append(encode_object(entry), to=now)

    @property
    def _log(self) -> NumberedLog[SlotsState]:
        return NumberedLog(store=self._store, prefix=self._prefix, after=_after)


def _after(now: SlotsState, data: bytes, key: str) -> SlotsState:
    document = parse_json_object(data, source=key, damaged=DamagedObject)
    kind, uid = document.text("kind"), document.text("uid")
    follows = (document.count("seq"), document.text("previous")) == (now.seq + 1, now.head)
    fits = {"took": uid not in now.holders and len(now.holders) < document.count("limit"), "gave": uid in now.holders}
    if not follows or not fits.get(kind, False):
        raise DamagedObject(
            f"{key} does not follow the entry before it",
            hint=f"delete all objects in {key.rpartition('/')[0]}/: then all slots are free",
        )
    holders = (*now.holders, uid) if kind == "took" else tuple(holder for holder in now.holders if holder != uid)
    return replace(now, seq=now.seq + 1, head=hash_of(data), holders=holders)
