"""A lock that shows for sure whether Python workers still live: workers have the lock from birth, and the lock ends
with the last worker.

A restore that fails gives topics their own settings back, and must not do so while a worker may still write into the
topics.

Spark forgets a cancelled job at once, and the Python worker continues until its function returns. The parent of all
workers on this machine takes the lock (shared) before the first fork, and every fork has it too (flock(2): one open
file description), so the driver gets the lock only after the end of all. The module runs in the workers' parent: must
import nothing but the standard library.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

LIMIT_S = 10.0
"""How long killed workers may take to be gone: a thousand times the usual time."""
POLL_S = 0.005
_NAME = "workers"


class WorkerLock:
    """The driver's side of the lock: a file in `folder`, deleted with the session."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / _NAME, os.O_RDWR | os.O_CREAT, 0o600)

    def all_ended(self, *, limit_s: float = LIMIT_S) -> bool:
        """Whether no worker is left. Waits at most `limit_s` seconds for ending workers. Call only at the end: after
        the answer True the driver has the lock, and no worker can be born any more."""
        deadline_s = time.monotonic() + limit_s
        try:
            while not _taken(self._file, fcntl.LOCK_EX):
                if time.monotonic() > deadline_s:
                    return False
                time.sleep(POLL_S)
        except OSError:  # a file system without locks: nothing is known
            return False
        else:
            return True

    def close(self) -> None:
        os.close(self._file)


def hold_lock(folder: Path) -> bool:
    """Take the lock for as long as this process or any fork lives. False when the driver has ended the session: no
    worker may start afterwards."""
    path = folder / _NAME
    try:
        file = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    with suppress(OSError):  # without locks the driver does not believe it has the lock, either
        return _taken(file, fcntl.LOCK_SH) and path.exists()
    return True


def _taken(file: int, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
