"""What was last told of a subject, on this machine: so that a run that fails every five minutes sends a message an
hour, and the first one that succeeds again is told, too.

What is missing or cannot be read means that nothing was told: a message too many is better than one too few.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Self

from offsite.model.units import UNIT_WORDS
from offsite.model.untrusted.json_codec import Count, JsonCodec, Spare
from offsite.notify.event import Event, EventKind
from offsite.repository.local_memory import RememberedFacts

SAME_AGAIN_MS = 3_600_000
_LAST = "last"


@dataclass(frozen=True, slots=True, kw_only=True)
class LastTold:
    """The last message about a subject: what it said, when (epoch ms), and how many like it were left out since.
    `trouble`: a hash of its words, where no error says what it is about."""

    kind: EventKind
    error: str
    at_ms: Count
    left_out: Count = 0
    trouble: Spare[str] = ""

    @classmethod
    def of(cls, event: Event) -> Self:
        return cls(kind=event.kind, error=event.error, at_ms=event.at_ms, trouble=_trouble_of(event))

    def hides(self, event: Event) -> bool:
        """Whether a message about `event` would say the same again, too soon. A clock that went back hides nothing."""
        is_same = (event.kind, event.error, _trouble_of(event)) == (self.kind, self.error, self.trouble)
        return is_same and 0 <= event.at_ms - self.at_ms < SAME_AGAIN_MS


def _trouble_of(event: Event) -> str:
    """A hash of the names in the details, or in the message without any. Figures and times differ each time."""
    if event.error:
        return ""
    words = "\n".join(event.details or (event.message,)).split()
    names = [word for word in words if not word.lstrip("([").startswith(_DIGITS) and word not in UNIT_WORDS]
    return hashlib.sha256("\n".join(names).encode(errors="replace")).hexdigest()[:16]


_DIGITS = tuple("0123456789")


_CODEC = JsonCodec(LastTold)


class ToldMemory:
    """The memory about one subject, such as a command for a backup of a repository."""

    def __init__(self, subject: str) -> None:
        self._facts = RememberedFacts(kind="messages", place=subject, name="told")

    def last(self) -> LastTold | None:
        return self._facts.recall(_LAST, _CODEC.read)

    def keep(self, last: LastTold) -> None:
        self._facts.put(_LAST, _CODEC.write(last))
