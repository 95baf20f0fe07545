"""What retention asks of an archive, and which files of one may go by their age or by its size. The choice is pure.

Whole files go, from the oldest of a partition on, and never the newest, where an export or the tool itself goes on.
A file goes by its last message: its newest record must be seen to be old. Where that cannot be known the file stays,
and all behind it, so that no archive ever has a hole in its middle. Files that share offsets go together or stay.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Protocol

from offsite.archives.mirror import MirrorRule, OldestFiles, TopicSettings
from offsite.log.range import TopicPartition
from offsite.model.clock import MOST_APART_MS, WITNESSED_MS
from offsite.model.time import format_duration, format_time

__all__ = [
    "ArchiveFile",
    "ExpiredObject",
    "ExpiringFile",
    "KeptFiles",
    "LastMessage",
    "RetentionArchive",
    "RetentionLimits",
    "are_first",
    "choose_files",
    "find_age_reference_ms",
    "group_by_partition",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class LastMessage:
    """The time of the newest record in a file (epoch ms), and the offset behind its last one; `unknown` says why there
    is no time that can be trusted. A file without records has the time 0."""

    at_ms: int | None
    end: int = 0
    unknown: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveFile:
    """A file with the records of a partition from offset `start` on, below `end` as far as names and indexes tell. It
    lies in the objects `keys`, which go in this order. `told`: its last message, where an index tells it."""

    name: str
    partition: TopicPartition
    start: int
    end: int
    size_bytes: int
    keys: tuple[str, ...]
    last_message: LastMessage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiringFile:
    """A file that goes, and the rule by which: its newest record is of `last_message_ms` (epoch ms)."""

    file: ArchiveFile
    last_message_ms: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFiles:
    """What stays of a partition: offsets `[start, end)`, and why its first file does not go as well."""

    partition: TopicPartition
    start: int
    end: int
    files: int
    size_bytes: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredObject:
    """An object of a file that no reader takes any more since `since_ms`, by the clock of the place."""

    key: str
    partition: TopicPartition
    size_bytes: int
    since_ms: int


class RetentionArchive(Protocol):
    """An archive of a format that retention can shorten. Nothing is written but by `forget` and `settle`."""

    def partitions(self) -> Sequence[Sequence[ArchiveFile]]:
        """The files of each partition, by offset, as far as they count. Raises `ArchiveNotFound`, `DamagedArchive`."""

    def last_message(self, file: ArchiveFile) -> LastMessage:
        """What is known of the newest record of a file; may read all of it."""

    def forget(self, going: Sequence[ExpiringFile], *, now_ms: int) -> Sequence[ExpiredObject]:
        """Take the files out of whatever lists them, first of all. Gives the objects that may be deleted at once, in
        this order; all others are `expired` from now on. Raises `ArchiveBusy` where the archive is not as planned."""

    def expired(self) -> Sequence[ExpiredObject]:
        """What earlier calls of `forget` took out, by what the archive says now, and is still there."""

    def settings(self) -> Mapping[str, TopicSettings] | None:
        """What the archive says of its topics, by name, where something vouches for it; None of a format in which
        nothing does. Raises as `partitions`."""

    def settle(self, gone: Collection[str], *, before_ms: int) -> None:
        """Forget expired objects that are deleted: those `gone`, out of those of before `before_ms`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionLimits:
    """How long an archive keeps what it holds: `keep_age_ms` behind the last message of a file, and `max_bytes` of all
    its files; None: no limit of this kind."""

    keep_age_ms: int | None = None
    max_bytes: int | None = None


def choose_files(
    partitions: Sequence[Sequence[ArchiveFile]],
    last_message: Callable[[ArchiveFile], LastMessage],
    limits: RetentionLimits,
    *,
    from_ms: int,
    mirror: Mapping[TopicPartition, MirrorRule] | None = None,
) -> tuple[tuple[ExpiringFile, ...], tuple[KeptFiles, ...]]:
    """The files that go by age, which counts back from `from_ms`, or by what the source let go (`mirror`), and beyond
    these by size, the oldest first; and what stays of each partition."""
    heads = [_Head(files=tuple(files), last_message=last_message) for files in partitions if files]
    if limits.keep_age_ms is not None:
        why = f"older than {format_duration(limits.keep_age_ms / 1000)}"
        for head in heads:
            while head.can_go and head.at_ms < from_ms - limits.keep_age_ms:
                head.drop(why)
    if mirror is not None:
        for head in heads:
            head.follow(mirror[head.files[0].partition], from_ms=from_ms)
    if limits.max_bytes is not None:
        _drop_beyond(heads, limits.max_bytes)
    return tuple(expiring for head in heads for expiring in head.going), tuple(head.kept() for head in heads)


def find_age_reference_ms(
    partitions: Sequence[Sequence[ArchiveFile]],
    last_message: Callable[[ArchiveFile], LastMessage],
    *,
    now_ms: int,
) -> int:
    """From when ages count back: now, where the newest record of the archive is dated about so; else that record. One
    clock alone may be wrong by a year, and where the source is silent nothing new takes the place of what goes. 0: no
    record tells a time."""
    recorded = 0
    for files in partitions:
        at_ms = _newest_ms(files, last_message) or 0
        if at_ms <= now_ms + MOST_APART_MS:
            recorded = max(recorded, at_ms)
        if recorded >= now_ms - WITNESSED_MS:  # to know the newest of each partition may take to read it
            return now_ms
    return recorded


