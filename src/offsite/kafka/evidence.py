"""The evidence in an answer to Fetch: the only rule by which a reader's position moves. Pure.

A position moves past an offset only on positive evidence:

- a batch of the log that ends beyond the offset;
- a log start above the offset, told by the leader in the leader epoch of the read;
- for a topic that is or was compacted, without remote storage: an answer of the leader that holds the partition, is
  empty below the high watermark, and stays empty after offsets and epoch were asked again. Compaction can remove the
  last records of a log, and only the empty answer shows the removal.

Everything else proves nothing. A broker that enforces a quota leaves the partition out, a broker that waits for remote
storage leaves the records out, a new leader does not know the high watermark yet: all three look like the end of a log,
and none is. Time is never evidence. Without evidence a reader waits, and then fails the range.
"""

from __future__ import annotations

from enum import Enum, auto

from offsite.kafka.protocol.fetch import FetchAnswer
from offsite.model.cleanup_policy import is_compacted

UNANSWERED_MAX_S = 120.0
"""How long a leader may give no evidence: as long as a partition may be without leader."""
THROTTLED_MAX_S = 3600.0
"""How long a quota may let nothing through. Beyond, the quota is shut rather than slow."""
GIVEN_UP_MAX_S = 5.0
"""How long to wait for a partition for which the process has waited in vain before: further ranges of the partition
need not take as long to fail."""
CONFIRMATIONS = 3
"""How often a compacted log must be found empty below the high watermark, every time after offsets and epoch were asked
again. A single time could be a leader that has just taken over; a second and a third time cost half a second at the
log's end."""


class FetchVerdict(Enum):
    """What an answer without error shows about the offsets from the position on."""

    RECORDS = auto()
    """Records, or the beginning of a batch that did not fit."""
    THROTTLED = auto()
    """A quota holds the client back: the partition was left out."""
    LEFT_OUT = auto()
    """The partition was left out for no reason."""
    BEHIND = auto()
    """The high watermark is not yet, or no longer, at the end of the range."""
    EMPTY = auto()
    """No records from the position on, although the high watermark is beyond the range."""


def judge_fetch(answer: FetchAnswer, *, end: int) -> FetchVerdict:
    """Judge an answer without error code about a range that ends at `end`."""
    if not answer.is_included:
        return FetchVerdict.THROTTLED if answer.throttle_ms > 0 else FetchVerdict.LEFT_OUT
    if len(answer.records):
        return FetchVerdict.RECORDS
    return FetchVerdict.BEHIND if answer.high_watermark < end else FetchVerdict.EMPTY


def may_lose_tail(configs: dict[str, str], *, was_compacted: bool) -> bool:
    """Whether compaction can have removed the last records of a topic with these settings, defaults included.

    Topics with remote storage are never compacted (KIP-405), and a slow answer of remote storage looks the same.
    """
    return (was_compacted or is_compacted(configs)) and configs.get("remote.storage.enable") != "true"
