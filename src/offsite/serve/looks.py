"""The journal of looks at records: one line each, with who looked, at what, and where. No line has a key, a value, a
header or the words of a search."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from offsite.log.range import TopicPartition
from offsite.model.journal import noted
from offsite.model.names import is_topic_name
from offsite.serve.site import Site
from offsite.serve.tokens import Caller


def note_look(site: Site, caller: Caller, what: str, backup: str, **place: object) -> None:
    """Write the line, before anything is shown. `place`: topic, partition, offsets, and other words of the request."""
    noted("looked", by=caller.name, what=what, repository=site.settings.name or None, backup=backup, **place)


def offsets_of(records: Iterable[tuple[str, int, int]]) -> str:
    """The places of records, as topic, partition and offset: `orders/0:5-9,orders/1:3`. Offsets between two of a
    partition may be of no shown record."""
    spans: dict[TopicPartition, tuple[int, int]] = {}
    for topic, partition, offset in records:
        key = TopicPartition(topic=topic, partition=partition)
        low, high = spans.get(key, (offset, offset))
        spans[key] = min(low, offset), max(high, offset)
    return ",".join(f"{key}:{low}-{high}" if low < high else f"{key}:{low}" for key, (low, high) in spans.items())


def places_in(result: object) -> list[tuple[str, int, int]]:
    """The places of the records in the result of a search, which is read from the repository: whatever is no record is
    left out."""
    records = result.get("records") if isinstance(result, Mapping) else None
    places = [place_in(record) for record in records] if isinstance(records, list) else []
    return [place for place in places if place is not None]


def place_in(record: object) -> tuple[str, int, int] | None:
    """Topic, partition and offset of a record of such a result."""
    if not isinstance(record, Mapping):
        return None
    topic, partition, offset = (record.get(name) for name in ("topic", "partition", "offset"))
    if isinstance(topic, str) and is_topic_name(topic) and isinstance(partition, int) and isinstance(offset, int):
        return topic, partition, offset
    return None
