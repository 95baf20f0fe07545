"""Errors of the operating system as errors of offsite."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from offsite.model.errors import StoreDenied, StoreFull, StoreUnavailable, StoreUnreachable

MISSING = frozenset({errno.ENOENT, errno.ENOTDIR})
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


@contextmanager
def wrap_errors(action: str, path: str) -> Iterator[None]:
    """Turn an `OSError` into `StoreFull`, `StoreDenied` or `StoreUnreachable`, with the failed `action`."""
    try:
        yield
    except OSError as error:
        raise store_error(action, path, error) from error


def store_error(action: str, path: str, error: OSError) -> StoreFull | StoreDenied | StoreUnavailable:
    reason = f"cannot {action} {path} on {socket.gethostname()}: {os.strerror(error.errno or 0)}"
    if error.errno in _FULL:
        return StoreFull(reason, hint="free some space, or move the repository; committed data is not affected")
    if error.errno in _DENIED:
        return StoreDenied(reason, hint="give the user that runs offsite read and write access to the folder")
    if error.errno == errno.ENOTDIR:
        return StoreUnreachable(reason, hint="there is a file in the place of a folder: check the file, and move it")
    return StoreUnreachable(reason, hint="check that the folder is mounted, on the Spark workers as well")
