"""Files that several processes read and write: replaced atomically, and a lock between processes."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from offsite.model.errors import DamagedObject, StoreUnavailable, StoreUnreachable
from offsite.model.ids import random_id
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
from offsite.stores.plain_files import make_private_root, wrap_errors

PRIVATE = 0o600
LOCK_MAX_S = 5.0
LOCK_RETRY_S = 0.02


def write_whole(path: Path, data: bytes, *, mode: int = PRIVATE) -> None:
    """Replace `path` with `data`: readers see the old bytes or the new bytes. Raises the errors of a file store."""
    with wrap_errors("write", str(path)), _fresh(path, data, mode) as fresh:
        fresh.replace(path)


def create_whole(path: Path, data: bytes, *, mode: int = PRIVATE) -> bool:
    """Create `path` with `data`; return False if `path` exists, and leave the file unchanged."""
    with wrap_errors("write", str(path)), _fresh(path, data, mode) as fresh:
        try:
            os.link(fresh, path)
        except FileExistsError:
            return False
    return True


def write_json(path: Path, fields: Mapping[str, JsonValue]) -> None:
    write_whole(path, encode_object({"format": FORMAT, **fields}))


def read_json(path: Path) -> JsonObject | None:
    """Read a document of `write_json`; None if the file does not exist. Raises `DamagedObject`."""
    data = read_whole(path)
    return None if data is None else parse_json_object(data, source=str(path), damaged=DamagedObject)


def read_whole(path: Path) -> bytes | None:
    with wrap_errors("read", str(path)):
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock in a block. The lock ends with the process, in any case. Blocks are short: no block waits.
    Raises `StoreUnreachable` if another process holds the lock for long, because the process was stopped."""
    with wrap_errors("lock", str(path)):
        make_private_root(path.parent)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
    try:
        _lock(fd, path)
        yield
    finally:
        os.close(fd)


def _lock(fd: int, path: Path) -> None:
    deadline_s = time.monotonic() + LOCK_MAX_S
    while True:
        try:
            with wrap_errors("lock", str(path)):
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except StoreUnavailable as error:
            if not isinstance(error.__cause__, BlockingIOError):
                raise
            if time.monotonic() > deadline_s:
                raise StoreUnreachable(
                    f"another process has held {path} for {LOCK_MAX_S:.0f} s", hint=f"see which process: fuser {path}"
                ) from error
            time.sleep(LOCK_RETRY_S)
        else:
            return


@contextmanager
def _fresh(path: Path, data: bytes, mode: int) -> Iterator[Path]:
    """Create a durable file with `data` beside `path`; the file is removed after the block."""
    make_private_root(path.parent)
    fresh = path.with_name(f".{path.name}.{random_id()}~")
    try:
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield fresh
    finally:
        with suppress(OSError):
            fresh.unlink()
