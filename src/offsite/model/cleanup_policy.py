"""How long records stay by a topic's settings: `cleanup.policy` (`delete`, `compact`, or both with a comma),
`retention.ms`, `retention.bytes` and `delete.retention.ms`, as Kafka writes them; the resulting limits; and how long
uncopied records remain at the source by them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Self

from offsite.model.bounds import whole_number

POLICY = "cleanup.policy"
RETENTION_SETTINGS = frozenset({POLICY, "retention.ms", "retention.bytes"})
UNLIMITED = -1
"""Kafka's value for a retention without limit."""
UNKNOWN = -1


KAFKA_RETENTION_MS = 7 * 24 * 3_600_000
"""Kafka's own default of `log.retention.hours`."""


DELETE_RETENTION = "delete.retention.ms"
"""How long the tombstone of a key stays after the cleaner first passed it."""
KAFKA_DELETE_RETENTION_MS = 24 * 3_600_000
"""Kafka's own default of `log.cleaner.delete.retention.ms`."""


def is_compacted(configs: Mapping[str, str]) -> bool:
    """Whether the settings name compaction. False for a missing policy."""
    return "compact" in configs.get(POLICY, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The rules by which a topic's records are deleted. Sizes in bytes; `UNLIMITED` for no limit, None for an unknown
    setting."""

    cleanup_policy: str
    retention_ms: int | None
    retention_bytes: int | None

    @classmethod
    def of(cls, configs: Mapping[str, str]) -> Retention:
        """Return the rules in a topic's settings, as told by `DescribeConfigs`. Kafka deletes where no policy is
        given."""
        return cls(
            cleanup_policy=configs.get(POLICY, "delete"),
            retention_ms=_setting(configs, "retention.ms"),
            retention_bytes=_setting(configs, "retention.bytes"),
        )

    @property
    def deletes(self) -> bool:
        """Whether age or size delete records: not in a topic with compaction alone."""
        return "delete" in [part.strip() for part in self.cleanup_policy.split(",")]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepLimits:
    """How long the records of a topic stay, and how many bytes of every partition; `UNLIMITED`: without limit."""

    keep_ms: int = UNLIMITED
    keep_bytes: int = UNLIMITED

    @classmethod
    def of(cls, retention: Retention, *, default_ms: int = UNLIMITED) -> Self:
        """Return the limits of a topic's rules; `default_ms` applies where the rules lack a time."""
        if not retention.deletes:
            return cls()
        return cls(
            keep_ms=default_ms if retention.retention_ms is None else retention.retention_ms,
            keep_bytes=UNLIMITED if retention.retention_bytes is None else retention.retention_bytes,
        )

    @property
    def is_unlimited(self) -> bool:
        """Whether nothing is ever deleted by the limits."""
        return self.keep_ms == UNLIMITED and self.keep_bytes == UNLIMITED

    def longer_of_both(self, other: KeepLimits) -> KeepLimits:
        """Return the longer time and the larger size of both."""
        return KeepLimits(
            keep_ms=_longer(self.keep_ms, other.keep_ms), keep_bytes=_longer(self.keep_bytes, other.keep_bytes)
        )


NO_LIMITS = KeepLimits()


def _longer(first: int, second: int) -> int:
    return UNLIMITED if UNLIMITED in {first, second} else max(first, second)


def _setting(configs: Mapping[str, str], name: str) -> int | None:
    text = configs.get(name, "")
    return UNLIMITED if text.startswith("-") else whole_number(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Uncopied:
    """The uncopied part of a partition. `oldest_ms`: the time of its oldest record, or an earlier time: the time of the
    newest copied record. `log_bytes`: size of the partition at the source. `growth_bytes_per_s`: speed of growth. -1
    marks an unknown value; `records` is always known."""

    records: int
    oldest_ms: int = UNKNOWN
    bytes: int = UNKNOWN
    log_bytes: int = UNKNOWN
    growth_bytes_per_s: float = UNKNOWN


def retention_headroom(retention: Retention, uncopied: Uncopied, *, now_ms: int) -> float | None:
    """Seconds until the source may delete uncopied records; 0 if the source may already.

    None where nothing is uncopied, where nothing is ever deleted by age or size, and where the answer is unknown: an
    unknown limit might apply first.

    The retention headroom is the time until the source deletes uncopied records. A broker deletes whole segments. By
    time: once the newest record of a segment is older than `retention.ms`. By size: the oldest segment, while at least
    `retention.bytes` remain behind it. Either rule may apply first, and records that a rule allows to be deleted count
    as gone: a broker looks every five minutes, and guarantees no delay. The headroom is therefore a lower bound.
    Whether producers or the broker set record times (`message.timestamp.type`) makes no difference: the broker goes by
    the times in the log.
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
