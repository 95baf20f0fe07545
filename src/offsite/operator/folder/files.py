"""Files that several processes read and write: put in place at once and as a whole, and a lock between them."""

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
from offsite.stores.plain_files import make_private_root
from offsite.stores.posix_errors import wrapped

PRIVATE = 0o600
LOCK_MAX_S = 5.0
LOCK_RETRY_S = 0.02


def write_whole(path: Path, data: bytes, *, mode: int = PRIVATE) -> None:
    """Let `path` hold `data`: whoever reads it sees the old bytes or the new ones. Raises what a store of files
    does."""
    with wrapped("write", str(path)), _fresh(path, data, mode) as fresh:
        fresh.replace(path)


def create_whole(path: Path, data: bytes, *, mode: int = PRIVATE) -> bool:
    """Create `path` with `data`; False where it is there already, and left alone."""
    with wrapped("write", str(path)), _fresh(path, data, mode) as fresh:
        try:
            os.link(fresh, path)
        except FileExistsError:
            return False
    return True


def write_json(path: Path, fields: Mapping[str, JsonValue]) -> None:
    write_whole(path, encode_object({"format": FORMAT, **fields}))


def read_json(path: Path) -> JsonObject | None:
    """What `write_json` wrote; None where there is nothing. Raises `DamagedObject`."""
    data = read_whole(path)
    return None if data is None else parse_json_object(data, source=str(path), damaged=DamagedObject)


def read_whole(path: Path) -> bytes | None:
    with wrapped("read", str(path)):
        try:
            return path.read_bytes()
        except FileNotFoundError:
            return None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """A block that no other process is in. A process that ends, however, lets others in. Blocks are short: nothing is
    waited for in one. Raises `StoreUnreachable` where another process stays in one: it was stopped there."""
    with wrapped("lock", str(path)):
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
            with wrapped("lock", str(path)):
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except StoreUnavailable as error:
            if not isinstance(error.__cause__, BlockingIOError):
                raise
            if time.monotonic() > deadline_s:
                raise StoreUnreachable(
                    f"another process has held {path} for {LOCK_MAX_S:.0f} s", hint=f"see who does: fuser {path}"
                ) from error
            time.sleep(LOCK_RETRY_S)
        else:
            return


@contextmanager
def _fresh(path: Path, data: bytes, mode: int) -> Iterator[Path]:
    """A file beside `path` that holds `data`, durable; gone behind the block."""
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
