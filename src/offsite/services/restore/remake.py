"""Target topics that cannot be continued: this very restore made them, so they are deleted and written again."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from offsite.copy.restore.attempt import first_of_others, foreign_records
from offsite.copy.restore.preserve.copy import transaction_prefix
from offsite.copy.restore.translate import RestoreEnds
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.net.routing import Router, shared_router
from offsite.kafka.producer import new_producer
from offsite.kafka.transactions.replay import PartitionTransactions
from offsite.log.range import LogRange, TopicPartition
from offsite.model.clock import SystemClock
from offsite.model.errors import OffsiteError, TargetDisturbed, TargetNotEmpty, TransactionLost, WriterFenced
from offsite.model.journal import warned
from offsite.repository.restores.fence import restore_producer_id
from offsite.services.cluster import LogEnds
from offsite.services.restore.lease import HeldRestore

REMAKES_MAX = 3
"""Number of times that a topic is made again in one run: coordinators that move may write the same marker twice, and
while they go on moving, that happens again. A topic that is lost more often has another reason. A person must look."""

CURABLE = (TransactionLost, TargetDisturbed)


def lost_topics(failures: Iterable[tuple[TopicPartition, OffsiteError]], *, created: Collection[str]) -> set[str]:
    """The topics that this restore `created` and that have to be made again. One with records of others, or into which
    a newer attempt writes, is left as it is."""
    failed = list(failures)
    curable = {target.topic for target, error in failed if isinstance(error, CURABLE)}
    kept = {target.topic for target, error in failed if isinstance(error, TargetNotEmpty | WriterFenced)}
    return (curable - kept) & set(created)


def filled_topics(admin: LogEnds, topics: Collection[str]) -> set[str]:
    """The topics out of `topics`, which were made again just now, that hold something: markers go to a topic by its
    name, and one that a coordinator wrote twice may come after all. `unmake` tells them from records of others."""
    if not topics:
        return set()
    found = admin.topics(topics)
    partitions = [TopicPartition(topic=t.name, partition=p.partition) for t in found.values() for p in t.partitions]
    starts, ends = admin.start_offsets(partitions), admin.end_offsets(partitions)
    return {each.topic for each in partitions if starts[each] != ends[each]}


def unmake(  # noqa: PLR0913  # what to delete, and whom to ask
    topics: Collection[str],
    partitions: Iterable[TopicPartition],
    *,
    ends: RestoreEnds,
    admin: ClusterAdmin,
    held: HeldRestore,
    replayed: Collection[TopicPartition] = (),
) -> None:
    """Delete `topics`, after their open transactions: a marker that comes later would find the new topic. `partitions`
    are all that were written, `replayed` those of them that may have transactions.

    Raises `RestoreTakenOver`, and `TargetNotEmpty` when somebody else wrote into one of them, before anything is
    touched."""
    router = shared_router(ends.kafka)
    concerned = [each for each in partitions if each.topic in topics]
    transactions = {
        each: PartitionTransactions(router, each, prefix=transaction_prefix(ends.layout, each))
        for each in concerned
        if each in replayed
    }
    held.check()
    _check_all_is_ours(router, concerned, transactions, ends=ends, admin=admin)
    for topic in sorted(topics):
        warned("remake", why="what is in it cannot be continued: it is deleted and written again", topic=topic)
    for each in transactions.values():
        each.abandon()
    held.check()
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
    """Applications may have found a topic that this restore made: what they wrote is not ours to delete."""
    ours = restore_producer_id(ends.records, ends.layout, lambda: new_producer(router, SystemClock()).producer_id)
    starts, written = admin.start_offsets(partitions), admin.end_offsets(partitions)
    for each in partitions:
        held = LogRange(topic=each.topic, partition=each.partition, start=starts[each], end=written[each])
        own = frozenset({ours}) | (transactions[each].producer_ids if each in transactions else frozenset())
        stranger = first_of_others(router, held, own=own)
        if stranger is not None:
            raise foreign_records(each, stranger)
