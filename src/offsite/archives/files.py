"""The place of an archive: the `Files` port, a flat set of named files in a folder or an object store.

Unlike objects of a repository, files of an archive may be replaced: the formats require replacement of indexes and
manifests. The adapters lie beside the stores of repositories. Like stores, adapters do all retries, wrap every error
(`StoreUnreachable`, `StoreFull`, `StoreDenied`) and can be pickled.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from offsite.log.buffer import Buffer
from offsite.model.bounds import MAX_OFFSET, MAX_PARTITIONS
from offsite.model.errors import DamagedArchive

_HINT = "move the file out of the archive if it does not belong there"


class FileInfo(Protocol):
    """A file of an archive. `key`: relative to the archive's root, `/`-separated. `modified_ms`: write time, epoch ms
    by the clock of the place; in a folder the time of the newest record if `put` received the time."""

    @property
    def key(self) -> str: ...

    @property
    def size_bytes(self) -> int: ...

    @property
    def modified_ms(self) -> int: ...


class Files(Protocol):
    def list(self, prefix: str = "") -> Iterator[FileInfo]:
        """Yield files whose key begins with `prefix` (empty, or ending in `/`), in ascending order of keys."""

    def get(self, key: str) -> bytes | None:
        """Return the whole file, or None for a missing file."""

    def get_range(self, key: str, start: int, length: int) -> bytes | None:
        """Return bytes `[start, start + length)`, fewer at the end of the file, or None for a missing file."""

    def put(self, key: str, data: Buffer, *, last_message_ms: int = -1) -> None:
        """Write or replace `key`. The file is durable on return, and complete at any moment: the old file or the new
        file.

        `last_message_ms`: epoch ms of the newest record in the file, stored with the file so that other programs can
        delete by the time: as user metadata `last-message-ms` of an object, as the modification time of a file. -1: not
        given.
        """

    def replace(self, key: str, old: bytes, new: Buffer) -> bool:
        """Replace `old` by `new`, like `put`. Returns False without a change when `key` holds other bytes by then. In a
        folder only the holder of `exclusive` may call `replace`. Raises `OverwritingStore`."""

    def delete(self, key: str) -> None:
        """Remove `key`; a missing file is no error."""

    def last_message_ms(self, key: str) -> int | None:
        """Return the `last_message_ms` given to `put` for an object. None in a folder, where any program may have set
        the time of a file, and for a missing object."""

    def now_ms(self) -> int:
        """Return the clock of the place, epoch ms."""

    @property
    def url(self) -> str:
        """Name of the place for people; never holds a secret."""

    @property
    def appendable(self) -> AppendableFiles | None:
        """The same files with append and truncate, as in a folder; None in an object store."""

    @property
    def has_lock(self) -> bool:
        """Whether `exclusive` keeps other processes out. Without a lock, a writer checks afterwards whether the written
        files still exist: another process may take the files for leftovers of a crash."""

    def exclusive(self) -> AbstractContextManager[None]:
        """Return a context for all writing; with a lock, only a single process writes at a time. Raises
        `ArchiveBusy`."""


class AppendableFiles(Files, Protocol):
    """Operations available in a folder only."""

    def append(self, key: str, data: Buffer) -> None:
        """Append `data` to `key`, creating a missing file. Durable on return. A crash may leave any part of `data`."""

    def truncate(self, key: str, size_bytes: int) -> None:
        """Cut `key` to the first `size_bytes`, durably."""


def is_partition(number: int) -> bool:
    """Whether a topic may have a partition with the number."""
    return 0 <= number < MAX_PARTITIONS


def check_claims(file: str, *, partition: int, start: int = 0) -> None:
    """Check the numbers in the name of `file` against Kafka's limits, the same limits for every format.

    A file name alone creates a partition, and a topic is as wide as the highest partition: a name of nine digits would
    cost gigabytes in every listing of the topic. An offset is below 2^63 - 1, because the next offset must be a number
    too.

    Raises `DamagedArchive` for a partition number beyond the limit, and for an impossible offset.
    """
    if not is_partition(partition):
        raise DamagedArchive(f"{file}: partition {partition} is impossible, at most {MAX_PARTITIONS:,}", hint=_HINT)
    if not 0 <= start < MAX_OFFSET:
        raise DamagedArchive(f"{file}: offset {start} is impossible", hint=_HINT)
