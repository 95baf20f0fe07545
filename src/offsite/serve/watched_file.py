"""Files of an administrator that count as they are now: read again when they change, and while they cannot be used,
nothing counts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

from offsite.model.errors import BadOption
from offsite.model.journal import warned

FileState: TypeAlias = tuple[int, int, int] | None
ReadT = TypeVar("ReadT")


def state_of(file: Path) -> FileState:
    """Return what changes with a file; None without one."""
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


class WatchedFile(Generic[ReadT]):
    """What `read` reads of a file. `nothing`: what counts while `read` raises `BadOption`, which is logged as `event`.
    The first reading raises it."""

    def __init__(self, path: Path, read: Callable[[Path], ReadT], *, nothing: ReadT, event: str) -> None:
        self._path, self._read, self._nothing, self._event = path, read, nothing, event
        self._seen = state_of(path)
        self._value = read(path)

    def __call__(self) -> ReadT:
        """Return what the file says now."""
        if (state := state_of(self._path)) != self._seen:
            self._seen, self._value = state, self._read_again()
        return self._value

    def _read_again(self) -> ReadT:
        try:
            return self._read(self._path)
        except BadOption as error:
            warned(self._event, error=error.id, why=error.message)
            return self._nothing
