"""Which settings of topics that existed before a restore are set aside while it writes, and what they were.

Below `restores/<restore>/`: `aside.json` before any of them is altered, `aside-2.json` … at each change after that, the
last one counts. One without topics says that all were put back. After a crash it is what tells the originals: by then
the topics themselves show the others.
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
class TopicAside:
    """`meanwhile` holds while records are written; `originals` are the same settings as they were, None for the
    cluster's default."""

    topic: str
    meanwhile: tuple[tuple[str, str], ...]
    originals: tuple[tuple[str, str | None], ...]


def put_aside(store: Store, layout: RestoreLayout, topics: tuple[TopicAside, ...]) -> None:
    """From now on these are set aside, and no others."""
    fields: dict[str, JsonValue] = {"format": FORMAT, "topics": [_fields(each) for each in topics]}
    store.put_if_absent(layout.aside_key(_written(store, layout) + 1), encode_object(fields))


def get_aside(store: Store, layout: RestoreLayout) -> tuple[TopicAside, ...] | None:
    """What is set aside now; None when nothing ever was. Raises `DamagedObject`, `FormatTooNew`."""
    key = layout.aside_key(max(_written(store, layout), 1))
    data = store.get(key)
    if data is None:
        return None
    item = parse_json_object(data, source=key, damaged=DamagedObject)
    return tuple(map(_topic, item.children("topics")))


def _written(store: Store, layout: RestoreLayout) -> int:
    return next(number for number in count() if store.head(layout.aside_key(number + 1)) is None)


def _fields(each: TopicAside) -> dict[str, JsonValue]:
    return {"topic": each.topic, "meanwhile": dict(each.meanwhile), "originals": dict(each.originals)}


def _topic(item: JsonObject) -> TopicAside:
    originals = item.child("originals")
    return TopicAside(
        topic=item.text("topic"),
        meanwhile=item.text_map("meanwhile"),
        originals=tuple((name, originals.optional_text(name)) for name in sorted(originals.fields)),
    )
