"""Where an archive lies: the `Files` port, a flat set of named files in a folder or an object store.

Unlike a repository's objects, files of an archive may be replaced: their formats demand it (indexes, manifests).
The adapters are beside the stores of repositories, and like them own all retries, wrap every error (`StoreUnreachable`,
`StoreFull`, `StoreDenied`) and can be pickled.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from offsite.log.buffer import Buffer
from offsite.model.errors import DamagedArchive
from offsite.model.untrusted.bounds import MAX_OFFSET, MAX_PARTITIONS

_HINT = "move the file out of the archive if it does not belong there"


class FileInfo(Protocol):
    """A file of an archive. `key` is relative to the archive's root, `/`-separated. `modified_ms`: when it was written,
    epoch ms by the clock of the place; in a folder what `put` was told of its newest record, if that was given."""

    @property
    def key(self) -> str: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def modified_ms(self) -> int: ...


class Files(Protocol):
    def list(self, prefix: str = "") -> Iterator[FileInfo]:
        """Files whose key begins with `prefix` (empty, or ending in `/`), in ascending order of keys."""

    def get(self, key: str) -> bytes | None:
        """The whole file, or None when there is none."""

    def get_range(self, key: str, start: int, length: int) -> bytes | None:
        """Bytes `[start, start + length)`, fewer at the end of the file, or None when there is none."""

    def put(self, key: str, data: Buffer, *, last_message_ms: int = -1) -> None:
        """Write or replace `key`: durable when this returns, and whole at any moment, the old file or the new one.

        `last_message_ms`: epoch ms of the newest record in it, kept with the file so that others can delete by it: as
        user metadata `last-message-ms` of an object, as the modification time of a file. -1: not given.
        """

    def replace(self, key: str, old: bytes, new: Buffer) -> bool:
        """Put `new` in the place of `old`, as `put` does; False, and nothing is changed, where `key` holds anything
        else by then. In a folder only who holds `exclusive` may call it. Raises `OverwritingStore`."""

    def delete(self, key: str) -> None:
        """Remove `key`; no error when there is none."""

    def last_message_ms(self, key: str) -> int | None:
        """What `put` was told with `key`, as far as that is kept with an object: None in a folder, where anything may
        have set the time of a file, and where there is none."""

    def now_ms(self) -> int:
        """The clock of the place, epoch ms."""

    @property
    def url(self) -> str:
        """How a person would name the place; never holds a secret."""

    @property
    def appendable(self) -> AppendableFiles | None:
        """The same files where they can grow and be cut in place, as in a folder; None in an object store."""

    @property
    def has_lock(self) -> bool:
        """Whether `exclusive` keeps other processes out. Where it does not, who writes looks afterwards whether what it
        wrote is still there: another one takes it for what a crash left."""

    def exclusive(self) -> AbstractContextManager[None]:
        """A context for all writing: one writing process at a time, where there is a lock. Raises `ArchiveBusy`."""


class AppendableFiles(Files, Protocol):
    """What only a folder can do."""

    def append(self, key: str, data: Buffer) -> None:
        """Write `data` behind the last byte of `key`, which is made if there is none; durable when this returns. A
        crash may leave any part of it."""

    def truncate(self, key: str, size_bytes: int) -> None:
        """Cut `key` back to its first `size_bytes`, durably."""


def is_partition(number: int) -> bool:
    """Whether a topic may have a partition of that number."""
    return 0 <= number < MAX_PARTITIONS


def check_claims(file: str, *, partition: int, start: int = 0) -> None:
    """Check what the name of `file` claims against Kafka's limits, the same for every format.

    A file name alone makes a partition, and a topic is as wide as its highest one: a name of nine digits would cost
    whoever lists the topic gigabytes. An offset is below 2^63 - 1, because the one behind it must be a number too.
    Raises `DamagedArchive` for a partition that no topic has, and for an offset that no record has.
    """
    if not is_partition(partition):
        raise DamagedArchive(f"{file}: no topic has a partition {partition}, at most {MAX_PARTITIONS:,}", hint=_HINT)
    if not 0 <= start < MAX_OFFSET:
        raise DamagedArchive(f"{file}: no record has offset {start}", hint=_HINT)
