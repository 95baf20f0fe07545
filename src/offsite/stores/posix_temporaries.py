"""The files of a folder that are being written: in `~tmp`, a name no key can have, under names of our own form.

What a crash left there is found by age. Only that is ever deleted: plain files with such a name, in a real folder.
"""

from __future__ import annotations

import os
import re
import socket
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from offsite.model.ids import random_id
from offsite.stores.folder_modes import file_mode, folder_mode
from offsite.stores.plain_files import PlainFiles

TEMPORARY_FOLDER = "~tmp"

_NAME = re.compile(r".+-[0-9]+-[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class Temporaries:
    """Those below the root of `files`, which is never made: a folder that is not mounted must stay missing."""

    files: PlainFiles

    @property
    def folder(self) -> Path:
        return self.files.root / TEMPORARY_FOLDER

    def prepare(self) -> None:
        """Raises `OSError`, `DamagedObject`."""
        with suppress(FileExistsError):
            self.folder.mkdir(mode=folder_mode(self.files.root))
        self.files.check_folder(TEMPORARY_FOLDER)

    def new_path(self) -> Path:
        return self.folder / f"{socket.gethostname()}-{os.getpid()}-{random_id(16)}"

    def create(self, path: Path) -> int:
        """A new file at a `new_path`, open to be written and read. Raises `OSError`."""
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(path, flags, file_mode(self.files.root))

    def sweep(self, *, before_ms: int) -> int:
        """Delete what was last written before then; how many. Raises `OSError`, `DamagedObject`."""
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
    with suppress(FileNotFoundError):  # its writer has finished, or another one has swept it
        status = os.lstat(name, dir_fd=folder)
        if stat.S_ISREG(status.st_mode) and status.st_mtime_ns // 1_000_000 < before_ms:
            os.unlink(name, dir_fd=folder)
            return True
    return False
