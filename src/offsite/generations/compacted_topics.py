"""Finds topics of a set that are not compacted: a new generation lacks their older records."""

from __future__ import annotations

from collections.abc import Sequence

from offsite.kafka.admin import ClusterAdmin
from offsite.model.cleanup_policy import is_compacted
from offsite.model.selection import TopicSelection, drill_copies


def uncompacted(admin: ClusterAdmin, selection: TopicSelection) -> Sequence[str]:
    """The selected topics whose settings, with the cluster's defaults, do not name compaction or may not be read.
    Raises the errors of the cluster."""
    topics = admin.topics()
    internal = frozenset(name for name, topic in topics.items() if topic.internal)
    names = selection.select(topics, internal=internal, hidden=drill_copies(topics))
    configs = admin.readable_topic_configs(names, with_defaults=True).configs if names else {}
    return [name for name in names if not is_compacted(configs.get(name, {}))]
