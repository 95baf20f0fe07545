"""Whether a topic is the one that was backed up: by its id; by name only where nobody has ids."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from offsite.kafka.protocol.metadata import PartitionMetadata, TopicMetadata
from offsite.log.range import LogRange, PartitionId
from offsite.model.selection import TopicSelection
from offsite.repository.commit import Position, RecordedHole
from offsite.repository.descriptor import BackupDescriptor, origin_options
from offsite.repository.state import BackupState
from offsite.restore.compare.expected import NO_EXTENT, BackupExtent
from offsite.restore.compare.topics import SameTopics, log_extents, same_topics
from tests.unit.restore.test_restore_plan import backup, partition, shape

ID, OTHER = UUID(int=1), UUID(int=2)
SELECTION = TopicSelection(include=("*",))
DESCRIPTOR = BackupDescriptor(name="b", cluster_id="cluster", created_at_ms=0, selection=SELECTION)


def described(topic_id: UUID | None) -> TopicMetadata:
    alone = PartitionMetadata(partition=0, leader=1, leader_epoch=0, replicas=(1,), in_sync=(1,))
    return TopicMetadata(name="orders", topic_id=topic_id, internal=False, error_code=0, partitions=(alone,))


def same(backed_up: str, found: UUID | None, **changes: object) -> SameTopics:
    shapes = [shape("orders", topic_id=backed_up)]
    descriptor = replace(DESCRIPTOR, **changes)  # type: ignore[arg-type]
    return same_topics(shapes, {"orders": described(found)}, descriptor=descriptor, cluster_id="cluster")


def test_topics_are_the_same_by_their_ids() -> None:
    assert same(str(ID), ID) == SameTopics(by_id=("orders",), by_name=())
    assert same(str(ID), OTHER) == SameTopics(by_id=(), by_name=())


def test_a_name_alone_tells_only_where_neither_side_has_an_id() -> None:
    assert same("", None) == SameTopics(by_id=(), by_name=("orders",))
    assert same(str(ID), None) == SameTopics(by_id=(), by_name=())
    assert same("", ID) == SameTopics(by_id=(), by_name=())


def test_a_name_tells_nothing_of_another_cluster_or_of_an_archive() -> None:
    assert not same("", None, cluster_id="another").by_name
    assert not same("", None, options=origin_options("avro", "/archive")).by_name


def test_an_extent_reaches_from_where_the_backup_began_to_its_position() -> None:
    state: BackupState = backup(shape("orders"))
    lost = RecordedHole(partition_id=partition("orders", 0), start=3, end=5, reason="retention")
    of_another = replace(lost, partition_id=PartitionId(topic="orders", topic_id="id-0", partition=0))
    positions = {partition("orders", 0): Position(partition_id=partition("orders", 0), log_start=7, end=12)}
    found = log_extents(replace(state, positions=positions, holes=(lost, of_another)), shape("orders"))
    hole = LogRange(topic="orders", partition=0, start=3, end=5)
    assert found == {0: BackupExtent(start=0, end=12, holes=(hole,)), 1: NO_EXTENT}
