"""What an answer to Fetch proves: the one rule by which every reader's position moves. Pure.

A position moves past an offset only on positive evidence:

- a batch of the log that ends beyond it;
- a log start above it that the leader itself told, in the leader epoch that we read in;
- for a topic that is or was compacted, and has no remote storage: an answer of the leader that holds the partition and
  is empty below the high watermark, and stays so after offsets and epoch were asked again. Compaction can take the last
  records of a log away, and nothing but the empty answer tells of it.

Everything else proves nothing. A broker that enforces a quota leaves the partition out, one that waits for remote
storage leaves the records out, a new leader does not know its high watermark yet: all of them look like the end of a
log, and none is. Time is never evidence. What is left is patience, and then a range that failed.
"""

from __future__ import annotations

from enum import Enum, auto

from offsite.kafka.protocol.fetch import FetchAnswer
from offsite.model.cleanup_policy import is_compacted

UNANSWERED_MAX_S = 120.0
"""How long a leader may give nothing that proves anything: as long as a partition may be without leader."""
THROTTLED_MAX_S = 3600.0
"""How long a quota may let nothing through at all: then it is not slow, it is shut."""
GIVEN_UP_MAX_S = 5.0
"""How long to wait for a partition that this process has waited for in vain already: its other ranges need not each
take as long to fail."""
CONFIRMATIONS = 3
"""How often a compacted log must be found empty below its high watermark, each time after offsets and epoch were asked
anew. Once could be a leader that has just taken over; a second and a third time cost half a second at the log's end."""


class Said(Enum):
    """What one answer without error says of the offsets from the position on."""

    SOMETHING = auto()
    """There are records, or the beginning of a batch that did not fit."""
    THROTTLED = auto()
    """A quota holds us back: the partition was left out."""
    NOTHING = auto()
    """The partition was left out for no reason."""
    BEHIND = auto()
    """The high watermark is not yet, or no longer, where the range ends."""
    EMPTY = auto()
    """There is nothing from the position on, although the high watermark is beyond the range."""


def said(answer: FetchAnswer, *, end: int) -> Said:
    """Judge an answer without error code about a range that ends at `end`."""
    if not answer.held:
        return Said.THROTTLED if answer.throttle_ms > 0 else Said.NOTHING
    if len(answer.records):
        return Said.SOMETHING
    return Said.BEHIND if answer.high_watermark < end else Said.EMPTY


def may_lose_its_tail(configs: dict[str, str], *, was_compacted: bool) -> bool:
    """Whether compaction can have taken the last records of a topic with these settings, defaults included.

    Topics with remote storage are never compacted (KIP-405), and their slow answers look just alike.
    """
    return (was_compacted or is_compacted(configs)) and configs.get("remote.storage.enable") != "true"
