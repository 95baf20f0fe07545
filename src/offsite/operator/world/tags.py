"""Tags of restores: one restore of a tag runs at a time in a cluster, whoever operates.

Kept in the store of the home, for the names of clusters are a home's, and two restores of one tag may come out of two
repositories. A tag belongs to a resource, not to a process: it is taken before the first attempt, and given when the
restore is over in its log. A lease would run out in the middle, for nobody gives signs of life for a restore of hours
but its own process, and that knows of no tag.

Two operators cannot both pass: numbers of entries are create-only, and who takes the tag for a second restore has read
in the log of the first one, where nothing follows its end, that it is over. The fencing number of that log is the one
that counts: an operator that slept since it saw the tag as its own decides no attempt of a restore that is over.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from offsite.model.errors import DamagedObject
from offsite.model.ids import random_id
from offsite.model.untrusted.bounds import MAX_COMMIT_TIME_MS
from offsite.model.untrusted.json_object import JsonValue
from offsite.operator.decide.wanted import Place
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.stores.numbered_log import NumberedLog, hash_of
from offsite.stores.store import Store

PREFIX = "operator/restore-tags/"


@dataclass(frozen=True, slots=True, kw_only=True)
class TagHolder:
    """The restore that has a tag, where its log is, and since when (the home's clock)."""

    uid: str
    place: Place
    since_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TagState:
    seq: int = 0
    head: str = ""
    holder: TagHolder | None = None


class RestoreTag:
    """One tag in one cluster."""

    def __init__(self, store: Store, *, cluster: str, tag: str) -> None:
        self._store = store
        name = hashlib.sha256(f"{cluster}\n{tag}".encode()).hexdigest()
        self._log = NumberedLog(store=store, prefix=f"{PREFIX}{name}/", after=_after)

    def holder(self) -> TagHolder | None:
        """Raises `DamagedObject`, and what the store raises, as all of these."""
        return self._read().holder

    def take(self, uid: str, place: Place) -> bool:
        """Whether the restore has the tag now."""
        now = self._read()
        if now.holder is not None:
            return now.holder.uid == uid
        return self._append(now, uid, place)

    def give(self, uid: str) -> None:
        """Let go what that restore holds; whoever is faster has done it."""
        now = self._read()
        if now.holder is not None and now.holder.uid == uid:
            self._append(now, "", now.holder.place)

    def _read(self) -> TagState:
        return self._log.read(TagState(), is_first=True)

    def _append(self, now: TagState, uid: str, place: Place) -> bool:
        entry: dict[str, JsonValue] = {
            "format": FORMAT,
            "seq": now.seq + 1,
            "previous": now.head,
            "uid": uid,
            "account": place.account,
            "repository": place.repository,
            "at_ms": self._store.now_ms(),
            "word": random_id(16),
        }
        return self._log.append(encode_object(entry), to=now)


def _after(state: TagState, data: bytes, key: str) -> TagState:
    item = parse_json_object(data, source=key, damaged=DamagedObject)
    if (item.count("seq"), item.text("previous")) != (state.seq + 1, state.head):
        raise DamagedObject(f"{key} does not follow entry {state.seq}")
    holder = TagHolder(
        uid=item.text("uid"),
        place=Place(account=item.text("account"), repository=item.text("repository")),
        since_ms=item.integer("at_ms", least=0, most=MAX_COMMIT_TIME_MS),
    )
    return replace(state, seq=state.seq + 1, head=hash_of(data), holder=holder if holder.uid else None)
