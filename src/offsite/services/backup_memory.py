"""What this machine remembers of a backup: a file for each fact, beside the remembered heads (see `heads`).

Several processes add facts at once, and none takes another one's away. Where nothing can be remembered there is
nothing: whoever asks goes on as if this machine had seen nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeVar

from offsite.model.errors import DamagedObject, OffsiteError
from offsite.model.ids import random_id
from offsite.model.journal import noted
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.backup import Backup
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.services.heads import memory_folder
from offsite.stores.store import Store

FactT = TypeVar("FactT")


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupMemory:
    """The facts of one `kind` about one backup at one place."""

    kind: ClassVar[str]
    backup: Backup

    def get(self, name: str) -> JsonObject | None:
        """The fact of that name; None where it is not known."""
        try:
            path = self.folder() / name
            return parse_json_object(path.read_bytes(), source=str(path), damaged=DamagedObject)
        except FileNotFoundError:
            return None
        except (OSError, RuntimeError, OffsiteError) as error:
            self.tell(error)
            return None

    def recall(self, name: str, read: Callable[[JsonObject], FactT]) -> FactT | None:
        """What `read` makes of the fact of that name; None too where it is no such fact."""
        item = self.get(name)
        try:
            return None if item is None else read(item)
        except OffsiteError as error:
            self.tell(error)
            return None

    def put(self, name: str, fields: dict[str, JsonValue]) -> None:
        """Remember a fact, in the place of an older one of that name."""
        try:
            path = self.folder() / name
            for folder in reversed((path.parent, *path.parent.parents[:3])):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            fresh = path.with_name(f".{name}.{random_id()}")
            fresh.touch(mode=0o600)
            fresh.write_bytes(encode_object({"format": FORMAT, **fields}))
            fresh.replace(path)
        except (OSError, RuntimeError) as error:
            self.tell(error)

    def folder(self) -> Path:
        """Raises `RuntimeError` where there is no home."""
        described = self.backup.descriptor
        place = f"{described.cluster_id} {described.created_at_ms} {self.backup.store.url}"
        return memory_folder(self.kind, place) / described.name

    def tell(self, error: Exception) -> None:
        """Write down that nothing can be remembered here."""
        noted("no_memory", what=f"{self.kind} of backup {self.backup.descriptor.name}", why=error)


def note_written(store: Store, key: str, data: bytes) -> None:
    """This installation writes `data` under `key`: to be noted before it is written, so that no crash lies between."""
    try:
        path = _written_path(store, key, data)
        for folder in reversed(path.parents[:3]):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
    except (OSError, RuntimeError) as error:
        noted("no_memory", what="what was written", why=error)


def is_written_here(store: Store, key: str) -> bool:
    """Whether what lies under `key` now, if anything, is what this installation wrote there. Raises what the store
    raises."""
    try:
        data = store.get(key)
        return data is not None and _written_path(store, key, data).exists()
    except (OSError, RuntimeError) as error:
        noted("no_memory", what="what was written", why=error)
        return False


def _written_path(store: Store, key: str, data: bytes) -> Path:
    """Raises `RuntimeError` where there is no home."""
    return memory_folder("written", store.url) / hashlib.sha256(key.encode() + b"\0" + data).hexdigest()[:32]
