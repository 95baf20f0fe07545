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

from offsite.model.errors import DamagedObject
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.repository.json_form import FORMAT, encode_object, parse_json_object
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
    at_end: tuple[tuple[str, str | None], ...] = ()
    left_out: tuple[LeftOutSetting, ...] = ()


def topic_settings_to_json(settings: TargetTopicSettings) -> dict[str, JsonValue]:
    return {
        "topic": settings.topic,
        "create": settings.create,
        "partitions": settings.partitions,
        "replication_factor": settings.replication_factor,
        "configs": dict(settings.configs),
        "meanwhile": dict(settings.meanwhile),
        "at_end": dict(settings.at_end),
        "left_out": [{"setting": o.setting, "value": o.value, "reason": o.reason} for o in settings.left_out],
    }


def topic_settings_from_json(document: JsonObject) -> TargetTopicSettings:
    at_end = document.child("at_end")
    return TargetTopicSettings(
        topic=document.text("topic"),
        create=document.flag("create"),
        partitions=document.integer("partitions"),
        replication_factor=document.integer("replication_factor"),
        configs=document.text_map("configs"),
        meanwhile=document.text_map("meanwhile"),
        at_end=tuple((name, at_end.optional_text(name)) for name in sorted(at_end.fields)),
        left_out=tuple(map(_left_out, document.children("left_out"))),
    )


def _left_out(document: JsonObject) -> LeftOutSetting:
    return LeftOutSetting(
        setting=document.text("setting"), value=document.text("value"), reason=document.text("reason")
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAsideSettings:
    """The set-aside settings of one topic: `meanwhile` holds while records are written; `originals`: the same settings
    before the restore, None for the cluster's default."""

    topic: str
    meanwhile: tuple[tuple[str, str], ...]
    originals: tuple[tuple[str, str | None], ...]


def put_aside(store: Store, layout: RestoreLayout, topics: tuple[SetAsideSettings, ...]) -> None:
    """Record that exactly these settings are set aside from now on."""
    store.put_if_absent(next_aside_key(store, layout), encode_aside(topics))


def encode_aside(topics: tuple[SetAsideSettings, ...]) -> bytes:
    """The bytes of the set-aside settings, as stored."""
    fields: dict[str, JsonValue] = {"format": FORMAT, "topics": [_fields(topic) for topic in topics]}
    return encode_object(fields)


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
    if data is None:
        return None
    document = parse_json_object(data, source=key, damaged=DamagedObject)
    return tuple(map(_topic, document.children("topics")))


def _written(store: Store, layout: RestoreLayout) -> int:
    return next(number for number in count() if store.head(layout.aside_key(number + 1)) is None)


def _fields(aside: SetAsideSettings) -> dict[str, JsonValue]:
    return {"topic": aside.topic, "meanwhile": dict(aside.meanwhile), "originals": dict(aside.originals)}


def _topic(document: JsonObject) -> SetAsideSettings:
    originals = document.child("originals")
    return SetAsideSettings(
        topic=document.text("topic"),
        meanwhile=document.text_map("meanwhile"),
        originals=tuple((name, originals.optional_text(name)) for name in sorted(originals.fields)),
    )
