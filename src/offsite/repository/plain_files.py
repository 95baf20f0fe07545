"""Plain files below a folder, reached without following anything that somebody else put on the way.

An archive is a folder that others fill: a symbolic link in it leads to files of the person who runs offsite, a FIFO or
a device never ends. So every folder on the way is opened from the one above it and no link is followed; the root itself
may be one. What is no plain file is refused by name: passed over, its records would be missing in silence.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from offsite.model.errors import DamagedArchive

__all__ = ["folder_of", "is_temporary", "make_root", "mode_for", "opened", "plain_entries", "temporary_name"]

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_MARK = "~offsite"


def make_root(root: Path) -> None:
    """Raises `OSError`."""
    root.mkdir(mode=0o700, parents=True, exist_ok=True)


def mode_for(root: Path) -> int:
    """The mode of folders below `root`: its own, so that whoever may read it may read what comes in; files have the
    same without execution."""
    return stat.S_IMODE(root.stat().st_mode) & 0o777 | 0o700


@contextmanager
def folder_of(root: Path, names: Sequence[str], *, make: bool = False) -> Iterator[int]:
    """The folder `names` below `root`, open. With `make` those that are missing are made, durably, the root as well.

    Raises `OSError`, and `DamagedArchive` for a link on the way.
    """
    if make:
        make_root(root)
    folder = os.open(root, _FOLDER)
    try:
        for depth, name in enumerate(names):
            if make:
                _make(folder, name, mode_for(root))
            above, folder = folder, _below(folder, name, root.joinpath(*names[: depth + 1]))
            os.close(above)
        yield folder
    finally:
        os.close(folder)


def _make(folder: int, name: str, mode: int) -> None:
    try:
        os.mkdir(name, mode, dir_fd=folder)
    except FileExistsError:
        return
    os.fsync(folder)


def _below(folder: int, name: str, path: Path) -> int:
    try:
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=folder)
    except OSError as error:
        if error.errno in {errno.ELOOP, errno.ENOTDIR}:
            _refuse_link(folder, name, path)
        raise


def _refuse_link(folder: int, name: str, path: Path) -> None:
    if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
        raise _not_plain(path, stat.S_IFLNK)


@contextmanager
def opened(folder: int, path: Path, flags: int, *, mode: int = 0o600) -> Iterator[int]:
    """The plain file of `path`'s name in `folder`. Raises `OSError`, and `DamagedArchive` for anything else that lies
    there; nothing of that is read, waited for or changed."""
    _refuse_others(folder, path)
    file = os.open(path.name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode, dir_fd=folder)
    try:
        if not stat.S_ISREG(found := os.fstat(file).st_mode):
            raise _not_plain(path, found)
        yield file
    finally:
        os.close(file)


def _refuse_others(folder: int, path: Path) -> None:
    try:
        found = os.stat(path.name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(found):
        raise _not_plain(path, found)


def plain_entries(folder: int, path: Path) -> dict[str, os.stat_result]:
    """Files and folders by name, those of folders with a `/` behind; names with `~` are left out, as no key has one.

    Raises `OSError`, and `DamagedArchive` for what is neither.
    """
    found: dict[str, os.stat_result] = {}
    for name in os.listdir(folder):
        if "~" in name:
            continue
        with suppress(FileNotFoundError):  # deleted since the folder was read
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
                raise _not_plain(path / name, status.st_mode)
            found[f"{name}/" if stat.S_ISDIR(status.st_mode) else name] = status
    return found


def temporary_name(name: str) -> str:
    """One that nobody can foresee, and no key can have."""
    return f"{name}{_MARK}-{secrets.token_hex(8)}"


def is_temporary(name: str) -> bool:
    """Whether it is of this version, or of those whose temporary names were `~offsite` alone."""
    _, mark, rest = name.rpartition(_MARK)
    return bool(mark) and (not rest or (rest.startswith("-") and len(rest) == 17))


def _not_plain(path: Path, mode: int) -> DamagedArchive:
    if stat.S_ISLNK(mode):
        hint = "nothing is followed out of an archive: put in its place what it leads to, or name that as the archive"
        return DamagedArchive(f"{path} is a symbolic link", hint=hint)
    kind = "a folder" if stat.S_ISDIR(mode) else "a FIFO, a socket or a device"
    return DamagedArchive(f"{path} is {kind}, not a file", hint="take it out of the archive")
