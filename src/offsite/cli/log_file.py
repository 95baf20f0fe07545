"""A log file shared by several commands, with a promised maximum size.

Every line is written completely, under a lock, into the file with the name at the moment. So several runs may share a
file, and a rotation (by a run, or by a tool of the system) loses no line.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import stat
from pathlib import Path

from offsite.cli.output import note

MAX_BYTES = 10 << 20
"""Size of a log file at rotation: some 60,000 lines, opened at once by any editor."""

KEPT_FILES = 4
"""Older files beside the current file, named FILE.1 (the newest) to FILE.4: 50 MiB together with the current file."""

_PRIVATE = 0o600
"""Mode of a new file: a log names topics, groups and places. After a file with another mode, set by a person, the next
file has the same mode."""

_REOPENINGS = 10


class LogFile(logging.Handler):
    """A log handler that appends to the file `path`. A failed write is reported once on stderr and stops no command."""

    def __init__(self, path: Path, *, max_bytes: int = MAX_BYTES, kept_files: int = KEPT_FILES) -> None:
        """Raises `OSError` when the file cannot be written."""
        super().__init__()
        self._path = path.resolve()
        self._max_bytes = max_bytes
        self._kept_files = kept_files
        self._is_broken = False
        self._mode = _mode_of(self._path)
        os.close(self._open())

    def emit(self, record: logging.LogRecord) -> None:
        data = f"{self.format(record)}\n".encode(errors="backslashreplace")
        try:
            self._append(data)
        except OSError as error:
            if not self._is_broken:
                note(f"warning: log lines are lost: cannot write {self._path}: {error.strerror}")
            self._is_broken = True

    def _append(self, data: bytes) -> None:
        for _ in range(_REOPENINGS):
            fd = self._open()
            try:
                if self._is_current(fd) and not self._turned_over(fd, len(data)):
                    _write_all(fd, data)
                    return
            finally:
                os.close(fd)
        raise OSError(0, "other processes rotate it all the time")

    def _open(self) -> int:
        """Open the file, locked until closed; without a lock where the file system has none."""
        fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, self._mode)
        with contextlib.suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_EX)
        return fd

    def _is_current(self, fd: int) -> bool:
        """Whether the locked file still has the name."""
        try:
            return os.path.samestat(os.fstat(fd), self._path.stat())
        except FileNotFoundError:
            return False

    def _turned_over(self, fd: int, more_bytes: int) -> bool:
        """Rename a full file. Pipes and terminals are never full."""
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or not status.st_size or status.st_size + more_bytes <= self._max_bytes:
            return False
        names = [self._path, *(Path(f"{self._path}.{number}") for number in range(1, self._kept_files + 1))]
        for older, newer in reversed(list(zip(names[1:], names[:-1], strict=True))):
            with contextlib.suppress(FileNotFoundError):
                newer.replace(older)
        return True


def _mode_of(path: Path) -> int:
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        return _PRIVATE


def _write_all(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]
