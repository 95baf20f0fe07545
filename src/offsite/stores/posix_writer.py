"""One object on the way into a folder: a temporary file that becomes the object by a hard link.

Temporary files lie in `~tmp`, a name impossible in keys, under names of offsite's own form. Remains of a crash are
found by age. Nothing else is ever deleted: plain files with such a name, in a real folder.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import socket
import stat
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from offsite.log.buffer import Buffer
from offsite.model.errors import check
from offsite.model.ids import random_id
from offsite.model.units import MIB
from offsite.stores.plain_files import PlainFiles, store_error, wrap_errors
from offsite.stores.store import PutResult, store_wait

TEMPORARY_FOLDER = "~tmp"
_NAME = re.compile(r".+-[0-9]+-[0-9a-f]{16}")
STEP_BYTES = 4 * MIB
WINDOW_BYTES = 16 * MIB
"""How far the disk may be behind: enough to keep the disk busy, little enough for a short last fsync."""
_START, _WAIT = 2, 1 | 2 | 4  # SYNC_FILE_RANGE_WRITE; WAIT_BEFORE | WRITE | WAIT_AFTER: linux/fs.h
_COMPARE_BYTES = 4 * MIB

_LINKLESS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EIO})
"""Errors of file systems without hard links; an input/output error may be one."""
_LINKLESS_HINT = (
    "exfat, FAT, rclone, s3fs and some SMB mounts do not support hard links, which offsite needs: use a local or an "
    "NFS folder, or the URL of the bucket"
)


@dataclass(frozen=True, slots=True)
class TemporaryFiles:
    """The temporary files below the root of `files`.

    The root itself is never made: an unmounted folder must stay missing.
    """

    files: PlainFiles

    @property
    def folder(self) -> Path:
        return self.files.root / TEMPORARY_FOLDER

    def prepare(self) -> None:
        """Make the folder of temporary files. Raises `OSError`, `DamagedObject`."""
        with suppress(FileExistsError):
            self.folder.mkdir(mode=self.files.new_folder_mode)
        self.files.check_folder(TEMPORARY_FOLDER)

    def new_path(self) -> Path:
        return self.folder / f"{socket.gethostname()}-{os.getpid()}-{random_id(16)}"

    def create(self, path: Path) -> int:
        """Create a file at a `new_path`, open for writing and reading. Raises `OSError`."""
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(path, flags, self.files.new_file_mode)

    def sweep(self, *, before_ms: int) -> int:
        """Delete files last written before `before_ms`. Returns the number. Raises `OSError`, `DamagedObject`."""
        try:
            self.files.check_folder(TEMPORARY_FOLDER)
            folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return 0
        try:
            with os.scandir(folder) as entries:
                names = [entry.name for entry in entries if _NAME.fullmatch(entry.name)]
            return sum(_swept(folder, name, before_ms) for name in names)
        finally:
            os.close(folder)


def _swept(folder: int, name: str, before_ms: int) -> bool:
    with suppress(FileNotFoundError):  # the writer has finished, or another process has swept the file
        status = os.lstat(name, dir_fd=folder)
        if stat.S_ISREG(status.st_mode) and status.st_mtime_ns // 1_000_000 < before_ms:
            os.unlink(name, dir_fd=folder)
            return True
    return False


class Writeback:
    """Follows the writes to `fd`. Call `advance` with the number of bytes written so far.

    While the file grows, its pages are written to the disk and kept out of the page cache. Measured (150 x 4 MiB, ext4
    on a virtual disk): write then fsync 160-260 MB/s, as every page is new memory to the machine; with a window of 16
    MiB, behind which pages are written and dropped, 900-1,900 MB/s, and the broker keeps its cached pages. All of it is
    advice: errors show at `fsync`, and on systems without the calls only speed is lost.
    """

    __slots__ = ("_dropped", "_fd", "_started")

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._started = 0
        self._dropped = 0

    def advance(self, written: int) -> None:
        if written - self._started < STEP_BYTES:
            return
        _sync(self._fd, self._started, written - self._started, _START)
        self._started = written
        behind = written - WINDOW_BYTES
        if behind - self._dropped >= STEP_BYTES:
            _sync(self._fd, self._dropped, behind - self._dropped, _WAIT)
            drop_pages(self._fd, self._dropped, behind - self._dropped)
            self._dropped = behind


def drop_pages(fd: int, start: int, length: int) -> None:
    """Advise the kernel to drop the bytes from the page cache; only clean pages go."""
    if hasattr(os, "posix_fadvise"):
        with contextlib.suppress(OSError):
            os.posix_fadvise(fd, start, length, os.POSIX_FADV_DONTNEED)


def _sync(fd: int, start: int, length: int, flags: int) -> None:
    if call := _sync_file_range():
        call(fd, ctypes.c_int64(start), ctypes.c_int64(length), flags)


@cache
def _sync_file_range() -> Callable[..., int] | None:
    return getattr(ctypes.CDLL(None, use_errno=True), "sync_file_range", None)


class PosixWriter:
    """Writes a file of `temporaries`, then links the file to `target`. `make_folder` makes the target's folder,
    `sync_folder` fsyncs the folder. `open_target` opens an existing file of the name."""

    def __init__(
        self,
        *,
        temporaries: TemporaryFiles,
        target: Path,
        open_target: Callable[[], AbstractContextManager[int]],
        make_folder: Callable[[], None],
        sync_folder: Callable[[], None],
    ) -> None:
        self._temporary = temporaries.new_path()
        self._target = target
        self._open_target = open_target
        self._make_folder = make_folder
        self._sync_folder = sync_folder
        self._written = 0
        self._fd = temporaries.create(self._temporary)
        self._writeback = Writeback(self._fd)

    def write(self, data: Buffer) -> None:
        check(self._fd >= 0, "write to a closed object")
        remaining = memoryview(data)
        with wrap_errors("write", str(self._target)), store_wait("write", str(self._target)):
            while remaining:
                count = os.write(self._fd, remaining)
                self._written += count
                remaining = remaining[count:]
        self._writeback.advance(self._written)

    def close(self) -> PutResult:
        check(self._fd >= 0, "close of a closed object")
        try:
            with wrap_errors("write", str(self._target)), store_wait("write", str(self._target)):
                os.fsync(self._fd)
                self._make_folder()
                result = self._link()
                self._sync_folder()
            return result
        finally:
            self.abort()

    def abort(self) -> None:
        """Drop the temporary file. A lost or a remaining temporary file changes nothing, so errors are ignored."""
        fd, self._fd = self._fd, -1  # after an interruption by a signal, abort is called once more
        if fd >= 0:
            with contextlib.suppress(OSError):
                self._temporary.unlink()
            os.close(fd)

    def _link(self) -> PutResult:
        try:
            os.link(self._temporary, self._target)
        except FileExistsError:  # also over NFS, where the answer to our own link was lost and the client asked again
            return PutResult.SAME if self._equals_target() else PutResult.OTHER
        except OSError as error:
            if error.errno in _LINKLESS:
                refused = store_error("make the hard link", str(self._target), error)
                refused.hint = _LINKLESS_HINT
                raise refused from error
            raise
        return PutResult.CREATED

    def _equals_target(self) -> bool:
        with self._open_target() as other:
            return os.fstat(other).st_size == self._written and all(
                os.pread(self._fd, _COMPARE_BYTES, at) == os.pread(other, _COMPARE_BYTES, at)
                for at in range(0, self._written, _COMPARE_BYTES)
            )
