"""Compares the command topic with its backup: command by command, in the topic's order, never by offset.

Offsets prove nothing: a restored topic has the same commands at other offsets. Only key and value count, because a
restore by ksqlDB's own tool keeps only key and value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from offsite.log.records.record import Record
from offsite.metastore.backup_file import load
from offsite.metastore.reading import Command, FileProblem
from offsite.metastore.source import CommandSource
from offsite.metastore.stored_command import line_of


class CommandMatch(Enum):
    """How a command of the topic relates to the file."""

    KNOWN = "known"
    UNDESCRIBED = "undescribed"
    """The command is in the file, without an entry in the sidecar; or, in a file without entries, the command has no
    line at all."""
    NEW = "new"
    """The file ends before the command."""
    DIFFERENT = "different"
    """The file has another command in its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandDifference:
    """The first differing command. `number` counts from 1 in the topic's order, `line` in the file, 0 for a command
    without a line; `offset`: the differing command's offset in the topic."""

    number: int
    line: int
    offset: int

    def __str__(self) -> str:
        place = f"line {self.line}" if self.line else f"command {self.number}, which has no line,"
        return f"{place} of the file differs from command {self.number} of the topic (offset {self.offset})"


class CommandComparison:
    """Takes the commands of a topic one after the other, from the first."""

    def __init__(self, stored: Sequence[Command], *, by_bytes: bool = True) -> None:
        """`by_bytes`: a line without an entry matches a command only if offsite would write the identical line.
        Otherwise equal content is enough, such as ksqlDB's line with a colon in the key."""
        self._stored, self._by_bytes = stored, by_bytes
        self._met = 0
        self.taken = 0
        self.moved = False
        """Whether a command of the file was found at another offset than its entry names."""
        self.difference: CommandDifference | None = None

    def take(self, record: Record) -> CommandMatch:
        """Compare the next command of the topic. After a difference no more commands may be taken."""
        self.taken += 1
        if self._met == len(self._stored):
            return CommandMatch.NEW
        command = self._stored[self._met]
        line = None if command.described else line_of(record.key, record.value)
        if not command.described and line is None:
            return CommandMatch.UNDESCRIBED
        self._met += 1
        if line is not None and line.text == command.text:
            return CommandMatch.UNDESCRIBED
        is_same = (record.key, record.value) == (command.record.key, command.record.value)
        if not command.described and not self._by_bytes and is_same:
            return CommandMatch.UNDESCRIBED
        if command.described and is_same:
            self.moved |= record.offset != command.record.offset
            return CommandMatch.KNOWN
        self.difference = CommandDifference(number=self.taken, line=command.line, offset=record.offset)
        return CommandMatch.DIFFERENT

    @property
    def missing(self) -> int:
        """Commands of the file that the topic has not shown."""
        return len(self._stored) - self._met


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreVerifyReport:
    """The result of a check. `described`: the file has a sidecar, and every byte was checked; without a sidecar only
    the form. `problems` name the line, 0 for none. `against`: the topic compared with, empty for none. `difference`:
    the first differing command. `missing` and `more`: the commands at the end only in the file, or only in the topic.
    `unchecked`: lines at the end of the file without an entry in the sidecar, left by a crash or added by another
    program."""

    file: Path
    ok: bool
    commands: int
    described: bool
    problems: tuple[FileProblem, ...]
    against: str = ""
    difference: str = ""
    missing: int = 0
    more: int = 0
    unchecked: int = 0


def verify_file(file: Path, source: CommandSource | None = None) -> MetastoreVerifyReport:
    """Read the file, its sidecar, and with `source` the topic. Changes nothing. Raises `BackupFileDamaged` if the
    sidecar is unreadable as a whole, and errors of reading a topic."""
    read = load(file)
    problems = list(read.problems)
    if read.torn_bytes:
        problems.append(FileProblem(read.lines + 1, f"its last line is torn ({read.torn_bytes} bytes)"))
    difference, missing, more = "", 0, 0
    if source is not None:
        comparison = CommandComparison(read.commands, by_bytes=False)
        difference, more = _compared(comparison, source)
        missing = 0 if difference else comparison.missing
    return MetastoreVerifyReport(
        file=file,
        ok=not problems and not difference and not missing and not more,
        commands=len(read.commands),
        described=read.header is not None,
        problems=tuple(problems),
        against=source.topic if source else "",
        difference=difference,
        missing=missing,
        more=more,
        unchecked=sum(not command.described for command in read.commands) if read.header else 0,
    )


def _compared(comparison: CommandComparison, source: CommandSource) -> tuple[str, int]:
    """The first difference in words, and the number of commands only in the topic."""
    topic = source.find()
    records = source.read(source.start(), topic_id=topic.topic_id).records if topic else ()
    more = 0
    for record in records:
        outcome = comparison.take(record)
        if outcome is CommandMatch.DIFFERENT:
            return str(comparison.difference), 0
        more += outcome is CommandMatch.NEW
    return "", more
