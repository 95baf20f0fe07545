"""Looks at the living source of a backup: asks the cluster about the topics of a state, within seconds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from offsite.backup.copy_plan import PartitionBounds
from offsite.backup.log_truncation import ask_leaders
from offsite.groups.restored_offsets import topic_origins
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.cluster import Cluster
from offsite.kafka.log_bounds import LogBounds
from offsite.kafka.net.routing import shared_router
from offsite.kafka.protocol.metadata import TopicMetadata
from offsite.log.range import TopicIncarnation, TopicPartition
from offsite.model.bounds import MAX_OFFSET
from offsite.model.cleanup_policy import KAFKA_RETENTION_MS, RETENTION_SETTINGS, Retention
from offsite.model.errors import Damaged, FormatTooNew, OffsiteError, OtherCluster
from offsite.model.journal import noted
from offsite.model.selection import TopicSelection, drill_copies
from offsite.overview.source_evidence import MadeAnew, SourceLook, may_be_early
from offsite.repository.backup import Backup
from offsite.repository.commit import TopicShape
from offsite.repository.records_place import record_places
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import get_outcome
from offsite.repository.state import BackupState

ANSWERS_WITHIN_S = 5.0
"""A broker answers such questions within milliseconds. A look that waits longer is told as failed, and made again."""
ASKED_MAX = 200
"""Topics whose settings one look asks for: with records that are gone, then those with a lag that the source deletes
soonest."""


def impatient(cluster: Cluster) -> ClusterAdmin:
    """The cluster, with answers within seconds or errors."""
    most_ms = min(cluster.config.request_timeout_ms, int(1000 * ANSWERS_WITHIN_S))
    return ClusterAdmin(shared_router(replace(cluster.config, request_timeout_ms=most_ms)))


def look_at_source(admin: ClusterAdmin, backup: Backup, state: BackupState, *, looked_ms: int) -> SourceLook:
    """Ask the cluster about the topics of `state`, the newest state before the look. Raises `OtherCluster` for another
    cluster than the backup's, `KafkaUnavailable`, `Denied`."""
    _check_cluster(admin, backup)
    listed = admin.topics()
    shapes = state.latest_shapes()
    new = tuple(name for name in _selected(backup.descriptor.selection, listed) if name not in shapes)
    watched = [listed[name] for name in (*shapes, *new) if name in listed]
    absent = [name for name, shape in shapes.items() if name not in listed and not shape.is_deleted]
    presence = admin.presence(absent)
    log = admin.bounds(_partitions(watched), patience_s=ANSWERS_WITHIN_S)
    log_ends, silent = _log_ends(admin, state, watched, log.bounds)
    failed = {**log.failed, **silent}
    look = SourceLook(
        looked_ms=looked_ms,
        listed={topic.name: _topic_id(topic) for topic in watched},
        presence=presence,
        bounds={key: bounds for key, bounds in log.bounds.items() if key not in failed},
        failed={key: f"{error.id}: {error.message}" for key, error in failed.items()},
        log_ends=log_ends,
        new=new,
        restored=_restored(backup, state, watched),
    )
    look = _with_retention(admin, state, look)
    _check_cluster(admin, backup)  # another one may have taken the address meanwhile, without these topics
    return look


def _check_cluster(admin: ClusterAdmin, backup: Backup) -> None:
    cluster_id, recorded_id = admin.cluster().cluster_id, backup.descriptor.cluster_id
    if cluster_id != recorded_id:
        raise OtherCluster(
            f"backup {backup.descriptor.name} is of cluster {recorded_id}, and the asked cluster is {cluster_id}"
        )


def _selected(selection: TopicSelection, listed: Mapping[str, TopicMetadata]) -> tuple[str, ...]:
    internal = frozenset(name for name, topic in listed.items() if topic.internal)
    return selection.select(listed, internal=internal, hidden=drill_copies(listed))


def _topic_id(topic: TopicMetadata) -> str:
    return "" if topic.topic_id is None else str(topic.topic_id)


def _partitions(topics: Iterable[TopicMetadata]) -> list[TopicPartition]:
    return [TopicPartition(topic=topic.name, partition=p.partition) for topic in topics for p in topic.partitions]


