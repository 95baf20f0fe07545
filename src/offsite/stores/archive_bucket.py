"""Objects below a URL as the place of a foreign archive (the port `archives.files.Files`): every object is replaced
whole, by one put.

Retries, errors and the client are those of `CloudStore`. Nothing here can append, because an object store cannot.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from offsite.log.buffer import Buffer
from offsite.model.errors import StoreDenied
from offsite.model.untrusted.whole_number import whole_number
from offsite.stores.object_store import CLOCK_KEY, CloudStore
from offsite.stores.store import ObjectInfo, archive_key, is_key

LAST_MESSAGE_MS = "last-message-ms"
"""User metadata of an object: epoch ms of the object's newest record. Further tools delete by this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveBucket:
    """Objects below a URL as the files of an archive. `store` names the place, and travels to workers with
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
        """List objects. Names impossible in an archive are left out, as in a folder."""
        return (info for info in self.store.list(prefix) if is_key(info.key))

    def get(self, key: str) -> bytes | None:
        return self.store.get(archive_key(key, self.url))

    def get_range(self, key: str, start: int, length: int) -> bytes | None:
        return self.store.get_range(archive_key(key, self.url), start, length)

    def put(self, key: str, data: Buffer, *, last_message_ms: int = -1) -> None:
        metadata = {LAST_MESSAGE_MS: str(last_message_ms)} if last_message_ms >= 0 else {}
        unsigned = memoryview(data).cast("B")  # Arrow's buffers hold signed bytes, and the client refuses them
        self.store.put_overwrite(key, unsigned, metadata=metadata)

    def replace(self, key: str, old: bytes, new: Buffer) -> bool:
        """Replace `old` by `new`. Two processes may write at a time: the store itself compares."""
        return self.store.put_if_unchanged(archive_key(key, self.url), old, memoryview(new).cast("B"))

    def last_message_ms(self, key: str) -> int | None:
        text = self.store.metadata(archive_key(key, self.url)).get(LAST_MESSAGE_MS, "")
        return whole_number(text)

    def now_ms(self) -> int:
        now_ms = self.store.now_ms()
        with suppress(StoreDenied):
            self.store.delete(CLOCK_KEY)  # an archive belongs to further tools
        return now_ms

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Do nothing: an object store has no lock that ends with the holder."""
        yield

    def delete(self, key: str) -> None:
        self.store.delete(key)
