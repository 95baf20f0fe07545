"""Settings set aside by restores that did not end. Reads only, and needs no cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from offsite.model.errors import DamagedObject, FormatTooNew
from offsite.model.journal import warned
from offsite.model.names import named
from offsite.model.units import format_time
from offsite.repository.backup import Backup
from offsite.repository.local_memory import is_begun_here, is_written_here
from offsite.repository.records_place import record_places
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import (
    RestoreRecord,
    UnreadableRestore,
    find_successor,
    try_unfinished_restores,
)
from offsite.repository.restores.topic_settings import (
    SetAsideSettings,
    TargetTopicSettings,
    get_aside,
    newest_aside_key,
)

NAMED_MAX = 5
"""Topics named in a hint; a line with a thousand topics helps nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedRestore:
    """An unfinished restore, with the settings it has set aside on existing topics, and holds back from topics it made
    (`created`). `is_claimed`: this installation did not write the record. `is_elsewhere`: the record lies with the
    backup, and today's records do not."""

    record: RestoreRecord
    existing: tuple[SetAsideSettings, ...]
    created: tuple[SetAsideSettings, ...]
    is_claimed: bool = False
    is_elsewhere: bool = False

    @property
    def topics(self) -> tuple[SetAsideSettings, ...]:
        return (*self.existing, *self.created)

    def __str__(self) -> str:
        request = ", ".join(f"{name}={text}" for name, text in self.record.request)
        lines = [f"{aside.topic} has {describe_aside(aside)}" for aside in self.existing[:NAMED_MAX]]
        if self.created:
            names = named([aside.topic for aside in self.created], most=NAMED_MAX)
            lines.append(f"{names}, created by this restore, keeps settings that protect its records")
        claim = " (according to a record that this machine did not write)" if self.is_claimed else ""
        return (
            f"restore {self.record.restore}{claim} into cluster {self.record.cluster_id} ({request}) began at "
            f"{format_time(self.record.created_at_ms)} and is unfinished: {'; '.join(lines)}; run the same command "
            "again to complete it"
        )


def unfinished_asides(backup: Backup, *, but: str = "") -> tuple[UnfinishedRestore, ...]:
    """The settings set aside by all unfinished restores except `but`, as far as their records can be read. If records
    lie elsewhere, the records of the repository count as well."""
    restores = (
        replace(_aside(place, record), is_elsewhere=place.records_at is not backup.records_at)
        for place in record_places(backup)
        for record in try_unfinished_restores(place.record_store, backup.layout)
        if isinstance(record, RestoreRecord) and record.restore != but
    )
    return tuple(restore for restore in restores if restore.topics)


def unreadable_restores(backup: Backup) -> Iterator[str]:
    """The unfinished restores with unknown settings set aside, as sentences."""
    for restore in (
        restore
        for place in record_places(backup)
        for restore in try_unfinished_restores(place.record_store, place.layout)
    ):
        if isinstance(restore, UnreadableRestore):
            yield f"restore {restore.restore} cannot be read: {restore.problem}"


def describe_aside(aside: SetAsideSettings) -> str:
    """Description, setting by setting: `retention.ms=-1 instead of 3600000`."""
    originals = dict(aside.originals)
    return ", ".join(
        f"{name}={value} instead of {originals.get(name) or 'the default'}" for name, value in aside.meanwhile
    )


def decided_aside(settings: TargetTopicSettings) -> SetAsideSettings:
    """The settings to set aside on a topic, as decided by the restore."""
    return SetAsideSettings(topic=settings.topic, meanwhile=settings.meanwhile, originals=settings.at_end)


def _aside(backup: Backup, record: RestoreRecord) -> UnfinishedRestore:
    layout = RestoreLayout(backup=backup.layout, restore=record.restore)
    created = tuple(
        decided_aside(topic_settings)
        for topic_settings in record.settings
        if topic_settings.create and topic_settings.meanwhile
    )
    is_given_up = bool(created) and _successor(backup, record) is not None
    try:
        existing = get_aside(backup.record_store, layout) or ()
    except (DamagedObject, FormatTooNew) as error:
        warned("restore_unreadable", restore=record.restore, why=error.message)
        existing = ()
    is_own = is_begun_here(backup.record_store, layout)
    is_same = is_written_here(backup.record_store, newest_aside_key(backup.record_store, layout))
    return UnfinishedRestore(
        record=record,
        existing=existing,
        created=() if is_given_up else created,
        is_claimed=not is_own or not (is_same or not existing),
    )


def _successor(backup: Backup, record: RestoreRecord) -> RestoreRecord | None:
    return find_successor(backup.record_store, backup.layout, record, accepts=partial(began_here, backup))


def began_here(backup: Backup, record: RestoreRecord) -> bool:
    """Whether this installation began the restore."""
    return is_begun_here(backup.record_store, RestoreLayout(backup=backup.layout, restore=record.restore))
