"""Where a foreign archive lies: a folder (the port `archives.files.AppendableFiles`), or objects below a URL (`Files`).
Every file is replaced whole.

In a folder a temporary file beside the old file replaces the old one: write, fsync, rename, fsync of the folder.
Temporary names hold a `~`, so no listing shows them; the next export removes the remains of a crash. No link is
followed (`plain_files`). Below a URL one put replaces an object; retries, errors and the client are those of
`CloudStore`, and nothing can append.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from offsite.log.buffer import Buffer
from offsite.model.bounds import whole_number
from offsite.model.errors import ArchiveBusy, DamagedArchive, StoreDenied
from offsite.model.ids import random_id
from offsite.stores.object_store import CLOCK_KEY, CloudStore
from offsite.stores.plain_files import MISSING, PlainFiles, make_private_root, wrap_errors
from offsite.stores.store import ObjectInfo, archive_key, check_prefix, checked_size, is_key

_HINT = (
    "an archive has only plain files and folders, and offsite does not follow links out of it: remove the entry, "
    "replace it by its target, or name the target as the archive"
)
_MARK = "~offsite"
_CLOCK_NAME = "clock"
_LOCK_WAIT_S, _LOCK_PAUSE_S = 1.0, 0.05
"""Retention holds the lock for moments: an export that begins meanwhile need not fail."""
_READ_BYTES = 1 << 30
"""Linux reads at most about twice as much at once."""

LAST_MESSAGE_MS = "last-message-ms"
"""User metadata of an object: epoch ms of the object's newest record. Further tools delete by this time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveFolder:
    """Files below `root`. The first write makes the root. Only the path travels to workers."""

    root: Path

    @property
    def url(self) -> str:
        return str(self.root)

    @property
    def appendable(self) -> ArchiveFolder:
        return self

    @property
    def has_lock(self) -> bool:
        return True

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        with wrap_errors("list", f"{self.root}/{check_prefix(prefix)}"):
            if self.root.exists():  # the first write makes the root
                yield from self._walk(prefix)

    def get(self, key: str) -> bytes | None:
        return self._read(key, 0, None)

    def get_range(self, key: str, start: int, length: int) -> bytes | None:
        return self._read(key, start, length)

    def put(self, key: str, data: Buffer, *, last_message_ms: int = -1) -> None:
        name = key.rpartition("/")[2]
        with self._writing("write", key) as folder:
            with suppress(FileNotFoundError), self._files.opened(key, folder=folder):
                pass  # only a plain file may be replaced
            temporary = _temporary_name(name)
            try:
                with self._files.opened(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, folder=folder) as file:
                    _write(file, data)
                    if last_message_ms >= 0:
                        os.utime(file, ns=(last_message_ms * 1_000_000,) * 2)
                    os.fsync(file)
                os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise
            os.fsync(folder)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Let one process write at a time. The lock is on the folder, made if missing, and ends with the holder,
        however the holder ends. Raises `ArchiveBusy`."""
        with wrap_errors("make the folder", self.url):
            make_private_root(self.root)
            folder = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._lock(folder)
            self._sweep()
            yield
        finally:
            os.close(folder)

    def _lock(self, folder: int) -> None:
        ends_s = time.monotonic() + _LOCK_WAIT_S
        while not _is_locked(folder):
            if time.monotonic() >= ends_s:
                raise ArchiveBusy(
                    f"another process writes into {self.url}", hint="wait for its end, or export into another place"
                )
            time.sleep(_LOCK_PAUSE_S)

    def _sweep(self) -> None:
        """Remove half-written files of crashes."""
        with wrap_errors("sweep", self.url):
            for _, _, names, folder in os.fwalk(self.root):
                for name in filter(_is_temporary, names):
                    with suppress(FileNotFoundError):
                        os.unlink(name, dir_fd=folder)

    def append(self, key: str, data: Buffer) -> None:
        with self._writing("append to", key) as folder:
            is_new = not _exists(folder, key.rpartition("/")[2])
            flags = os.O_WRONLY | os.O_APPEND | (os.O_CREAT | os.O_EXCL if is_new else 0)
            with self._files.opened(key, flags, folder=folder) as file:
                _write(file, data)
                os.fsync(file)
            if is_new:
                os.fsync(folder)

    def truncate(self, key: str, size_bytes: int) -> None:
        with self._writing("cut", key) as folder, self._files.opened(key, os.O_WRONLY, folder=folder) as file:
            os.ftruncate(file, size_bytes)
            os.fsync(file)

    def replace(self, key: str, old: bytes, new: Buffer) -> bool:
        """Replace `old` by `new`. The lock keeps other processes out, so a look is enough."""
        if self.get(key) != old:
            return False
        self.put(key, new)
        return True

    def last_message_ms(self, key: str) -> int | None:  # noqa: ARG002
        return None

    def now_ms(self) -> int:
        """Return the time that the file system gives to a new file: on a network folder the server's clock."""
        with self._writing("ask the time of", _CLOCK_NAME) as folder:
            name = _temporary_name(_CLOCK_NAME)
            with self._files.opened(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, folder=folder) as file:
                now_ms = os.fstat(file).st_mtime_ns // 1_000_000
            with suppress(FileNotFoundError):  # a starting export sweeps temporary names
                os.unlink(name, dir_fd=folder)
        return now_ms

    def delete(self, key: str) -> None:
        *names, name = archive_key(key, self.url).split("/")
        gone = suppress(FileNotFoundError, NotADirectoryError)
        with wrap_errors("delete", f"{self.root}/{key}"), gone, self._files.folder(names) as folder:
            os.unlink(name, dir_fd=folder)

    @contextmanager
    def _writing(self, action: str, key: str) -> Iterator[int]:
        """Make and open the folder of `key`."""
        names = archive_key(key, self.url).split("/")[:-1]
        with wrap_errors(action, f"{self.root}/{key}"):
            make_private_root(self.root)
            with self._files.folder(names, make=True) as folder:
                yield folder

    @property
    def _files(self) -> PlainFiles:
        return PlainFiles(root=self.root, refused=DamagedArchive, hint=_HINT, is_public=True)

    def _read(self, key: str, start: int, length: int | None) -> bytes | None:
        names, files = archive_key(key, self.url).split("/")[:-1], self._files
        with wrap_errors("read", f"{self.root}/{key}"):
            try:
                with files.folder(names) as folder, files.opened(key, folder=folder) as file:
                    return _read_fully(file, start, self._whole(key, file) if length is None else length)
            except OSError as error:
                if error.errno not in MISSING:
                    raise
                return None

    def _whole(self, key: str, file: int) -> int:
        return checked_size(f"{self.root}/{key}", os.fstat(file).st_size)

    def _walk(self, prefix: str) -> Iterator[ObjectInfo]:
        """Yield files below `prefix` in ascending order of keys: a folder sorts with the trailing `/`."""
        try:
            entries = self._files.entries(prefix.split("/")[:-1])
        except FileNotFoundError:
            return
        for name in sorted(entries):
            if name.endswith("/"):
                yield from self._walk(prefix + name)
            else:
                yield _info(prefix + name, entries[name])


def _is_locked(folder: int) -> bool:
    """Try to take the lock now."""
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _temporary_name(name: str) -> str:
    """Return a name that nobody can foresee, and no key can have."""
    return f"{name}{_MARK}-{random_id(16)}"


def _is_temporary(name: str) -> bool:
    """Whether the name is a temporary name of this version, or of earlier versions (`~offsite` alone)."""
    _, mark, suffix = name.rpartition(_MARK)
    return bool(mark) and (not suffix or (suffix.startswith("-") and len(suffix) == 17))


def _info(key: str, status: os.stat_result) -> ObjectInfo:
    return ObjectInfo(key=key, size_bytes=status.st_size, modified_ms=status.st_mtime_ns // 1_000_000)


def _exists(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _write(file: int, data: Buffer) -> None:
    remaining = memoryview(data).cast("B")
    while remaining:
        remaining = remaining[os.write(file, remaining) :]


def _read_fully(file: int, start: int, length: int) -> bytes:
    parts = []
    while length > 0 and (data := os.pread(file, min(length, _READ_BYTES), start)):
        parts.append(data)
        start, length = start + len(data), length - len(data)
    return b"".join(parts)


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
