"""Target topics made by this very restore, and impossible to continue: deleted and written again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.cluster import TopicOffsetSource
from offsite.kafka.net.routing import Router, shared_router
from offsite.kafka.producer import new_producer
from offsite.kafka.transaction_replay import PartitionTransactions
from offsite.log.range import LogRange, TopicPartition
from offsite.model.clock import SystemClock
from offsite.model.errors import OffsiteError, TargetDisturbed, TargetNotEmpty, TransactionLost, WriterFenced
from offsite.model.journal import warned
from offsite.repository.restores.fence import restore_producer_id
from offsite.restore.lease import RestoreLease
from offsite.restore.write.attempt import first_foreign_offset, foreign_records_error
from offsite.restore.write.preserve.copy import transaction_prefix
from offsite.restore.write.translate import RestoreEnds

REMAKES_MAX = 3
"""Most remakes of a topic in one run: moving coordinators may write the same marker twice, and may do so again while
they move. A topic lost more often has another cause, for a person to find."""

CURABLE = (TransactionLost, TargetDisturbed)


def find_lost_topics(failures: Iterable[tuple[TopicPartition, OffsiteError]], *, created: Collection[str]) -> set[str]:
    """The topics `created` by this restore to make again. A topic with records of another producer, or with a newer
    attempt at work, stays unchanged."""
    failed = list(failures)
    curable = {target.topic for target, error in failed if isinstance(error, CURABLE)}
    untouchable = {target.topic for target, error in failed if isinstance(error, TargetNotEmpty | WriterFenced)}
    return (curable - untouchable) & set(created)


def find_filled_topics(admin: TopicOffsetSource, topics: Collection[str]) -> set[str]:
    """The topics out of `topics`, just made again, that hold something: a marker goes to a topic by its name, and a
    marker written twice by a coordinator may arrive late. `delete_lost_topics` tells markers from records of other
    producers."""
    if not topics:
        return set()
    listed = admin.topics(topics)
    partitions = [TopicPartition(topic=t.name, partition=p.partition) for t in listed.values() for p in t.partitions]
    starts, ends = admin.start_offsets(partitions), admin.end_offsets(partitions)
    return {partition.topic for partition in partitions if starts[partition] != ends[partition]}


def delete_lost_topics(  # noqa: PLR0913  # what to delete, and whom to ask
    topics: Collection[str],
    partitions: Iterable[TopicPartition],
    *,
    ends: RestoreEnds,
    admin: ClusterAdmin,
    lease: RestoreLease,
    replayed: Collection[TopicPartition] = (),
) -> None:
    """Delete `topics`, after their open transactions: a later marker would reach the new topic. `partitions` are all
    written partitions, `replayed` the partitions that may have transactions.

    Raises `RestoreTakenOver`, and `TargetNotEmpty` when another producer wrote into one of the topics, before anything
    is touched.
    """
    router = shared_router(ends.kafka)
    concerned = [partition for partition in partitions if partition.topic in topics]
    transactions = {
        partition: PartitionTransactions(router, partition, prefix=transaction_prefix(ends.layout, partition))
        for partition in concerned
        if partition in replayed
    }
    lease.check()
    _check_all_is_ours(router, concerned, transactions, ends=ends, admin=admin)
    for topic in sorted(topics):
        warned("remake", why="its contents cannot be continued: the topic is deleted and written again", topic=topic)
    for partition_transactions in transactions.values():
        partition_transactions.abandon()
    lease.check()
    admin.delete_topics(sorted(topics))
    for target in concerned:
        router.forget(target)


def _check_all_is_ours(
    router: Router,
    partitions: Sequence[TopicPartition],
    transactions: Mapping[TopicPartition, PartitionTransactions],
    *,
    ends: RestoreEnds,
    admin: ClusterAdmin,
) -> None:
    """Applications may have found a topic made by this restore: their records must not be deleted."""
    ours = restore_producer_id(ends.records, ends.layout, lambda: new_producer(router, SystemClock()).producer_id)
    starts, written = admin.start_offsets(partitions), admin.end_offsets(partitions)
    for partition in partitions:
        log_range = LogRange(
            topic=partition.topic, partition=partition.partition, start=starts[partition], end=written[partition]
        )
        own_producer_ids = frozenset({ours}) | (
            transactions[partition].producer_ids if partition in transactions else frozenset()
        )
        stranger = first_foreign_offset(router, log_range, own_producer_ids=own_producer_ids)
        if stranger is not None:
            raise foreign_records_error(partition, stranger)
