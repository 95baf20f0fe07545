"""Topics that a backup holds and the cluster does not list any more: deleted, hidden from us, or nobody can say.

What was backed up of them is kept either way. A topic counts as deleted by positive answers only (`kafka.presence`), or
when its name is listed with an id that this backup never saw: one name has one topic at a time. An id that it did see
before proves nothing, because a broker that lags behind may list the topic of before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from offsite.copy.plan import SickPartition
from offsite.kafka.presence import Presence
from offsite.model.errors import KafkaNotAuthorized
from offsite.model.journal import warned
from offsite.model.selections.selection import TopicSelection, is_drill_copy
from offsite.repository.commit import TopicIncarnation
from offsite.repository.state import BackupState
from offsite.services.backup.source import Source


class TopicPresence(Protocol):
    """What a cluster says of topics by name."""

    def presence(self, names: Collection[str]) -> Mapping[str, Presence]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneTopics:
    """Topics by name: `vanished` are all that are not listed; of these, `denied` may not be described by us any more.
    `deleted` are those incarnations that were found to be deleted now, and were not marked before."""

    vanished: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()
    deleted: tuple[TopicIncarnation, ...] = ()

    def sick(self, base: BackupState) -> Iterator[SickPartition]:
        """The partitions that we may not see any more."""
        shapes = base.latest_shapes()
        for topic in self.denied:
            error = KafkaNotAuthorized(
                f"topic {topic}: TOPIC_AUTHORIZATION_FAILED: it may not be described any more, and may be deleted",
                hint="grant the principal DESCRIBE, DESCRIBE_CONFIGS and READ on it, or leave the topic out",
            )
            for number in range(shapes[topic].partitions):
                yield SickPartition(topic=topic, partition=number, error=error)


def find_gone(admin: TopicPresence, base: BackupState, selection: TopicSelection, source: Source) -> GoneTopics:
    """The topics of `base` that are meant by the selection and not in `source`. Asks only about those that are not
    known to be deleted. Raises `KafkaUnavailable`."""
    vanished = _vanished(base, selection, source)
    shapes = base.latest_shapes()
    told = admin.presence([name for name in vanished if not shapes[name].is_deleted])
    vanished = tuple(each for each in vanished if not _is_passed_over(each, told))
    deleted = [
        *_made_anew(base, source),
        *(each for each in base.topics if told.get(each.topic) is Presence.DELETED),
    ]
    news = tuple(each for each in deleted if not base.topics[each].is_deleted)
    for each in news:
        warned("deleted", why="brokers say that it is not there", topic=each.topic, topic_id=each.topic_id)
    denied = tuple(name for name in vanished if told.get(name) is Presence.DENIED)
    return GoneTopics(vanished=vanished, denied=denied, deleted=news)


def _is_passed_over(name: str, told: Mapping[str, Presence]) -> bool:
    """A copy of a drill that an earlier version backed up, and that is there: it is not looked at any more."""
    if not is_drill_copy(name) or told.get(name) is not Presence.THERE:
        return False
    warned("passed_over", why="a drill made it; name it in full to have it", topic=name)
    return True


def _vanished(base: BackupState, selection: TopicSelection, source: Source) -> tuple[str, ...]:
    """Those that are missed by name already are not among them."""
    held = {incarnation.topic for incarnation in base.topics}
    gone = held - set(source.ids) - set(source.missing)
    meant = selection.select(gone, internal=frozenset(name for name in gone if name.startswith("__")))
    schemas = {shape.topic for shape in base.topics.values() if shape.holds_schemas}
    return tuple(sorted({*meant, *(schemas & gone)}))


def _made_anew(base: BackupState, source: Source) -> Iterator[TopicIncarnation]:
    listed = {
        topic: TopicIncarnation(topic=topic, topic_id=topic_id) for topic, topic_id in source.ids.items() if topic_id
    }
    for each in base.topics:
        now = listed.get(each.topic, each)
        if each.topic_id and now not in base.topics:
            yield each
