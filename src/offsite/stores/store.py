"""The port `Store`: offsite's requirements for a place that keeps objects.

Keys are relative to the root of the repository: `/`-separated, no empty part, no `.` or `..`, never `~`. Objects are
written once and never rewritten, except hints, which nobody trusts. An adapter owns all retries (bounded) and wraps
every error: `StoreUnreachable`, `StoreFull`, `StoreDenied`, `PutOutcomeUnknown`, and `DamagedObject` where a key holds
something that no store of offsite writes (a pipe, a link). No further exception leaves an adapter. Every adapter can be
pickled: Spark workers open their own. Every wait for a store is noted while it lasts (`store_wait`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from offsite.log.buffer import Buffer
from offsite.model.bounds import MAX_OBJECT_BYTES
from offsite.model.clock import Wait
from offsite.model.errors import DamagedArchive, DamagedObject, check

if TYPE_CHECKING:
    from pathlib import Path


class PutResult(Enum):
    """The result of a create-only put. An unknown result raises `PutOutcomeUnknown` instead."""

    CREATED = "created"
    SAME = "the key already held the same bytes: our own lost answer, or another writer's equal work"
    OTHER = "the key already holds other bytes; they were left alone"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectInfo:
    """One object. `modified_ms`: epoch time by the store's clock."""

    key: str
    size_bytes: int
    modified_ms: int


class ObjectWriter(Protocol):
    """An object on the way into the store; invisible until `close`."""

    def write(self, data: Buffer) -> None:
        """Append `data`. The caller may reuse `data` afterwards."""

    def close(self) -> PutResult:
        """Make the object durable and then visible under its key, if the key is still free. Call once."""

    def abort(self) -> None:
        """Give up: nothing becomes visible. Does nothing after `close`; a crash has the same effect."""


class Store(Protocol):
    @property
    def sends_at_close(self) -> bool:
        """Whether an object leaves this machine as a whole when the writer is closed; else the bytes leave as
        written."""

    def prepare(self) -> None:
        """Make the place itself where a store needs one (a folder). Only `init` calls the method: a write must never
        create a folder that is missing on some machine."""

    def put_if_absent(self, key: str, data: Buffer | Sequence[Buffer]) -> PutResult:
        """Create `key`, durable on return. Of any number of racing calls exactly one gets `CREATED`.

        A lost answer is settled by reading the key back. A failed read raises `PutOutcomeUnknown`.
        """

    def put_overwrite(self, key: str, data: Buffer) -> None:
        """Replace `key` at once and as a whole, maybe not durably. For hints only."""

    def open_write(self, key: str) -> ObjectWriter:
        """Begin a large object (up to a few hundred MiB)."""

    def get(self, key: str) -> bytes | None:
        """Return the whole object, or None for a missing object. Raises `DamagedObject` for an object larger than any
        of offsite."""

    def get_range(self, key: str, start: int, length: int) -> bytes | None:
        """Return bytes `[start, start + length)`, fewer at the end of the object, or None for a missing object."""

    def head(self, key: str) -> ObjectInfo | None:
        """Return size and time, or None for a missing object."""

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield objects with a key that begins with `prefix` (empty, or ending in `/`) and is greater than
        `start_after`, in ascending key order. Complete for everything written before the call."""

    def delete(self, key: str) -> None:
        """Remove `key`. A missing key is no error."""

    def now_ms(self) -> int:
        """Return the store's own clock, epoch ms: the clock shared by all writers."""

    def sweep_unfinished(self, *, before_ms: int) -> int:
        """Remove the remains of unfinished writes from before `before_ms` (store's clock). Returns the number."""

    @property
    def url(self) -> str:
        """The store's name for people; never holds a secret."""


class OpenedStore(Store, Protocol):
    """A store as opened from a folder or URL, not yet wrapped."""

    @property
    def folder(self) -> Path | None:
        """The folder of the objects on this machine; None for a service."""

    @property
    def impatient(self) -> OpenedStore:
        """The same store for looks at small objects while a person waits: no answer of a service within 15 seconds is
        an error."""

    def retrying(self, *, retries: int, timeout_s: float) -> OpenedStore:
        """The same store with so many retries of a request to a service, within so many seconds."""


def check_key(key: str) -> str:
    """Return `key` if legal. Raises `Bug` otherwise: `layout` builds keys, people never do."""
    check(is_key(key), f"illegal object key {key!r}")
    return key


def named_key(key: str) -> str:
    """Return `key` if legal. For the key of an object to read, perhaps named by another object. Raises
    `DamagedObject`."""
    if not is_key(key):
        raise DamagedObject(f"{key[:300]!r} is used as an object name, but no store allows such a name")
    return key


def is_key(key: str) -> bool:
    return "~" not in key and "\0" not in key and not {"", ".", ".."} & set(key.split("/"))


def check_prefix(prefix: str) -> str:
    """Return `prefix` if empty, or a legal key followed by `/`."""
    if prefix:
        check(prefix.endswith("/"), f"prefix {prefix!r} must end in /")
        check_key(prefix[:-1])
    return prefix


def checked_size(place: str, size_bytes: int) -> int:
    """Return the size of the object at `place` if small enough to be read whole. Raises `DamagedObject`."""
    if size_bytes > MAX_OBJECT_BYTES:
        raise DamagedObject(
            f"{place} has {size_bytes:,} bytes, more than any object that offsite reads completely",
            hint="check who wrote the object; restore the original from the store's versions or from a copy",
        )
    return size_bytes


def join_buffers(data: Buffer | Sequence[Buffer]) -> Buffer:
    """Return the bytes of `data` as one buffer, copied only when `data` has several parts."""
    return data if isinstance(data, bytes | bytearray | memoryview) else b"".join(data)


def archive_key(key: str, place: str) -> str:
    """Return `key` if the key names a file in the archive at `place`. Raises `DamagedArchive` for a key that leads
    elsewhere.

    The archive's own indexes name its files, so a key may hold anything.
    """
    if not is_key(key):
        raise DamagedArchive(
            f"{key!r} is not the name of a file in {place}",
            hint="the index of the archive names it: do not trust the archive",
        )
    return key


def store_wait(action: str, place: str) -> Wait:
    """Return the wait for the store to do `action` at `place`. A client retries by itself for minutes, a network folder
    hangs for ever, and neither says anything."""
    return Wait(lambda: f"the store has not answered: {action} {place}", since_s=monotonic())
