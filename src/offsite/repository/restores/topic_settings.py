"""The decision of a restore for one target topic, and the settings of an existing topic that are set aside.

The decision is part of the restore's record: a continued restore follows the same decision, and can give a topic its
original settings back after the records are written.

Settings of topics that existed before the restore are recorded below `restores/<restore>/`: `aside.json` before the
first change, `aside-2.json` … at each later change; the last one counts. A record without topics states that all
settings were put back. After a crash only these records hold the originals: the topics show the temporary settings.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from offsite.model.untrusted.json_codec import ObjectFirst
from offsite.repository.json_form import StoredForm
from offsite.repository.restores.layout import RestoreLayout
from offsite.stores.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOutSetting:
    """A setting of the source that the target topic does not get, and the reason. An empty value: the brokers'
    default."""

    setting: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetTopicSettings:
    """The decision of a restore for one target topic.

    `create`: the restore creates the topic, with `partitions`, `replication_factor` and `configs`. `meanwhile`:
    settings while records are written. `at_end`: settings after the last record; None: the cluster's default.
    """

    topic: str
    create: bool
    partitions: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...] = ()
    meanwhile: tuple[tuple[str, str], ...] = ()
    at_end: ObjectFirst[tuple[tuple[str, str | None], ...]] = ()
    left_out: tuple[LeftOutSetting, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAsideSettings:
    """The set-aside settings of one topic: `meanwhile` holds while records are written; `originals`: the same settings
    before the restore, None for the cluster's default."""

    topic: str
    meanwhile: tuple[tuple[str, str], ...]
    originals: ObjectFirst[tuple[tuple[str, str | None], ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Aside:
    topics: tuple[SetAsideSettings, ...]


_ASIDE = StoredForm(_Aside)


def put_aside(store: Store, layout: RestoreLayout, topics: tuple[SetAsideSettings, ...]) -> None:
    """Record that exactly these settings are set aside from now on."""
    store.put_if_absent(next_aside_key(store, layout), encode_aside(topics))


def encode_aside(topics: tuple[SetAsideSettings, ...]) -> bytes:
    """The bytes of the set-aside settings, as stored."""
    return _ASIDE.encode(_Aside(topics=topics))


def next_aside_key(store: Store, layout: RestoreLayout) -> str:
    """The key for the next record of set-aside settings."""
    return layout.aside_key(_written(store, layout) + 1)


def newest_aside_key(store: Store, layout: RestoreLayout) -> str:
    """The key of the newest record of set-aside settings, if any."""
    return layout.aside_key(max(_written(store, layout), 1))


def get_aside(store: Store, layout: RestoreLayout) -> tuple[SetAsideSettings, ...] | None:
    """The settings set aside now; None if there never were any. Raises `DamagedObject`, `FormatTooNew`."""
    key = newest_aside_key(store, layout)
    data = store.get(key)
    return None if data is None else _ASIDE.decode(data, key=key).topics


def _written(store: Store, layout: RestoreLayout) -> int:
    return next(number for number in count() if store.head(layout.aside_key(number + 1)) is None)
