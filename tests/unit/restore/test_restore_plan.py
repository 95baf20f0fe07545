from __future__ import annotations

from dataclasses import fields, replace

import pytest

from offsite.log.range import PartitionId, TopicIncarnation
from offsite.model.errors import BadOption, NoSuchTopic, ProtectedTopic
from offsite.model.selection import parse_selection
from offsite.model.topic_choices import parse_partition_counts, parse_renames
from offsite.model.units import KIB
from offsite.points.point_in_time import PartitionChain, PointInTime, SelectedChains, select_chains
from offsite.repository.commit import Position, SnapshotRef, TopicShape
from offsite.repository.segments.segment import Compression, Segment, SegmentList
from offsite.repository.state import BackupState
from offsite.restore.rewritten_ids import IdRewrite
from offsite.restore.write.plan import PartitionRestore, RestorePlan, TargetTopic, plan_restore

EMPTY_SEGMENT_HASH = "blake3:" + "0" * 64


def partition(topic: str, number: int, *, topic_id: str = "id-1") -> PartitionId:
    return PartitionId(topic=topic, topic_id=topic_id, partition=number)


def segment(source: PartitionId, start: int, end: int) -> Segment:
    return Segment(
        key=f"backups/b/topics/{source.topic}/partition={source.partition}/x-{start}",
        topic=source.topic,
        topic_id=source.topic_id,
        partition=source.partition,
        start=start,
        end=end,
        first_offset=start,
        last_offset=end - 1,
        records=end - start,
        control_batches=0,
        batches=1,
        largest_batch_bytes=1000,
        raw_bytes=100 * (end - start),
        stored_bytes=100,
        compression=Compression.NONE,
        base_timestamp_min_ms=0,
        timestamp_max_ms=start,
        timestamp_types=(0,),
        leader_epochs=(0,),
        has_transactions=False,
        hash=EMPTY_SEGMENT_HASH,
    )


def shape(topic: str, *, partitions: int = 2, topic_id: str = "id-1") -> TopicShape:
    return TopicShape(topic=topic, topic_id=topic_id, partitions=partitions, replication_factor=1)


def backup(*shapes: TopicShape) -> BackupState:
    """Each topic has 10 records in partition 0, in two segments; its other partitions are empty."""
    first = [partition(s.topic, 0, topic_id=s.topic_id) for s in shapes]
    return BackupState(
        backup="b",
        seq=3,
        topics={s.incarnation: s for s in shapes},
        positions={p: Position(partition_id=p, log_start=0, end=10) for p in first},
        segments={p: SegmentList([segment(p, 0, 6), segment(p, 6, 10)]) for p in first},
    )


def target() -> TargetTopic:
    """A topic `t` that takes all that `backup` holds."""
    return TargetTopic(
        topic="t",
        partitions=2,
        records=0,
        max_batch_bytes=1000,
        oldest_taken_ms=0,
        newest_taken_ms=6,
        oldest_kept_ms=6,
        keeps_times=True,
        compacts=False,
    )


def selected(state: BackupState, topics: str = "*", *, until_ms: int | None = None) -> SelectedChains:
    point = PointInTime(commit=state, state=state, until_ms=until_ms)
    return select_chains(point, parse_selection(topics.split(","))).copyable()


def plan(
    point: BackupState, topics: str = "*", *, renames: str = "", existing: tuple[TargetTopic, ...] = ()
) -> RestorePlan:
    names = {each.topic for each in existing}
    return plan_restore(selected(point, topics), renames=parse_renames(renames.split(",")), existing=names)


def test_a_topic_comes_back_with_all_its_partitions_even_empty_ones() -> None:
    result = plan(backup(shape("t", partitions=3)))
    assert result.topics[0].source.partitions == 3
    assert [p.target.partition for p in result.partitions] == [0]


def test_segments_stay_in_order_and_end_at_the_committed_position() -> None:
    (chain,) = plan(backup(shape("t"))).all_chains
    assert [s.start for s in chain.segments] == [0, 6]
    assert chain.end == 10


def test_totals_are_those_of_the_segments() -> None:
    result = plan(backup(shape("t"), shape("u", topic_id="id-2")))
    assert (result.records, result.raw_bytes) == (20, 2000)


