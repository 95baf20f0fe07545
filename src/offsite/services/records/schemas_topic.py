"""The topic that holds the schemas of a schema registry. Without it most values of the other topics cannot be read, so
a backup takes it along unasked; which one it is, if any, is decided by the backup's first run."""

from __future__ import annotations

from collections.abc import Iterable

from offsite.model.errors import BackupExists
from offsite.model.selections.selection import TopicSelection
from offsite.model.untrusted.names import check_topic_name
from offsite.repository.descriptor import BackupDescriptor

DEFAULT_SCHEMAS_TOPIC = "_schemas"
"""Topic in which Confluent's registry, and those that do as it does, keep schemas by default."""

_OPTION = "schemas_topic"


def decide_schemas_topic(asked: str | None, known: BackupDescriptor | None) -> str:
    """The topic's name, empty for none. `asked` None: that of the first run. Raises `BadName`, `BackupExists`."""
    if asked:
        check_topic_name(asked)
    if known is None:
        return DEFAULT_SCHEMAS_TOPIC if asked is None else asked
    first = dict(known.options).get(_OPTION, DEFAULT_SCHEMAS_TOPIC)
    if asked not in (None, first):
        raise BackupExists(
            f"backup {known.name} exists with schemas topic {first or 'none'}",
            hint="leave out --schemas-topic to continue it, or choose another name with --backup",
        )
    return first


def schemas_options(topic: str) -> tuple[tuple[str, str], ...]:
    """The options that the backup's descriptor remembers: none for the default, as in backups made before there was a
    choice."""
    return () if topic == DEFAULT_SCHEMAS_TOPIC else ((_OPTION, topic),)


def with_schemas(
    names: Iterable[str], topic: str, *, known: Iterable[str], selection: TopicSelection
) -> tuple[str, ...]:
    """`names` and the schemas topic, sorted, where there is one that the selection does not exclude by name."""
    alone = TopicSelection(include=(topic,), exclude=selection.exclude) if topic else None
    return tuple(sorted({*names, *(alone.select(known) if alone else ())}))
