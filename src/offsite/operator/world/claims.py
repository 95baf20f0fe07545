"""Slots and tags, which resources claim over all operators of a home. Both are logs in the shared store of the home,
and belong to a resource, not to a process: a dead operator holds nothing, and the next operator continues."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated

from offsite.model.bounds import MAX_COMMIT_TIME_MS
from offsite.model.ids import random_id
from offsite.model.untrusted.json_codec import Count, First, Form, Inline, Key, integer_within
from offsite.model.untrusted.json_object import JsonObject
from offsite.operator.decide.backup import SlotAvailability
from offsite.operator.decide.desired import RepositoryPlace
from offsite.repository.json_form import StoredForm
from offsite.stores.numbered_log import EntryRefusedError, Ledger, LedgerForm
from offsite.stores.store import Store

SLOTS_PREFIX = "operator/slots/"
SLOTS_OF_NAMESPACES_PREFIX = "operator/slots-of/"
_TRIES = 20
"""Other operators may be faster so often: then the slot is left to the next round."""
_LIMIT = Form(lambda document, name: document.count(name) if document.text("kind") == "took" else 0)
_UNREAD = Form(lambda _document, _name: "")
"""A random value makes an entry unique; no reader needs it."""
TAGS_PREFIX = "operator/restore-tags/"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotsState:
    """The state after entry `seq`: the uids that hold a slot."""

    seq: int = 0
    head: str = ""
    holders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotEntry:
    """One entry: `uid` took a slot of `limit`, or gave the slot back. `word`: random value."""

    seq: Count
    previous: str
    kind: Annotated[str, First(JsonObject.text)]
    uid: str
    limit: Annotated[int, _LIMIT]
    word: Annotated[str, _UNREAD] = ""


_SLOT_ENTRY = StoredForm(SlotEntry)


class Slots:
    """The slots of a home, or of a `namespace` of the home. `limit`: number of slots, as set for this operator.

    Slots limit the backups in their initial copy at a time. In Kubernetes every namespace has its own slots: a backup
    that copies for ever blocks no other namespace.
    """

    def __init__(self, store: Store, *, limit: int, namespace: str = "") -> None:
        prefix = f"{SLOTS_OF_NAMESPACES_PREFIX}{namespace}/" if namespace else SLOTS_PREFIX
        hint = f"delete all objects in {prefix}: then all slots are free"
        self._ledger = Ledger(store=store, prefix=prefix, form=_SLOTS_FORM, first=SlotsState(), hint=hint)
        self._limit, self._state = limit, SlotsState()

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
        self._state = self._ledger.read_again(self._state if self._state.seq else None)
        return self._state

    def _append(self, now: SlotsState, kind: str, uid: str) -> None:
        entry = SlotEntry(seq=now.seq + 1, previous=now.head, kind=kind, uid=uid, limit=self._limit, word=random_id(16))
        self._ledger.append(entry, to=now)


def _apply_slot(now: SlotsState, entry: SlotEntry, head: str) -> SlotsState:
    holders, uid = now.holders, entry.uid
    fits = {"took": uid not in holders and len(holders) < entry.limit, "gave": uid in holders}
    if (entry.seq, entry.previous) != (now.seq + 1, now.head) or not fits.get(entry.kind, False):
        raise EntryRefusedError(f"entry {entry.seq} does not follow entry {now.seq}")
    left = (*holders, uid) if entry.kind == "took" else tuple(holder for holder in holders if holder != uid)
    return SlotsState(seq=entry.seq, head=head, holders=left)


_SLOTS_FORM = LedgerForm(encode=_SLOT_ENTRY.encode, decode=_SLOT_ENTRY.decode, apply=_apply_slot)


@dataclass(frozen=True, slots=True, kw_only=True)
class TagHolder:
    """The restore that has a tag, the place of its log, and the time of taking (clock of the home). `name`: for
    people."""

    uid: str
    place: Inline[RepositoryPlace]
    since_ms: Annotated[int, Key("at_ms"), integer_within(0, MAX_COMMIT_TIME_MS)]
    name: Annotated[str, Form(lambda document, name: document.optional_text(name) or "")] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TagState:
    seq: int = 0
    head: str = ""
    holder: TagHolder | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TagEntry:
    """One entry: `holder` took the tag; a holder without a uid: the tag was released. `word`: random value."""

    holder: Inline[TagHolder]
    seq: Count
    previous: str
    word: Annotated[str, _UNREAD] = ""


_TAG_ENTRY = StoredForm(TagEntry)


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
        self._states[tag] = self._ledger(tag).read_again(self._states.get(tag))
        return self._states[tag]

    def _ledger(self, tag: TagName) -> Ledger[TagEntry, TagState]:
        return Ledger(store=self._store, prefix=tag.prefix, form=_TAG_FORM, first=TagState())

    def _append(self, tag: TagName, now: TagState, uid: str, place: RepositoryPlace, name: str = "") -> bool:
        holder = TagHolder(uid=uid, place=place, since_ms=self._store.now_ms(), name=name)
        entry = TagEntry(seq=now.seq + 1, previous=now.head, holder=holder, word=random_id(16))
        return self._ledger(tag).append(entry, to=now) is not None


def _apply_tag(now: TagState, entry: TagEntry, head: str) -> TagState:
    if (entry.seq, entry.previous) != (now.seq + 1, now.head):
        raise EntryRefusedError(f"entry {entry.seq} does not follow entry {now.seq}")
    return TagState(seq=entry.seq, head=head, holder=entry.holder if entry.holder.uid else None)


_TAG_FORM = LedgerForm(encode=_TAG_ENTRY.encode, decode=_TAG_ENTRY.decode, apply=_apply_tag)
