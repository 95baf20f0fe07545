"""Target topics of a restore: made so that every record is taken as it was, then given the source's settings.

While records are written, a created topic must not judge them: no retention, no compaction, times as the producer gave
them, however old or far ahead. `finish_topics` puts the source's own settings in place; until then a crash leaves the
safe ones, and the next run of the same command finishes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from offsite.kafka.admin import ClusterAdmin
from offsite.kafka.topic_changes import NewTopic
from offsite.pipeline.restore_plan import TopicRestore

WHILE_RESTORING = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": str(2**63 - 1),
    "message.timestamp.after.max.ms": str(2**63 - 1),
}


def create_topics(admin: ClusterAdmin, topics: Iterable[TopicRestore]) -> None:
    """Create those that do not exist, with the source's partitions, and as many replicas as there are brokers for."""
    wanted = [topic for topic in topics if topic.create]
    existing = admin.topics()
    brokers = len(admin.cluster().brokers)
    admin.create_topics(
        [
            NewTopic(
                name=topic.target,
                partitions=topic.source.partitions,
                replication_factor=max(1, min(topic.source.replication_factor, brokers)),
                configs=dict(topic.source.configs) | WHILE_RESTORING,
            )
            for topic in wanted
            if topic.target not in existing
        ]
    )


def finish_topics(admin: ClusterAdmin, topics: Iterable[TopicRestore]) -> None:
    """Give created topics the source's settings. May be repeated."""
    changes = {topic.target: _final_settings(dict(topic.source.configs)) for topic in topics if topic.create}
    if changes:
        admin.alter_topic_configs(changes)


def _final_settings(source: Mapping[str, str]) -> dict[str, str | None]:
    return {name: source.get(name) for name in WHILE_RESTORING}
