"""The stored maps of a restore: which offset of its target stands for an offset of its source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from offsite.log.offset_map import OffsetMap, OffsetMapBuilder
from offsite.log.range import TopicPartition
from offsite.model.errors import BadOption, Damaged, DamagedObject, FormatTooNew, NoSuchRestore
from offsite.repository.backup import Backup
from offsite.repository.commit import PartitionId, TopicIncarnation
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import (
    RestoreRecord,
    find_record,
    get_targets,
    restore_names,
    targets_known,
)
from offsite.repository.state import BackupState
from offsite.services.groups.missing_records import EarlierOffsets, HeldRecords, commit_cut, held_records
from offsite.services.own_writes import is_written_here
from offsite.services.records_place import GIVEN_AGAIN, record_places
from offsite.stores.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAnswer:
    """The target's offset for one offset of the source. `match`: exact, gap (the next record there is), end, below or
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
    """The incarnation of a topic that was restored, and the name it was restored under."""

    topic_id: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredOffsets:
    """The maps of one restore in `records`, read when they are asked for. `point` is the commit it restored, `topics`
    what of it went where, `starts` where the target partitions began, `makings` how often target topics were made: only
    maps of the last one count. `held`: which offsets of groups would skip or repeat work; None: nobody asked."""

    store: Store
    records: Store
    layout: RestoreLayout
    record: RestoreRecord
    point: BackupState
    topics: Mapping[str, MappedTopic]
    starts: Mapping[TopicPartition, int]
    makings: Mapping[str, int]
    held: HeldRecords | None = None

    def judged_by(self, groups_of: BackupState, earlier: tuple[EarlierOffsets, ...] = ()) -> RestoredOffsets:
        """The same, where offsets of groups are held against what the state `groups_of`, which they are of but for
        `earlier` ones, knows to be missing."""
        own = {(topic, mapped.topic_id) for topic, mapped in self.topics.items()}
        partitions = [each for each in groups_of.positions if (each.topic, each.topic_id) in own]
        held = held_records(groups_of, partitions, commit_cut(self.store, groups_of), earlier=earlier)
        return replace(self, held=held)

    def target(self, topic: str) -> str | None:
        """The name that `topic` was restored under, or None when it was not."""
        found = self.topics.get(topic)
        return None if found is None else found.target

    def offset_map(self, topic: str, partition: int) -> OffsetMap | None:
        """The map of one partition; None when it was not restored, or in another way than partition by partition.
        Raises `DamagedObject`, also for one that is not about the target as it was made last."""
        found = self.topics.get(topic)
        if found is None:
            return None
        source = PartitionId(topic=topic, topic_id=found.topic_id, partition=partition)
        target = TopicPartition(topic=found.target, partition=partition)
        stored = self.layout.get_map(self.records, source, making=self.makings.get(found.target, 1))
        if stored is None and not self.point.segments.get(source):
            return self._empty(source, target)
        if stored is not None:
            self._check_begins_there(stored, source, target)
        return stored

    def _empty(self, source: PartitionId, target: TopicPartition) -> OffsetMap | None:
        """A partition that held nothing has no map of its own: its end is the target's start."""
        position, start = self.point.positions.get(source), self.starts.get(target)
        if position is None or start is None:
            return None
        return OffsetMapBuilder(source_start=position.end, target_start=start).build()

    def _check_begins_there(self, stored: OffsetMap, source: PartitionId, target: TopicPartition) -> None:
        """Of a preserved partition the map begins at the source's log start, beyond what was there before."""
        keeps_offsets = target.topic in self.record.preserved
        start = self.starts.get(target, stored.target_start)
        if stored.target_start != start and not (keeps_offsets and stored.target_start == stored.source_start > start):
            raise DamagedObject(
                f"the offset map of {source} begins at {stored.target_start}, {target} at {start}",
                hint="it is not about this target: restore again, under another name",
            )


def restored_offsets(backup: Backup, restore: str) -> RestoredOffsets:
    """The maps of the restore with this id. Raises `NoSuchRestore` for an id that is none of this backup's."""
    layout = RestoreLayout(backup=backup.layout, restore=restore)
    record = find_record(backup.record_store, layout)
    targets = get_targets(backup.record_store, layout)
    if record is None or targets is None:
        raise NoSuchRestore(
            f"backup {backup.descriptor.name} has no restore {restore!r} that wrote anything",
            hint=f"offsite restore run prints the id of a restore; {GIVEN_AGAIN}",
        )
    point = backup.reading(is_named=True).state_at(record.commit)
    newest = {known.topic: known.topic_id for known in point.topics}  # the latest incarnation comes last
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
class MadeTopic:
    """A topic that a restore says it made: the restore, whether this installation wrote what says so, and the source's
    topic whose records it holds at their own offsets; None where they are at others."""

    restore: str
    is_ours: bool
    same_offsets_as: TopicIncarnation | None


def made_topic(backup: Backup, topic: str, topic_id: str) -> MadeTopic | None:
    """What made a topic of that name and id, one of this installation before others, who may say so of any; None where
    no restore of this backup does."""
    found = list(_made_topic(backup, topic, topic_id))
    return next((made for made in found if made.is_ours), found[0] if found else None)


def _made_topic(backup: Backup, topic: str, topic_id: str) -> Iterator[MadeTopic]:
    stores = [place.record_store for place in record_places(backup)]
    places = [(store, name) for store in stores for name in sorted(restore_names(store, backup.layout))]
    for place, name in places:
        layout = RestoreLayout(backup=backup.layout, restore=name)
        try:
            targets, record = get_targets(place, layout), find_record(place, layout)
        except (Damaged, FormatTooNew):
            continue  # it says nothing
        if record is None or targets is None or dict(targets.topic_ids).get(topic) != topic_id:
            continue
        source = next((source for source, target in record.topics if target == topic), "")
        of = TopicIncarnation(topic=source, topic_id=dict(record.incarnations).get(source, ""))
        keys = (layout.record_key, layout.targets_key(max(targets_known(place, layout), 1)))
        yield MadeTopic(
            restore=name,
            is_ours=all(is_written_here(place, key) for key in keys),
            same_offsets_as=of if topic in record.preserved else None,
        )


def map_offset(backup: Backup, restore: str, topic_partition: TopicPartition, offset: int) -> OffsetAnswer:
    """The offset of the target for one of the source, by the maps of a restore. Raises `NoSuchRestore`, `BadOption` for
    a partition that it did not restore."""
    maps = restored_offsets(backup, restore)
    target = maps.target(topic_partition.topic)
    found = maps.offset_map(topic_partition.topic, topic_partition.partition)
    if target is None or found is None:
        known = ", ".join(source for source, _ in maps.record.topics)
        raise BadOption(f"restore {restore} has no map of {topic_partition}", hint=f"it restored: {known}")
    mapped = found.lookup(offset)
    return OffsetAnswer(
        restore=restore,
        source_topic=topic_partition.topic,
        source_offset=offset,
        target_topic=target,
        partition=topic_partition.partition,
        target_offset=mapped.target,
        match=mapped.match,
    )
