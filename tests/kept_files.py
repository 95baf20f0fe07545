"""Every file that was made below a folder, also those that were deleted a moment later.

inotify(7) tells of a new name at once, and a hard link keeps what it stands for. Who makes, writes and deletes a file
in less time than that is not caught; pyspark keeps its own for as long as the JVM takes to read them.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

_CREATE, _MOVED_TO, _IS_FOLDER = 0x100, 0x80, 0x40000000
_EVENT = struct.Struct("iIII")
_BUFFER_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFiles:
    """`names`: the path of a file when it was made, by the file that keeps it. `keep` is on the same file system."""

    keep: Path
    names: dict[Path, Path] = field(default_factory=dict)

    def files(self) -> Iterator[tuple[Path, bytes]]:
        """Where it was, and what was in it at last."""
        for kept, path in self.names.items():
            yield path, kept.read_bytes()


@contextmanager
def kept_files(folder: Path, keep: Path) -> Iterator[KeptFiles]:
    """A block in which no file below `folder` goes away unseen."""
    kept = KeptFiles(keep=keep)
    keep.mkdir()
    watching = _Watching(kept)
    watching.add(folder)
    thread = threading.Thread(target=watching.run, name="kept-files")
    thread.start()
    try:
        yield kept
    finally:
        end = folder / _Watching.END
        end.touch()
        thread.join()
        end.unlink()


class _Watching:
    END = ".this-is-the-end"

    def __init__(self, kept: KeptFiles) -> None:
        self._kept = kept
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._inotify = self._libc.inotify_init1(os.O_CLOEXEC)
        assert self._inotify >= 0
        self._folders: dict[int, Path] = {}
        self._numbers = itertools.count()

    def add(self, folder: Path) -> None:
        """Watch it, and take what is in it already: the watch may be late."""
        number = self._libc.inotify_add_watch(self._inotify, os.fsencode(folder), _CREATE | _MOVED_TO)
        if number < 0:  # gone meanwhile
            return
        self._folders[number] = folder
        with suppress(OSError):
            for each in folder.iterdir():
                self._take(each, is_folder=each.is_dir() and not each.is_symlink())

    def run(self) -> None:
        while True:
            for path, is_folder in self._events(os.read(self._inotify, _BUFFER_BYTES)):
                if path.name == self.END:
                    os.close(self._inotify)
                    return
                self._take(path, is_folder=is_folder)

    def _events(self, data: bytes) -> Iterator[tuple[Path, bool]]:
        position = 0
        while position < len(data):
            number, mask, _, size = _EVENT.unpack_from(data, position)
            position += _EVENT.size + size
            assert number >= 0, "the kernel had more to tell than it had room for"
            name = data[position - size : position].rstrip(b"\0")
            yield self._folders[number] / os.fsdecode(name), bool(mask & _IS_FOLDER)

    def _take(self, path: Path, *, is_folder: bool) -> None:
        if is_folder:
            self.add(path)
            return
        kept = self._kept.keep / str(next(self._numbers))
        with suppress(OSError):  # gone meanwhile
            os.link(path, kept, follow_symlinks=False)
            if kept.is_file() and not kept.is_symlink():
                self._kept.names[kept] = path
