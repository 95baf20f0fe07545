"""Temporary folders, above all Spark's: private, deleted when the owner ends, or after a crash by the next owner."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from offsite.model.clock import SystemClock
from offsite.model.errors import BadOption

PREFIX = "offsite-spark-"
ORPHANED_AFTER_S = 600
"""A killed owner's JVM may still be starting, and would hang for ever without its folder. No start takes this long."""


class Scratch:
    """A temporary folder, named after the owning process: a folder with a dead owner is recognisable. `prefix` tells
    the purpose."""

    def __init__(self, prefix: str = PREFIX) -> None:
        self._prefix = prefix
        self._folder: Path | None = None

    def create(self) -> Path:
        """Return the folder, made on the first call. Raises `BadOption`."""
        if self._folder is None:
            try:
                _sweep(Path(tempfile.gettempdir()), self._prefix)
                self._folder = Path(tempfile.mkdtemp(prefix=f"{self._prefix}{os.getpid()}-"))
            except OSError as error:
                place = f" {error.filename}" if error.filename else ""
                raise BadOption(
                    f"no temporary folder can be created{place}: {error.strerror}",
                    hint="set TMPDIR to a writable folder with free space",
                ) from error
            atexit.register(self._remove_at_exit, os.getpid())
        return self._folder

    def remove(self) -> None:
        """Delete the folder with all contents. A JVM may delete files at the same time: missing files are no error."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
            atexit.unregister(self._remove_at_exit)

    def _remove_at_exit(self, owner: int) -> None:
        """Remove the folder of an owner interrupted before `remove`. Forks of the owner do nothing."""
        if os.getpid() == owner:
            self.remove()


def _sweep(parent: Path, prefix: str) -> None:
    """Delete this user's folders whose owner was killed a while ago. Further sessions may do the same meanwhile."""
    for folder in parent.glob(f"{prefix}[0-9]*-*"):
        with suppress(FileNotFoundError):
            status = folder.lstat()
            is_old = SystemClock().now_ms() / 1000 - status.st_mtime > ORPHANED_AFTER_S
            if is_old and status.st_uid == os.getuid() and not _is_alive(folder, prefix):
                shutil.rmtree(folder, ignore_errors=True)


def _is_alive(folder: Path, prefix: str) -> bool:
    owner = folder.name.removeprefix(prefix).partition("-")[0]
    return not owner.isdigit() or Path(f"/proc/{owner}").exists()
