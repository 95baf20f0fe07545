"""The files of an archive that retention may delete, by age or total size. An archive is a port; the choice is pure.

Whole files are deleted, from the oldest of a partition on. The newest is always kept, because an export or the tool
itself appends behind the newest. A file is judged by the last message: the newest record must be proven old. A file
with an unknown time stays, with all later files, so no archive gets a hole in the middle. Files that share offsets are
deleted or kept together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Protocol

from offsite.archives.retention_source import MirrorRule, OldestFiles, TopicSettings
from offsite.log.range import TopicPartition
from offsite.model.clock import MOST_APART_MS, WITNESSED_MS
from offsite.model.units import format_duration, format_time


@dataclass(frozen=True, slots=True, kw_only=True)
class LastMessage:
    """The time of the newest record in a file (epoch ms), and the offset behind the last record. `unknown`: why no
    trusted time exists. A file without records has the time 0."""

    at_ms: int | None
    end: int = 0
    unknown: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveFile:
    """A file with the records of a partition from offset `start`, below `end` as far as names and indexes say. `keys`:
    the objects of the file, in the order of deletion. `last_message`: set if an index records the last message."""

    name: str
    partition: TopicPartition
    start: int
    end: int
    size_bytes: int
    keys: tuple[str, ...]
    last_message: LastMessage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiringFile:
    """A file to delete, with the rule. `last_message_ms`: time of the newest record (epoch ms)."""

    file: ArchiveFile
    last_message_ms: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFiles:
    """The kept part of a partition: offsets `[start, end)`, and why the first file is kept."""

    partition: TopicPartition
    start: int
    end: int
    files: int
    size_bytes: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredObject:
    """An object of a file ignored by readers since `since_ms`, by the clock of the place."""

    key: str
    partition: TopicPartition
    size_bytes: int
    since_ms: int


class RetentionArchive(Protocol):
    """An archive of a format supported by retention. Only `forget` and `settle` write."""

    def partitions(self) -> Sequence[Sequence[ArchiveFile]]:
        """Return the valid files of every partition, by offset. Raises `ArchiveNotFound`, `DamagedArchive`."""

    def last_message(self, file: ArchiveFile) -> LastMessage:
        """Return the known facts about the newest record of a file; may read the whole file."""

    def forget(self, going: Sequence[ExpiringFile], *, now_ms: int) -> Sequence[ExpiredObject]:
        """Remove the files from every index first. Returns the objects that may be deleted at once, in this order;
        further objects are `expired` from now on. Raises `ArchiveBusy` when the archive differs from the plan."""

    def expired(self) -> Sequence[ExpiredObject]:
        """Return the existing objects taken out by earlier calls of `forget`, according to the archive now."""

    def settings(self) -> Mapping[str, TopicSettings] | None:
        """Return the settings of topics, by name, where a digest vouches for the settings; None for a format without
        digests. Raises like `partitions`."""

    def settle(self, gone: Collection[str], *, before_ms: int) -> None:
        """Forget deleted objects: the objects in `gone` that expired before `before_ms`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionLimits:
    """Limits of an archive: `keep_age_ms` after the last message of a file, and `max_bytes` for all files; None: no
    limit of the kind."""

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
    """Choose the files to delete: by age, which counts back from `from_ms`, or by the retention of the source
    (`retention_source`), and then by size, the oldest first. Returns the files to delete, and the kept part of every
    partition."""
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
    """Return the reference time of ages: now, if the newest record of the archive is dated about now; else the time of
    the newest record. A single clock may be wrong by a year, and with a silent source nothing new replaces deleted
    files. 0: no record has a time."""
    recorded = 0
    for files in partitions:
        at_ms = _newest_ms(files, last_message) or 0
        if at_ms <= now_ms + MOST_APART_MS:
            recorded = max(recorded, at_ms)
        if recorded >= now_ms - WITNESSED_MS:  # to know the newest of each partition may take to read it
            return now_ms
    return recorded


def _newest_ms(files: Sequence[ArchiveFile], last_message: Callable[[ArchiveFile], LastMessage]) -> int | None:
    """Return the time of the newest file, or of the file before while an export writes the newest. None: unknown."""
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
    """The deletion progress of a partition. The next group of files with shared offsets is examined on demand."""

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
        """Whether the next group has a known time, and a file remains behind the group."""
        if not self._group and not self._stops:
            self._look()
        return bool(self._group)

    @property
    def at_ms(self) -> int:
        """The time of the newest record in the next group."""
        return max(at_ms for _, at_ms in self._group)

    def follow(self, rule: MirrorRule, *, from_ms: int) -> None:
        """Delete files whose records the source deleted."""
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
        """Delete the next group; returns the number of freed bytes."""
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
            self._stops = (
                "the newest file of a partition is kept" if not group else "it shares offsets with the newest file"
            )
            return
        self._group, self._group_end = group, end


def group_by_partition(files: Sequence[ArchiveFile]) -> Iterator[tuple[ArchiveFile, ...]]:
    """Yield the files of every partition, by offset."""
    partitions: dict[TopicPartition, list[ArchiveFile]] = {}
    for file in files:
        partitions.setdefault(file.partition, []).append(file)
    for partition in sorted(partitions):
        yield tuple(sorted(partitions[partition], key=lambda file: (file.start, file.end)))


def are_first(going: Sequence[ExpiringFile], partitions: Sequence[Sequence[ArchiveFile]]) -> bool:
    """Whether the files to delete are still the first files of their partitions, and a file remains behind."""
    now = {files[0].partition: files for files in partitions if files}
    return all(
        len(gone) < len(now.get(gone[0].partition, ()))
        and [file.name for file in gone] == [file.name for file in now[gone[0].partition][: len(gone)]]
        for gone in group_by_partition([expiring.file for expiring in going])
    )
