"""Plain files below a folder, reached without following links, with the access of the root folder. Errors of the
operating system become errors of offsite.

Other users can write into the folder of a repository, and fill the folder of an archive: a symbolic link leads to files
of the user who runs offsite, a pipe or a device never ends. The root itself may be a link, because its user chose the
link. Anything but a plain file is refused by name: a skipped file would mean records missing in silence.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from offsite.model.errors import (
    DamagedArchive,
    DamagedObject,
    StoreDenied,
    StoreFull,
    StoreUnavailable,
    StoreUnreachable,
)

PRIVATE_FOLDER = 0o700
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_PASSAGE = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC
_NO_WAIT = os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC  # a pipe is opened, and not waited for
_NOT_OPENED = frozenset({errno.ELOOP, errno.ENXIO, errno.EISDIR, errno.EEXIST})
_NOT_ENTERED = frozenset({errno.ELOOP, errno.ENOTDIR})
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}

MISSING = frozenset({errno.ENOENT, errno.ENOTDIR})
_FULL_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_DENIED_ERRORS = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


def make_private_root(root: Path) -> None:
    """Make `root`, for its owner alone. An existing root stays as it is. Raises `OSError`.

    Root folders are made for the owner alone (0700). An existing root keeps its mode, and its group has the same rights
    below: in a folder of mode 0750, folders are made 0750 and files 0640. All users have the root's rights in an
    archive, which is made for further tools (`is_public`), never elsewhere. The umask applies as usual.
    """
    root.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)


def folder_mode(root: Path, *, is_public: bool = False) -> int:
    """Return the mode of a new folder below `root`. Raises `OSError`."""
    return stat.S_IMODE(root.stat().st_mode) & (0o777 if is_public else 0o770) | PRIVATE_FOLDER


def file_mode(root: Path, *, is_public: bool = False) -> int:
    """Return the mode of a new file below `root`. Raises `OSError`."""
    return folder_mode(root, is_public=is_public) & 0o666


def check_replaceable(path: Path) -> None:
    """Raise `OSError` where a file must not replace the entry at `path`: root can replace a device."""
    with suppress(FileNotFoundError):
        kind = _KINDS.get(stat.S_IFMT(path.stat().st_mode))
        if kind is not None:
            raise OSError(errno.EEXIST, f"it is {kind}", str(path))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainFiles:
    """The plain files below `root`, by keys. Anything else on the way or in place of a file raises `refused` with
    `hint`; refusals of the operating system raise `OSError`.

    A folder is entered from the parent folder (openat(2)), so nothing can change between look and use. A store checks
    all read bytes by hashes, and looks at the folders on the way once instead.
    """

    root: Path
    refused: type[DamagedObject | DamagedArchive]
    hint: str
    is_public: bool = False
    _ways: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    @property
    def new_folder_mode(self) -> int:
        """Raises `OSError`."""
        return folder_mode(self.root, is_public=self.is_public)

    @property
    def new_file_mode(self) -> int:
        """Raises `OSError`."""
        return file_mode(self.root, is_public=self.is_public)

    @contextmanager
    def folder(self, names: Sequence[str], *, make: bool = False) -> Iterator[int]:
        """Enter the folder `names`, name by name, as a place for operations. `make` creates missing folders durably,
        and allows reads and fsync as well."""
        flags = _FOLDER if make else _PASSAGE
        folder = os.open(self.root, flags)
        try:
            for depth, name in enumerate(names):
                if make:
                    self._make(folder, name)
                above, folder = folder, self._entered(folder, name, "/".join(names[: depth + 1]), flags)
                os.close(above)
            yield folder
        finally:
            os.close(folder)

    @contextmanager
    def opened(self, key: str, flags: int = os.O_RDONLY, *, folder: int | None = None) -> Iterator[int]:
        """Open the file of `key`: in `folder`, the parent; or without `folder`, read-only, behind folders looked at
        once. Never blocks."""
        name = f"{self.root}/{key}" if folder is None else key.rpartition("/")[2]
        try:
            file = os.open(name, flags | _NO_WAIT, self.new_file_mode if flags & os.O_CREAT else 0, dir_fd=folder)
        except OSError as error:
            if error.errno in _NOT_OPENED:
                if folder is None:
                    self.check_way(key)
                self._check_plain(key, os.lstat(name, dir_fd=folder))
            raise
        try:
            if folder is None:
                self.check_way(key)
            self._check_plain(key, os.fstat(file))
            yield file
        finally:
            os.close(file)

    def status(self, key: str) -> os.stat_result:
        self.check_way(key)
        status = os.lstat(f"{self.root}/{key}")
        self._check_plain(key, status)
        return status

    def entries(self, names: Sequence[str]) -> dict[str, os.stat_result]:
        """Return files and folders in the folder `names`, folders with a trailing `/`. Names with `~` are left out,
        because no key has one."""
        with self.folder(names) as way:
            folder = os.open(".", _FOLDER, dir_fd=way)
            try:
                with os.scandir(folder) as entries:
                    return dict(self._listed(entries, names))
            finally:
                os.close(folder)

    def check_way(self, key: str) -> None:
        """Raise where an entry on the way to `key` is no folder. Looks at every folder once."""
        way = key.rpartition("/")[0]
        if way not in self._ways:
            names = way.split("/") if way else []
            for depth in range(len(names)):
                self.check_folder("/".join(names[: depth + 1]))
            self._ways.add(way)

    def check_folder(self, key: str) -> None:
        """Raise where `key` is a link to a folder; `NotADirectoryError` where `key` is no folder."""
        status = os.lstat(f"{self.root}/{key}")
        if stat.S_ISLNK(status.st_mode):
            raise self._refusal(key, status)
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), f"{self.root}/{key}")

    def _listed(
        self, entries: Iterable[os.DirEntry[str]], names: Sequence[str]
    ) -> Iterator[tuple[str, os.stat_result]]:
        for entry in (entry for entry in entries if "~" not in entry.name):
            with suppress(FileNotFoundError):  # deleted since the folder was read
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    yield f"{entry.name}/", status
                else:
                    self._check_plain("/".join((*names, entry.name)), status)
                    yield entry.name, status

    def _make(self, folder: int, name: str) -> None:
        with suppress(FileExistsError):
            os.mkdir(name, self.new_folder_mode, dir_fd=folder)
            os.fsync(folder)

    def _entered(self, folder: int, name: str, key: str, flags: int) -> int:
        try:
            return os.open(name, flags | os.O_NOFOLLOW, dir_fd=folder)
        except OSError as error:
            if error.errno in _NOT_ENTERED and stat.S_ISLNK((status := os.lstat(name, dir_fd=folder)).st_mode):
                raise self._refusal(key, status) from error
            raise

    def _check_plain(self, key: str, status: os.stat_result) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise self._refusal(key, status)

    def _refusal(self, key: str, status: os.stat_result) -> DamagedObject | DamagedArchive:
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        return self.refused(f"{self.root}/{key} is {kind}: offsite does not follow or read it", hint=self.hint)


@contextmanager
def wrap_errors(action: str, path: str) -> Iterator[None]:
    """Turn an `OSError` into `StoreFull`, `StoreDenied` or `StoreUnreachable`, with the failed `action`."""
    try:
        yield
    except OSError as error:
        raise store_error(action, path, error) from error


def store_error(action: str, path: str, error: OSError) -> StoreFull | StoreDenied | StoreUnavailable:
    reason = f"cannot {action} {path} on {socket.gethostname()}: {os.strerror(error.errno or 0)}"
    if error.errno in _FULL_ERRORS:
        return StoreFull(reason, hint="free some space, or move the repository; committed data is not affected")
    if error.errno in _DENIED_ERRORS:
        return StoreDenied(reason, hint="give the user that runs offsite read and write access to the folder")
    if error.errno == errno.ENOTDIR:
        return StoreUnreachable(reason, hint="there is a file in the place of a folder: check the file, and move it")
    return StoreUnreachable(reason, hint="check that the folder is mounted, on the Spark workers as well")
