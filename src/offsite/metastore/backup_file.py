"""A backup file with its sidecar, open for appending: an append is on disk before its report.

The line goes first and its entry second, each flushed to disk. So a crash leaves at most a torn line, or lines without
entries. The next opening cuts off the torn line, and the regular comparison with the topic creates the missing entries.
A sidecar is never ahead of its file, unless somebody has cut the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

from offsite.log.records.record import Record
from offsite.metastore.folder import BackupName
from offsite.metastore.reading import ReadBackup, read_backup
from offsite.metastore.stored_command import SUFFIX, BadEntry, Header, SidecarEntry, encode_entry, entry_of, first_chain
from offsite.model.errors import BackupFileChanged, BackupFileDamaged, BadOption
from offsite.model.units import KIB
from offsite.stores.plain_files import wrap_errors
from offsite.stores.posix_store import sync_folder

_MODE = 0o600
_BREAK = b"\n"
_HEADER_MAX = 64 * KIB


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedFile:
    """A file open for appending, its content, and the repairs made first, in words."""

    file: BackupFile
    read: ReadBackup
    repairs: tuple[str, ...]


def sidecar_of(path: Path) -> Path:
    return path.with_name(path.name + SUFFIX)


def load(path: Path) -> ReadBackup:
    """The content of a backup file and its sidecar. Changes nothing. Raises `BadOption` without a file,
    `BackupFileDamaged` if the sidecar has no valid beginning, and errors of reading a file."""
    if not path.is_file():
        raise BadOption(f"there is no file {path}", hint="offsite metastore status --location FOLDER lists the files")
    with wrap_errors("read", str(path)):
        data = path.read_bytes()
        sidecar = sidecar_of(path).read_bytes() if sidecar_of(path).exists() else None
    try:
        return read_backup(data, sidecar)
    except BadEntry as error:
        hint = "move the sidecar away to use the file without it, or use a newer version of offsite"
        raise BackupFileDamaged(f"{sidecar_of(path)} is not a sidecar of offsite: {error}", hint=hint) from error


def load_lines(path: Path) -> ReadBackup:
    """The content of the lines, as if without a sidecar. Raises errors of reading a file."""
    with wrap_errors("read", str(path)):
        return read_backup(path.read_bytes(), None)


def remove_if_empty(path: Path) -> bool:
    """Remove a file left by a crash before its first command. Returns False, and keeps the file, if it holds anything
    or is not in the initial form. Raises errors of removing a file."""
    if path.is_symlink() or path.stat().st_size:
        return False
    try:
        read = load(path)
    except BackupFileDamaged:
        return False
    if read.commands or read.problems:
        return False
    with wrap_errors("remove", str(path)):
        sidecar_of(path).unlink(missing_ok=True)
        path.unlink()
        sync_folder(path.parent)
    return True


def read_header(path: Path) -> Header | None:
    """The header in the sidecar, with the topic; None without a readable header."""
    try:
        with sidecar_of(path).open("rb") as file:
            return Header.decode(file.readline(_HEADER_MAX))
    except (OSError, BadEntry):
        return None


class BackupFile:
    """A backup file open for appending. Not for several threads or processes: the caller holds the lock of the
    folder."""

    def __init__(self, path: Path, chain: str) -> None:
        """For existing files. Raises errors of opening a file."""
        self.path, self._chain = path, chain
        self._file = _Appended(path)
        self._sidecar = _Appended(sidecar_of(path))

    @classmethod
    def create(cls, folder: Path, name: BackupName, header: Header) -> BackupFile:
        """A new, empty file; under the next name if the name is taken. Raises errors of creating a file."""
        with wrap_errors("make", str(folder / str(name))):
            while (folder / str(name)).exists() or sidecar_of(folder / str(name)).exists():
                name = name.next()
        return cls.create_named(folder, str(name), header)

    @classmethod
    def create_named(cls, folder: Path, name: str, header: Header) -> BackupFile:
        """A new, empty file with that name. Raises `StoreUnreachable` if it exists, and as `create`."""
        path = folder / name
        with wrap_errors("make", str(path)):
            _make(path, b"")
            _make(sidecar_of(path), header.encode() + _BREAK)
            sync_folder(folder)
        return cls(path, first_chain(header.encode()))

    @classmethod
    def open(cls, path: Path, header: Header) -> OpenedFile:
        """The file, with a torn end cut off; a damaged file stays as it is. `header`: for a new sidecar, if none
        exists. Raises as `load`, and errors of writing a file."""
        read = load(path)
        repairs = list(_mend_end(path, read))
        with wrap_errors("write", str(path)):
            if read.header is None:
                sidecar_of(path).unlink(missing_ok=True)
                _make(sidecar_of(path), header.encode() + _BREAK)
                sync_folder(path.parent)
            elif read.torn_sidecar_bytes:
                _cut(sidecar_of(path), read.sidecar_bytes)
                repairs.append(f"cut {read.torn_sidecar_bytes} bytes of a torn entry off its sidecar")
        read = load(path) if repairs else read
        chain = read.chain or first_chain(header.encode())
        return OpenedFile(file=cls(path, chain), read=read, repairs=tuple(repairs))

    @property
    def size_bytes(self) -> int:
        return self._file.size_bytes

    def is_there(self) -> bool:
        """Whether the file and its sidecar still exist."""
        return self.path.exists() and sidecar_of(self.path).exists()

    def check_untouched(self) -> None:
        """Raises `BackupFileChanged` if another program has written to the file or its sidecar."""
        self._file.check_untouched()
        self._sidecar.check_untouched()

    def append(self, records: Sequence[Record]) -> None:
        """Append commands. On return the commands are on disk; on an error none is appended. Raises `BackupFileChanged`
        if another program has written to the file, and errors of writing a file."""
        entries = self._entries(records, self._chain)
        self._file.append(b"".join(entry.line.text + _BREAK for entry in entries if entry.line))
        self._describe(entries)

    def describe(self, records: Sequence[Record]) -> None:
        """Append entries alone, for commands with lines already in the file. Raises as `append`."""
        self._describe(self._entries(records, self._chain))

    def describe_anew(self, header: Header, records: Sequence[Record]) -> None:
        """Replace the sidecar, and keep the old sidecar as a copy: for a topic with the same commands at different
        offsets. Raises `BackupFileDamaged` if the commands are not those of the file's lines, and as `append`."""
        self.check_untouched()
        sidecar, first = sidecar_of(self.path), header.encode()
        entries = self._entries(records, first_chain(first))
        text = b"".join(line + _BREAK for line in (first, *map(encode_entry, entries)))
        with wrap_errors("write", str(sidecar)):
            if read_backup(self.path.read_bytes(), text).problems:
                raise BackupFileDamaged(
                    f"{self.path} differs from the topic", hint="check it with offsite metastore verify"
                )
            new = _free_name(sidecar, ".new")
            _make(new, text)
            _make(_free_name(sidecar, ".was"), sidecar.read_bytes())
            new.replace(sidecar)
            sync_folder(self.path.parent)
        self._sidecar.close()
        self._sidecar = _Appended(sidecar)
        self._chain = entries[-1].chain if entries else first_chain(first)

    def close(self) -> None:
        self._file.close()
        self._sidecar.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _entries(self, records: Sequence[Record], chain: str) -> list[SidecarEntry]:
        entries = []
        for record in records:
            entries.append(entry_of(record, chain))
            chain = entries[-1].chain
        return entries

    def _describe(self, entries: Sequence[SidecarEntry]) -> None:
        if entries:
            self._sidecar.append(b"".join(encode_entry(entry) + _BREAK for entry in entries))
            self._chain = entries[-1].chain


