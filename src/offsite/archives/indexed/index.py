"""The index of an archive, shared by Avro, Parquet and JSON lines: the files that count, and their properties. Pure.

A topic has an index; a manifest names the topics. No single file holds everything. A file outside every index does not
count: an interrupted export left the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from offsite.archives.archive import ArchiveHole, ArchiveTopic, FileReceipt, Piece, RangeReceipt
from offsite.archives.indexed.layout import MANIFEST_KEY
from offsite.log.group_offsets import GroupOffsets
from offsite.log.range import LogRange, TopicPartition
from offsite.model.cleanup_policy import KAFKA_RETENTION_MS, RETENTION_SETTINGS, KeepLimits, Retention

_EARLIER_MAX = 16
"""Retention changes of a topic kept apart in an index. People change retention a few times a year."""
PIECE_BYTES = 64 << 20
"""A task reads files of a partition up to this size, so many small exports do not become many small tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveManifest:
    """The manifest of an archive. `kind`: the format with the variant. `groups`: by name. `generations`: topic →
    generation of the index when the manifest was written; a missing topic has an index of an earlier version, with
    generation 0. `is_sealed`: see `TopicIndex`."""

    kind: str
    topics: tuple[str, ...] = ()
    groups: Mapping[str, GroupOffsets] = field(default_factory=dict)
    generations: Mapping[str, int] = field(default_factory=dict)
    is_sealed: bool = field(default=True, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredFile:
    """A file taken out of the index by retention at `at_ms` (clock of the store). The file may still exist, because a
    reader of the old index may be reading the file."""

    name: str
    size_bytes: int
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierSettings:
    """Earlier retention settings of a topic. `ends` (partition, offset): records below were exported under these or
    older settings."""

    configs: tuple[tuple[str, str], ...]
    ends: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicIndex:
    """The part of a topic in an archive. `covered`: exported ranges, disjoint and not adjoining, by partition and
    offset; the source lacked the gaps. `files`: by partition and start. `losses`: as in `RangeReceipt`. `expired`:
    files taken out by retention and not deleted yet. `generation`: number of writes of the index. `earlier`: former
    retention settings, the oldest first; their promises remain valid. `is_sealed`: the index has a digest, like every
    index written today."""

    topic: ArchiveTopic
    covered: tuple[LogRange, ...] = ()
    files: tuple[FileReceipt, ...] = ()
    losses: tuple[tuple[str, int], ...] = ()
    expired: tuple[ExpiredFile, ...] = ()
    generation: int = 0
    earlier: tuple[EarlierSettings, ...] = ()
    is_sealed: bool = field(default=True, compare=False)

    def ends(self) -> dict[int, int]:
        """Return partition → the offset after the last covered offset."""
        return {log_range.partition: log_range.end for log_range in self.covered}

    def holes(self) -> tuple[ArchiveHole, ...]:
        return tuple(
            ArchiveHole(range=replace(before, start=before.end, end=after.start), reason="retention")
            for before, after in pairwise(self.covered)
            if before.partition == after.partition
        )

    def with_written(self, written: Sequence[RangeReceipt], topic: ArchiveTopic) -> TopicIndex:
        """Return the index with the written ranges of the topic. Files inside the new ranges are replaced."""
        new = {receipt.name: receipt for range_receipt in written for receipt in range_receipt.files}
        ranges = [range_receipt.range for range_receipt in written]
        remaining = [old for old in self.files if old.name not in new and not _is_inside(old.range, ranges)]
        losses = Counter(dict(self.losses))
        for range_receipt in written:
            losses.update(dict(range_receipt.losses))
        return TopicIndex(
            topic=topic,
            covered=_union([*self.covered, *ranges]),
            files=tuple(sorted([*remaining, *new.values()], key=lambda receipt: receipt.range)),
            losses=tuple(sorted(losses.items())),
            expired=self.expired,
            generation=self.generation,
            earlier=self._earlier_than(topic),
        )

    def without(self, names: Collection[str], *, at_ms: int) -> TopicIndex:
        """Return the index after retention took out the named files at `at_ms`: the first files of every partition,
        never all. Coverage begins with the first remaining file."""
        remaining = tuple(file for file in self.files if file.name not in names)
        gone = tuple(file for file in self.files if file.name in names)
        begins = {file.range.topic_partition: file.range.start for file in reversed(remaining)}
        cut = {file.range.topic_partition: begins[file.range.topic_partition] for file in gone}
        return replace(
            self,
            covered=tuple(_from(cut, self.covered)),
            files=remaining,
            expired=(*self.expired, *(_expired(file, at_ms) for file in gone)),
            earlier=tuple(settings for settings in self.earlier if _speaks_of(settings, remaining)),
        )

    def _earlier_than(self, topic: ArchiveTopic) -> tuple[EarlierSettings, ...]:
        before = _retention_of(self.topic)
        if not self.covered or before == _retention_of(topic):
            return self.earlier
        last = EarlierSettings(configs=before, ends=tuple(self.ends().items()))
        return _bounded((*self.earlier, last))

    def pieces(self) -> tuple[Piece, ...]:
        """Cut the covered ranges between files into pieces of about `PIECE_BYTES`."""
        return tuple(piece for covered in self.covered for piece in self._pieces_of(covered))

    def _pieces_of(self, covered: LogRange) -> Iterable[Piece]:
        files = [file for file in self.files if _is_inside(file.range, [covered])]
        packs: list[list[FileReceipt]] = [[]]
        reach = covered.start
        for file in files:
            if file.range.start >= reach and sum(packed.size_bytes for packed in packs[-1]) >= PIECE_BYTES:
                packs.append([])
            packs[-1].append(file)
            reach = max(reach, file.range.end)
        starts = [covered.start, *(pack[0].range.start for pack in packs[1:])]
        for pack, start, end in zip(packs, starts, [*starts[1:], covered.end], strict=True):
            yield Piece(
                topic=covered.topic,
                partition=covered.partition,
                start=start,
                end=end,
                files=tuple(file.name for file in pack),
                size_bytes=sum(file.size_bytes for file in pack),
            )


def find_unvouched(manifest: ArchiveManifest | None, indexes: Mapping[str, TopicIndex | None]) -> Iterable[str]:
    """Yield a sentence for every statement without proof, because manifest or indexes are missing or have no digest.

    `indexes`: of all topics; None where no valid index exists.
    """
    if manifest is None:
        yield f"no readable {MANIFEST_KEY}: the list of topics cannot be verified, and groups are unknown"
    elif not manifest.is_sealed:
        yield f"{MANIFEST_KEY} has no digest: its topics and groups cannot be verified"
    if bare := [topic for topic, index in indexes.items() if index is None]:
        yield f"no index lists the files of {_named(bare)}: they can be verified only by their own checksums"
    if unsealed := [topic for topic, index in indexes.items() if index is not None and not index.is_sealed]:
        yield f"the index of {_named(unsealed)} has no digest: its contents cannot be verified"


def _retention_of(topic: ArchiveTopic) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in sorted(topic.configs) if name in RETENTION_SETTINGS)


