"""Small objects beside the commits. A commit names the keys and hashes, and nobody can slip in foreign objects."""

from __future__ import annotations

from collections.abc import Callable

from offsite.model.ids import random_id
from offsite.repository.commit import SnapshotRef
from offsite.repository.segments.body import content_hash
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
