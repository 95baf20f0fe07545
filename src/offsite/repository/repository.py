"""A repository: a place in a store that holds backups. Created once by `init`, then opened."""

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
from offsite.model.names import check_backup_name, named
from offsite.model.selection import TopicSelection
from offsite.model.version import __version__
from offsite.repository.backup import Backup, OnDamage, log_problem
from offsite.repository.descriptor import (
    BACKUP_FORM,
    REPOSITORY_FORM,
    BackupDescriptor,
    RepositoryDescriptor,
    repositories_above,
)
from offsite.repository.json_form import FORMAT, encode_object
from offsite.repository.layout import (
    BACKUPS_PREFIX,
    PROBE_KEY,
    ROOT_KEY,
    BackupLayout,
    folders_below,
    is_own_key,
    own_objects,
    parse_commit_key,
)
from offsite.repository.removal import is_name_free
from offsite.repository.replaced import NOTHING_COLLECTED
from offsite.stores.store import PutResult, Store

_AROUND_MAX = 10_000
"""Keys outside of backups that are checked for strangers' objects: ten requests to an object store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A place in a store that holds backups. `on_damage` receives the problems of backups that remain usable.
    `records_at`: the store for restore records, if separate."""

    store: Store
    descriptor: RepositoryDescriptor
    on_damage: OnDamage = log_problem
    records_at: Store | None = None

    @classmethod
    def init(cls, store: Store, *, repository_id: str | None = None) -> Repository:
        """Create a repository. Raises `RepositoryExists` if one exists here or in a folder above; `DamagedObject` if
        backups exist without their repository object, because machines would not recognise a new repository id;
        `OverwritingStore` if the store does not honour create-only puts. On error nothing is changed."""
        if (above := next(repositories_above(store), None)) is not None:
            raise RepositoryExists(
                f"{store.url} is inside {above.url}, which is already a repository",
                hint="choose a place outside that repository: objects inside would be deleted with it",
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
        if store.put_if_absent(ROOT_KEY, REPOSITORY_FORM.encode(descriptor)) is PutResult.OTHER:
            raise _exists(store)
        return cls(store=store, descriptor=descriptor)

    @property
    def record_store(self) -> Store:
        """The store for records of restores."""
        return self.store if self.records_at is None else self.records_at

    @classmethod
    def open(cls, store: Store, *, on_damage: OnDamage = log_problem, records_at: Store | None = None) -> Repository:
        """The repository in `store`. Raises `RepositoryNotFound`, `FormatTooNew`, and `DamagedObject`, also if the
        repository object is missing and backups exist."""
        data = store.get(ROOT_KEY)
        if data is None:
            hint = f"create one: offsite init {store.url}"
            with suppress(StoreUnavailable, StoreDenied):  # no such folder, or no right to list
                if (above := next(repositories_above(store), None)) is not None:
                    hint = f"it is inside repository {above.url}: use that address"
                elif (lost := _lost_root(store)) is not None:
                    raise lost
            raise RepositoryNotFound(f"there is no repository at {store.url}", hint=hint)
        return cls(
            store=store,
            descriptor=REPOSITORY_FORM.decode(data, key=ROOT_KEY),
            on_damage=on_damage,
            records_at=records_at,
        )

    def backups(self) -> tuple[str, ...]:
        """The names of the backups, sorted. Includes a backup without its `backup.json`, which `backup` refuses to
        open."""
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
        """Create backup `name`, or open the existing backup with the same source, selection and options; for an agent
        also of the same declared resource.

        Every run of a backup passes here, so the store is checked here in case the repository was moved. Raises
        `BackupExists` if the backup exists with different values or was removed recently, `BadName`,
        `OverwritingStore`.
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
        if not is_name_free(self.store, layout):
            raise _removed_lately(layout)
        self._note_uncollected(layout)
        result = self.store.put_if_absent(layout.descriptor_key, BACKUP_FORM.encode(descriptor))
        if result is PutResult.OTHER:
            return self._same_or_refused(descriptor)
        marks = (layout.removed_key, layout.removing_key)
        if result is PutResult.CREATED and any(self.store.head(key) is not None for key in marks):
            self.store.delete(layout.descriptor_key)  # a removal ran meanwhile: undo the creation
            raise _removed_lately(layout)
        return Backup(store=self.store, descriptor=descriptor, on_damage=self.on_damage)

    def backup(self, name: str) -> Backup:
        """The backup of that name. Raises `BackupNotFound`, `BadName`, `FormatTooNew`, `DamagedObject`; with separate
        records as `Backup.with_records_at`."""
        layout = BackupLayout(backup=name)
        key = layout.descriptor_key
        data = self.store.get(key)
        if data is None and self._is_there(layout):
            raise DamagedObject(
                f"{key} is missing, but the backup has commits",
                hint="restore the object from the store's versions or from a copy: it names the source and the topics",
            )
        if data is None:
            names = ", ".join(self.backups()) or "none"
            raise BackupNotFound(f"no backup {name!r} in {self.store.url} (there: {names})", hint="see: offsite list")
        backup = Backup(store=self.store, descriptor=self._descriptor(name, data), on_damage=self.on_damage)
        return backup if self.records_at is None else backup.with_records_at(self.records_at)

    def _descriptor(self, name: str, data: bytes) -> BackupDescriptor:
        key = BackupLayout(backup=name).descriptor_key
        descriptor = BACKUP_FORM.decode(data, key=key)
        if descriptor.name != name:
            raise DamagedObject(f"{key} describes another backup: {descriptor.name!r}")
        return descriptor

    def _is_there(self, layout: BackupLayout) -> bool:
        try:
            if self.store.head(layout.descriptor_key) is not None:
                return True
            if any(self.store.head(key) is not None for key in (layout.removed_key, layout.removing_key)):
                return False
        except (DamagedObject, StoreDenied):  # `backup` reports the irregular object
            return True
        return next(own_objects(self.store.list(layout.commits_prefix)), None) is not None

    def _check_store(self) -> None:
        try:
            check_create_only(self.store)
        except StoreDenied as error:  # rights granted before the check existed
            warned("unchecked", why=error.message, store=self.store.url)

    def _note_uncollected(self, layout: BackupLayout) -> None:
        """Write the collection hint before the backup exists. A stranger with the right to create but not to overwrite
        objects cannot forge the hint afterwards. Raises `BackupExists` if a foreign hint exists and cannot be
        overwritten."""
        key = layout.collected_key
        if self.store.put_if_absent(key, NOTHING_COLLECTED) is not PutResult.OTHER:
            return
        if self.store.head(layout.descriptor_key) is not None:
            return
        warned("planted", key=key, why="the object existed before its backup")
        try:
            self.store.put_overwrite(key, NOTHING_COLLECTED)
        except StoreDenied as error:
            why = f"{key} exists without backup {layout.backup}: somebody else wrote the object"
            raise BackupExists(why, hint="delete that object, or choose another name") from error

    def _same_or_refused(self, requested: BackupDescriptor) -> Backup:
        backup = self.backup(requested.name)
        stored = backup.descriptor
        if requested.declared_by and stored.declared_by not in {None, requested.declared_by}:
            raise BackupExists(
                f"backup {requested.name} was not created by the resource with uid {requested.declared_by}",
                hint="choose another path, or a timestamp format",
            )
        if replace(stored, created_at_ms=requested.created_at_ms, declared_by=requested.declared_by) != requested:
            raise BackupExists(
                f"backup {requested.name} exists for cluster {backup.descriptor.cluster_id}"
                f" with topics {', '.join(backup.descriptor.selection.include)}",
                hint="run the backup with the same cluster and topics, or choose another name",
            )
        return backup


def strangers_in(store: Store, backup: str, *, most: int | None = None) -> Iterator[str]:
    """The keys of foreign objects in the folder of a backup, among the first `most` keys there."""
    prefix = BackupLayout(backup=backup).prefix
    listed = (info.key for info in islice(store.list(prefix), most))
    return (key for key in listed if key.startswith(prefix) and not is_own_key(key))


def strangers_around(store: Store) -> Iterator[str]:
    """The keys of foreign objects in the repository outside of backup folders, among the first keys there. Excludes the
    marker of the repository's own folder, whose key is empty."""
    prefixes = {layout.prefix for layout in backup_folders(store)}
    return (key for key in islice(_keys_outside(store, prefixes), _AROUND_MAX) if key and not is_own_key(key))


def describe_strangers(keys: Sequence[str]) -> str:
    """One line about foreign objects, with advice."""
    return f"ignored, because offsite never uses such names: {named(keys, most=5)}; delete what nobody needs"


def _keys_outside(store: Store, prefixes: Collection[str]) -> Iterator[str]:
    past: str | None = ""
    while past is not None:
        start_after, past = past, None
        for info in store.list("", start_after=start_after):
            prefix = "/".join((*info.key.split("/")[:2], ""))
            if prefix in prefixes and info.key.startswith(prefix):  # markers are listed without the slash
                past = f"{prefix[:-1]}0"  # after the whole folder: `0` follows `/`
                break
            yield info.key


def backup_folders(store: Store) -> Iterator[BackupLayout]:
    """All folders below `backups/` with at least one object of offsite, in key order."""
    return (BackupLayout(backup=name) for name in folders_below(store, BACKUPS_PREFIX))


def _lost_root(store: Store) -> DamagedObject | None:
    """The error if backups exist and the repository object is missing."""
    keys = (info.key for info in own_objects(store.list(BACKUPS_PREFIX)))
    first = next((key for key in keys if parse_commit_key(key) is not None or key.endswith("/backup.json")), None)
    if first is None:  # empty, or a place for records alone
        return None
    return DamagedObject(
        f"{ROOT_KEY} is missing in {store.url}, but there are backups ({first})",
        hint=(
            "restore the object from the store's versions, from a copy, or as how-to/s3.md describes; nothing else "
            "is lost"
        ),
    )


def _exists(store: Store) -> RepositoryExists:
    return RepositoryExists(f"{store.url} is already a repository", hint="continue with: offsite backup run")


def check_create_only(store: Store) -> None:
    """Check the promise behind all others: a create-only put never overwrites.

    Some S3-compatible stores accept `If-None-Match: *` and ignore it. With such a store the second of two writers would
    replace a commit of the first, and a reused name would lose its content. The check puts `probes/create-only` with
    new content. The store must refuse if the object exists from an earlier check; otherwise the check puts once more.

    The object stays, a random word with its digest, so later checks need one put and no delete. Two checks at once do
    not disturb each other. Raises `OverwritingStore`, and errors of the store.
    """
    for _ in range(2):
        content = encode_object({"format": FORMAT, "word": random_id(16)})
        if store.put_if_absent(PROBE_KEY, content) is PutResult.OTHER:
            return
    raise OverwritingStore(
        f"{store.url} accepts create-only puts (If-None-Match: *) but overwrites objects anyway: commits would be lost",
        hint=(
            "use a store that supports create-only puts, such as a newer version of this store, or a folder; nothing "
            "was changed"
        ),
    )


def _removed_lately(layout: BackupLayout) -> BackupExists:
    return BackupExists(
        f"a backup {layout.backup} was removed recently ({layout.removed_key} exists): late objects of the old backup "
        "would be mixed into the new one",
        hint="choose another name: this name is free 30 days after the removal, when no objects are left",
    )
