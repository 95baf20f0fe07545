"""Temporary folders, Spark's above all: private, deleted when their owner ends; after a crash, by the next one."""

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
"""A killed owner's JVM may still be starting, and would hang for ever without the folder it was told to write into. No
start takes this long."""


class Scratch:
    """A temporary folder, named after the process that owns it, so that a folder whose owner is gone can be told from
    one in use. `prefix` says what it is for."""

    def __init__(self, prefix: str = PREFIX) -> None:
        self._prefix = prefix
        self._folder: Path | None = None

    def create(self) -> Path:
        """The folder, made on the first call. Raises `BadOption`."""
        if self._folder is None:
            try:
                _sweep(Path(tempfile.gettempdir()), self._prefix)
                self._folder = Path(tempfile.mkdtemp(prefix=f"{self._prefix}{os.getpid()}-"))
            except OSError as error:
                place = f" {error.filename}" if error.filename else ""
                raise BadOption(
                    f"no temporary folder can be made{place}: {error.strerror}",
                    hint="set TMPDIR to a folder with room that this user may write",
                ) from error
            atexit.register(self._remove_at_exit, os.getpid())
        return self._folder

    def remove(self) -> None:
        """Delete the folder and all it holds. A JVM may be deleting in it at the same time: what is gone is no
        error."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
            atexit.unregister(self._remove_at_exit)

    def _remove_at_exit(self, owner: int) -> None:
        """For owners that were interrupted where they could not close; forks of theirs leave it alone."""
        if os.getpid() == owner:
            self.remove()


def _sweep(parent: Path, prefix: str) -> None:
    """Delete this user's folders whose owner was killed a while ago. Other sessions may be doing the same."""
    for folder in parent.glob(f"{prefix}[0-9]*-*"):
        with suppress(FileNotFoundError):
            found = folder.lstat()
            is_old = SystemClock().now_ms() / 1000 - found.st_mtime > ORPHANED_AFTER_S
            if is_old and found.st_uid == os.getuid() and not _is_alive(folder, prefix):
                shutil.rmtree(folder, ignore_errors=True)


def _is_alive(folder: Path, prefix: str) -> bool:
    owner = folder.name.removeprefix(prefix).partition("-")[0]
    return not owner.isdigit() or Path(f"/proc/{owner}").exists()
