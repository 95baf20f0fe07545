"""Slots and tags, which resources claim over all operators of a home. Both are logs in the shared store of the home,
and belong to a resource, not to a process: a dead operator holds nothing, and the next operator continues."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass, replace

from offsite.model.bounds import MAX_COMMIT_TIME_MS
from offsite.model.errors import DamagedObject
from offsite.model.ids import random_id
from offsite.model.untrusted.json_object import JsonValue
from offsite.operator.decide.backup import SlotAvailability
from offsite.operator.decide.desired import RepositoryPlace
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.stores.numbered_log import NumberedLog, hash_of
from offsite.stores.store import Store

SLOTS_PREFIX = "operator/slots/"
SLOTS_OF_NAMESPACES_PREFIX = "operator/slots-of/"
_TRIES = 20
"""Other operators may be faster so often: then the slot is left to the next round."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotsState:
    """The state after entry `seq`: the uids that hold a slot."""

    seq: int = 0
    head: str = ""
    holders: tuple[str, ...] = ()


class Slots:
    """The slots of a home, or of a `namespace` of the home. `limit`: number of slots, as set for this operator.

    Slots limit the backups in their initial copy at a time. In Kubernetes every namespace has its own slots: a backup
    that copies for ever blocks no other namespace.
    """

    def __init__(self, store: Store, *, limit: int, namespace: str = "") -> None:
        self._store, self._limit = store, limit
        self._prefix = f"{SLOTS_OF_NAMESPACES_PREFIX}{namespace}/" if namespace else SLOTS_PREFIX
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
        return NumberedLog(store=self._store, prefix=self._prefix, after=_slots_after)


def _slots_after(now: SlotsState, data: bytes, key: str) -> SlotsState:
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


TAGS_PREFIX = "operator/restore-tags/"


@dataclass(frozen=True, slots=True, kw_only=True)
class TagHolder:
    """The restore that has a tag, the place of its log, and the time of taking (clock of the home). `name`: for
    people."""

    uid: str
    place: RepositoryPlace
    since_ms: int
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TagState:
    seq: int = 0
    head: str = ""
    holder: TagHolder | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TagName:
    """One tag in one cluster, by the names of both. `namespace`: namespace of the restore; empty: no namespaces."""

    cluster: str
    tag: str
    namespace: str = ""

    @property
    def prefix(self) -> str:
        """The prefix of the log of the tag."""
        names = filter(None, (self.namespace, self.cluster, self.tag))
        digest = hashlib.sha256("\n".join(names).encode()).hexdigest()
        return f"{TAGS_PREFIX}{digest}/"


class Tags:
    """The tags of a home.

    One restore of a tag (in Kubernetes: of a namespace) runs in a cluster at a time. Cluster names belong to a home,
    and two restores of one tag may come from two repositories. The tag is taken before the first attempt, and released
    when the restore is over in its log. A lease would run out in the middle: only the process of a long restore gives
    signs of life, and the process does not know the tag. Two operators cannot both pass: entry numbers are create-only,
    and an operator takes the tag for a second restore only after reading in the log of the first restore that the first
    is over; no entry follows the end. The fencing number of that log counts: an operator that slept since it held the
    tag decides no attempt of a restore that is over.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._states: dict[TagName, TagState] = {}

    def now_ms(self) -> int:
        """The time, by the clock of the home's store."""
        return self._store.now_ms()

    def holder(self, tag: TagName) -> TagHolder | None:
        """Return the holder. Raises `DamagedObject`, and the errors of the store, like all methods."""
        return self._read(tag).holder

    def take(self, tag: TagName, uid: str, place: RepositoryPlace, *, name: str = "") -> bool:
        """Take the tag; return whether the restore has the tag now."""
        now = self._read(tag)
        if now.holder is not None:
            return now.holder.uid == uid
        return self._append(tag, now, uid, place, name)

    def give(self, tag: TagName, uid: str) -> None:
        """Release the tag of that restore, unless another process already did."""
        now = self._read(tag)
        if now.holder is not None and now.holder.uid == uid:
            self._append(tag, now, "", now.holder.place)

    def _read(self, tag: TagName) -> TagState:
        cached = self._states.get(tag)
        self._states[tag] = self._log(tag).read(cached or TagState(), is_first=cached is None)
        return self._states[tag]

    def _log(self, tag: TagName) -> NumberedLog[TagState]:
        return NumberedLog(store=self._store, prefix=tag.prefix, after=_tags_after)

    def _append(self, tag: TagName, now: TagState, uid: str, place: RepositoryPlace, name: str = "") -> bool:
        entry: dict[str, JsonValue] = {
            "format": FORMAT,
            "seq": now.seq + 1,
            "previous": now.head,
            "uid": uid,
            "name": name,
            "account": place.account,
            "repository": place.repository,
            "at_ms": self._store.now_ms(),
            "word": random_id(16),
        }
        return self._log(tag).append(encode_object(entry), to=now)


def _tags_after(state: TagState, data: bytes, key: str) -> TagState:
    document = parse_json_object(data, source=key, damaged=DamagedObject)
    if (document.count("seq"), document.text("previous")) != (state.seq + 1, state.head):
        raise DamagedObject(f"{key} does not follow entry {state.seq}")
    holder = TagHolder(
        uid=document.text("uid"),
        place=RepositoryPlace(account=document.text("account"), repository=document.text("repository")),
        since_ms=document.integer("at_ms", least=0, most=MAX_COMMIT_TIME_MS),
        name=document.optional_text("name") or "",
    )
    return replace(state, seq=state.seq + 1, head=hash_of(data), holder=holder if holder.uid else None)
