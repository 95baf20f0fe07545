"""The state of a command topic's backup at one moment, for people and for metrics."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class MetastoreVerdict(StrEnum):
    CURRENT = "current"
    """The file has all commands of the topic, and no more."""
    EMPTY = "empty"
    """Neither the topic, if any, nor a file has a command."""
    GONE = "gone"
    """The topic is gone, and the file has commands."""
    EMPTIED = "emptied"
    """The topic has no command, and the file has commands."""
    SHORTENED = "shortened"
    """The topic ends before its file does."""
    TRIMMED = "trimmed"
    """The file has all commands of the topic, and an older file has more commands of the same topic."""

    @property
    def is_alarm(self) -> bool:
        return self in {
            MetastoreVerdict.GONE,
            MetastoreVerdict.EMPTIED,
            MetastoreVerdict.SHORTENED,
            MetastoreVerdict.TRIMMED,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreView:
    """The state of a backup. `commands`: in the file; `appended`: by this process; `missing`: no longer in the topic.
    `last_command_ms`: the time of the newest command; `seen_ms`: when the topic was last read to its end; both epoch
    ms, -1 for never. `flush_s`: seconds until the newest commands were on disk. `diverged`: the reason for a new file
    begun by this process; `repairs`: repaired damage; empty for none. `older`: the file with the missing commands, if
    not `file`. `undecided`: unreadable offsets from the oldest open transaction on, and since when (epoch ms, -1 for
    none). `is_there`: whether the topic exists."""

    topic: str
    verdict: MetastoreVerdict
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
