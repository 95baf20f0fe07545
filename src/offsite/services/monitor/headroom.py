"""Retention headroom: how long until the source deletes what was not copied yet. Pure.

A broker deletes whole segments. By time: once the newest record of a segment is older than `retention.ms`. By size: the
oldest segment, while at least `retention.bytes` stay behind it. Either may come first, and what the rules allow to be
deleted counts as gone: a broker looks every five minutes, and owes nobody a delay. So the headroom is a lower bound.

Whether times are set by producers or by the broker (`message.timestamp.type`) makes no difference: the broker goes by
the times that are in the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from offsite.model.cleanup_policy import UNLIMITED, Retention

_UNKNOWN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncopied:
    """What of one partition was not copied yet. `oldest_ms`: the time of its oldest record, or one before that: the
    newest copied record's. `log_bytes`: size of the partition at the source; `growth_bytes_per_s`: how fast it is
    written to. -1 where something is not known; `records` is."""

    records: int
    oldest_ms: int = _UNKNOWN
    bytes: int = _UNKNOWN
    log_bytes: int = _UNKNOWN
    growth_bytes_per_s: float = _UNKNOWN


def retention_headroom(retention: Retention, uncopied: Uncopied, *, now_ms: int) -> float | None:
    """Seconds until the source may delete something that was not copied: 0 when it may already.

    None where nothing is uncopied, where nothing is ever deleted by age or size, and where it cannot be told: a limit
    that is not known might be the first.
    """
    if uncopied.records <= 0 or not retention.deletes:
        return None
    limits = (_by_age(retention, uncopied, now_ms), _by_size(retention, uncopied))
    if 0.0 in limits:  # enough to know, whatever the other one is
        return 0.0
    known = [each for each in limits if each is not None]
    return min(known) if len(known) == len(limits) and min(known) < inf else None


def _by_age(retention: Retention, uncopied: Uncopied, now_ms: int) -> float | None:
    """Seconds; infinite without a limit, None where it is not known."""
    if retention.retention_ms is None:
        return None
    if retention.retention_ms <= UNLIMITED:
        return inf
    if uncopied.oldest_ms < 0:  # of records without a time, the broker takes that of its file
        return None
    return max(0.0, (uncopied.oldest_ms + retention.retention_ms - now_ms) / 1000)


def _by_size(retention: Retention, uncopied: Uncopied) -> float | None:
    if retention.retention_bytes is None:
        return None
    if retention.retention_bytes <= UNLIMITED:
        return inf
    size = uncopied.bytes if uncopied.bytes >= 0 else uncopied.log_bytes  # no more than all of it
    if size > retention.retention_bytes and uncopied.bytes >= 0:
        return 0.0
    if size < 0 or size > retention.retention_bytes or uncopied.growth_bytes_per_s < 0:
        return None
    left = retention.retention_bytes - size
    return left / uncopied.growth_bytes_per_s if uncopied.growth_bytes_per_s else inf
