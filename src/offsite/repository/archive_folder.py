"""A folder as the place of a foreign archive (the port `archives.files.AppendableFiles`): plain files, replaced whole.

A file is replaced by a temporary one beside it: write, fsync, rename, fsync of the folder. Temporary names hold a `~`,
so nothing lists them, and the next write of the same file replaces what a crash left.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from offsite.log.buffer import Buffer
from offsite.model.errors import ArchiveBusy
from offsite.repository.posix_errors import wrapped
from offsite.repository.posix_store import PosixStore, sync_folder
from offsite.repository.store import ObjectInfo, check_key


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveFolder:
    """Files below `root`, which the first write makes. Only the path travels to workers."""

    root: Path

    @property
    def url(self) -> str:
        return str(self.root)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        return self._store.list(prefix) if self.root.exists() else iter(())  # the first write makes it

    def get(self, key: str) -> bytes | None:
        return self._store.get(key)

    def get_range(self, key: str, start: int, length: int) -> bytes | None:
        return self._store.get_range(key, start, length)

    def put(self, key: str, data: Buffer, *, last_message_ms: int = -1) -> None:
        target = self._made(key)
        temporary = target.with_name(f"{target.name}~offsite")
        with wrapped("write", str(target)):
            with temporary.open("wb") as file:
                file.write(data)
                file.flush()
                if last_message_ms >= 0:
                    os.utime(file.fileno(), ns=(last_message_ms * 1_000_000,) * 2)
                os.fsync(file.fileno())
            temporary.replace(target)
            sync_folder(target.parent)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """One writing process at a time: a lock on the folder, which it makes, that ends with its holder, however that
        ends. Raises `ArchiveBusy`."""
        with wrapped("make the folder", self.url):
            self.root.mkdir(parents=True, exist_ok=True)
            folder = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._lock(folder)
            yield
        finally:
            os.close(folder)

    def _lock(self, folder: int) -> None:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ArchiveBusy(
                f"another process exports into {self.url}", hint="wait for it to end, or export into another place"
            ) from error

    def append(self, key: str, data: Buffer) -> None:
        target = self._made(key)
        with wrapped("append to", str(target)):
            is_new = not target.exists()
            with target.open("ab") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            if is_new:
                sync_folder(target.parent)

    def truncate(self, key: str, size_bytes: int) -> None:
        target = self.root / check_key(key)
        with wrapped("cut", str(target)), target.open("rb+") as file:
            file.truncate(size_bytes)
            os.fsync(file.fileno())

    def delete(self, key: str) -> None:
        self._store.delete(key)

    @property
    def _store(self) -> PosixStore:
        return PosixStore(root=self.root)

    def _made(self, key: str) -> Path:
        """The path of `key`, in a folder that exists; folders made here are durable."""
        target = self.root / check_key(key)
        missing = [folder for folder in target.parents if not folder.exists()]
        with wrapped("make the folder", str(target.parent)):
            target.parent.mkdir(parents=True, exist_ok=True)
            for folder in missing:
                sync_folder(folder.parent)
        return target
