"""Plain files below a folder, reached without following anything that somebody else put on the way; and
who may read what is written there: whom the root folder lets in, and nobody else.

Others can write into the folder of a repository, and fill that of an archive: a symbolic link there leads to files of
the person who runs offsite, a pipe or a device never ends. The root itself may be a link: its user chose it. What is no
plain file is refused by name: if it were passed over, its records would be missing in silence.

A folder is entered from the one above it (openat(2)), so that nothing can be changed between the look and the use. A
store, which checks all that it reads by hashes, looks at the folders on the way once instead.

Root folders are made for their owner alone (0700). A root that was there keeps its mode, and its group may do below it
what it may there: in a folder of mode 0750 folders are made 0750 and files 0640. Everybody else may as well in an
archive, which is made for other tools (`is_public`), never in anything else. The umask takes away from that as ever.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from offsite.model.errors import DamagedArchive, DamagedObject

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


def make_private_root(root: Path) -> None:
    """Make `root`, for its owner alone; one that is there stays as it is. Raises `OSError`."""
    root.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)


def folder_mode(root: Path, *, is_public: bool = False) -> int:
    """The mode of a new folder below `root`. Raises `OSError`."""
    return stat.S_IMODE(root.stat().st_mode) & (0o777 if is_public else 0o770) | PRIVATE_FOLDER


def file_mode(root: Path, *, is_public: bool = False) -> int:
    """The mode of a new file below `root`. Raises `OSError`."""
    return folder_mode(root, is_public=is_public) & 0o666


def check_replaceable(path: Path) -> None:
    """Raise `OSError` where something is at `path` that must not make room for a file: root can replace a device."""
    with suppress(FileNotFoundError):
        kind = _KINDS.get(stat.S_IFMT(path.stat().st_mode))
        if kind is not None:
            raise OSError(errno.EEXIST, f"it is {kind}", str(path))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainFiles:
    """The plain files below `root`, by their keys. Anything else on the way or in their place raises `refused` with
    `hint`; all that the operating system refuses raises `OSError`."""

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
        """The folder `names`, entered one by one: to act in, or with `make`, which makes missing ones durably, to read
        and fsync as well."""
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
        """The file of `key`: in `folder`, which holds it, or else, only to be read, behind folders that were looked at
        once. Nothing is waited for."""
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
        """Files and folders in the folder `names`, those of folders with a `/` behind; names with `~` are left out, as
        no key has one."""
        with self.folder(names) as way:
            folder = os.open(".", _FOLDER, dir_fd=way)
            try:
                with os.scandir(folder) as entries:
                    return dict(self._listed(entries, names))
            finally:
                os.close(folder)

    def check_way(self, key: str) -> None:
        """Raise where a folder on the way to `key` is none itself; looks at each once."""
        way = key.rpartition("/")[0]
        if way not in self._ways:
            names = way.split("/") if way else []
            for depth in range(len(names)):
                self.check_folder("/".join(names[: depth + 1]))
            self._ways.add(way)

    def check_folder(self, key: str) -> None:
        """Raise where `key` is a link to a folder; `NotADirectoryError` where it is none."""
        status = os.lstat(f"{self.root}/{key}")
        if stat.S_ISLNK(status.st_mode):
            raise self._refusal(key, status)
        if not stat.S_ISDIR(status.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), f"{self.root}/{key}")

    def _listed(
        self, entries: Iterable[os.DirEntry[str]], names: Sequence[str]
    ) -> Iterator[tuple[str, os.stat_result]]:
        for entry in (each for each in entries if "~" not in each.name):
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
