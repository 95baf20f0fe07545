"""Retention headroom: how long until the source deletes uncopied records. Pure.

A broker deletes whole segments. By time: once the newest record of a segment is older than `retention.ms`. By size: the
oldest segment, while at least `retention.bytes` remain behind it. Either rule may apply first, and records that a rule
allows to be deleted count as gone: a broker looks every five minutes, and guarantees no delay. The headroom is
therefore a lower bound.

Whether producers or the broker set record times (`message.timestamp.type`) makes no difference: the broker goes by the
times in the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from offsite.model.cleanup_policy import UNLIMITED, Retention

_UNKNOWN = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncopied:
    """The uncopied part of a partition. `oldest_ms`: the time of its oldest record, or an earlier time: the time of the
    newest copied record. `log_bytes`: size of the partition at the source. `growth_bytes_per_s`: speed of growth. -1
    marks an unknown value; `records` is always known."""

    records: int
    oldest_ms: int = _UNKNOWN
    bytes: int = _UNKNOWN
    log_bytes: int = _UNKNOWN
    growth_bytes_per_s: float = _UNKNOWN


def retention_headroom(retention: Retention, uncopied: Uncopied, *, now_ms: int) -> float | None:
    """Seconds until the source may delete uncopied records; 0 if the source may already.

    None where nothing is uncopied, where nothing is ever deleted by age or size, and where the answer is unknown: an
    unknown limit might apply first.
    """
    if uncopied.records <= 0 or not retention.deletes:
        return None
    limits = (_by_age(retention, uncopied, now_ms), _by_size(retention, uncopied))
    if 0.0 in limits:  # enough to know, whatever the second limit is
        return 0.0
    known_limits = [limit for limit in limits if limit is not None]
    return min(known_limits) if len(known_limits) == len(limits) and min(known_limits) < inf else None


def _by_age(retention: Retention, uncopied: Uncopied, now_ms: int) -> float | None:
    """Seconds; infinite without a limit, None where unknown."""
    if retention.retention_ms is None:
        return None
    if retention.retention_ms <= UNLIMITED:
        return inf
    if uncopied.oldest_ms < 0:  # for records without a time, the broker takes the time of its file
        return None
    return max(0.0, (uncopied.oldest_ms + retention.retention_ms - now_ms) / 1000)


def _by_size(retention: Retention, uncopied: Uncopied) -> float | None:
    if retention.retention_bytes is None:
        return None
    if retention.retention_bytes <= UNLIMITED:
        return inf
    size = uncopied.bytes if uncopied.bytes >= 0 else uncopied.log_bytes  # at most all of the log
    if size > retention.retention_bytes and uncopied.bytes >= 0:
        return 0.0
    if size < 0 or size > retention.retention_bytes or uncopied.growth_bytes_per_s < 0:
        return None
    room_bytes = retention.retention_bytes - size
    return room_bytes / uncopied.growth_bytes_per_s if uncopied.growth_bytes_per_s else inf
