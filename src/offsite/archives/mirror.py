"""Which files of an archive go because their topic's own retention let their records go at the source. Pure.

A file goes when its newest record is older than `retention.ms`, or when `retention.bytes` lie behind it; by the
settings of now *and* by those under which it was exported, since who shortens a retention by mistake, or by malice,
must not empty the archive too. Where the cluster was asked, only what lies below the log start of its leader goes: the
source has let go of it first. What cannot be judged is kept, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from offsite.archives.index import EarlierSettings, promised_limits
from offsite.model.cleanup_policy import NO_LIMITS, UNLIMITED, KeepLimits
from offsite.model.size import format_size
from offsite.model.time import format_duration

__all__ = ["MirrorRule", "OldestFiles", "RetentionVerdict", "TopicSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OldestFiles:
    """The first files of a partition, which go together or stay: they begin at `starts`, the last one ends before
    `end`, the newest record is of `newest_ms`, and `behind_bytes` of the partition lie behind them."""

    partition: int
    starts: Sequence[int]
    end: int
    newest_ms: int
    behind_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """What an archive says of a topic: its id (empty: unknown), its settings as of the newest export, and those of
    before."""

    topic_id: str = ""
    configs: Mapping[str, str] = field(default_factory=dict)
    earlier: Sequence[EarlierSettings] = ()

    def promised(self, oldest: OldestFiles) -> KeepLimits:
        """How long these files were to be kept when they were exported."""
        limits = KeepLimits(keep_ms=0, keep_bytes=0)
        for start in oldest.starts:
            limits = limits.longer_of_both(self._promised(oldest.partition, start))
        return limits

    def _promised(self, partition: int, start: int) -> KeepLimits:
        """The first settings under which so much was there are those under which the file was written."""
        promises = (settings.configs for settings in self.earlier if start < dict(settings.ends).get(partition, 0))
        return promised_limits(next(promises, tuple(self.configs.items())))


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionVerdict:
    """Whether files go, and why they do or do not."""

    goes: bool
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorRule:
    """By what files of a partition go: `now` are the limits of its topic now. `log_start` is what its leader told, None
    where no cluster was asked. `kept`: why nothing goes at all; else empty."""

    settings: TopicSettings
    now: KeepLimits = NO_LIMITS
    log_start: int | None = None
    keep_reason: str = ""

    def judge(self, oldest: OldestFiles, *, from_ms: int) -> RetentionVerdict:
        """Ages count back from `from_ms`."""
        if self.keep_reason:
            return RetentionVerdict(goes=False, why=self.keep_reason)
        if self.log_start is not None and oldest.end > self.log_start:
            return RetentionVerdict(goes=False, why=f"the topic itself begins at offset {self.log_start}")
        limits = self.now.longer_of_both(self.settings.promised(oldest))
        if limits.keep_ms != UNLIMITED and oldest.newest_ms < from_ms - limits.keep_ms:
            return RetentionVerdict(goes=True, why=f"older than retention.ms, {format_duration(limits.keep_ms / 1000)}")
        is_too_much = limits.keep_bytes != UNLIMITED and oldest.behind_bytes >= limits.keep_bytes
        if self.log_start is not None and is_too_much:
            return RetentionVerdict(goes=True, why=f"beyond retention.bytes, {format_size(limits.keep_bytes)}")
        return RetentionVerdict(goes=False, why=self._why_kept(limits))

    def _why_kept(self, limits: KeepLimits) -> str:
        if limits.keep_ms != UNLIMITED:
            reason = f"younger than retention.ms, {format_duration(limits.keep_ms / 1000)}"
        elif limits.keep_bytes == UNLIMITED:
            reason = "its topic keeps it without end"
        elif self.log_start is None:
            reason = "how much its topic holds only the cluster tells"
        else:
            reason = f"within retention.bytes, {format_size(limits.keep_bytes)}"
        return reason if limits == self.now else f"{reason}, as it was when this was exported"
