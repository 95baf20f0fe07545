"""Opening what lies inside a folder, and nothing else: no link is followed, and only plain files are read.

Whoever can write into the folder could otherwise have us read, or delete, what lies elsewhere, or wait for ever at a
pipe. The root itself may be a link: its user chose it. For reading, folders on the way are looked at once a process,
since what is read is checked by its hash; for deleting they are walked one by one (openat(2)), so that nothing can be
changed between the look and the use.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from offsite.model.errors import DamagedObject

_WALK = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC  # a pipe is opened, and not waited for
_LINKED = frozenset({errno.ELOOP, errno.ENOTDIR})
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_HINT = "offsite writes plain files in plain folders: find out who put it there, and take it away"


@contextmanager
def parent_of(root: Path, key: str) -> Iterator[tuple[int, str]]:
    """The open folder that holds `key`, and its name therein. Raises `OSError`, `DamagedObject` for a link."""
    *folders, name = key.split("/")
    fd = os.open(root, _WALK)
    try:
        for number, folder in enumerate(folders, 1):
            inner = _entered(fd, folder, root.joinpath(*folders[:number]))
            os.close(fd)
            fd = inner
        yield fd, name
    finally:
        os.close(fd)


@contextmanager
def opened(root: Path, key: str) -> Iterator[int]:
    """The file of `key`, to be read. Raises `OSError`, `DamagedObject` for what is no plain file."""
    try:
        fd = os.open(f"{root}/{key}", _READ)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENXIO}:  # a link or a socket
            status_of(root, key)
        raise
    try:
        check_way(root, key)
        _check_plain(root / key, os.fstat(fd))
        yield fd
    finally:
        os.close(fd)


def status_of(root: Path, key: str) -> os.stat_result:
    """Raises `OSError`, `DamagedObject` for what is no plain file."""
    check_way(root, key)
    status = os.lstat(f"{root}/{key}")
    _check_plain(root / key, status)
    return status


def check_way(root: Path, key: str) -> None:
    """Raise `DamagedObject` where a folder between `root` and `key` is none itself; or `OSError`."""
    _check_folders(root, key.rpartition("/")[0])


@lru_cache(maxsize=4096)
def _check_folders(root: Path, folders: str) -> None:
    for folder in reversed((Path(folders), *Path(folders).parents)):
        if folder.name:
            check_folder(root / folder)


def check_folder(folder: Path) -> None:
    """Raise `DamagedObject` where `folder` is a link to one, `NotADirectoryError` where it is none; or `OSError`."""
    status = folder.lstat()
    if stat.S_ISLNK(status.st_mode):
        raise _not_plain(folder, status)
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))


def _entered(fd: int, name: str, path: Path) -> int:
    try:
        return os.open(name, _WALK | os.O_NOFOLLOW, dir_fd=fd)
    except OSError as error:
        if error.errno in _LINKED and stat.S_ISLNK((status := os.lstat(name, dir_fd=fd)).st_mode):
            raise _not_plain(path, status) from error
        raise


def _check_plain(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise _not_plain(path, status)


def _not_plain(path: Path, status: os.stat_result) -> DamagedObject:
    kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
    return DamagedObject(f"{path} is {kind}: offsite does not follow or read it", hint=_HINT)
