"""What the backup of a command topic is at a moment, for people and for metrics."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Verdict(StrEnum):
    CURRENT = "current"
    """The file has all commands of the topic, and no others."""
    EMPTY = "empty"
    """There is no command, neither in the topic, if there is one, nor in a file."""
    GONE = "gone"
    """There is no topic, and there are commands in the file."""
    EMPTIED = "emptied"
    """There is no command in the topic, and there are commands in the file."""
    SHORTENED = "shortened"
    """The topic ends before its file does."""
    TRIMMED = "trimmed"
    """The file has all commands of the topic, and an older file has some that this same topic had before."""

    @property
    def is_alarm(self) -> bool:
        return self in {Verdict.GONE, Verdict.EMPTIED, Verdict.SHORTENED, Verdict.TRIMMED}


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupView:
    """`commands` are in the file, `appended` those that this process has added, `missing` those that the topic no
    longer has. `last_command_ms`: the time of the newest one; `seen_ms`: when the topic was last read to its end; both
    epoch ms, -1 for never. `flush_s`: seconds until the newest commands were on the disk. `diverged` says for which
    difference this process has begun a new file, `repairs` what it had to mend; empty for nothing. `older`: the file
    that has what is missing, where that is not `file`. `undecided`: offsets from the oldest open transaction on, which
    nobody can read yet, and since when there are any (epoch ms, -1 for none). `is_there`: whether there is a topic."""

    topic: str
    verdict: Verdict
    file: Path | None
    commands: int = 0
    appended: int = 0
    missing: int = 0
    size_bytes: int = 0
    last_command_ms: int = -1
    seen_ms: int = -1
    flush_s: float = 0.0
    diverged: str = ""
    repairs: tuple[str, ...] = ()
    older: Path | None = None
    undecided: int = 0
    undecided_since_ms: int = -1
    is_there: bool = True
