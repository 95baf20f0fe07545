"""Objects below a URL as the place of a foreign archive (the port `archives.files.Files`): replaced whole, by one put.

Retries, errors and the client itself are those of `CloudStore`. Nothing here can append: an object store cannot.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from offsite.log.buffer import Buffer
from offsite.stores.object_store import CloudStore
from offsite.stores.store import ObjectInfo, archive_key, is_key

LAST_MESSAGE_MS = "last-message-ms"
"""User metadata of an object: epoch ms of the newest record in it, by which others delete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveBucket:
    """Objects below a URL as the files of an archive. `store` says where, and travels to workers with its
    credentials."""

    store: CloudStore

    @property
    def url(self) -> str:
        return self.store.url

    @property
    def appendable(self) -> None:
        return None

    @property
    def has_lock(self) -> bool:
        return False

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Objects whose names no archive can have are left out, as those of a folder are."""
        return (info for info in self.store.list(prefix) if is_key(info.key))

    def get(self, key: str) -> bytes | None:
        return self.store.get(archive_key(key, self.url))

    def get_range(self, key: str, start: int, length: int) -> bytes | None:
        return self.store.get_range(archive_key(key, self.url), start, length)

    def put(self, key: str, data: Buffer, *, last_message_ms: int = -1) -> None:
        metadata = {LAST_MESSAGE_MS: str(last_message_ms)} if last_message_ms >= 0 else {}
        unsigned = memoryview(data).cast("B")  # Arrow's buffers are of signed bytes, which the client does not take
        self.store.put_overwrite(key, unsigned, metadata=metadata)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Does nothing: an object store has no lock that ends with its holder."""
        yield

    def delete(self, key: str) -> None:
        self.store.delete(key)