class _Appended:
    """A file that only this process appends to."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with wrap_errors("open", str(path)):
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
        self.size_bytes = os.fstat(self._file).st_size

    def append(self, data: bytes) -> None:
        if not data:
            return
        self.check_untouched()
        try:
            with wrap_errors("write", str(self._path)):
                _write_all(self._file, data)
                os.fdatasync(self._file)
        except BaseException:
            with suppress(OSError):
                os.ftruncate(self._file, self.size_bytes)
            raise
        self.size_bytes += len(data)

    def close(self) -> None:
        os.close(self._file)

    def check_untouched(self) -> None:
        """KsqlDB replaces its own file with every write; an editor does so too."""
        ours = os.fstat(self._file)
        try:
            is_ours = os.path.samestat(self._path.stat(), ours)
        except FileNotFoundError:
            is_ours = False
        if not is_ours or ours.st_size != self.size_bytes:
            raise BackupFileChanged(
                f"{self._path} was changed by another process since it was opened",
                hint="if ksqlDB itself backs up into this folder, give each writer its own folder",
            )


def _make(path: Path, data: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _MODE)
    try:
        _write_all(file, data)
        os.fsync(file)
    finally:
        os.close(file)


def _write_all(file: int, data: bytes) -> None:
    """A nearly full disk writes only a part, and reports it only by the number of bytes."""
    written = 0
    while written < len(data):
        written += os.write(file, memoryview(data)[written:])


def _mend_end(path: Path, read: ReadBackup) -> Iterator[str]:
    """Add a missing line break to the last line, or cut off a torn line. A possibly whole command (in a file without
    entries), and the entry of a torn line, are kept beside the file."""
    if len(read.problems) > len(read.without_line) or len(read.without_line) > 1:
        return
    if read.lacks_break:
        with wrap_errors("write", str(path)):
            _end_line(path)
        yield "gave its last line the line break that was missing"
        return
    if not read.torn_bytes:
        return
    if read.without_line:
        _cut_sidecar(path, read.without_line[0])
        yield "cut the entry of the torn line off its sidecar"
    with wrap_errors("write", str(path)):
        _cut(path, read.size_bytes, keep=read.header is None)
    yield f"cut {read.torn_bytes} bytes of a torn line off its end"


def _end_line(path: Path) -> None:
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.write(file, _BREAK)
        os.fsync(file)
    finally:
        os.close(file)


def _cut(path: Path, size_bytes: int, *, keep: bool = False) -> None:
    """Cut the file off at that size; `keep`: keep the cut bytes in a file beside it."""
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        if keep:
            _make(_free_name(path, f".cut-{size_bytes}"), path.read_bytes()[size_bytes:])
            sync_folder(path.parent)
        os.ftruncate(file, size_bytes)
        os.fsync(file)
    finally:
        os.close(file)


def _cut_sidecar(path: Path, number: int) -> None:
    """Cut off the sidecar's entries from that number on, counted from 1; the cut entries are kept beside it."""
    sidecar = sidecar_of(path)
    with wrap_errors("write", str(sidecar)):
        whole = sidecar.read_bytes()
        size_bytes = sum(len(line) for line in whole.splitlines(keepends=True)[:number])
        _cut(sidecar, size_bytes, keep=True)


def _free_name(path: Path, suffix: str) -> Path:
    """An unused name beside `path`. An earlier copy left by a crash, or an earlier cut at the same place, must not
    block a new one."""
    names = (path.with_name(f"{path.name}{suffix}{f'-{number}' if number else ''}") for number in count())
    return next(name for name in names if not os.path.lexists(name))
