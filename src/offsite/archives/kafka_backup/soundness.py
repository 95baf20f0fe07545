"""Finds contradictions in a partition before a record is read: files of another version, missing segments."""

from __future__ import annotations

from dataclasses import replace

from offsite.archives.archive import Damage, LostOffset, OnDamage
from offsite.archives.files import Files
from offsite.archives.kafka_backup.names import records_key, stem_start
from offsite.archives.kafka_backup.partition_files import PartitionFiles, SegmentFile
from offsite.archives.kafka_backup.partition_index import VERSION, decode_partition_index


def find_sound_segments(files: Files, partition: PartitionFiles, on_damage: OnDamage) -> list[SegmentFile]:
    """Return the segments with readable records. Reports unreadable segments, indexes of an unknown version (their
    segments are read without), and missing segments listed by the partition index between existing segments.

    Missing first segments are fine: people delete old segments. Missing, short and torn indexes are fine: crashes leave
    such indexes.
    """
    _check_partition_index(files, partition, on_damage)
    for segment in partition.segments:
        is_sound(files, segment.index_key, segment.index_bytes, on_damage)
    return [
        segment
        for segment in partition.segments
        if is_sound(files, segment.records_key, segment.records_bytes, with_start_offset(segment, on_damage))
    ]


def with_start_offset(segment: SegmentFile, on_damage: OnDamage) -> OnDamage:
    """Make an `OnDamage` that adds the start offset of a completely unreadable segment."""
    lost = LostOffset(topic=segment.topic, partition=segment.partition, offset=segment.start)
    return lambda damage: on_damage(replace(damage, lost_at=lost))


def is_sound(files: Files, key: str, size_bytes: int, on_damage: OnDamage) -> bool:
    """Whether the file has the known version, or is too short for a version; reports another version."""
    version = files.get_range(key, 0, 1) if size_bytes > 0 else b""
    if version and version != VERSION:
        on_damage(Damage(file=key, position=0, problem=f"its version is {version[0]}, but only version 1 is supported"))
    return not version or version == VERSION


def _check_partition_index(files: Files, partition: PartitionFiles, on_damage: OnDamage) -> None:
    key = partition.partition_index
    data = (files.get(key) if key is not None else b"") or b""
    if key is None or not is_sound(files, key, len(data), on_damage) or not partition.segments:
        return
    present = {segment.stem for segment in partition.segments}
    for entry in decode_partition_index(data):
        if entry.stem not in present and stem_start(entry.stem) != entry.start:
            on_damage(Damage(file=key, position=entry.position, problem="it names a segment that cannot exist"))
        elif entry.stem not in present and entry.start > partition.segments[0].start:
            missing = records_key(partition.topic, entry.stem)
            lost = LostOffset(topic=partition.topic, partition=partition.partition, offset=entry.start)
            problem = f"{missing} is missing"
            on_damage(Damage(file=key, position=entry.position, problem=problem, lost_at=lost))