def test_a_rename_moves_the_topic() -> None:
    result = plan(backup(shape("t")), renames="t=t2")
    assert result.topics[0].target == result.partitions[0].target.topic == "t2"


def test_the_latest_incarnation_is_restored() -> None:
    state = backup(shape("t"), shape("t", topic_id="id-2"))
    (topic,) = plan(state).topics
    assert topic.source.incarnation == TopicIncarnation(topic="t", topic_id="id-2")


def test_an_empty_target_of_the_same_shape_is_used() -> None:
    result = plan(backup(shape("t")), existing=(target(),))
    assert not result.topics[0].create


def test_an_unknown_literal_topic_is_refused() -> None:
    with pytest.raises(NoSuchTopic, match="no topic x at commit 3"):
        plan(backup(shape("t")), "x")


def test_topics_of_the_brokers_are_skipped_by_name() -> None:
    result = plan(backup(shape("t"), shape("__consumer_offsets", topic_id="id-2")), "t,__consumer_offsets")
    assert [t.source.topic for t in result.topics] == ["t"]
    assert result.skipped == (("__consumer_offsets", "owned by the brokers"),)


def test_nothing_is_renamed_into_a_topic_of_the_brokers() -> None:
    with pytest.raises(ProtectedTopic):
        plan(backup(shape("t")), renames="t=__transaction_state")


@pytest.mark.parametrize("renames", ["t", "t=u,t=v", "x=y"])
def test_a_rename_that_cannot_be_meant_is_refused(renames: str) -> None:
    with pytest.raises(BadOption):
        plan(backup(shape("t")), renames=renames)


def test_two_topics_never_share_a_target() -> None:
    with pytest.raises(BadOption, match="under the same name"):
        plan(backup(shape("t"), shape("u", topic_id="id-2")), renames="t=u")


def test_holes_of_restored_topics_are_in_the_plan() -> None:
    from offsite.repository.commit import RecordedHole

    hole = RecordedHole(partition_id=partition("t", 0), start=2, end=4, reason="retention")
    other = RecordedHole(partition_id=partition("u", 0, topic_id="id-2"), start=0, end=1, reason="retention")
    assert plan(replace(backup(shape("t")), holes=(hole, other))).holes == (hole,)


def replanned(counts: str, *topics: str) -> RestorePlan:
    return plan_restore(
        selected(backup(*(shape(topic, topic_id=topic) for topic in topics)), until_ms=7),
        renames=parse_renames(["*=*-new"]),
        existing=(),
        counts=parse_partition_counts(counts.split(",")),
    )


def test_a_topic_with_another_partition_count_is_written_as_one() -> None:
    result = replanned("t=5", "t", "u")
    assert [(topic.target, topic.partitions) for topic in result.topics] == [("t-new", 5), ("u-new", 2)]
    assert [chain.target.topic for chain in result.partitions] == ["u-new"]
    (mixed,) = result.repartitions
    assert (mixed.target, mixed.partitions, [each.source.topic for each in mixed.sources]) == ("t-new", 5, ["t"])
    assert {chain.until_ms for chain in result.all_chains} == {7}
    assert result.raw_bytes == 2000


def test_a_topic_that_has_the_count_already_keeps_its_partitions() -> None:
    assert replanned("2", "t", "u").repartitions == ()


def test_room_is_made_for_the_new_batches_of_a_repartitioned_topic() -> None:
    assert [topic.largest_batch_bytes for topic in replanned("t=5", "t", "u").topics] == [256 * KIB, 1000]


def test_a_count_for_a_topic_that_is_not_restored_is_refused() -> None:
    with pytest.raises(BadOption, match="x"):
        replanned("x=5", "t")


def test_a_restore_keeps_all_that_its_chain_says() -> None:
    """A field that was forgotten here brought aborted records back."""
    source = partition("t", 1)
    chain = PartitionChain(
        source=source,
        segments=(segment(source, 0, 5),),
        end=9,
        until_ms=7,
        left_out=(3,),
        hole_starts=(5,),
        rewrite=IdRewrite(ref=SnapshotRef(key="ids", hash="")),
    )
    restored = PartitionRestore.into("copy", chain)
    assert restored.chain == chain
    assert not [each.name for each in fields(chain) if getattr(chain, each.name) == each.default]
