"""Reads the facts about a source cluster that a backup needs: topics, their shapes, their bounds, and topics that the
backup holds and the cluster no longer lists.

Records of topics that are gone are kept in any case. A topic counts as deleted only after positive answers
(`kafka.presence`), or when its name is listed with an id that the backup never saw: a name belongs to a single topic at
a time. An id that the backup saw before proves nothing, because a lagging broker may list the previous topic. Most
values are unreadable without the schemas of a schema registry, so a backup takes their topic along unasked; its first
run decides on that topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from offsite.backup.copy_plan import PartitionBounds, SickPartition
from offsite.groups.history import with_history
from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.log_bounds import ListedBounds
from offsite.kafka.presence import PresenceState
from offsite.kafka.protocol.configs import TopicConfigs
from offsite.kafka.protocol.metadata import TopicMetadata
from offsite.log.range import TopicIncarnation, TopicPartition
from offsite.model.bounds import whole_number
from offsite.model.cleanup_policy import DELETE_RETENTION, KAFKA_DELETE_RETENTION_MS, is_compacted
from offsite.model.errors import BackupExists, KafkaNotAuthorized, LeaderUnavailable, NoSuchTopic, OffsiteError
from offsite.model.journal import warned
from offsite.model.names import PROTECTED_TOPICS, check_topic_name
from offsite.model.options import MissingTopics
from offsite.model.selection import TopicSelection, drill_copies, is_drill_copy, no_topics
from offsite.repository.commit import TopicShape
from offsite.repository.descriptor import BackupDescriptor
from offsite.repository.state import BackupState

DEFAULT_SCHEMAS_TOPIC = "_schemas"
"""Default schema topic of Confluent's registry and compatible registries."""

_OPTION = "schemas_topic"
_GRANT = "grant the principal DESCRIBE_CONFIGS on the topic, or leave the topic out"


def decide_schemas_topic(requested: str | None, descriptor: BackupDescriptor | None) -> str:
    """Decide the topic's name; empty for none. `requested` None: as in the first run. Raises `BadName`,
    `BackupExists`."""
    if requested:
        check_topic_name(requested)
    if descriptor is None:
        return DEFAULT_SCHEMAS_TOPIC if requested is None else requested
    first = dict(descriptor.options).get(_OPTION, DEFAULT_SCHEMAS_TOPIC)
    if requested not in (None, first):
        raise BackupExists(
            f"backup {descriptor.name} exists with schemas topic {first or 'none'}",
            hint="omit --schemas-topic to continue this backup, or choose another name with --backup",
        )
    return first


def schemas_options(topic: str) -> tuple[tuple[str, str], ...]:
    """The options in the backup's descriptor: none for the default, as in backups from before the option existed."""
    return () if topic == DEFAULT_SCHEMAS_TOPIC else ((_OPTION, topic),)