def _log_ends(
    admin: ClusterAdmin,
    state: BackupState,
    topics: Iterable[TopicMetadata],
    bounds: Mapping[TopicPartition, LogBounds],
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, OffsiteError]]:
    """The partitions whose log is no longer that of the backup, with the end of our newest epoch there; and those whose
    leader did not tell."""
    ids = {topic.name: _topic_id(topic) for topic in topics}
    partitions = [
        PartitionBounds(
            topic=key.topic,
            topic_id=ids[key.topic],
            partition=key.partition,
            log_start=log.start,
            end=log.end,
            size_bytes=0,
            leader_epoch=log.leader_epoch,
        )
        for key, log in bounds.items()
    ]
    ends, silent = dict[TopicPartition, int](), dict[TopicPartition, OffsiteError]()
    for answer in ask_leaders(admin, state, partitions, patience_s=ANSWERS_WITHIN_S):
        if isinstance(answer.end, OffsiteError):
            silent[answer.bounds.topic_partition] = answer.end
        elif answer.has_diverged(state):
            ends[answer.bounds.topic_partition] = answer.end.end
    return ends, silent


def _restored(backup: Backup, state: BackupState, topics: Iterable[TopicMetadata]) -> dict[TopicIncarnation, MadeAnew]:
    """The topics that restores of this installation made. Read only where a topic was created anew."""
    ids: defaultdict[str, set[str]] = defaultdict(set)
    for incarnation in state.topics:
        ids[incarnation.topic].add(incarnation.topic_id)
    anew = [
        TopicIncarnation(topic=topic.name, topic_id=_topic_id(topic))
        for topic in topics
        if ids[topic.name] - {_topic_id(topic)}
    ]
    origins = topic_origins(backup) if anew else {}
    return {i: _made(backup, origins[i].restore) for i in anew if i in origins and origins[i].is_ours}


def _made(backup: Backup, restore: str) -> MadeAnew:
    layout = RestoreLayout(backup=backup.layout, restore=restore)
    try:
        outcomes = [get_outcome(place.record_store, layout) for place in record_places(backup)]
    except (Damaged, FormatTooNew) as error:
        return MadeAnew(restore=restore, problem=f"is not known to have ended: {error.message}")
    outcome = next(filter(None, outcomes), None)
    if outcome is None:
        return MadeAnew(restore=restore, problem="has not ended: the same command continues it")
    return MadeAnew(restore=restore, problem="differs from the backup" if outcome.verified is False else "")


def _with_retention(admin: ClusterAdmin, state: BackupState, look: SourceLook) -> SourceLook:
    """`look` with the settings in force of the topics where they decide something, and with sizes. Unreadable settings
    are unknown."""
    shapes = state.latest_shapes()
    lagging = {
        partition_id.topic
        for shape in shapes.values()
        for partition_id in shape.partition_ids
        if (log := look.bounds.get(partition_id.topic_partition)) is not None
        and log.end > (position.end if (position := state.positions.get(partition_id)) else log.start)
    }
    early = {shape.topic for shape in shapes.values() if may_be_early(state, shape, look)}
    soonest = sorted(lagging - early, key=lambda topic: (_kept_until_ms(state, shapes[topic]), topic))
    asked = [*sorted(early), *soonest][:ASKED_MAX]
    if not asked:
        return look
    try:
        configs = admin.readable_topic_configs(asked, with_defaults=True).configs
        changed = _changed_rules(admin, [shapes[topic] for topic in early])
    except OffsiteError as error:  # a topic was deleted meanwhile, or the right is missing
        noted("retention_unread", error=error.id, why=error.message)
        return look
    return replace(
        look,
        retention={topic: Retention.of(settings) for topic, settings in configs.items()},
        changed=changed,
        sizes_bytes=admin.sizes_bytes(key for key in look.bounds if key.topic in lagging),
    )


def _kept_until_ms(state: BackupState, shape: TopicShape) -> int:
    """Until when the source keeps what is not copied, by the backed-up settings, or Kafka's: an order, no promise."""
    rule = Retention.of(dict(shape.configs))
    kept_ms = KAFKA_RETENTION_MS if rule.retention_ms is None else rule.retention_ms
    if not rule.deletes or kept_ms < 0:
        return MAX_OFFSET  # the last one
    copied = (state.segments.get(partition_id) for partition_id in shape.partition_ids)
    return min((segments.last_timestamp_ms for segments in copied if segments), default=0) + kept_ms


def _changed_rules(admin: ClusterAdmin, shapes: Sequence[TopicShape]) -> frozenset[str]:
    """The topics whose own rules of deletion are not surely those that the newest run saw."""
    own = admin.readable_topic_configs(shape.topic for shape in shapes).configs if shapes else {}
    return frozenset(
        shape.topic for shape in shapes if shape.configs_unread or _rules(own.get(shape.topic)) != _rules(shape.configs)
    )


def _rules(configs: Mapping[str, str] | Iterable[tuple[str, str]] | None) -> dict[str, str] | None:
    return None if configs is None else {n: value for n, value in dict(configs).items() if n in RETENTION_SETTINGS}
