"""The topic with the schemas of a schema registry. Most values in other topics are unreadable without the schemas, so a
backup takes the topic along unasked. The backup's first run decides on the topic, if any."""

from __future__ import annotations

from collections.abc import Iterable

from offsite.model.errors import BackupExists
from offsite.model.names import check_topic_name
from offsite.model.selection import TopicSelection
from offsite.repository.descriptor import BackupDescriptor

DEFAULT_SCHEMAS_TOPIC = "_schemas"
"""Default schema topic of Confluent's registry and compatible registries."""

_OPTION = "schemas_topic"


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
