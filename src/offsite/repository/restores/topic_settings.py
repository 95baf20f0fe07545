"""What a restore decided for one target topic, remembered in its record: a continued restore goes by the same decision,
and can give a topic back what was set aside while its records were written."""

from __future__ import annotations

from dataclasses import dataclass

from offsite.model.untrusted.json_object import JsonObject, JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A setting of the source that the target topic does not get, and why. An empty value: the brokers' default."""

    setting: str
    value: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """`create`: the restore makes the topic, with `partitions`, `replication_factor` and `configs`.

    `meanwhile` holds while records are written. `at_end` is set then, None for the cluster's default.
    """

    topic: str
    create: bool
    partitions: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...] = ()
    meanwhile: tuple[tuple[str, str], ...] = ()
    at_end: tuple[tuple[str, str | None], ...] = ()
    left_out: tuple[LeftOut, ...] = ()


def topic_settings_to_json(settings: TopicSettings) -> dict[str, JsonValue]:
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


def topic_settings_from_json(item: JsonObject) -> TopicSettings:
    at_end = item.child("at_end")
    return TopicSettings(
        topic=item.text("topic"),
        create=item.flag("create"),
        partitions=item.integer("partitions"),
        replication_factor=item.integer("replication_factor"),
        configs=item.text_map("configs"),
        meanwhile=item.text_map("meanwhile"),
        at_end=tuple((name, at_end.optional_text(name)) for name in sorted(at_end.fields)),
        left_out=tuple(map(_left_out, item.children("left_out"))),
    )


def _left_out(item: JsonObject) -> LeftOut:
    return LeftOut(setting=item.text("setting"), value=item.text("value"), reason=item.text("reason"))
