"""Small objects beside the commits. A commit names the keys and hashes, and nobody can slip in foreign objects.

The settings of a cluster are such an object, stored again only when they change. The cut is another (see `commit_cut`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from offsite.model.cluster_settings import ClusterSettings
from offsite.model.errors import DamagedObject
from offsite.model.ids import random_id
from offsite.repository.commit import SnapshotRef
from offsite.repository.json_form import StoredForm
from offsite.repository.layout import BackupLayout
from offsite.repository.segments.body import content_hash
from offsite.repository.state import BackupState
from offsite.stores.store import Store


def put_named(store: Store, data: bytes, *, recorded: SnapshotRef | None, key: Callable[[str], str]) -> SnapshotRef:
    """Store `data` for a commit to name. If `recorded` names equal data, `recorded` is returned. `key` makes the key of
    an attempt.

    A crash afterwards leaves an object that no commit names. Old unnamed objects are swept.
    """
    digest = content_hash(data)
    if recorded is not None and recorded.hash == digest:
        return recorded
    ref = SnapshotRef(key=key(random_id()), hash=digest)
    store.put_if_absent(ref.key, data)
    return ref


def get_named(store: Store, ref: SnapshotRef, *, damaged: Callable[[str], Exception]) -> bytes:
    """The bytes named by a commit. If the bytes are missing or differ from their hash, raises the error made by
    `damaged`."""
    data = store.get(ref.key)
    if data is None or content_hash(data) != ref.hash:
        raise damaged(f"{ref.key} {'is missing' if data is None else 'does not have its recorded hash'}")
    return data


def _damaged(message: str) -> DamagedObject:
    return DamagedObject(message, hint="restore without it (--metadata none), or from another commit (--commit)")


CLUSTER_SETTINGS = StoredForm(ClusterSettings, damaged=_damaged)
"""An unreadable part is null."""


def put_cluster_snapshot(store: Store, base: BackupState, settings: ClusterSettings) -> SnapshotRef:
    """Store `settings` for the commit after `base`. If `base` has equal settings, its snapshot is returned."""
    key = partial(BackupLayout(backup=base.backup).metadata_key, base.seq + 1)
    return put_named(store, CLUSTER_SETTINGS.encode(settings), recorded=base.metadata, key=key)


def get_cluster_snapshot(store: Store, ref: SnapshotRef) -> ClusterSettings:
    """The cluster settings in a snapshot. Raises `DamagedObject` if the snapshot is missing or differs from its hash,
    `FormatTooNew`."""
    return CLUSTER_SETTINGS.decode(get_named(store, ref, damaged=_damaged), key=ref.key)
