"""Remembers the local installation's own writes into repositories: a hash of every name with its bytes, noted before
the write.

Every party that may create objects in a repository can forge objects like ours. Where the content of an object is acted
on with more rights than its writer's, only our own objects count. Without a memory, none count. The rule holds for
records of a restore, which decide the topics, offsets and final topic settings of the restore, applied with the
credentials of the cluster.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from offsite.model.errors import RestoreRefused
from offsite.model.journal import noted
from offsite.repository.heads import memory_folder
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import count_targets
from offsite.repository.restores.topic_settings import newest_aside_key
from offsite.stores.store import Store


def note_written(store: Store, key: str, data: bytes) -> None:
    """Note that the local installation writes `data` under `key`. To be called before the write, so that no crash lies
    between."""
    try:
        path = _path(store, key, data)
        for folder in reversed(path.parents[:3]):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
    except (OSError, RuntimeError) as error:
        noted("no_memory", what="what was written", why=error)


def is_written_here(store: Store, key: str) -> bool:
    """Whether the object under `key`, if any, is the object that the local installation wrote. Raises the errors of the
    store."""
    data = store.get(key)
    try:
        return data is not None and _path(store, key, data).exists()
    except (OSError, RuntimeError) as error:
        noted("no_memory", what="what was written", why=error)
        return False


def is_begun_here(store: Store, layout: RestoreLayout) -> bool:
    """Whether the local installation began the restore, or a person moved the restore to the local installation."""
    return is_written_here(store, layout.record_key)


def adopt(store: Store, layout: RestoreLayout) -> None:
    """Adopt a restore for a person: its present records count from now on."""
    targets_key = layout.targets_key(max(count_targets(store, layout), 1))
    for key in (layout.record_key, targets_key, newest_aside_key(store, layout)):
        if (data := store.get(key)) is not None:
            note_written(store, key, data)


def check_own(store: Store, layout: RestoreLayout, key: str) -> None:
    """Raise `RestoreRefused` where `key` holds an object that the local installation did not write."""
    if not is_written_here(store, key):
        raise RestoreRefused(
            f"{key} controls restore {layout.restore}, but this installation did not write it",
            hint="check the object. If no installation of yours wrote it, delete it and run the same command again. "
            f"If another installation of yours wrote it, add --resume {layout.restore}",
        )


def _path(store: Store, key: str, data: bytes) -> Path:
    """The path of the note, equal for all names of a folder. Raises `RuntimeError` where there is no home."""
    place = os.path.realpath(store.url) if store.url.startswith("/") else store.url
    return memory_folder("written", place) / hashlib.sha256(key.encode() + b"\0" + data).hexdigest()[:32]
