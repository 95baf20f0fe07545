"""`manifest.json`: the only list of a backup's files. Found, read field by field (a requested field must have the right
type, further fields are ignored), and its times never trusted.

Offsets are half-open here, unlike in the file (segments and `pruned` include the last offset, `gaps` do not). All keys
begin with the backup's id: the root may be the place given to the tool (a folder per backup), or the folder of the
backup.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from offsite.archives.archive import ArchiveHole, Damage, OnDamage, ignore_damage
from offsite.archives.files import Files, check_claims, is_partition
from offsite.log.range import LogRange, Span, TopicPartition, uncovered
from offsite.model.bounds import MAX_OFFSET, MAX_PARTITIONS
from offsite.model.errors import ArchiveNotFound
from offsite.model.untrusted.bounded_json import BadJson, parse_json
from offsite.model.untrusted.json_object import JsonObject, JsonValue

MANIFEST = "manifest.json"
SNAPSHOT = "consumer-groups-snapshot.json"
ORPHANS_HINT = "segments without a manifest can be read by adopting orphans"
SEGMENT_KEY = re.compile(
    r"topics/(?P<topic>[^/]+)/partition=(?P<partition>\d{1,10})/segment-\d+\.(bin|json)(\.zst|\.lz4)?"
)


class NotTheTools(Exception):
    """The bytes are no JSON of the tool; `position` is in bytes. Becomes `Damage` in the package."""

    def __init__(self, problem: str, position: int = 0) -> None:
        super().__init__(problem)
        self.position = position


class ToolObject(JsonObject):
    """An object of the tool. Null counts as a missing field, and a missing object or list as empty: the tool leaves
    both out."""

    __slots__ = ()
    ANY_TEXT = True

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Parse a whole file as an object. Raises `NotTheTools`, like all methods."""
        try:
            return cls.of(parse_json(data), "the file")
        except BadJson as error:
            raise NotTheTools(str(error), error.position) from error

    @classmethod
    def of(cls, value: object, name: str) -> Self:
        if not isinstance(value, dict):
            raise NotTheTools(f"{name} is not an object")
        return cls(fields=value, damaged=NotTheTools)

    def child(self, name: str) -> Self:
        return self.optional_child(name) or self.of({}, name)

    def numbered(self) -> tuple[tuple[int, int], ...]:
        """Return the whole object as pairs of integers; the names are decimal text."""
        try:
            return tuple((int(name), self.integer(name)) for name in self.fields)
        except ValueError as error:
            raise NotTheTools(f"not a number: {error}") from error

    def _item(self, name: str, value: JsonValue) -> Self:
        return self.of(value, f"an item of {name!r}")

    def _list(self, name: str) -> Sequence[JsonValue]:
        return () if self.fields.get(name) is None else super()._list(name)

    def _no_integer(self, name: str, value: JsonValue, least: int, most: int) -> Exception:  # noqa: ARG002
        return self.wrong(name, "an integer" if type(value) is not int else "an integer of 64 bits")


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ListedSegment:
    """A file with offsets in `[start, end)`, by the manifest or the file's own header. `key`: path below the archive's
    root. Unknown values: `records` -1, `sha256` empty. `size_bytes`: of the whole file."""

    start: int
    end: int
    key: str
    size_bytes: int
    records: int = -1
    sha256: str = ""

    @property
    def offsets(self) -> str:
        return f"offsets {self.start} to {self.end - 1}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestPartition:
    """A partition in a manifest. `segments`: rising by start, possibly overlapping; `lost`: ranges pruned, or never
    available."""

    partition: int
    segments: tuple[ListedSegment, ...]
    lost: tuple[LogRange, ...] = ()

    @property
    def end(self) -> int | None:
        """The first offset not handled by the tool; None if the tool handled none."""
        return max((end for _, end in self.spans()), default=None)

    def spans(self) -> list[Span]:
        """Return the accounted offsets as rising `[start, end)` ranges."""
        lost = [(lost_range.start, lost_range.end) for lost_range in self.lost]
        return sorted([(segment.start, segment.end) for segment in self.segments] + lost)

    def holes(self) -> Iterator[ArchiveHole]:
        """Yield lost ranges outside every segment, an offset once, rising."""
        next_offset = 0
        segment_spans = sorted((segment.start, segment.end) for segment in self.segments)
        for lost in sorted(self.lost):
            for start, end in uncovered(max(lost.start, next_offset), lost.end, segment_spans):
                yield ArchiveHole(range=replace(lost, start=start, end=end), reason="retention")
            next_offset = max(next_offset, lost.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestTopic:
    topic: str
    partition_count: int
    replication_factor: int = -1
    configs: tuple[tuple[str, str], ...] = ()
    partitions: tuple[ManifestPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The manifest of the archive below `prefix` (empty, or ending in `/`)."""

    prefix: str
    backup_id: str = ""
    cluster_id: str = ""
    topics: tuple[ManifestTopic, ...] = ()
    document: ToolObject = field(default_factory=lambda: ToolObject.of({}, "the file"))
    """The whole file, with members unknown to offsite."""

    @classmethod
    def parse(cls, data: bytes, *, prefix: str) -> Manifest:
        """Parse the manifest in `data`. Raises `NotTheTools`."""
        document = ToolObject.parse(data)
        backup_id = document.text("backup_id")
        return cls(
            prefix=prefix,
            backup_id=backup_id,
            cluster_id=document.optional_text("source_cluster_id") or "",
            topics=tuple(_topic(topic, f"{backup_id}/", prefix) for topic in document.children("topics")),
            document=document,
        )

    def partitions(self) -> Iterator[tuple[TopicPartition, ManifestPartition]]:
        for topic in self.topics:
            for partition in topic.partitions:
                yield TopicPartition(topic=topic.topic, partition=partition.partition), partition

    def segments(self) -> Iterator[ListedSegment]:
        for _, partition in self.partitions():
            yield from partition.segments


def _topic(fields: ToolObject, stored_prefix: str, prefix: str) -> ManifestTopic:
    topic = fields.text("name")
    partitions = [
        _partition(partition_document, topic, stored_prefix, prefix)
        for partition_document in fields.children("partitions")
    ]
    partitions.sort(key=lambda partition: partition.partition)
    listed_count = max((partition.partition for partition in partitions), default=-1) + 1
    count = max(listed_count, fields.integer_or("original_partition_count", 0))
    if count > MAX_PARTITIONS:
        raise NotTheTools(f"{count} partitions of topic {topic!r} are invalid")
    return ManifestTopic(
        topic=topic,
        partition_count=count,
        replication_factor=fields.integer_or("source_replication_factor", -1),
        configs=fields.text_map("configurations"),
        partitions=tuple(partitions),
    )


def _partition(fields: ToolObject, topic: str, stored_prefix: str, prefix: str) -> ManifestPartition:
    partition = fields.integer("partition_id")
    if not is_partition(partition):
        raise NotTheTools(f"partition {partition} of topic {topic!r} is invalid")
    segments = [_segment(segment_document, stored_prefix, prefix) for segment_document in fields.children("segments")]
    lost = [*_ranges(fields, "gaps", last_is_inside=0), *_ranges(fields, "pruned", last_is_inside=1)]
    return ManifestPartition(
        partition=partition,
        segments=tuple(sorted(segments)),
        lost=tuple(LogRange(topic=topic, partition=partition, start=start, end=end) for start, end in lost),
    )


def _segment(fields: ToolObject, stored_prefix: str, prefix: str) -> ListedSegment:
    start, end = _range(fields, last_is_inside=1)
    return ListedSegment(
        key=prefix + fields.text("key").removeprefix(stored_prefix),
        start=start,
        end=end,
        size_bytes=fields.integer_or("compressed_size", 0),
        records=fields.integer_or("record_count", -1),
        sha256=(fields.optional_text("sha256") or "").lower(),
    )


def _ranges(fields: ToolObject, name: str, *, last_is_inside: int) -> list[tuple[int, int]]:
    return [_range(range_document, last_is_inside=last_is_inside) for range_document in fields.children(name)]


def _range(fields: ToolObject, *, last_is_inside: int) -> tuple[int, int]:
    start, end = fields.integer("start_offset"), fields.integer("end_offset") + last_is_inside
    if not 0 <= start <= end <= MAX_OFFSET:
        raise NotTheTools(f"offsets from {start} to {end} are invalid")
    return start, end


def find_prefix(files: Files, backup_id: str, *, needs_manifest: bool = True) -> str:
    """Return the prefix of the backup: empty, or ending in `/`. Raises `ArchiveNotFound` without a backup, or with
    several backups and no `backup_id`."""
    if backup_id:
        return _named(files, backup_id, needs_manifest=needs_manifest)
    if files.get_range(MANIFEST, 0, 1) is not None:
        return ""
    keys = [info.key for info in files.list()]
    prefixes = {key.removesuffix(MANIFEST) for key in keys if key.count("/") == 1 and key.endswith(f"/{MANIFEST}")}
    if not prefixes and not needs_manifest:
        prefixes = {key[: match.start()] for key in keys if (match := SEGMENT_KEY.search(key))}
    if len(prefixes) == 1:
        return prefixes.pop()
    if prefixes:
        names = ", ".join(sorted(prefix.rstrip("/") for prefix in prefixes))
        raise ArchiveNotFound(f"{files.url} has several backups: {names}", hint="choose one by its backup id")
    raise ArchiveNotFound(
        f"{files.url} has no {MANIFEST}, neither at the top nor one folder below",
        hint=ORPHANS_HINT,
    )


def read_manifest(files: Files, prefix: str, on_damage: OnDamage) -> Manifest | None:
    """Read the manifest; None for a missing manifest or, when `on_damage` returns, an unreadable manifest."""
    key = prefix + MANIFEST
    data = files.get(key)
    if data is None:
        return None
    try:
        return Manifest.parse(data, prefix=prefix)
    except NotTheTools as error:
        on_damage(Damage(file=key, position=error.position, problem=str(error)))
        return None


def segment_partition(key: str, prefix: str) -> TopicPartition | None:
    """Return the partition of a segment by its name; None for another file. Raises `DamagedArchive` for an impossible
    partition."""
    match = SEGMENT_KEY.fullmatch(key.removeprefix(prefix))
    if match is None:
        return None
    check_claims(key, partition=int(match["partition"]))
    return TopicPartition(topic=match["topic"], partition=int(match["partition"]))


def _named(files: Files, backup_id: str, *, needs_manifest: bool) -> str:
    prefix = f"{backup_id}/"
    if files.get_range(prefix + MANIFEST, 0, 1) is not None:
        return prefix
    manifest = read_manifest(files, "", ignore_damage)
    if manifest is not None and manifest.backup_id == backup_id:
        return ""
    if not needs_manifest and any(True for _ in files.list(prefix)):
        return prefix
    raise ArchiveNotFound(f"{files.url} has no manifest of a backup {backup_id!r}", hint=ORPHANS_HINT)
