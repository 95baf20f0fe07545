"""The stored maps of a restore: the target offset for an offset of its source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from offsite.groups.missing_records import (
    AvailableRecords,
    EarlierOffsets,
    find_available_records,
    read_commit_cut,
)
from offsite.log.offset_map import OffsetMap, OffsetMapBuilder
from offsite.log.range import PartitionId, TopicIncarnation, TopicPartition
from offsite.model.errors import BadOption, Damaged, DamagedObject, FormatTooNew, NoSuchRestore
from offsite.repository.backup import Backup
from offsite.repository.local_memory import is_written_here
from offsite.repository.records_place import GIVEN_AGAIN, record_places
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import (
    RestoreRecord,
    count_targets,
    find_record,
    get_targets,
    restore_names,
)
from offsite.repository.state import BackupState
from offsite.stores.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAnswer:
    """The target's offset for one offset of the source. `match`: exact, gap (the next existing record), end, below or
    above (clamped to the restored range)."""

    restore: str
    source_topic: str
    source_offset: int
    target_topic: str
    partition: int
    target_offset: int
    match: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedTopic:
    """The restored incarnation of a topic, and its name on the target."""

    topic_id: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredOffsets:
    """The maps of one restore in `records`, read on demand. `point` is the restored commit, `topics` maps topics to the
    target, `starts` are the starts of target partitions, `makings` the numbers of makings of target topics: only maps
    of the last making count. `available`: which offsets of groups would skip or repeat work; None: not requested."""

    store: Store
    records: Store
    layout: RestoreLayout
    record: RestoreRecord
    point: BackupState
    topics: Mapping[str, MappedTopic]
    starts: Mapping[TopicPartition, int]
    makings: Mapping[str, int]
    available: AvailableRecords | None = None

    def judged_by(self, groups_of: BackupState, earlier: tuple[EarlierOffsets, ...] = ()) -> RestoredOffsets:
        """The same, with offsets of groups compared with the missing records of state `groups_of`. The offsets are of
        `groups_of`, except `earlier` ones."""
        restored = {(topic, mapped.topic_id) for topic, mapped in self.topics.items()}
        partitions = [
            partition_id
            for partition_id in groups_of.positions
            if (partition_id.topic, partition_id.topic_id) in restored
        ]
        available = find_available_records(
            groups_of, partitions, read_commit_cut(self.store, groups_of), earlier=earlier
        )
        return replace(self, available=available)

    def target(self, topic: str) -> str | None:
        """The target name of `topic`, or None when not restored."""
        mapped = self.topics.get(topic)
        return None if mapped is None else mapped.target

    def offset_map(self, topic: str, partition: int) -> OffsetMap | None:
        """The map of one partition; None when not restored, or not restored partition by partition. Raises
        `DamagedObject`, also for a map that does not match the last making of the target."""
        mapped = self.topics.get(topic)
        if mapped is None:
            return None
        source = PartitionId(topic=topic, topic_id=mapped.topic_id, partition=partition)
        target = TopicPartition(topic=mapped.target, partition=partition)
        stored = self.layout.get_map(self.records, source, making=self.makings.get(mapped.target, 1))
        if stored is None and not self.point.segments.get(source):
            return self._empty(source, target)
        if stored is not None:
            self._check_begins_there(stored, source, target)
        return stored

    def _empty(self, source: PartitionId, target: TopicPartition) -> OffsetMap | None:
        """A partition without data has no map of its own: its end is the target's start."""
        position, start = self.point.positions.get(source), self.starts.get(target)
        if position is None or start is None:
            return None
        return OffsetMapBuilder(source_start=position.end, target_start=start).build()

    def _check_begins_there(self, stored: OffsetMap, source: PartitionId, target: TopicPartition) -> None:
        """The map of a preserved partition begins at the source's log start, beyond earlier records of the target."""
        keeps_offsets = target.topic in self.record.preserved
        start = self.starts.get(target, stored.target_start)
        if stored.target_start != start and not (keeps_offsets and stored.target_start == stored.source_start > start):
            raise DamagedObject(
                f"the offset map of {source} begins at {stored.target_start}, but {target} begins at {start}",
                hint="the map belongs to another target: restore again under another name",
            )


