"""Target topics of a restore: read if they exist, made if not, their settings set aside and put back.

`preflight` has decided the settings before, and the decision is recorded: until the end, a crash leaves
settings that keep every record, and the next run of the same command finishes. The topics found or made are recorded,
so that the next run recognizes them. A topic made by this very restore and impossible to continue is deleted, and
written again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from offsite.engine.runner import Runner
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.cluster import Cluster
from offsite.kafka.net.routing import Router, shared_router
from offsite.kafka.producer import new_producer
from offsite.kafka.protocol.metadata import NewTopic, TopicMetadata
from offsite.kafka.transaction_replay import PartitionTransactions
from offsite.log.range import LogRange, Span, TopicPartition
from offsite.model.bounds import setting_number
from offsite.model.clock import SystemClock
from offsite.model.errors import (
    KafkaNotAuthorized,
    OffsiteError,
    TargetDisturbed,
    TargetMismatch,
    TargetNotEmpty,
    TransactionLost,
    WriterFenced,
)
from offsite.model.journal import decided, warned
from offsite.repository.local_memory import check_own, note_written
from offsite.repository.restores.fence import restore_producer_id
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import RestoreTargets, count_targets, encode_targets, get_targets, put_targets
from offsite.repository.restores.topic_settings import TargetTopicSettings
from offsite.restore.lease import RestoreLease
from offsite.restore.write.attempt import RestoreEnds, first_foreign_offset, foreign_records_error
from offsite.restore.write.plan import BATCH_LIMIT, DISKLESS, MIRROR, UNLIMITED, TargetTopic
from offsite.restore.write.preserve import transaction_prefix
from offsite.stores.store import Store

THE_DEFAULT = "(the brokers' default)"
READ, WRITE, ALTER_CONFIGS = {"READ": 3}, {"WRITE": 4}, {"ALTER_CONFIGS": 11}
"""Operations that must be allowed on a target topic, with the codes of Kafka's AclOperation. A lost acknowledgement
needs READ."""
REMAKES_MAX = 3
"""Most remakes of a topic in one run: moving coordinators may write the same marker twice, and may do so again while
they move. A topic lost more often has another cause, for a person to find."""
CURABLE = (TransactionLost, TargetDisturbed)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreSite:
    """What a process that holds a restore works with: the `ends` of the copy, the target cluster, who runs the tasks,
    and the lease."""

    ends: RestoreEnds
    cluster: Cluster
    runner: Runner
    lease: RestoreLease


def read_targets(admin: ClusterAdmin, names: Iterable[str], *, now_ms: int) -> list[TargetTopic]:
    """The existing topics out of `names`."""
    requested = set(names)
    existing = {name: topic for name, topic in admin.topics().items() if name in requested}
    bounds = _log_bounds(admin, existing)
    configs, own_configs = admin.topic_configs(existing, with_defaults=True), admin.topic_configs(existing)
    records = dict.fromkeys(existing, 0)
    for partition, (start, end) in bounds.items():
        records[partition.topic] += end - start
    return [
        replace(
            _target(name, len(topic.partitions), records[name], configs[name], now_ms),
            configs=tuple(sorted(own_configs[name].items())),
            ends=tuple(
                bounds[TopicPartition(topic=name, partition=number)][1] for number in range(len(topic.partitions))
            ),
        )
        for name, topic in existing.items()
    ]


def _log_bounds(admin: ClusterAdmin, topics: Mapping[str, TopicMetadata]) -> dict[TopicPartition, Span]:
    """The start and end of the log of every partition of `topics`."""
    partitions = [
        TopicPartition(topic=topic.name, partition=partition.partition)
        for topic in topics.values()
        for partition in topic.partitions
    ]
    starts, ends = admin.start_offsets(partitions), admin.end_offsets(partitions)
    return {partition: (starts[partition], ends[partition]) for partition in partitions}


def new_topic(settings: TargetTopicSettings) -> NewTopic:
    """The topic to create: with the settings for the write."""
    return NewTopic(
        name=settings.topic,
        partitions=settings.partitions,
        replication_factor=settings.replication_factor,
        configs=dict(settings.configs) | dict(settings.meanwhile),
    )


def create_topics(admin: ClusterAdmin, topics: Iterable[TargetTopicSettings]) -> None:
    """Create the topics to create that do not exist yet; set obstacles aside on existing topics, including topics that
    an earlier run made and may have finished.

    Raises `KafkaNotAuthorized` when records could not be written: no record was written yet.
    """
    all_settings = list(topics)
    existing = admin.topics()
    admin.create_topics(
        [
            new_topic(topic_settings)
            for topic_settings in all_settings
            if topic_settings.create and topic_settings.topic not in existing
        ]
    )
    overrides = {
        topic_settings.topic: dict(topic_settings.meanwhile)
        for topic_settings in all_settings
        if topic_settings.meanwhile and topic_settings.topic in existing
    }
    if overrides:
        admin.alter_topic_configs(overrides)
    if problems := rights_problems(admin, all_settings):
        raise KafkaNotAuthorized("; ".join(problems), hint="grant the principal these operations on the topics")


def rights_problems(admin: ClusterAdmin, topics: Iterable[TargetTopicSettings]) -> list[str]:
    """Descriptions of operations that are needed on existing topics, and not allowed."""
    by_topic = {topic_settings.topic: topic_settings for topic_settings in topics}
    denied = admin.not_allowed(by_topic, READ | WRITE | ALTER_CONFIGS) if by_topic else {}
    needed = {
        name: [operation for operation in missing if by_topic[name].at_end or operation not in ALTER_CONFIGS]
        for name, missing in denied.items()
    }
    return [f"the principal may not {', '.join(missing)} on {name}" for name, missing in needed.items() if missing]


def finish_topics(admin: ClusterAdmin, topics: Iterable[TargetTopicSettings]) -> tuple[str, ...]:
    """Give the topics their final settings, except settings changed by somebody else since the restore set them: such
    settings stay, and are returned as sentences, one per setting. May be repeated."""
    by_topic = {topic_settings.topic: topic_settings for topic_settings in topics if topic_settings.at_end}
    current = admin.topic_configs(by_topic.keys() & admin.topics().keys()) if by_topic else {}
    changed_by_others = {name: _changed_since(by_topic[name], configs) for name, configs in current.items()}
    changes = {
        name: {
            setting: value for setting, value in topic_settings.at_end if setting not in changed_by_others.get(name, {})
        }
        for name, topic_settings in by_topic.items()
    }
    if changes := {name: topic_changes for name, topic_changes in changes.items() if topic_changes}:
        admin.alter_topic_configs(changes)
    return tuple(
        _left_as_found(name, setting, value, dict(by_topic[name].at_end)[setting])
        for name, topic_changes in changed_by_others.items()
        for setting, value in topic_changes.items()
    )


def _changed_since(settings: TargetTopicSettings, current: Mapping[str, str]) -> dict[str, str | None]:
    """Settings that neither the restore set nor the final settings contain."""
    created = dict(settings.configs) if settings.create else {}
    ours = created | dict(settings.meanwhile)
    return {
        name: current.get(name) for name, value in settings.at_end if current.get(name) not in (ours.get(name), value)
    }


def _left_as_found(topic: str, setting: str, value: str | None, otherwise: str | None) -> str:
    decided("setting_left", why="somebody changed the setting during the restore", topic=topic, setting=setting)
    return (
        f"{topic} keeps {setting}={value or THE_DEFAULT}: somebody changed the setting during the restore; the "
        f"restore would have set {otherwise or THE_DEFAULT}"
    )


def _target(name: str, partitions: int, records: int, configs: Mapping[str, str], now_ms: int) -> TargetTopic:
    policies = configs.get("cleanup.policy", "delete").split(",")
    deletes = "delete" in policies
    retention_ms = setting_number(configs, "retention.ms", -1) if deletes else -1
    retention_bytes = setting_number(configs, "retention.bytes", -1) if deletes else -1
    return TargetTopic(
        topic=name,
        partitions=partitions,
        records=records,
        max_batch_bytes=setting_number(configs, BATCH_LIMIT, UNLIMITED),
        oldest_taken_ms=now_ms - setting_number(configs, "message.timestamp.before.max.ms", UNLIMITED),
        newest_taken_ms=now_ms + setting_number(configs, "message.timestamp.after.max.ms", UNLIMITED),
        oldest_kept_ms=now_ms - retention_ms if retention_ms >= 0 else -UNLIMITED,
        kept_bytes=retention_bytes if retention_bytes >= 0 else UNLIMITED,
        keeps_times=configs.get("message.timestamp.type", "CreateTime") == "CreateTime",
        compacts="compact" in policies,
        diskless=configs.get(DISKLESS) == "true",
        mirror=configs.get(MIRROR, ""),
        deletes=deletes,
    )


def find_targets(
    store: Store,
    layout: RestoreLayout,
    admin: ClusterAdmin,
    names: Collection[str],
    *,
    remade: Collection[str] = (),
) -> RestoreTargets:
    """The target topics of the restore: recorded by an earlier run, or read and recorded now. `remade` were just made
    again.

    Topics made again since count as new while they are empty. Raises `TargetNotEmpty`, `RestoreTakenOver` when another
    process does the same, and `RestoreRefused` when a stranger wrote the record.
    """
    listed = admin.topics(names)
    number = count_targets(store, layout)
    recorded = get_targets(store, layout)
    known_ids = dict(recorded.topic_ids) if recorded else {}
    new = {name: t for name, t in listed.items() if name in remade or _is_another(known_ids.get(name), t.topic_id)}
    if recorded is not None:
        check_own(store, layout, layout.targets_key(number))
    if recorded is not None and not new:
        return recorded
    starts = {key: start for key, start in (recorded.starts if recorded else ()) if key.topic not in new}
    starts |= _empty_ends(admin, new, again=recorded is not None)
    ids = {name: _id(topic.topic_id) for name, topic in listed.items()}
    makings = dict(recorded.makings) | dict.fromkeys(new, number + 1) if recorded else {}
    targets = RestoreTargets(
        topic_ids=tuple(sorted(ids.items())),
        starts=tuple(sorted(starts.items())),
        makings=tuple(sorted(makings.items())),
    )
    note_written(store, layout.targets_key(number + 1), encode_targets(targets))
    put_targets(store, layout, targets, number=number + 1)
    return targets


def check_nothing_lost(admin: ClusterAdmin, begins: Mapping[TopicPartition, int]) -> None:
    """Check that the records of an earlier run still exist: an existing topic has its own retention between two runs.
    `begins`: the latest allowed start of every log. Raises `TargetMismatch`."""
    lost = {partition: now for partition, now in admin.start_offsets(begins).items() if now > begins[partition]}
    if lost:
        names = ", ".join(
            f"{partition} begins at offset {lost[partition]} instead of {begins[partition]}"
            for partition in sorted(lost)
        )
        raise TargetMismatch(
            f"records of this restore are missing: {names}",
            hint=(
                "delete these topics, create them again (empty), then run the same command: it writes them again "
                "from the start"
            ),
        )


def _empty_ends(
    admin: ClusterAdmin, topics: Mapping[str, TopicMetadata], *, again: bool
) -> Mapping[TopicPartition, int]:
    bounds = _log_bounds(admin, topics)
    if any(start != end for start, end in bounds.values()):
        problem = "were created again since this restore began, and" if again else ""
        raise TargetNotEmpty(
            f"target topics {problem} hold records that this restore did not write".replace("  ", " "),
            hint="delete them and run the restore again, or restore under other names (--rename)",
        )
    return {partition: end for partition, (_, end) in bounds.items()}


def _is_another(recorded_id: str | None, listed_id: UUID | None) -> bool:
    """Brokers before 2.8 give no ids; newer brokers give an id to an existing topic."""
    if recorded_id is None:
        return True
    return listed_id is not None and recorded_id not in {_id(None), _id(listed_id)}


def _id(topic_id: UUID | None) -> str:
    return str(topic_id)


def find_lost_topics(failures: Iterable[tuple[TopicPartition, OffsiteError]], *, created: Collection[str]) -> set[str]:
    """The topics `created` by this restore to make again. A topic with records of another producer, or with a newer
    attempt at work, stays unchanged."""
    failed = list(failures)
    curable = {target.topic for target, error in failed if isinstance(error, CURABLE)}
    untouchable = {target.topic for target, error in failed if isinstance(error, TargetNotEmpty | WriterFenced)}
    return (curable - untouchable) & set(created)


def find_filled_topics(admin: ClusterAdmin, topics: Collection[str]) -> set[str]:
    """The topics out of `topics`, just made again, that hold something: a marker goes to a topic by its name, and a
    marker written twice by a coordinator may arrive late. `delete_lost_topics` tells markers from records of other
    producers."""
    if not topics:
        return set()
    bounds = _log_bounds(admin, admin.topics(topics))
    return {partition.topic for partition, (start, end) in bounds.items() if start != end}


def delete_lost_topics(
    topics: Collection[str],
    partitions: Iterable[TopicPartition],
    site: RestoreSite,
    *,
    replayed: Collection[TopicPartition] = (),
) -> None:
    """Delete `topics`, after their open transactions: a later marker would reach the new topic. `partitions` are all
    written partitions, `replayed` the partitions that may have transactions.

    Raises `RestoreTakenOver`, and `TargetNotEmpty` when another producer wrote into one of the topics, before anything
    is touched.
    """
    router = shared_router(site.ends.kafka)
    concerned = [partition for partition in partitions if partition.topic in topics]
    transactions = {
        partition: PartitionTransactions(router, partition, prefix=transaction_prefix(site.ends.layout, partition))
        for partition in concerned
        if partition in replayed
    }
    site.lease.check()
    _check_all_is_ours(router, concerned, transactions, ends=site.ends, admin=site.cluster.admin)
    for topic in sorted(topics):
        warned("remake", why="its contents cannot be continued: the topic is deleted and written again", topic=topic)
    for partition_transactions in transactions.values():
        partition_transactions.abandon()
    site.lease.check()
    site.cluster.admin.delete_topics(sorted(topics))
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
