"""Chooses the files of an archive to delete because the retention of their topic deleted the records at the source.
Pure.

A file is deleted when the newest record is older than `retention.ms`, or when `retention.bytes` lie behind the file; by
the current settings *and* by the settings at the time of the export, because a retention shortened by mistake or malice
must not empty the archive too. If the cluster was asked, only files below the log start of the partition's leader are
deleted: the source deleted the records first. Files beyond judgement are kept, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from offsite.archives.index import EarlierSettings, promised_limits
from offsite.model.cleanup_policy import NO_LIMITS, UNLIMITED, KeepLimits
from offsite.model.units import format_duration, format_size

__all__ = ["MirrorRule", "OldestFiles", "RetentionVerdict", "TopicSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OldestFiles:
    """The first files of a partition, deleted or kept together. `starts`: first offsets; the last file ends before
    `end`; `newest_ms`: time of the newest record; `behind_bytes`: size of the partition behind the files."""

    partition: int
    starts: Sequence[int]
    end: int
    newest_ms: int
    behind_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """Statements of an archive about a topic: id (empty: unknown), settings at the newest export, and earlier
    settings."""

    topic_id: str = ""
    configs: Mapping[str, str] = field(default_factory=dict)
    earlier: Sequence[EarlierSettings] = ()

    def promised(self, oldest: OldestFiles) -> KeepLimits:
        """Return how long the files were to be kept when exported."""
        limits = KeepLimits(keep_ms=0, keep_bytes=0)
        for start in oldest.starts:
            limits = limits.longer_of_both(self._promised(oldest.partition, start))
        return limits

    def _promised(self, partition: int, start: int) -> KeepLimits:
        """Use the first settings with an end above the file: the file was written under these settings."""
        promises = (settings.configs for settings in self.earlier if start < dict(settings.ends).get(partition, 0))
        return promised_limits(next(promises, tuple(self.configs.items())))


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionVerdict:
    """Whether files are deleted, with the reason."""

    goes: bool
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorRule:
    """Decides about files of a partition. `now`: current limits of the topic. `log_start`: as answered by the leader,
    None if no cluster was asked. `keep_reason`: why nothing is deleted at all; else empty."""

    settings: TopicSettings
    now: KeepLimits = NO_LIMITS
    log_start: int | None = None
    keep_reason: str = ""

    def judge(self, oldest: OldestFiles, *, from_ms: int) -> RetentionVerdict:
        """Judge the oldest files. Ages count back from `from_ms`."""
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
            reason = "its topic has no retention limit"
        elif self.log_start is None:
            reason = "the size limit can be checked only with the cluster (--bootstrap)"
        else:
            reason = f"within retention.bytes, {format_size(limits.keep_bytes)}"
        return reason if limits == self.now else f"{reason}, at the time of the export"