def load_restored_offsets(backup: Backup, restore: str) -> RestoredOffsets:
    """The maps of the restore with the id `restore`. Raises `NoSuchRestore` for an id unknown to the backup."""
    layout = RestoreLayout(backup=backup.layout, restore=restore)
    record = find_record(backup.record_store, layout)
    targets = get_targets(backup.record_store, layout)
    if record is None or targets is None:
        raise NoSuchRestore(
            f"backup {backup.descriptor.name} has no restore {restore!r} with written records",
            hint=f"offsite restore run prints the id of a restore; {GIVEN_AGAIN}",
        )
    point = backup.for_reading(is_named=True).state_at(record.commit)
    newest = {
        incarnation.topic: incarnation.topic_id for incarnation in point.topics
    }  # the latest incarnation comes last
    ids = newest | dict(record.incarnations)
    topics = {source: MappedTopic(topic_id=ids[source], target=target) for source, target in record.topics}
    return RestoredOffsets(
        store=backup.store,
        records=backup.record_store,
        layout=layout,
        record=record,
        point=point,
        topics=topics,
        starts=dict(targets.starts),
        makings=dict(targets.makings),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOrigin:
    """A topic made by a restore, according to its record. `is_ours`: this installation wrote the record.
    `same_offsets_as`: the source's topic whose records the topic holds at equal offsets; None for other offsets."""

    restore: str
    is_ours: bool
    same_offsets_as: TopicIncarnation | None


def topic_origins(backup: Backup) -> Mapping[TopicIncarnation, TopicOrigin]:
    """The topics that restores of this backup made, on any cluster. A restore of this installation comes before others,
    who may claim any topic, and the earlier one before the later."""
    origins: dict[TopicIncarnation, TopicOrigin] = {}
    for topic, origin in _topic_origins(backup):
        if topic not in origins or (origin.is_ours and not origins[topic].is_ours):
            origins[topic] = origin
    return origins


def _topic_origins(backup: Backup) -> Iterator[tuple[TopicIncarnation, TopicOrigin]]:
    stores = [place.record_store for place in record_places(backup)]
    places = [(store, name) for store in stores for name in sorted(restore_names(store, backup.layout))]
    for place, name in places:
        layout = RestoreLayout(backup=backup.layout, restore=name)
        try:
            targets, record = get_targets(place, layout), find_record(place, layout)
        except (Damaged, FormatTooNew):
            continue  # an unreadable record is no evidence
        if record is None or targets is None:
            continue
        keys = (layout.record_key, layout.targets_key(max(count_targets(place, layout), 1)))
        is_ours = all(is_written_here(place, key) for key in keys)
        sources = {target: source for source, target in record.topics}
        for topic, topic_id in targets.topic_ids:
            source = sources.get(topic, "")
            of = TopicIncarnation(topic=source, topic_id=dict(record.incarnations).get(source, ""))
            yield (
                TopicIncarnation(topic=topic, topic_id=topic_id),
                TopicOrigin(restore=name, is_ours=is_ours, same_offsets_as=of if topic in record.preserved else None),
            )


def map_offset(backup: Backup, restore: str, topic_partition: TopicPartition, offset: int) -> OffsetAnswer:
    """The target's offset for one offset of the source, by the maps of a restore. Raises `NoSuchRestore`, `BadOption`
    for a partition that was not restored."""
    maps = load_restored_offsets(backup, restore)
    target = maps.target(topic_partition.topic)
    offset_map = maps.offset_map(topic_partition.topic, topic_partition.partition)
    if target is None or offset_map is None:
        topics = ", ".join(source for source, _ in maps.record.topics)
        raise BadOption(f"restore {restore} has no map of {topic_partition}", hint=f"it restored: {topics}")
    mapped = offset_map.lookup(offset)
    return OffsetAnswer(
        restore=restore,
        source_topic=topic_partition.topic,
        source_offset=offset,
        target_topic=target,
        partition=topic_partition.partition,
        target_offset=mapped.target,
        match=mapped.match,
    )
