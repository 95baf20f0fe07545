"""The contents of a schema registry beside the commits: one object, stored again only when they change. A commit names
its key and hash."""

from __future__ import annotations

from functools import partial

from offsite.model.errors import DamagedObject
from offsite.model.schema_registry import RegistrySnapshot
from offsite.repository.commit import SnapshotRef
from offsite.repository.json_form import StoredForm
from offsite.repository.layout import BackupLayout, parse_snapshot_key
from offsite.repository.snapshots.named_object import get_named, put_named
from offsite.repository.state import BackupState
from offsite.stores.store import Store


def _damaged(message: str) -> DamagedObject:
    return DamagedObject(message, hint="the records of the backup are not affected; use another commit (--commit)")


REGISTRY = StoredForm(RegistrySnapshot, damaged=_damaged)


def put_registry_snapshot(
    store: Store, layout: BackupLayout, seq: int, snapshot: RegistrySnapshot, *, recorded: SnapshotRef | None
) -> SnapshotRef:
    """Store `snapshot` for commit `seq` to name. If `recorded` names equal contents, it is returned."""
    return put_named(store, REGISTRY.encode(snapshot), recorded=recorded, key=partial(layout.registry_key, seq))


def get_registry_snapshot(store: Store, ref: SnapshotRef) -> RegistrySnapshot:
    """The contents that a commit names. Raises `DamagedObject` if they are missing or differ from their hash,
    `FormatTooNew`."""
    return REGISTRY.decode(get_named(store, ref, damaged=_damaged), key=ref.key)


def registry_commit(state: BackupState) -> int:
    """The commit that stored the newest registry; 0 without one."""
    return 0 if state.registry is None else parse_snapshot_key(state.registry.key) or 0
