"""A folder as a store: durable, create-only, safe against crashes at any step.

A new object is a temporary file, written and fsynced, then hard-linked to the object's name (which fails for a taken
name); then the folder is fsynced. Objects are never renamed and never written twice; only hints are replaced. Links
below the root are not followed, and only plain files are read (see `plain_files`). Source of the rules: link and rename
are atomic (POSIX), and durable only after fsync of the folder (Linux fsync(2)).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from offsite.log.buffer import Buffer
from offsite.model.errors import DamagedObject
from offsite.stores.plain_files import MISSING, PlainFiles, make_private_root, store_error, wrap_errors
from offsite.stores.posix_writer import PosixWriter, TemporaryFiles
from offsite.stores.store import ObjectInfo, PutResult, check_key, check_prefix, checked_size, named_key, store_wait

_HINT = "offsite writes only plain files and folders: check who created the entry, and remove it"


_OF_KEYS = re.compile(r"(?:.*/)?(?:topics/\.)?[A-Za-z0-9_=-][A-Za-z0-9._=-]*/")
"""Prefixes possible in keys of offsite. A folder name with a leading dot is possible only for a topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PosixStore:
    """Objects as files under `root`. A worker opens its own store by unpickling: only the path travels."""

    root: Path
    _files: PlainFiles = field(init=False, repr=False, compare=False)
    _synced: set[Path] = field(default_factory=set, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_files", PlainFiles(root=self.root, refused=DamagedObject, hint=_HINT))

    def __reduce__(self) -> tuple[object, tuple[Path]]:
        return open_folder, (self.root,)

    @property
    def url(self) -> str:
        return str(self.root)

    @property
    def folder(self) -> Path:
        return self.root

    @property
    def impatient(self) -> PosixStore:
        return self

    def retrying(self, *, retries: int, timeout_s: float) -> PosixStore:  # noqa: ARG002  # nothing is retried
        return self

    @property
    def sends_at_close(self) -> bool:
        return False

    def prepare(self) -> None:
        with wrap_errors("make the folder", self.url):
            make_private_root(self.root)

    def put_if_absent(self, key: str, data: Buffer | Sequence[Buffer]) -> PutResult:
        writer = self.open_write(key)
        try:
            for part in (data,) if isinstance(data, bytes | bytearray | memoryview) else data:
                writer.write(part)
            return writer.close()
        finally:
            writer.abort()

    def put_overwrite(self, key: str, data: Buffer) -> None:
        target, temporaries = self._path(key), self._prepared()
        temporary = temporaries.new_path()
        with wrap_errors("write", str(target)), store_wait("write", str(target)):
            self._make_folder(target.parent)
            try:
                with os.fdopen(temporaries.create(temporary), "wb") as file:
                    file.write(data)
                temporary.replace(target)
            finally:
                temporary.unlink(missing_ok=True)

    def open_write(self, key: str) -> PosixWriter:
        target = self._path(key)
        with wrap_errors("write", str(target)), store_wait("write", str(target)):
            return PosixWriter(
                temporaries=self._prepared(),
                target=target,
                open_target=lambda: self._files.opened(key),
                make_folder=lambda: self._make_folder(target.parent),
                sync_folder=lambda: sync_folder(target.parent),
            )

    def get(self, key: str) -> bytes | None:
        place = f"{self.root}/{key}"
        return self._read(key, lambda fd: _read_fully(fd, 0, checked_size(place, os.fstat(fd).st_size)))

    def get_range(self, key: str, start: int, length: int) -> bytes | None:
        return self._read(key, lambda fd: _read_fully(fd, start, length))

    def head(self, key: str) -> ObjectInfo | None:
        try:
            with store_wait("look at", f"{self.root}/{key}"):
                return _info(key, self._files.status(named_key(key)))
        except OSError as error:
            self._raise_unless_missing("look at", key, error)
            return None

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[ObjectInfo]:
        with wrap_errors("list", str(self.root / check_prefix(prefix))):
            with store_wait("list", str(self.root / prefix)):
                # an unmounted root, or a file, is no proof of emptiness; a `Path` cannot end in a dot
                os.stat(f"{self.root}/.")  # noqa: PTH116
            with suppress(FileNotFoundError, NotADirectoryError):
                self._files.check_way(prefix)
            yield from _walk(self.root / prefix, prefix, start_after)

    def delete(self, key: str) -> None:
        *names, name = check_key(key).split("/")
        with (
            wrap_errors("delete", f"{self.root}/{key}"),
            suppress(FileNotFoundError),
            self._files.folder(names) as folder,
        ):
            os.unlink(name, dir_fd=folder)

    def now_ms(self) -> int:
        """Return the time that the file system gives to a new file: on a network folder the server's clock."""
        temporaries = self._prepared()
        probe = temporaries.new_path()
        with wrap_errors("write", str(probe)), store_wait("write", str(probe)):
            fd = temporaries.create(probe)
            try:
                return os.fstat(fd).st_mtime_ns // 1_000_000
            finally:
                os.close(fd)
                probe.unlink()

    def sweep_unfinished(self, *, before_ms: int) -> int:
        with wrap_errors("sweep", self.url):
            return TemporaryFiles(self._files).sweep(before_ms=before_ms)

    def _read(self, key: str, read: Callable[[int], bytes]) -> bytes | None:
        try:
            with store_wait("read", f"{self.root}/{key}"), self._files.opened(named_key(key)) as fd:
                return read(fd)
        except OSError as error:
            self._raise_unless_missing("read", key, error)
            return None

    def _raise_unless_missing(self, action: str, key: str, error: OSError) -> None:
        if error.errno not in MISSING:
            raise store_error(action, f"{self.root}/{key}", error) from error

    def _path(self, key: str) -> Path:
        return self.root / check_key(key)

    def _prepared(self) -> TemporaryFiles:
        temporaries = TemporaryFiles(self._files)
        with wrap_errors("write into", self.url), store_wait("write into", self.url):
            if temporaries.folder not in self._synced:
                temporaries.prepare()
                self._synced.add(temporaries.folder)
        return temporaries

    def _make_folder(self, folder: Path) -> None:
        """Make `folder`, durable up to the root. Done once per process, because another process may have crashed
        half-way, and again after somebody removed the folder."""
        if folder in self._synced and (folder == self.root or folder.is_dir()):
            return
        if folder != self.root:
            self._make_folder(folder.parent)
            with suppress(FileExistsError):
                folder.mkdir(mode=self._files.new_folder_mode)
            self._files.check_folder(str(folder.relative_to(self.root)))
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
    """Yield files below `folder` with a key above `start_after`, in ascending order of keys: a folder sorts with the
    trailing `/`. A pipe in place of an object is listed, so that a reader gets an error."""
    entries: dict[str, os.DirEntry[str]] = {}
    try:
        for entry in os.scandir(folder):
            key = prefix + entry.name
            if key > start_after or start_after.startswith(key):  # a folder of commits has millions, and few are new
                entries[f"{key}/" if entry.is_dir(follow_symlinks=False) else key] = entry
    except (FileNotFoundError, NotADirectoryError):  # a file in place of the folder: nothing lies below
        return
    except PermissionError:
        if not prefix or _OF_KEYS.fullmatch(prefix):
            raise
        return  # lost+found, @eaDir, .Trash-1000: nothing of ours is below such a name
    for key in sorted(key for key in entries if "~" not in key):
        entry = entries[key]
        if key.endswith("/"):
            yield from _walk(Path(entry.path), key, start_after)
        elif key > start_after and not entry.is_symlink() and (info := _stat(key, entry)):
            yield info


def _stat(key: str, entry: os.DirEntry[str]) -> ObjectInfo | None:
    try:
        return _info(key, entry.stat())
    except FileNotFoundError:  # deleted since the folder was read
        return None


def _info(key: str, status: os.stat_result) -> ObjectInfo:
    return ObjectInfo(key=key, size_bytes=status.st_size, modified_ms=status.st_mtime_ns // 1_000_000)
