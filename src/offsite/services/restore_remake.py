"""Target topics that cannot be continued: this very restore made them, so they are deleted and written again."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.routing import shared_router
from offsite.kafka.transactions import PartitionTransactions
from offsite.log.range import TopicPartition
from offsite.model.errors import OffsiteError, TargetDisturbed, TargetNotEmpty, TransactionLost, WriterFenced
from offsite.model.journal import warned
from offsite.pipeline.preserve_copy import transaction_prefix
from offsite.pipeline.restore_copy import RestoreEnds
from offsite.services.restore_lease import HeldRestore

REMAKES_MAX = 1
"""In one run: a topic that is lost twice has another reason than a long pause. A person must look."""

CURABLE = (TransactionLost, TargetDisturbed)


def lost_topics(failures: Iterable[tuple[TopicPartition, OffsiteError]], *, created: Collection[str]) -> set[str]:
    """Those of the topics that this restore `created` which have to be made again. One with records of others, or into
    which a newer attempt writes, is left as it is."""
    failed = list(failures)
    curable = {target.topic for target, error in failed if isinstance(error, CURABLE)}
    kept = {target.topic for target, error in failed if isinstance(error, TargetNotEmpty | WriterFenced)}
    return (curable - kept) & set(created)


def unmake(
    topics: Collection[str],
    partitions: Iterable[TopicPartition],
    *,
    ends: RestoreEnds,
    admin: ClusterAdmin,
    held: HeldRestore,
) -> None:
    """Delete `topics`, after their open transactions: a marker that comes later would find the new topic. `partitions`
    are all that were written. Raises `RestoreTakenOver` before anything is touched."""
    router = shared_router(ends.kafka)
    concerned = [each for each in partitions if each.topic in topics]
    held.check()
    for topic in sorted(topics):
        warned("remake", why="what is in it cannot be continued: it is deleted and written again", topic=topic)
    for target in concerned:
        PartitionTransactions(router, target, prefix=transaction_prefix(ends.layout, target)).abandon()
    held.check()
    admin.delete_topics(sorted(topics))
    for target in concerned:
        router.forget(target)
