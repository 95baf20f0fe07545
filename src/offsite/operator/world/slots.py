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
from offsite.operator.decide.backup import Slot
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.stores.numbered_log import NumberedLog, hash_of
from offsite.stores.store import Store

PREFIX = "operator/slots/"
PREFIX_OF_NAMESPACES = "operator/slots-of/"
_TRIES = 20
"""Other operators may be faster so often: then the slot is left to the next round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotsHeld:
    """The state after entry `seq`: the uids that hold a slot."""

    seq: int = 0
    head: str = ""
    held: tuple[str, ...] = ()


class Slots:
    """The slots of a home, or of a `namespace` of the home. `limit`: number of slots, as set for this operator."""

    def __init__(self, store: Store, *, limit: int, namespace: str = "") -> None:
        self._store, self._limit = store, limit
        self._prefix = f"{PREFIX_OF_NAMESPACES}{namespace}/" if namespace else PREFIX
        self._known = SlotsHeld()

    def of(self, uid: str) -> Slot:
        """Return whether the slot of `uid` is held, free or taken. Raises `DamagedObject`, and the errors of the store,
        like all methods."""
        held = self._read().held
        if uid in held:
            return Slot.HELD
        return Slot.FREE if len(held) < self._limit else Slot.TAKEN

    def held(self) -> tuple[str, ...]:
        """Return the uids that hold a slot."""
        return self._read().held

    def take(self, uid: str) -> bool:
        """Take a slot; return whether `uid` holds a slot now."""
        for _ in range(_TRIES):
            now = self._read()
            if uid in now.held:
                return True
            if len(now.held) >= self._limit:
                return False
            self._append(now, "took", uid)
        return False

    def give(self, uid: str) -> None:
        for _ in range(_TRIES):
            now = self._read()
            if uid not in now.held:
                return
            self._append(now, "gave", uid)

    def keep_only(self, uids: Collection[str]) -> None:
        """Free the slots of deleted resources."""
        for uid in self._read().held:
            if uid not in uids:
                self.give(uid)

    def _read(self) -> SlotsHeld:
        self._known = self._log.read(self._known, is_first=self._known.seq == 0)
        return self._known

    def _append(self, now: SlotsHeld, kind: str, uid: str) -> None:
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
    def _log(self) -> NumberedLog[SlotsHeld]:
        return NumberedLog(store=self._store, prefix=self._prefix, after=_after)


def _after(now: SlotsHeld, data: bytes, key: str) -> SlotsHeld:
    item = parse_json_object(data, source=key, damaged=DamagedObject)
    kind, uid = item.text("kind"), item.text("uid")
    follows = (item.count("seq"), item.text("previous")) == (now.seq + 1, now.head)
    fits = {"took": uid not in now.held and len(now.held) < item.count("limit"), "gave": uid in now.held}
    if not follows or not fits.get(kind, False):
        raise DamagedObject(f"{key} does not follow what is before it", hint="all slots are free once these are gone")
    held = (*now.held, uid) if kind == "took" else tuple(each for each in now.held if each != uid)
    return replace(now, seq=now.seq + 1, head=hash_of(data), held=held)
