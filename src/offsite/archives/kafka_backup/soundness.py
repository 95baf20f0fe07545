"""What contradicts a partition before a record is read: files of another version, segments that should be there."""

from __future__ import annotations

from dataclasses import replace

from offsite.archives.archive import Damage, LostOffset, OnDamage
from offsite.archives.files import Files
from offsite.archives.kafka_backup.names import records_key, stem_start
from offsite.archives.kafka_backup.partition_files import PartitionFiles, SegmentFile
from offsite.archives.kafka_backup.partition_index import VERSION, decode_partition_index


def find_sound_segments(files: Files, partition: PartitionFiles, on_damage: OnDamage) -> list[SegmentFile]:
    """The segments whose records can be read. Tells of all others, of indexes of an unknown version (their segments are
    read without), and of segments that the partition index lists between those that are there.

    Missing first segments are fine: people delete old ones. So are missing, short and torn indexes: crashes leave them.
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
    """A listener that tells `on_damage` of a segment that cannot be read at all, with the offset that it begins at."""
    lost = LostOffset(topic=segment.topic, partition=segment.partition, offset=segment.start)
    return lambda damage: on_damage(replace(damage, lost_at=lost))


def is_sound(files: Files, key: str, size_bytes: int, on_damage: OnDamage) -> bool:
    """Whether the file is of the version we know, or too short to have one; tells of any other."""
    version = files.get_range(key, 0, 1) if size_bytes > 0 else b""
    if version and version != VERSION:
        on_damage(Damage(file=key, position=0, problem=f"its version is {version[0]}, and only 1 is known"))
    return not version or version == VERSION


def _check_partition_index(files: Files, partition: PartitionFiles, on_damage: OnDamage) -> None:
    key = partition.partition_index
    data = (files.get(key) if key is not None else b"") or b""
    if key is None or not is_sound(files, key, len(data), on_damage) or not partition.segments:
        return
    present = {segment.stem for segment in partition.segments}
    for entry in decode_partition_index(data):
        if entry.stem not in present and stem_start(entry.stem) != entry.start:
            on_damage(Damage(file=key, position=entry.position, problem="it names no segment that could be"))
        elif entry.stem not in present and entry.start > partition.segments[0].start:
            missing = records_key(partition.topic, entry.stem)
            lost = LostOffset(topic=partition.topic, partition=partition.partition, offset=entry.start)
            problem = f"{missing} is not there"
            on_damage(Damage(file=key, position=entry.position, problem=problem, lost_at=lost))
