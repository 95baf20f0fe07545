"""A lock that tells for sure whether Python workers still live: they have it from birth, and it ends with the last one.

A restore that fails gives topics their own settings back, and must not do so while a worker may still write there.

Spark forgets a cancelled job at once, and its Python worker goes on until its function returns. The parent of all
workers on this machine takes the lock (shared) before it forks any, and each fork has it too (flock(2): one open file
description), so only the end of all of them lets the driver have it. Runs in the workers' parent: must import nothing
but the standard library.
"""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path

LIMIT_S = 10.0
"""How long killed workers may take to be gone: a thousand times what they need."""
POLL_S = 0.005
_NAME = "workers"


class WorkerLock:
    """The driver's side of the lock: a file in `folder`, which is deleted with the session."""

    def __init__(self, folder: Path) -> None:
        self._file = os.open(folder / _NAME, os.O_RDWR | os.O_CREAT, 0o600)

    def all_ended(self, *, limit_s: float = LIMIT_S) -> bool:
        """Whether no worker is left; waits for those that are ending, at most `limit_s` seconds. To be asked at the end
        only: the driver then has the lock, so that no worker can be born after it was true."""
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


def hold(folder: Path) -> bool:
    """Take the lock for as long as this process or any fork of it lives. False when the driver has ended the session:
    then there must be no workers any more."""
    path = folder / _NAME
    try:
        file = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    with suppress(OSError):  # without locks the driver will not believe that it has it, either
        return _taken(file, fcntl.LOCK_SH) and path.exists()
    return True


def _taken(file: int, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
