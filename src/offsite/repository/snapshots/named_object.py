"""Small objects beside the commits, which name their keys and the hashes of their bytes: nobody can slip in others."""

from __future__ import annotations

from collections.abc import Callable

from offsite.model.ids import random_id
from offsite.repository.commit import SnapshotRef
from offsite.repository.segments.body import content_hash
from offsite.stores.store import Store


def put_named(store: Store, data: bytes, *, known: SnapshotRef | None, key: Callable[[str], str]) -> SnapshotRef:
    """Store `data` for a commit to name, unless it is what `known` names: then that is returned. `key` makes the key of
    an attempt.

    A crash after it leaves an object that no commit names, which is swept by age.
    """
    digest = content_hash(data)
    if known is not None and known.hash == digest:
        return known
    ref = SnapshotRef(key=key(random_id()), hash=digest)
    store.put_if_absent(ref.key, data)
    return ref


def get_named(store: Store, ref: SnapshotRef, *, damaged: Callable[[str], Exception]) -> bytes:
    """The bytes that a commit names. Raises what `damaged` makes of the reason where they are missing or others."""
    data = store.get(ref.key)
    if data is None or content_hash(data) != ref.hash:
        raise damaged(f"{ref.key} {'is missing' if data is None else 'does not have its recorded hash'}")
    return data