def _bounded(earlier: tuple[EarlierSettings, ...]) -> tuple[EarlierSettings, ...]:
    """Keep at most `_EARLIER_MAX` settings: the oldest two are merged and keep whatever either keeps."""
    if len(earlier) <= _EARLIER_MAX:
        return earlier
    oldest, second, *newer = earlier
    longer = promised_limits(oldest.configs).longer_of_both(promised_limits(second.configs))
    configs = (("retention.bytes", str(longer.keep_bytes)), ("retention.ms", str(longer.keep_ms)))
    return (EarlierSettings(configs=configs, ends=second.ends), *newer)


def promised_limits(configs: Iterable[tuple[str, str]]) -> KeepLimits:
    """Return how long a topic with these settings kept records; Kafka's default of 7 days if the settings leave the
    default."""
    return KeepLimits.of(Retention.of(dict(configs)), default_ms=KAFKA_RETENTION_MS)


def _speaks_of(earlier: EarlierSettings, files: Iterable[FileReceipt]) -> bool:
    ends = dict(earlier.ends)
    return any(file.range.start < ends.get(file.range.partition, 0) for file in files)


def _is_inside(inner: LogRange, ranges: Iterable[LogRange]) -> bool:
    return any(
        outer.topic_partition == inner.topic_partition and outer.start <= inner.start and inner.end <= outer.end
        for outer in ranges
    )


def _from(starts: Mapping[TopicPartition, int], ranges: Iterable[LogRange]) -> Iterable[LogRange]:
    """Yield the parts of `ranges` at or behind the new start of their partition."""
    for log_range in ranges:
        start = starts.get(log_range.topic_partition, log_range.start)
        if start < log_range.end or start == log_range.start:
            yield replace(log_range, start=max(log_range.start, start))


def _expired(file: FileReceipt, at_ms: int) -> ExpiredFile:
    return ExpiredFile(name=file.name, size_bytes=file.size_bytes, at_ms=at_ms)


def _union(ranges: Iterable[LogRange]) -> tuple[LogRange, ...]:
    joined: list[LogRange] = []
    for log_range in sorted(ranges):
        last = joined[-1] if joined else None
        if last and last.topic_partition == log_range.topic_partition and log_range.start <= last.end:
            joined[-1] = replace(last, end=max(last.end, log_range.end))
        else:
            joined.append(log_range)
    return tuple(joined)


def _named(topics: Sequence[str]) -> str:
    return topics[0] if len(topics) == 1 else f"{topics[0]} and {len(topics) - 1} more"
