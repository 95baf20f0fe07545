"""What restores that did not end have set aside. Reads only, and needs no cluster."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.model.named import named
from offsite.model.time import format_time
from offsite.repository.backup import Backup
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import RestoreRecord, succeeding, unfinished_restores
from offsite.repository.restores.topic_settings import TopicAside, TopicSettings, get_aside

NAMED_MAX = 5
"""Topics named in a hint; a line with a thousand of them helps nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfinishedAside:
    """An unfinished restore, and what it has set aside; of topics that it made, what it holds back."""

    record: RestoreRecord
    existing: tuple[TopicAside, ...]
    made: tuple[TopicAside, ...]

    @property
    def topics(self) -> tuple[TopicAside, ...]:
        return (*self.existing, *self.made)

    def __str__(self) -> str:
        asked = ", ".join(f"{name}={text}" for name, text in self.record.request)
        held = [f"{each.topic} has {describe(each)}" for each in self.existing[:NAMED_MAX]]
        if self.made:
            made = named([each.topic for each in self.made], most=NAMED_MAX)
            held.append(f"{made}, made by it, keeps what protects its records")
        return (
            f"restore {self.record.restore} into cluster {self.record.cluster_id} ({asked}) began at "
            f"{format_time(self.record.created_at_ms)} and is unfinished: {'; '.join(held)}; the same command, run "
            "again, ends that"
        )


def unfinished_asides(backup: Backup, *, but: str = "") -> tuple[UnfinishedAside, ...]:
    """The settings set aside by all unfinished restores except `but`. Raises `DamagedObject`."""
    found = (
        _aside(backup, record) for record in unfinished_restores(backup.store, backup.layout) if record.restore != but
    )
    return tuple(each for each in found if each.topics)


def describe(aside: TopicAside) -> str:
    """Description, setting by setting: `retention.ms=-1 instead of 3600000`."""
    originals = dict(aside.originals)
    return ", ".join(
        f"{name}={value} instead of {originals.get(name) or 'the default'}" for name, value in aside.meanwhile
    )


def as_decided(settings: TopicSettings) -> TopicAside:
    """What is set aside of a topic, as the restore decided it."""
    return TopicAside(topic=settings.topic, meanwhile=settings.meanwhile, originals=settings.at_end)


def _aside(backup: Backup, record: RestoreRecord) -> UnfinishedAside:
    layout = RestoreLayout(backup=backup.layout, restore=record.restore)
    made = tuple(as_decided(each) for each in record.settings if each.create and each.meanwhile)
    is_given_up = bool(made) and succeeding(backup.store, backup.layout, record) is not None
    return UnfinishedAside(
        record=record,
        existing=get_aside(backup.store, layout) or (),
        made=() if is_given_up else made,
    )