def with_schemas(
    names: Iterable[str], topic: str, *, existing: Iterable[str], selection: TopicSelection
) -> tuple[str, ...]:
    """`names` and the schemas topic, sorted; without the topic if it is absent or the selection excludes it by name."""
    alone = TopicSelection(include=(topic,), exclude=selection.exclude) if topic else None
    return tuple(sorted({*names, *(alone.select(existing) if alone else ())}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The selected topics of a cluster at a moment. `ids`: topic ids by name. `missing`: topics named in full that do
    not exist. `sick`: partitions whose ends, or whose topic's settings, the cluster could not tell. A topic with
    unknown settings has an id but no shape. `tombstones_ms`: of each topic that is or was compacted, the least known
    `delete.retention.ms`."""

    cluster_id: str
    shapes: tuple[TopicShape, ...]
    bounds: tuple[PartitionBounds, ...]
    missing: tuple[str, ...]
    sick: tuple[SickPartition, ...] = ()
    ids: Mapping[str, str] = field(default_factory=dict)
    tombstones_ms: Mapping[TopicIncarnation, int] = field(default_factory=dict)


def read_source(  # noqa: PLR0913  # all by keyword, most with a default
    admin: ClusterAdmin,
    selection: TopicSelection,
    *,
    missing_topics: MissingTopics,
    schemas_topic: str = "",
    group_history: bool = False,
    recorded: Iterable[TopicShape] = (),
) -> Source:
    """Read the selected topics of the cluster with their bounds. Raises `NoSuchTopic` when nothing matches, and for a
    missing topic unless missing topics only warn. A topic recorded earlier is gone, not misspelt, and does not raise.
    Raises `KafkaTooOld`, and the first partition's error when all partitions are sick.

    `schemas_topic` is taken along where it exists; with `group_history`, also the topic of groups. `recorded`: earlier
    shapes of topics.
    """
    cluster_id = admin.cluster().cluster_id
    admin.check_readable()
    listed = admin.topics()
    recorded = tuple(recorded)
    earlier = {shape.topic for shape in recorded}
    missing = selection.missing({*listed, *earlier})
    if missing and missing_topics is MissingTopics.FAIL:
        raise NoSuchTopic(
            f"topic {', '.join(missing)} does not exist on cluster {cluster_id}",
            hint="check the name, or continue without the topic: --missing-topics warn",
        )
    names = selection.select(
        listed,
        internal=frozenset(name for name, topic in listed.items() if topic.internal),
        hidden=drill_copies(listed),
    )
    if not names and not selection.select(earlier, internal=PROTECTED_TOPICS):
        raise no_topics(selection)
    names = with_schemas(names, schemas_topic, existing=listed, selection=selection)
    names = with_history(names, enabled=group_history, existing=listed)
    configs = _configs(admin, names)
    topics = [listed[name] for name in names if name in configs.configs or name in configs.denied]
    shapes = tuple(_shapes(topics, configs, schemas_topic, recorded))
    shaped = {shape.topic for shape in shapes}
    of_shaped = (topic for topic in topics if topic.name in shaped)
    log_bounds = admin.bounds(
        TopicPartition(topic=t.name, partition=p.partition) for t in of_shaped for p in t.partitions
    )
    failed = {**log_bounds.failed, **dict(_without_settings([t for t in topics if t.name not in shaped], configs))}
    if failed and not log_bounds.bounds:
        raise failed[min(failed)]
    return Source(
        cluster_id=cluster_id,
        shapes=shapes,
        bounds=_bounds(admin, log_bounds, shapes),
        missing=missing,
        sick=_sick(failed),
        ids={topic.name: _topic_id(topic) for topic in topics},
        tombstones_ms=dict(_tombstones_ms(shapes, configs, recorded)),
    )


def with_new_bounds(admin: ClusterAdmin, source: Source) -> Source:
    """`source` with current bounds of its partitions. Leaders may have changed, and an end is only valid together with
    its leader epoch."""
    log_bounds = admin.bounds(partition_bounds.topic_partition for partition_bounds in source.bounds)
    bounds = _bounds(admin, log_bounds, source.shapes)
    return replace(source, bounds=bounds, sick=(*source.sick, *_sick(log_bounds.failed)))


def _sick(failed: Mapping[TopicPartition, OffsiteError]) -> tuple[SickPartition, ...]:
    return tuple(
        SickPartition(topic=partition.topic, partition=partition.partition, error=error)
        for partition, error in sorted(failed.items())
    )


def _configs(admin: ClusterAdmin, names: Sequence[str]) -> TopicConfigs:
    """Read the settings of topics, leaving out topics deleted since they were listed. Raises `LeaderUnavailable` while
    brokers disagree whether a topic exists: the asked broker may not have heard of a new topic."""
    try:
        return admin.readable_topic_configs(names)
    except NoSuchTopic as error:
        listed = admin.topics()
        remaining = [name for name in names if name in listed]
        if len(remaining) == len(names):
            raise LeaderUnavailable(f"{error.message}, although the topic is listed", hint="run again") from error
        return _configs(admin, remaining)


def _shapes(
    topics: Iterable[TopicMetadata], configs: TopicConfigs, schemas_topic: str, recorded: Iterable[TopicShape]
) -> Iterator[TopicShape]:
    """Make the shapes of topics. Compaction is remembered: records that compaction removed before a change of policy do
    not come back."""
    before = {shape.incarnation: shape for shape in recorded}
    for topic in topics:
        last = before.get(TopicIncarnation(topic=topic.name, topic_id=_topic_id(topic)))
        was_compacted = last is not None and (last.was_compacted or is_compacted(dict(last.configs)))
        topic_configs = _own_configs(topic.name, configs, last)
        if topic_configs is not None:
            yield TopicShape(
                topic=topic.name,
                topic_id=_topic_id(topic),
                partitions=len(topic.partitions),
                replication_factor=topic.replication_factor,
                configs=tuple(sorted(topic_configs.items())),
                holds_schemas=topic.name == schemas_topic,
                was_compacted=was_compacted or is_compacted(topic_configs),
                configs_unread=topic.name in configs.denied,
                late=None if last is None else last.late,
                read_ms=0 if last is None else last.read_ms,
            )


def _tombstones_ms(
    shapes: Iterable[TopicShape], configs: TopicConfigs, recorded: Iterable[TopicShape]
) -> Iterator[tuple[TopicIncarnation, int]]:
    """The shortest stay of tombstones in each topic that is or was compacted, by the present settings and by those of
    earlier runs. Without a readable setting, Kafka's default."""
    before = {shape.incarnation: dict(shape.configs) for shape in recorded}
    for shape in shapes:
        if shape.was_compacted:
            own = (
                settings.get(DELETE_RETENTION) for settings in (dict(shape.configs), before.get(shape.incarnation, {}))
            )
            texts = (text for text in (configs.delete_retention.get(shape.topic), *own) if text is not None)
            known_ms = [time_ms for time_ms in map(whole_number, texts) if time_ms is not None]
            yield shape.incarnation, min(known_ms, default=KAFKA_DELETE_RETENTION_MS)


def _own_configs(topic: str, configs: TopicConfigs, last: TopicShape | None) -> Mapping[str, str] | None:
    """The settings of a topic, or the last readable settings where reading is now denied: the records are worth more
    than a setting that may have changed since. None where the settings were never readable."""
    if topic in configs.configs:
        return configs.configs[topic]
    warned("settings_unread", why=configs.denied[topic].message, topic=topic)
    return None if last is None else dict(last.configs)


def _without_settings(
    topics: Iterable[TopicMetadata], configs: TopicConfigs
) -> Iterator[tuple[TopicPartition, OffsiteError]]:
    """The partitions of topics with unknown settings, left out and named: restored with guessed settings, a topic might
    lose records to a wrong retention."""
    for topic in topics:
        error = KafkaNotAuthorized(configs.denied[topic.name].message, hint=_GRANT)
        for partition in topic.partitions:
            yield TopicPartition(topic=topic.name, partition=partition.partition), error


def _bounds(admin: ClusterAdmin, log_bounds: ListedBounds, shapes: Iterable[TopicShape]) -> tuple[PartitionBounds, ...]:
    sizes = admin.sizes_bytes(log_bounds.bounds)
    of_topic = {shape.topic: shape for shape in shapes}
    remote = {shape.topic for shape in shapes if dict(shape.configs).get("remote.storage.enable") == "true"}
    return tuple(
        PartitionBounds(
            topic=partition.topic,
            topic_id=of_topic[partition.topic].topic_id,
            partition=partition.partition,
            log_start=bounds.start,
            end=bounds.end,
            size_bytes=0 if partition.topic in remote else sizes.get(partition, 0),
            leader_epoch=bounds.leader_epoch,
            was_compacted=of_topic[partition.topic].was_compacted,
        )
        for partition, bounds in sorted(log_bounds.bounds.items())
    )


def _topic_id(topic: TopicMetadata) -> str:
    return "" if topic.topic_id is None else str(topic.topic_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneTopics:
    """Topics by name. `vanished`: all unlisted topics. `denied`: vanished topics that we may no longer describe.
    `deleted`: incarnations newly known to be deleted."""

    vanished: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    deleted: tuple[TopicIncarnation, ...] = ()

    def sick(self, base: BackupState) -> Iterator[SickPartition]:
        """The partitions that we may no longer see."""
        shapes = base.latest_shapes()
        for topic in self.denied:
            error = KafkaNotAuthorized(
                f"topic {topic}: TOPIC_AUTHORIZATION_FAILED: the principal may not describe the topic any more, or "
                "the topic is deleted",
                hint="grant the principal DESCRIBE, DESCRIBE_CONFIGS and READ on the topic, or leave the topic out",
            )
            for number in range(shapes[topic].partitions):
                yield SickPartition(topic=topic, partition=number, error=error)


def find_gone(admin: ClusterAdmin, base: BackupState, selection: TopicSelection, source: Source) -> GoneTopics:
    """Find the topics of `base` that the selection means and `source` lacks. Asks only about topics not yet known to be
    deleted. Raises `KafkaUnavailable`."""
    vanished = _vanished(base, selection, source)
    shapes = base.latest_shapes()
    presence = admin.presence([name for name in vanished if not shapes[name].is_deleted])
    vanished = tuple(name for name in vanished if not _is_passed_over(name, presence))
    deleted = [
        *_find_recreated(base, source),
        *(incarnation for incarnation in base.topics if presence.get(incarnation.topic) is PresenceState.DELETED),
    ]
    news = tuple(incarnation for incarnation in deleted if not base.topics[incarnation].is_deleted)
    for incarnation in news:
        warned(
            "deleted",
            why="the brokers report that the topic does not exist",
            topic=incarnation.topic,
            topic_id=incarnation.topic_id,
        )
    denied = tuple(name for name in vanished if presence.get(name) is PresenceState.DENIED)
    return GoneTopics(vanished=vanished, denied=denied, deleted=news)


def _is_passed_over(name: str, presence: Mapping[str, PresenceState]) -> bool:
    """Whether the name is a present drill copy, which an earlier version backed up and later runs ignore."""
    if not is_drill_copy(name) or presence.get(name) is not PresenceState.THERE:
        return False
    warned("passed_over", why="a drill created the topic; give its full name to back it up", topic=name)
    return True


def _vanished(base: BackupState, selection: TopicSelection, source: Source) -> tuple[str, ...]:
    """The absent topics. Topics that the source already reports as missing by name are left out."""
    backed_up = {incarnation.topic for incarnation in base.topics}
    gone = backed_up - set(source.ids) - set(source.missing)
    meant = selection.select(gone, internal=frozenset(name for name in gone if name.startswith("__")))
    schemas = {shape.topic for shape in base.topics.values() if shape.holds_schemas}
    return tuple(sorted({*meant, *(schemas & gone)}))


def _find_recreated(base: BackupState, source: Source) -> Iterator[TopicIncarnation]:
    listed = {
        topic: TopicIncarnation(topic=topic, topic_id=topic_id) for topic, topic_id in source.ids.items() if topic_id
    }
    for incarnation in base.topics:
        now = listed.get(incarnation.topic, incarnation)
        if incarnation.topic_id and now not in base.topics:
            yield incarnation
