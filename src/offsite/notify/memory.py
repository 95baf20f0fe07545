"""What was last told of a subject, on this machine: so that a run that fails every five minutes sends a message an
hour, and the first one that succeeds again is told, too.

What is missing or cannot be read means that nothing was told: a message too many is better than one too few.
"""

from __future__ import annotations

from dataclasses import dataclass

from offsite.model.untrusted.json_codec import Count, JsonCodec
from offsite.notify.event import Event, EventKind
from offsite.repository.local_memory import RememberedFacts

SAME_AGAIN_MS = 3_600_000
_LAST = "last"


@dataclass(frozen=True, slots=True, kw_only=True)
class LastTold:
    """The last message about a subject: what it said, when (epoch ms), and how many like it were left out since."""

    kind: EventKind
    error: str
    at_ms: Count
    left_out: Count = 0

    def hides(self, event: Event) -> bool:
        """Whether a message about `event` would say the same again, too soon. A clock that went back hides nothing."""
        is_same = (event.kind, event.error) == (self.kind, self.error)
        return is_same and 0 <= event.at_ms - self.at_ms < SAME_AGAIN_MS


_CODEC = JsonCodec(LastTold)


class ToldMemory:
    """The memory about one subject, such as a command for a backup of a repository."""

    def __init__(self, subject: str) -> None:
        self._facts = RememberedFacts(kind="messages", place=subject, name="told")

    def last(self) -> LastTold | None:
        return self._facts.recall(_LAST, _CODEC.read)

    def keep(self, last: LastTold) -> None:
        self._facts.put(_LAST, _CODEC.write(last))
