"""A folder as the place of a foreign archive (the port `archives.files.AppendableFiles`): plain files, replaced whole.

A file is replaced by a temporary one beside it: write, fsync, rename, fsync of the folder. Temporary names hold a `~`,
so nothing lists them; what a crash left of them goes when the next export begins. No link is followed (`plain_files`).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from offsite.log.buffer import Buffer
from offsite.model.errors import ArchiveBusy
from offsite.repository.archive_key import archive_key
from offsite.repository.plain_files import (
    folder_of,
    is_temporary,
    make_root,
    mode_for,
    opened,
    plain_entries,
    temporary_name,
)
from offsite.repository.posix_errors import MISSING, wrapped
from offsite.repository.store import ObjectInfo, check_prefix

_READ_BYTES = 1 << 30
"""Linux reads at most about twice as much at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveFolder:
    """Files below `root`, which the first write makes. Only the path travels to workers."""

    root: Path

    @property
    def url(self) -> str:
        return str(self.root)

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        with wrapped("list", f"{self.root}/{check_prefix(prefix)}"):
            if self.root.exists():  # the first write makes it
                yield from self._walk(prefix)

    def get(self, key: str) -> bytes | None:
        return self._read(key, 0, None)

    def get_range(self, key: str, start: int, length: int) -> bytes | None:
        return self._read(key, start, length)

    def put(self, key: str, data: Buffer, *, last_message_ms: int = -1) -> None:
        with self._writing("write", key) as (folder, path):
            with suppress(FileNotFoundError), opened(folder, path, os.O_RDONLY):
                pass  # what is no plain file is not replaced
            temporary = path.with_name(temporary_name(path.name))
            try:
                with opened(folder, temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode=self._file_mode()) as file:
                    _write(file, data)
                    if last_message_ms >= 0:
                        os.utime(file, ns=(last_message_ms * 1_000_000,) * 2)
                    os.fsync(file)
                os.replace(temporary.name, path.name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary.name, dir_fd=folder)
                raise
            os.fsync(folder)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """One writing process at a time: a lock on the folder, which it makes, that ends with its holder, however that
        ends. Raises `ArchiveBusy`."""
        with wrapped("make the folder", self.url):
            make_root(self.root)
            folder = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._lock(folder)
            self._sweep()
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

    def _sweep(self) -> None:
        """Remove what crashes left half-written."""
        with wrapped("sweep", self.url):
            for _, _, names, folder in os.fwalk(self.root):
                for name in filter(is_temporary, names):
                    with suppress(FileNotFoundError):
                        os.unlink(name, dir_fd=folder)

    def append(self, key: str, data: Buffer) -> None:
        with self._writing("append to", key) as (folder, path):
            is_new = not _exists(folder, path.name)
            flags = os.O_WRONLY | os.O_APPEND | (os.O_CREAT | os.O_EXCL if is_new else 0)
            with opened(folder, path, flags, mode=self._file_mode()) as file:
                _write(file, data)
                os.fsync(file)
            if is_new:
                os.fsync(folder)

    def truncate(self, key: str, size_bytes: int) -> None:
        with self._writing("cut", key) as (folder, path), opened(folder, path, os.O_WRONLY) as file:
            os.ftruncate(file, size_bytes)
            os.fsync(file)

    def delete(self, key: str) -> None:
        names = archive_key(key, self.url).split("/")
        gone = suppress(FileNotFoundError, NotADirectoryError)
        with wrapped("delete", f"{self.root}/{key}"), gone, folder_of(self.root, names[:-1]) as folder:
            os.unlink(names[-1], dir_fd=folder)

    @contextmanager
    def _writing(self, what: str, key: str) -> Iterator[tuple[int, Path]]:
        """The folder of `key`, made and open, and the path of `key`."""
        path = self.root / archive_key(key, self.url)
        with wrapped(what, str(path)), folder_of(self.root, key.split("/")[:-1], make=True) as folder:
            yield folder, path

    def _file_mode(self) -> int:
        return mode_for(self.root) & 0o666

    def _read(self, key: str, start: int, length: int | None) -> bytes | None:
        path = self.root / archive_key(key, self.url)
        with wrapped("read", str(path)):
            try:
                with folder_of(self.root, key.split("/")[:-1]) as folder, opened(folder, path, os.O_RDONLY) as file:
                    return _read_fully(file, start, os.fstat(file).st_size if length is None else length)
            except OSError as error:
                if error.errno not in MISSING:
                    raise
                return None

    def _walk(self, prefix: str) -> Iterator[ObjectInfo]:
        """Files below `prefix` in ascending order of keys: a folder sorts with its `/`."""
        try:
            with folder_of(self.root, prefix.split("/")[:-1]) as folder:
                entries = plain_entries(folder, self.root / prefix)
        except FileNotFoundError:
            return
        for name in sorted(entries):
            if name.endswith("/"):
                yield from self._walk(prefix + name)
            else:
                yield _info(prefix + name, entries[name])


def _info(key: str, status: os.stat_result) -> ObjectInfo:
    return ObjectInfo(key=key, size_bytes=status.st_size, modified_ms=status.st_mtime_ns // 1_000_000)


def _exists(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _write(file: int, data: Buffer) -> None:
    left = memoryview(data).cast("B")
    while left:
        left = left[os.write(file, left) :]


def _read_fully(file: int, start: int, length: int) -> bytes:
    parts = []
    while length > 0 and (data := os.pread(file, min(length, _READ_BYTES), start)):
        parts.append(data)
        start, length = start + len(data), length - len(data)
    return b"".join(parts)
