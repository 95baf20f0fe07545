"""Is the command topic what was backed up? Command by command, in the topic's order, never by offset. Pure.

Offsets say nothing: a topic that was restored has others, and the same commands. Only key and value count, for they
are what a restore by ksqlDB's own tool keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from offsite.log.records.record import Record
from offsite.metastore.line import line_of
from offsite.metastore.reading import Command


class Seen(Enum):
    """What a command of the topic is to the file."""

    KNOWN = "known"
    UNDESCRIBED = "undescribed"
    """It is in the file, and has no entry in the sidecar; or neither, where a file is without entries and the command
    is one that has no line."""
    NEW = "new"
    """The file ends before it."""
    DIFFERENT = "different"
    """The file has another one in its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first command that differs. `number` counts from 1 in the topic's order, `line` in the file, 0 for a command
    without one; `offset` is where the topic has another."""

    number: int
    line: int
    offset: int

    def __str__(self) -> str:
        place = f"line {self.line}" if self.line else f"command {self.number}, which has no line,"
        return f"{place} of the file is not command {self.number} of the topic (offset {self.offset})"


class Comparison:
    """Takes the commands of a topic one after the other, from its first."""

    def __init__(self, stored: Sequence[Command], *, by_bytes: bool = True) -> None:
        """`by_bytes`: a line without an entry counts as the command only where we would write the very same line. Else
        it does where it says the same, as ksqlDB's does with a colon in a key."""
        self._stored, self._by_bytes = stored, by_bytes
        self._met = 0
        self.taken = 0
        self.moved = False
        """Whether a command that is in the file was met at another offset than its entry names."""
        self.difference: Difference | None = None

    def take(self, record: Record) -> Seen:
        """What the next command of the topic is. After a difference nothing more may be taken."""
        self.taken += 1
        if self._met == len(self._stored):
            return Seen.NEW
        known = self._stored[self._met]
        line = None if known.described else line_of(record.key, record.value)
        if not known.described and line is None:
            return Seen.UNDESCRIBED
        self._met += 1
        if line is not None and line.text == known.text:
            return Seen.UNDESCRIBED
        is_same = (record.key, record.value) == (known.record.key, known.record.value)
        if not known.described and not self._by_bytes and is_same:
            return Seen.UNDESCRIBED
        if known.described and is_same:
            self.moved |= record.offset != known.record.offset
            return Seen.KNOWN
        self.difference = Difference(number=self.taken, line=known.line, offset=record.offset)
        return Seen.DIFFERENT

    @property
    def missing(self) -> int:
        """Commands of the file that the topic has not shown."""
        return len(self._stored) - self._met
