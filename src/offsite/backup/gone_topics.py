"""Topics that a backup holds and the cluster no longer lists: deleted, hidden from us, or unknown.

Their backed-up records are kept in any case. A topic counts as deleted only after positive answers (`kafka.presence`),
or when its name is listed with an id that the backup never saw: a name belongs to a single topic at a time. An id that
the backup saw before proves nothing, because a lagging broker may list the previous topic.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from offsite.backup.copy_plan import SickPartition
from offsite.backup.source import Source
from offsite.kafka.presence import PresenceState
from offsite.model.errors import KafkaNotAuthorized
from offsite.model.journal import warned
from offsite.model.selection import TopicSelection, is_drill_copy
from offsite.repository.commit import TopicIncarnation
from offsite.repository.state import BackupState


class TopicPresence(Protocol):
    """The presence of topics on a cluster, by name."""

    def presence(self, names: Collection[str]) -> Mapping[str, PresenceState]: ...


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


def find_gone(admin: TopicPresence, base: BackupState, selection: TopicSelection, source: Source) -> GoneTopics:
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
