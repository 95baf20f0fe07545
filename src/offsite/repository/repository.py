"""A repository: a place in a store that holds backups. Made once by `init`, then opened."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice

from offsite.model.errors import (
    BackupExists,
    BackupNotFound,
    DamagedObject,
    OverwritingStore,
    RepositoryExists,
    RepositoryNotFound,
    StoreDenied,
    StoreUnavailable,
)
from offsite.model.ids import random_id, random_uuid
from offsite.model.journal import warned
from offsite.model.named import named
from offsite.model.selections.selection import TopicSelection
from offsite.model.untrusted.names import check_backup_name
from offsite.model.version import __version__
from offsite.repository.backup import Backup, OnDamage, tell_journal
from offsite.repository.descriptor import (
    BackupDescriptor,
    RepositoryDescriptor,
    decode_backup,
    decode_repository,
    encode_backup,
    encode_repository,
)
from offsite.repository.generations.removal import free_name
from offsite.repository.json_form import FORMAT, encode_object
from offsite.repository.layout import (
    BACKUPS_PREFIX,
    PROBE_KEY,
    ROOT_KEY,
    BackupLayout,
    folders_below,
    is_own_key,
    own,
    parse_commit_key,
)
from offsite.repository.replaced import NOTHING_COLLECTED
from offsite.repository.restores.elsewhere import repositories_above
from offsite.stores.store import PutResult, Store

_AROUND_MAX = 10_000
"""Names outside of backups that are looked at for strangers: ten requests to an object store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A place in a store that holds backups. `on_damage` is told what is wrong with a backup that can be used all the
    same. `records_at`: where records of restores lie, where that is elsewhere."""

    store: Store
    descriptor: RepositoryDescriptor
    on_damage: OnDamage = tell_journal
    records_at: Store | None = None

    @classmethod
    def init(cls, store: Store, *, repository_id: str | None = None) -> Repository:
        """Make a new repository. Raises `RepositoryExists` when there is one, or it would lie in one, `DamagedObject`
        where backups are that lost theirs: under a new id no machine would know them. `OverwritingStore` when the store
        does not keep create-only puts apart. Nothing is changed then."""
        if (above := next(repositories_above(store), None)) is not None:
            raise RepositoryExists(
                f"{store.url} lies in {above.url}, which is a repository already",
                hint="choose a place beside that one: what lies in a repository goes with it",
            )
        store.prepare()
        if store.head(ROOT_KEY) is not None:
            raise _exists(store)
        if (lost := _lost_root(store)) is not None:
            raise lost
        check_create_only(store)
        descriptor = RepositoryDescriptor(
            repository_id=repository_id or random_uuid(), created_at_ms=store.now_ms(), created_by=__version__
        )
        if store.put_if_absent(ROOT_KEY, encode_repository(descriptor)) is PutResult.OTHER:
            raise _exists(store)
        return cls(store=store, descriptor=descriptor)

    @property
    def record_store(self) -> Store:
        """Where records of restores lie."""
        return self.store if self.records_at is None else self.records_at

    @classmethod
    def open(cls, store: Store, *, on_damage: OnDamage = tell_journal, records_at: Store | None = None) -> Repository:
        """The repository at `store`. Raises `RepositoryNotFound`, `FormatTooNew`, `DamagedObject`, also where its own
        object is gone and backups are there."""
        data = store.get(ROOT_KEY)
        if data is None:
            hint = f"make one: offsite init {store.url}"
            with suppress(StoreUnavailable, StoreDenied):  # there is no such folder, or nobody may list it
                if (above := next(repositories_above(store), None)) is not None:
                    hint = f"it lies in a repository, which is {above.url}: name that one"
                elif (lost := _lost_root(store)) is not None:
                    raise lost
            raise RepositoryNotFound(f"there is no repository at {store.url}", hint=hint)
        return cls(
            store=store,
            descriptor=decode_repository(data, key=ROOT_KEY),
            on_damage=on_damage,
            records_at=records_at,
        )

    def backups(self) -> tuple[str, ...]:
        """The names of its backups, sorted; also of one that lost its `backup.json`, which `backup` refuses to open."""
        layouts = sorted(backup_folders(self.store), key=lambda layout: layout.backup)
        return tuple(layout.backup for layout in layouts if self._is_there(layout))

    def create_backup(  # noqa: PLR0913  # all by keyword but the name
        self,
        name: str,
        *,
        cluster_id: str,
        selection: TopicSelection,
        options: tuple[tuple[str, str], ...] = (),
        fidelity: tuple[str, ...] = (),
        declared_by: str = "",
    ) -> Backup:
        """Make backup `name`, or open it when it is there with the same source, selection and options, and for an agent
        as a backup of its resource.

        Every run of a backup comes by here, so this is where a store is checked that the repository was moved to.
        Raises `BackupExists` when it is there with others, or was removed lately, `BadName`, `OverwritingStore`.
        """
        descriptor = BackupDescriptor(
            name=check_backup_name(name),
            cluster_id=cluster_id,
            selection=selection,
            created_at_ms=self.store.now_ms(),
            options=tuple(sorted(options)),
            fidelity=fidelity,
            declared_by=declared_by,
        )
        self._check_store()
        layout = BackupLayout(backup=name)
        if not free_name(self.store, layout):
            raise _removed_lately(layout)
        self._note_uncollected(layout)
        result = self.store.put_if_absent(layout.descriptor_key, encode_backup(descriptor))
        if result is PutResult.OTHER:
            return self._same_or_refused(descriptor)
        marks = (layout.removed_key, layout.removing_key)
        if result is PutResult.CREATED and any(self.store.head(key) is not None for key in marks):
            self.store.delete(layout.descriptor_key)  # it was being removed meanwhile: ours is nobody's yet
            raise _removed_lately(layout)
        return Backup(store=self.store, descriptor=descriptor, on_damage=self.on_damage)

    def backup(self, name: str) -> Backup:
        """The backup of that name. Raises `BackupNotFound`, `BadName`, `FormatTooNew`, `DamagedObject`; where records
        lie elsewhere, as `Backup.keeping_records`."""
        layout = BackupLayout(backup=name)
        key = layout.descriptor_key
        data = self.store.get(key)
        if data is None and self._is_there(layout):
            raise DamagedObject(
                f"{key} is missing, commits of the backup are there",
                hint="bring it back from the store's versions or from a copy: it names the source and the topics",
            )
        if data is None:
            known = ", ".join(self.backups()) or "none"
            raise BackupNotFound(f"no backup {name!r} in {self.store.url} (there: {known})", hint="see: offsite list")
        backup = Backup(store=self.store, descriptor=self._descriptor(name, data), on_damage=self.on_damage)
        return backup if self.records_at is None else backup.keeping_records(self.records_at)

    def _descriptor(self, name: str, data: bytes) -> BackupDescriptor:
        key = BackupLayout(backup=name).descriptor_key
        found = decode_backup(data, key=key)
        if found.name != name:
            raise DamagedObject(f"{key} is the description of a backup {found.name!r}")
        return found

    def _is_there(self, layout: BackupLayout) -> bool:
        try:
            if self.store.head(layout.descriptor_key) is not None:
                return True
            if any(self.store.head(key) is not None for key in (layout.removed_key, layout.removing_key)):
                return False
        except (DamagedObject, StoreDenied):  # a pipe or a link in its place, or nobody may look: `backup` says so
            return True
        return next(own(self.store.list(layout.commits_prefix)), None) is not None

    def _check_store(self) -> None:
        try:
            check_create_only(self.store)
        except StoreDenied as error:  # rights that were given before there was such a check
            warned("unchecked", why=error.message, store=self.store.url)

    def _note_uncollected(self, layout: BackupLayout) -> None:
        """See to it that what says how far collections came is there before the backup is: who may create objects, and
        not overwrite them, can say nothing of that. Raises `BackupExists` where somebody has, and this may not either.
        """
        key = layout.collected_key
        if self.store.put_if_absent(key, NOTHING_COLLECTED) is not PutResult.OTHER:
            return
        if self.store.head(layout.descriptor_key) is not None:
            return
        warned("planted", key=key, why="it was there before its backup")
        try:
            self.store.put_overwrite(key, NOTHING_COLLECTED)
        except StoreDenied as error:
            why = f"{key} is there, and backup {layout.backup} is not: somebody else put it there"
            raise BackupExists(why, hint="delete that object, or choose another name") from error

    def _same_or_refused(self, wanted: BackupDescriptor) -> Backup:
        found = self.backup(wanted.name)
        here = found.descriptor
        if wanted.declared_by and here.declared_by not in {None, wanted.declared_by}:
            raise BackupExists(
                f"backup {wanted.name} was not begun by the resource with uid {wanted.declared_by}",
                hint="choose another path, or a timestamp format",
            )
        if replace(here, created_at_ms=wanted.created_at_ms, declared_by=wanted.declared_by) != wanted:
            raise BackupExists(
                f"backup {wanted.name} exists for cluster {found.descriptor.cluster_id}"
                f" with topics {', '.join(found.descriptor.selection.include)}",
                hint="run it with the same cluster and topics, or choose another name",
            )
        return found


def strangers_in(store: Store, backup: str, *, most: int | None = None) -> Iterator[str]:
    """The keys of what others put into the folder of a backup, among the first `most` names there."""
    prefix = BackupLayout(backup=backup).prefix
    listed = (info.key for info in islice(store.list(prefix), most))
    return (key for key in listed if key.startswith(prefix) and not is_own_key(key))


def strangers_around(store: Store) -> Iterator[str]:
    """The keys of what others put into the repository, but into no backup's folder, among the first names there.
    Not the marker of its own folder, whose key is empty."""
    prefixes = {layout.prefix for layout in backup_folders(store)}
    return (key for key in islice(_keys_outside(store, prefixes), _AROUND_MAX) if key and not is_own_key(key))


def strangers_told(keys: Sequence[str]) -> str:
    """One line about them, and what to do."""
    return f"passed over, for offsite gives no such names: {named(keys, most=5)}; take away what nobody needs"


def _keys_outside(store: Store, prefixes: Collection[str]) -> Iterator[str]:
    past: str | None = ""
    while past is not None:
        start_after, past = past, None
        for info in store.list("", start_after=start_after):
            prefix = "/".join((*info.key.split("/")[:2], ""))
            if prefix in prefixes and info.key.startswith(prefix):  # a marker `backups/a/` is listed without its slash
                past = f"{prefix[:-1]}0"  # after everything in it: `0` follows `/`
                break
            yield info.key


def backup_folders(store: Store) -> Iterator[BackupLayout]:
    """All below `backups/` that hold an object of ours, in the order of keys."""
    return (BackupLayout(backup=name) for name in folders_below(store, BACKUPS_PREFIX))


def _lost_root(store: Store) -> DamagedObject | None:
    """The error where backups are there, and the object is gone that makes the place a repository."""
    keys = (info.key for info in own(store.list(BACKUPS_PREFIX)))
    first = next((key for key in keys if parse_commit_key(key) is not None or key.endswith("/backup.json")), None)
    if first is None:  # nothing, or a place for records alone
        return None
    return DamagedObject(
        f"{ROOT_KEY} is gone from {store.url}, backups are there ({first})",
        hint="bring it back from the store's versions, from a copy, or as how-to/s3.md says; nothing else is lost",
    )


def _exists(store: Store) -> RepositoryExists:
    return RepositoryExists(f"{store.url} is a repository already", hint="go on with: offsite backup run")


def check_create_only(store: Store) -> None:
    """Check the promise that everything else stands on: a create-only put never overwrites.

    Some stores that speak S3 take `If-None-Match: *` and ignore it. There the second of two writers would replace a
    commit of the first, and a name that was ever used would lose what it held. So `probes/create-only` is put with new
    content: the store refuses, if it is there from an earlier check; else it is put once more.

    The object stays, a word with its digest, so that later checks need one put and nothing has to be deleted. Two
    writers at once do not disturb each other. Raises `OverwritingStore`, and what the store raises.
    """
    for _ in range(2):
        content = encode_object({"format": FORMAT, "word": random_id(16)})
        if store.put_if_absent(PROBE_KEY, content) is PutResult.OTHER:
            return
    raise OverwritingStore(
        f"{store.url} takes create-only puts (If-None-Match: *) and overwrites all the same: commits would be lost",
        hint="use a store that honours them, such as a newer version of this one, or a folder; nothing was changed",
    )


def _removed_lately(layout: BackupLayout) -> BackupExists:
    return BackupExists(
        f"a backup {layout.backup} was removed lately ({layout.removed_key} is there): what comes back of it would be "
        "taken for the new one",
        hint="choose another name: this one is free 30 days after the removal, when nothing is left there",
    )
