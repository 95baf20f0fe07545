"""The folder of backup files: created for its owner alone, listed, and locked for one writer per topic."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from offsite.metastore.names import BackupName, backups_of
from offsite.model.errors import BackupFileInUse, BadOption
from offsite.stores.plain_files import wrap_errors

_MODE = 0o700
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def make_folder(folder: Path) -> None:
    """Create the folder if missing. Raises `BadOption` if the path is no folder or may not be used, and errors of
    creating a folder."""
    with wrap_errors("make", str(folder)):
        folder.mkdir(mode=_MODE, parents=True, exist_ok=True)
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise BadOption(
            f"{folder} may not be read and written",
            hint="give the user that runs offsite read and write access to the folder",
        )


def exposure_warning(path: Path) -> str:
    """A warning if others than the owner may read a file or folder: the commands of a metastore can hold secrets. Empty
    if only the owner may."""
    mode = path.stat().st_mode
    if not mode & _OTHERS:
        return ""
    return f"{path} can be read by others than its owner ({stat.filemode(mode)}): chmod go= {path}"


def list_backups(folder: Path, topic: str) -> list[BackupName]:
    """The backup files of a topic, oldest first; none without a folder."""
    return backups_of(topic, (path.name for path in folder.iterdir() if path.is_file())) if folder.is_dir() else []


@contextmanager
def locked(folder: Path, topic: str) -> Iterator[None]:
    """A block that alone writes backup files of the topic in this folder. The lock ends with the process. Raises
    `BackupFileInUse`."""
    path = folder / f".{topic.lower()}.lock"
    with wrap_errors("lock", str(path)):
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BackupFileInUse(
                f"another process backs {topic} up into {folder}",
                hint="one process is enough; stop the other process first, or use another folder",
            ) from error
        yield
    finally:
        os.close(file)
