"""Reads a backup file and its sidecar as commands, with all problems. Pure.

Problems are reported, and reading continues: one damaged line must not hide the thousands after it.

An editor's changes around a command are no part of the command: a byte order mark before the first line, a carriage
return before a line break, a last line without a line break. Such a last line counts if it is certainly complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from offsite.log.records.record import CREATE_TIME, Record
from offsite.metastore.stored_command import (
    BadEntry,
    Header,
    StoredSidecarEntry,
    decode_entry,
    first_chain,
    is_whole_line,
    parse_line,
)

UNKNOWN = -1
_MARK = b"\xef\xbb\xbf"


class Command(NamedTuple):
    """A command as stored. `number` counts from 1 in the topic's order, `line` in the file; line 0: without a line. Not
    `described`: without an entry in a sidecar; offset and time are then `UNKNOWN`, and `text` is the line."""

    number: int
    line: int
    record: Record
    described: bool = True
    text: bytes = b""


@dataclass(frozen=True, slots=True)
class FileProblem:
    """A problem and its place: `line` counts from 1 in the backup file, 0: about no line."""

    line: int
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBackup:
    """The content of a backup file and its sidecar. `chain`: of the last entry, "" without a sidecar. `lines` and
    `entries`: complete ones only; `size_bytes` and `sidecar_bytes` end after the last complete one, `torn_bytes` and
    `torn_sidecar_bytes` follow."""

    header: Header | None
    commands: Sequence[Command]
    problems: Sequence[FileProblem]
    chain: str
    lines: int
    entries: int
    size_bytes: int
    sidecar_bytes: int
    torn_bytes: int
    torn_sidecar_bytes: int
    without_line: Sequence[int]
    """The entries, counted from 1, whose line is missing in the file."""
    lacks_break: bool
    """A complete line follows the last line break: the line of the first entry in `without_line` (with the torn bytes),
    or, in a file without a sidecar, a line that counts as a command."""


def read_backup(data: bytes, sidecar: bytes | None) -> ReadBackup:
    """The commands in the bytes of a file and of its sidecar, None without a sidecar. Raises `BadEntry` if the sidecar
    has no valid beginning."""
    lines, torn = _whole_lines(data)
    if (
        is_ended := sidecar is None
        and torn > 0
        and is_whole_line(text := _without_editing(data[-torn:], len(lines) + 1))
    ):
        lines, torn = [*lines, text], 0
    described, torn_sidecar = _whole_lines(sidecar or b"")
    reader = _Reader(lines, described, data[len(data) - torn :])
    commands = list(reader.commands())
    return ReadBackup(
        header=reader.header,
        commands=commands,
        problems=reader.problems,
        chain=reader.chain,
        lines=len(lines),
        entries=max(0, len(described) - 1),
        size_bytes=len(data) - torn,
        sidecar_bytes=len(sidecar or b"") - torn_sidecar,
        torn_bytes=torn,
        torn_sidecar_bytes=torn_sidecar,
        without_line=reader.without_line,
        lacks_break=reader.lacks_break or is_ended,
    )


def _whole_lines(data: bytes) -> tuple[list[bytes], int]:
    *lines, torn = data.split(b"\n")
    return lines, len(torn)


def _without_editing(line: bytes, number: int) -> bytes:
    return (line.removeprefix(_MARK) if number == 1 else line).removesuffix(b"\r")


class _Reader:
    def __init__(self, lines: Sequence[bytes], described: Sequence[bytes], torn: bytes) -> None:
        self._lines, self._described, self._torn = lines, described, torn
        self.problems: list[FileProblem] = []
        self.header = Header.decode(described[0]) if described else None
        self.chain = first_chain(described[0]) if described else ""
        self.without_line: list[int] = []
        self.lacks_break = False
        self._line = 0

    def commands(self) -> Iterator[Command]:
        number = 0
        entries = list(self._entries())
        for entry in entries:
            number += 1
            if (record := self._described_record(entry, number)) is not None:
                line = self._line if entry is None or entry.has_line else 0
                yield Command(number, line, record, described=entry is not None)
        while (text := self._next_line()) is not None:
            number, text = number + 1, _without_editing(text, self._line)
            if (plain := self._plain(text)) is not None:
                yield Command(number, self._line, plain, described=False, text=text)

    def _entries(self) -> Iterator[StoredSidecarEntry | None]:
        """The entries of the sidecar; None for an unreadable entry, if a line is left for it."""
        read: list[StoredSidecarEntry | None] = []
        for number, data in enumerate(self._described[1:], 1):
            try:
                read.append(decode_entry(data))
            except BadEntry as error:
                self.problems.append(FileProblem(0, f"entry {number} of the sidecar cannot be read: {error}"))
                read.append(None)
        spare = len(self._lines) - sum(entry.has_line for entry in read if entry is not None)
        for entry in read:
            if entry is not None:
                yield entry
            elif spare > 0:
                spare -= 1
                yield None

    def _described_record(self, entry: StoredSidecarEntry | None, number: int) -> Record | None:
        if entry is None:
            self.chain = ""
            text = self._next_line()
            return None if text is None else self._plain(_without_editing(text, self._line))
        text = self._next_line() if entry.has_line else None
        if entry.has_line and text is None:
            if self._torn and self.chain and not self.without_line:
                self.lacks_break = entry.follows(self.chain, self._torn)
            self.chain = entry.chain
            self.without_line.append(number)
            self.problems.append(FileProblem(0, f"the line of command {number} is not in the file"))
            return None
        return self._checked(entry, text, number)

    def _checked(self, entry: StoredSidecarEntry, text: bytes | None, number: int) -> Record | None:
        if self.chain and text is not None and not entry.follows(self.chain, text):
            text = _without_editing(text, self._line)
        is_whole = not self.chain or entry.follows(self.chain, text)
        self.chain = entry.chain
        where = self._line if entry.has_line else 0
        if not is_whole:
            self.problems.append(FileProblem(where, f"command {number} differs from the written command"))
        try:
            return entry.with_line(text).record
        except BadEntry as error:
            self.problems.append(FileProblem(where, f"command {number} cannot be read: {error}"))
            return None

    def _plain(self, text: bytes) -> Record | None:
        """A line without an entry, as ksqlDB writes it."""
        if (pair := parse_line(text)) is None:
            self.problems.append(FileProblem(self._line, "it has no colon between a key and a value"))
            return None
        return Record(UNKNOWN, UNKNOWN, CREATE_TIME, *pair)

    def _next_line(self) -> bytes | None:
        if self._line == len(self._lines):
            return None
        self._line += 1
        return self._lines[self._line - 1]
