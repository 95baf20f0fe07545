"""Finds aliases of one repository, and the account of a resource without an account.

One repository may have several spellings: through a link, with a trailing slash, with `?region=`. Two spellings are one
place only if an object written through either is readable through the other at once. A copy of a repository has the
same id, ledgers and backups, and is another place nevertheless: objects in a copy prove nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from offsite.model.errors import OffsiteError, StoreDenied
from offsite.model.ids import random_id
from offsite.model.journal import decided
from offsite.operator.decide.desired import RepositoryPlace
from offsite.operator.world.observe import Observer, observe_backup
from offsite.repository.declared.layout import DeclaredLayout
from offsite.repository.json_form import FORMAT, encode_object
from offsite.repository.repository import Repository
from offsite.stores.store import Store


@dataclass(slots=True)
class RepositoryAliases:
    """The aliases that the process has found. `_apart`: compared pairs that are two repositories."""

    _ids: dict[RepositoryPlace, str] = field(default_factory=dict, init=False)
    _apart: set[tuple[RepositoryPlace, RepositoryPlace]] = field(default_factory=set, init=False)

    def distinct(self, observer: Observer, uid: str, places: Iterable[RepositoryPlace]) -> tuple[RepositoryPlace, ...]:
        """Return `places` without aliases of a later place. A place that cannot be compared counts as another place:
        the user of the place sees the error."""
        distinct_places = list[RepositoryPlace]()
        for place in dict.fromkeys(places):
            distinct_places = [before for before in distinct_places if not self._is_same(observer, uid, before, place)]
            distinct_places.append(place)
        return tuple(distinct_places)

    def _is_same(self, observer: Observer, uid: str, place: RepositoryPlace, other: RepositoryPlace) -> bool:
        if (place, other) in self._apart:
            return False
        try:
            is_same = self._id(observer, place) == self._id(observer, other) and _is_one(
                observer.open_store(place), observer.open_store(other), DeclaredLayout(uid=uid)
            )
        except OffsiteError:
            return False
        if is_same:
            decided("same_place", why="both addresses lead to the same objects", uid=uid, instead=place)
        else:
            self._apart.add((place, other))
        return is_same

    def _id(self, observer: Observer, place: RepositoryPlace) -> str:
        if place not in self._ids:
            self._ids[place] = Repository.open(observer.open_store(place)).descriptor.repository_id
        return self._ids[place]


def prove_writable(store: Store, layout: DeclaredLayout) -> None:
    """Raises `StoreDenied` if a written object cannot be read again, and the errors of the store."""
    if not _is_one(store, store, layout):
        raise StoreDenied(
            f"an object written to {store.url} cannot be read again", hint="check the permissions of its account"
        )


def find_current_account(observer: Observer, uid: str, places: Iterable[RepositoryPlace], *, ledger: str = "") -> str:
    """Return the account in use by a resource without an account: the account of its live or last backup; empty if no
    backup ever started. Hence the order of accounts matters only for a new backup."""
    names = {place.account: place for place in places}
    if len(names) < 2:  # no choice
        return next(iter(names), "")
    observed = observe_backup(observer, uid, names.values(), ledger=ledger)
    newest = observed.live or next(reversed(observed.backups), None)
    return newest.place.account if newest is not None else ""


def _is_one(store: Store, other: Store, layout: DeclaredLayout) -> bool:
    """Whether an object written through every store is readable through the other at once. Both directions are needed:
    a replicated store shows the copy in one direction only."""
    return _reaches(store, other, layout) and (store is other or _reaches(other, store, layout))


def _reaches(store: Store, other: Store, layout: DeclaredLayout) -> bool:
    word = random_id(16)
    key, data = layout.probe_key(word), encode_object({"format": FORMAT, "word": word})
    try:
        store.put_if_absent(key, data)
        return other.get(key) == data
    finally:
        with suppress(OffsiteError):  # a leftover probe is never read
            store.delete(key)
