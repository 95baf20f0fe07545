"""What was last told of a subject, on this machine: so that a run that fails every five minutes sends a message an
hour, and the first one that succeeds again is told, too.

A file that is missing or cannot be read means that nothing was told: a message too many is better than one too few.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from offsite.model.ids import random_id
from offsite.model.journal import noted
from offsite.notify.event import Event, EventKind
from offsite.repository.heads import memory_folder

SAME_AGAIN_MS = 3_600_000
_KIND = "messages"


@dataclass(frozen=True, slots=True, kw_only=True)
class LastTold:
    """The last message about a subject: what it said, when (epoch ms), and how many like it were left out since."""

    kind: EventKind
    error: str
    at_ms: int
    left_out: int = 0

    def hides(self, event: Event) -> bool:
        """Whether a message about `event` would say the same again, too soon. A clock that went back hides nothing."""
        is_same = (event.kind, event.error) == (self.kind, self.error)
        return is_same and 0 <= event.at_ms - self.at_ms < SAME_AGAIN_MS


class ToldMemory:
    """The memory about one subject, such as a command for a backup of a repository."""

    def __init__(self, subject: str) -> None:
        self._subject = subject

    def last(self) -> LastTold | None:
        try:
            stored = json.loads(self._path().read_bytes()[:1000])
            return LastTold(
                kind=EventKind(stored["kind"]),
                error=str(stored["error"]),
                at_ms=int(stored["at_ms"]),
                left_out=int(stored["left_out"]),
            )
        except (OSError, RuntimeError, ValueError, KeyError, TypeError):
            return None

    def keep(self, last: LastTold) -> None:
        document = {"kind": last.kind, "error": last.error, "at_ms": last.at_ms, "left_out": last.left_out}
        try:
            path = self._path()
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            part = path.with_name(f"{path.name}.{random_id()}")
            part.touch(mode=0o600)
            part.write_text(json.dumps(document))
            os.replace(part, path)  # noqa: PTH105  # says what it does
        except (OSError, RuntimeError) as error:
            noted("no_memory", what="what was told", why=error)

    def _path(self) -> Path:
        return memory_folder(_KIND, self._subject) / "last"
