"""What this installation wrote into repositories itself: the hash of each name with its bytes, noted before the write.

Whoever may create objects in a repository can put some that look like ours. Where what an object says is acted on with
other rights than his, only our own count. Where nothing can be remembered, none do.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from offsite.model.journal import noted
from offsite.services.heads import memory_folder
from offsite.stores.store import Store


def note_written(store: Store, key: str, data: bytes) -> None:
    """This installation writes `data` under `key`. To be called before the write, so that no crash lies between."""
    try:
        path = _path(store, key, data)
        for folder in reversed(path.parents[:3]):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
    except (OSError, RuntimeError) as error:
        noted("no_memory", what="what was written", why=error)


def is_written_here(store: Store, key: str) -> bool:
    """Whether what lies under `key` now, if anything, is what this installation wrote there. Raises what the store
    raises."""
    data = store.get(key)
    try:
        return data is not None and _path(store, key, data).exists()
    except (OSError, RuntimeError) as error:
        noted("no_memory", what="what was written", why=error)
        return False


def _path(store: Store, key: str, data: bytes) -> Path:
    """Raises `RuntimeError` where there is no home."""
    return memory_folder("written", store.url) / hashlib.sha256(key.encode() + b"\0" + data).hexdigest()[:32]