def _newest_ms(files: Sequence[ArchiveFile], last_message: Callable[[ArchiveFile], LastMessage]) -> int | None:
    """Of the newest file; of the one before where an export writes that one just now. None: it is not known."""
    messages = (file.last_message or last_message(file) for file in reversed(files[-2:]))
    return next((message.at_ms for message in messages if message.at_ms is not None), None)


def _drop_beyond(heads: Sequence[_Head], max_bytes: int) -> None:
    remaining_bytes = sum(head.left_bytes for head in heads)
    oldest = [(head.at_ms, number) for number, head in enumerate(heads) if remaining_bytes > max_bytes and head.can_go]
    heapify(oldest)
    while oldest and remaining_bytes > max_bytes:
        _, number = heappop(oldest)
        remaining_bytes -= heads[number].drop("beyond --max-bytes")
        if heads[number].can_go:
            heappush(oldest, (heads[number].at_ms, number))


@dataclass(slots=True, kw_only=True)
class _Head:
    """How far the files of one partition have gone. The next group, of files that share offsets, is looked at when it
    is asked for."""

    files: tuple[ArchiveFile, ...]
    last_message: Callable[[ArchiveFile], LastMessage]
    going: list[ExpiringFile] = field(default_factory=list)
    left_bytes: int = 0
    _group: list[tuple[ArchiveFile, int]] = field(default_factory=list)
    _group_end: int = 0
    _stops: str = ""
    _stays: str = ""

    def __post_init__(self) -> None:
        self.left_bytes = sum(file.size_bytes for file in self.files)

    @property
    def can_go(self) -> bool:
        """Whether the next group is of a known time, and something stays behind it."""
        if not self._group and not self._stops:
            self._look()
        return bool(self._group)

    @property
    def at_ms(self) -> int:
        """The newest record of the next group."""
        return max(at_ms for _, at_ms in self._group)

    def follow(self, rule: MirrorRule, *, from_ms: int) -> None:
        """Let go what the source let go."""
        while self.can_go:
            oldest = OldestFiles(
                partition=self.files[0].partition.partition,
                starts=[file.start for file, _ in self._group],
                end=self._group_end,
                newest_ms=self.at_ms,
                behind_bytes=self.left_bytes - self._group_bytes,
            )
            judged = rule.judge(oldest, from_ms=from_ms)
            if not judged.goes:
                self._stays = judged.why
                return
            self.drop(judged.why)

    def drop(self, why: str) -> int:
        """Let the next group go; how many bytes that frees."""
        freed = self._group_bytes
        self.going += (ExpiringFile(file=file, last_message_ms=at_ms, why=why) for file, at_ms in self._group)
        self.left_bytes -= freed
        self._group, self._stays = [], ""
        return freed

    def kept(self) -> KeptFiles:
        remaining = self.files[len(self.going) :]
        return KeptFiles(
            partition=remaining[0].partition,
            start=remaining[0].start,
            end=max(file.end for file in remaining),
            files=len(remaining),
            size_bytes=self.left_bytes,
            why=self._why(),
        )

    def _why(self) -> str:
        if not self.can_go:
            return self._stops
        return self._stays or f"the last message of {self._group[0][0].name} is of {format_time(self.at_ms)}"

    @property
    def _group_bytes(self) -> int:
        return sum(file.size_bytes for file, _ in self._group)

    def _look(self) -> None:
        group: list[tuple[ArchiveFile, int]] = []
        end = 0
        for number in range(len(self.going), len(self.files) - 1):
            file = self.files[number]
            if group and end <= file.start:
                break
            message = file.last_message or self.last_message(file)
            if message.at_ms is None:
                self._stops = f"{file.name}: {message.unknown}"
                return
            group.append((file, message.at_ms))
            end = max(end, file.end, message.end)
        if not group or end > self.files[len(self.going) + len(group)].start:
            self._stops = "the newest file of a partition stays" if not group else "it shares offsets with the newest"
            return
        self._group, self._group_end = group, end


def group_by_partition(files: Sequence[ArchiveFile]) -> Iterator[tuple[ArchiveFile, ...]]:
    """The files of each partition, those of one beside each other, by offset."""
    partitions: dict[TopicPartition, list[ArchiveFile]] = {}
    for file in files:
        partitions.setdefault(file.partition, []).append(file)
    for partition in sorted(partitions):
        yield tuple(sorted(partitions[partition], key=lambda file: (file.start, file.end)))


def are_first(going: Sequence[ExpiringFile], partitions: Sequence[Sequence[ArchiveFile]]) -> bool:
    """Whether the files that go are still the first ones of their partitions, and something stays behind them."""
    now = {files[0].partition: files for files in partitions if files}
    return all(
        len(gone) < len(now.get(gone[0].partition, ()))
        and [file.name for file in gone] == [file.name for file in now[gone[0].partition][: len(gone)]]
        for gone in group_by_partition([expiring.file for expiring in going])
    )
