"""The record of a change to the groups of a cluster, so that the change can be undone.

Below `group-changes/<change>/`, each written once: `before.parquet`, the committed offsets at the places about to be
changed (a group snapshot; offset -1: none); then `change.json`, and only afterwards the cluster may be touched;
`undoing.json` before anything is put back, and `undone.json` after all was put back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from offsite.log.group_offsets import GroupOnTopic, GroupTable
from offsite.model.errors import DamagedObject, FormatTooNew
from offsite.model.untrusted.json_codec import Spare
from offsite.repository.json_form import FORMAT, StoredForm, encode_object
from offsite.repository.layout import BackupLayout, own_objects
from offsite.repository.segments.body import content_hash
from offsite.repository.snapshots.group_snapshot import decode_groups, encode_groups
from offsite.stores.store import PutResult, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChange:
    """A change of committed offsets. `restore` is empty for a change without a restore; `commit`: the restore point of
    the new offsets. `untold`: share groups and topics of the target where brokers told a partition without a position,
    as they do where they cannot read one."""

    change: str
    cluster_id: str
    restore: str
    commit: int
    created_at_ms: int
    before_hash: str = ""
    untold: Spare[tuple[GroupOnTopic, ...]] = ()


_CHANGE = StoredForm(GroupChange)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadableChange:
    """A change, not known to be undone, with an unreadable record."""

    change: str
    error: DamagedObject | FormatTooNew


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChangeLayout:
    """The keys of one change."""

    backup: BackupLayout
    change: str

    @property
    def before_key(self) -> str:
        return f"{self._prefix}before.parquet"

    @property
    def record_key(self) -> str:
        return f"{self._prefix}change.json"

    @property
    def undoing_key(self) -> str:
        return f"{self._prefix}undoing.json"

    @property
    def undone_key(self) -> str:
        return f"{self._prefix}undone.json"

    @property
    def _prefix(self) -> str:
        return self.backup.group_change_prefix(self.change)


def put_group_change(
    store: Store,
    backup: BackupLayout,
    change: GroupChange,
    before: GroupTable,
    *,
    on_record: Callable[[str, bytes], None] = lambda _key, _data: None,
) -> None:
    """Record the change. `on_record` receives the record before it is written. Raises `DamagedObject` if a foreign
    object has taken its place."""
    layout = GroupChangeLayout(backup=backup, change=change.change)
    stored = encode_groups(before)
    _put_new(store, layout.before_key, stored)
    data = _CHANGE.encode(replace(change, before_hash=content_hash(stored)))
    on_record(layout.record_key, data)
    _put_new(store, layout.record_key, data)


def _put_new(store: Store, key: str, data: bytes) -> None:
    if store.put_if_absent(key, data) is PutResult.OTHER:
        raise DamagedObject(f"{key} exists with other bytes", hint="run the same command again")


def get_before(store: Store, backup: BackupLayout, change: GroupChange) -> GroupTable:
    """The offsets before the change. Raises `DamagedObject`."""
    key = GroupChangeLayout(backup=backup, change=change.change).before_key
    data = store.get(key)
    if data is None or content_hash(data) != change.before_hash:
        raise DamagedObject(f"{key} {'is missing' if data is None else 'does not have its recorded hash'}")
    return decode_groups(data, key=key)


def put_undoing(store: Store, backup: BackupLayout, change: GroupChange) -> None:
    """Record that the change is being undone. If the record cannot be written, nothing may be put back."""
    _put_mark(store, GroupChangeLayout(backup=backup, change=change.change).undoing_key, change)


def put_undone(store: Store, backup: BackupLayout, change: GroupChange) -> None:
    _put_mark(store, GroupChangeLayout(backup=backup, change=change.change).undone_key, change)


def _put_mark(store: Store, key: str, change: GroupChange) -> None:
    store.put_if_absent(key, encode_object({"format": FORMAT, "change": change.change}))


def try_open_changes(
    store: Store, backup: BackupLayout, *, undone_in: Sequence[Store] = ()
) -> Iterator[GroupChange | UnreadableChange]:
    """Changes recorded in `store` and not undone, by name. `undone_in`: other stores that may hold the record of the
    undoing."""
    prefix = backup.group_changes_prefix
    for name in sorted({info.key.removeprefix(prefix).split("/")[0] for info in own_objects(store.list(prefix))}):
        try:
            change = open_change(store, backup, name, undone_in=undone_in)
        except (DamagedObject, FormatTooNew) as error:
            yield UnreadableChange(change=name, error=error)
        else:
            if change is not None:
                yield change


def open_change(
    store: Store, backup: BackupLayout, name: str, *, undone_in: Sequence[Store] = ()
) -> GroupChange | None:
    """The change of that name; None if none exists or it was undone. Raises `DamagedObject`, `FormatTooNew`."""
    layout = GroupChangeLayout(backup=backup, change=name)
    data = store.get(layout.record_key)
    if data is None or any(place.head(layout.undone_key) is not None for place in (store, *undone_in)):
        return None
    change = _CHANGE.decode(data, key=layout.record_key)
    return change if change.change == name else None  # the record may name another change
