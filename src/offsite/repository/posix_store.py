"""A folder as a store: durable, create-only, safe against crashes at any step.

A new object is a temporary file, written and fsynced, then hard-linked to its name (which fails if that is taken),
then the folder is fsynced. Temporary files live in `~tmp`, a name no key can have; those a crash leaves there are
found by age. Objects are never renamed and never written twice; only hints are replaced.
Source of the rules: link and rename are atomic (POSIX), and durable only after fsync of the folder (Linux fsync(2)).
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from offsite.log.buffer import Buffer
from offsite.repository.posix_errors import MISSING, store_error, wrapped
from offsite.repository.posix_writer import PosixWriter
from offsite.repository.store import ObjectInfo, PutResult, check_key, check_prefix, named_key

TEMPORARY_FOLDER = "~tmp"


@dataclass(frozen=True, slots=True, kw_only=True)
class PosixStore:
    """Objects as files under `root`. A worker opens its own by unpickling: only the path travels."""

    root: Path
    _synced: set[Path] = field(default_factory=set, repr=False, compare=False)

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return open_folder, (self.root,)

    @property
    def url(self) -> str:
        return str(self.root)

    def prepare(self) -> None:
        with wrapped("make the folder", self.url):
            self.root.mkdir(parents=True, exist_ok=True)

    def put_if_absent(self, key: str, data: Buffer | Sequence[Buffer]) -> PutResult:
        writer = self.open_write(key)
        try:
            for part in (data,) if isinstance(data, bytes | bytearray | memoryview) else data:
                writer.write(part)
            return writer.close()
        finally:
            writer.abort()

    def put_overwrite(self, key: str, data: Buffer) -> None:
        target, temporary = self._path(key), self._temporary()
        with wrapped("write", str(target)):
            self._make_folder(target.parent)
            try:
                temporary.write_bytes(data)
                temporary.replace(target)
            finally:
                temporary.unlink(missing_ok=True)

    def open_write(self, key: str) -> PosixWriter:
        target = self._path(key)
        with wrapped("write", str(target)):
            return PosixWriter(
                temporary=self._temporary(),
                target=target,
                make_folder=lambda: self._make_folder(target.parent),
                sync_folder=lambda: sync_folder(target.parent),
            )

    def get(self, key: str) -> bytes | None:
        path = self.root / named_key(key)
        try:
            return path.read_bytes()
        except OSError as error:
            _raise_unless_missing("read", path, error)
            return None

    def get_range(self, key: str, start: int, length: int) -> bytes | None:
        path = self.root / named_key(key)
        try:
            with path.open("rb", buffering=0) as file:
                return _read_fully(file.fileno(), start, length)
        except OSError as error:
            _raise_unless_missing("read", path, error)
            return None

    def head(self, key: str) -> ObjectInfo | None:
        path = self.root / named_key(key)
        try:
            return _info(key, path.stat())
        except OSError as error:
            _raise_unless_missing("look at", path, error)
            return None

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        with wrapped("list", str(self.root / check_prefix(prefix))):
            self.root.stat()  # a folder that is not mounted does not tell that there is nothing
            yield from _walk(self.root / prefix, prefix, start_after)

    def delete(self, key: str) -> None:
        path = self._path(key)
        with wrapped("delete", str(path)):
            path.unlink(missing_ok=True)

    def now_ms(self) -> int:
        """The time the file system gives to a new file: on a network folder that is the server's clock."""
        probe = self._temporary()
        with wrapped("write", str(probe)):
            fd = os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            try:
                return os.fstat(fd).st_mtime_ns // 1_000_000
            finally:
                os.close(fd)
                probe.unlink()

    def sweep_unfinished(self, *, before_ms: int) -> int:
        swept = 0
        with wrapped("sweep", self.url):
            for path in (self.root / TEMPORARY_FOLDER).glob("*"):
                with suppress(FileNotFoundError):  # its writer has finished, or another one has swept it
                    if path.stat().st_mtime_ns // 1_000_000 < before_ms:
                        path.unlink()
                        swept += 1
        return swept

    def _path(self, key: str) -> Path:
        return self.root / check_key(key)

    def _temporary(self) -> Path:
        folder = self.root / TEMPORARY_FOLDER
        with wrapped("write into", self.url):
            if folder not in self._synced:
                folder.mkdir(exist_ok=True)  # not the root itself: a folder that is not mounted must stay missing
                self._synced.add(folder)
        return folder / f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(8)}"

    def _make_folder(self, folder: Path) -> None:
        """Make `folder`, durable up to the root; once a process, because another one may have crashed half-way."""
        if folder in self._synced:
            return
        if folder != self.root:
            self._make_folder(folder.parent)
            folder.mkdir(exist_ok=True)
            sync_folder(folder.parent)
        self._synced.add(folder)


def open_folder(root: Path) -> PosixStore:
    return PosixStore(root=root.absolute())


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable. Raises `OSError`."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _read_fully(fd: int, start: int, length: int) -> bytes:
    data = os.pread(fd, length, start)
    if not data or len(data) == length:
        return data
    return data + _read_fully(fd, start + len(data), length - len(data))


def _walk(folder: Path, prefix: str, start_after: str) -> Iterator[ObjectInfo]:
    """Files below `folder` whose key is above `start_after`, ascending by key: a folder sorts with its `/`."""
    try:
        entries = {
            prefix + (f"{e.name}/" if e.is_dir(follow_symlinks=False) else e.name): e for e in os.scandir(folder)
        }
    except FileNotFoundError:
        return
    wanted = (key for key in entries if key > start_after or start_after.startswith(key))
    for key in sorted(key for key in wanted if "~" not in key):
        entry = entries[key]
        if key.endswith("/"):
            yield from _walk(Path(entry.path), key, start_after)
        elif key > start_after and entry.is_file(follow_symlinks=False) and (info := _stat(key, entry)):
            yield info


def _stat(key: str, entry: os.DirEntry[str]) -> ObjectInfo | None:
    try:
        return _info(key, entry.stat())
    except FileNotFoundError:  # deleted since the folder was read
        return None


def _info(key: str, status: os.stat_result) -> ObjectInfo:
    return ObjectInfo(key=key, size_bytes=status.st_size, modified_ms=status.st_mtime_ns // 1_000_000)


def _raise_unless_missing(what: str, path: Path, error: OSError) -> None:
    if error.errno not in MISSING:
        raise store_error(what, str(path), error) from error
