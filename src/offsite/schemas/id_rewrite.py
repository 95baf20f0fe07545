"""Which bytes of a record are a schema id, and what another registry calls the schema. Pure.

Four bytes behind a zero may be anything. They are an id where two things agree that know nothing of each other: the
registry has the id under a subject of the record's topic, and the schema of the id decodes all the rest of the field.
Everything else that looks like an id is left as it is, and counted by the reason. Where keys or values of a topic have
ids, that is also an id which the registry lacks: its schema was registered after the last reading, or not shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from offsite.model.schema_registry import RegistrySnapshot, StoredSchema
from offsite.schemas.framing import PREFIX, FramedReader, framed_schema_id

NO_SUBJECT = "no subject of the topic has the id"
NO_FIT = "the schema does not decode the bytes"
NOT_MAPPED = "the target has no such schema"
UNKNOWN = "the backup has no schema of the id"


@dataclass(slots=True, kw_only=True)
class IdCounts:
    """`rewritten`: fields whose id was mapped, one that stays the same too. `left`: fields that look framed, by the
    reason why they stay; `first`: the offset of the first of them."""

    rewritten: int = 0
    left: Counter[str] = field(default_factory=Counter)
    first: dict[str, int] = field(default_factory=dict)

    def leave(self, reason: str, offset: int) -> None:
        self.left[reason] += 1
        self.first.setdefault(reason, offset)


class TopicIds:
    """The ids in the records of one topic. `topic`: its name at the source, where the subjects are from. `ids`: from
    ids of `snapshot` to those of the target, of the default context. `reader`: one of `snapshot`, whose parsed schemas
    may serve several topics. `on_mapped` gets offset, content, whether it is a key, and id of each field whose id is
    mapped and counted."""

    def __init__(
        self,
        snapshot: RegistrySnapshot,
        topic: str,
        ids: Mapping[int, int],
        *,
        reader: FramedReader | None = None,
        on_mapped: Callable[[int, bytes, bool, int], None] | None = None,
    ) -> None:
        self._snapshot, self._topic, self._ids = snapshot, topic, ids
        self._on_mapped = on_mapped
        self._reader = reader or FramedReader(lambda: snapshot)
        self._proven: dict[tuple[int, bool], bool] = {}
        self._has_ids = {is_key: _subject(topic, is_key=is_key) in snapshot.subject_names for is_key in (True, False)}
        self.counts = IdCounts()

    def __call__(self, offset: int, content: bytes, is_key: bool) -> bytes | None:  # noqa: FBT001  # as `change_beginnings` calls
        """The new first five bytes of a key or value; None for a field that stays as it is."""
        judged = self._find(content, is_key=is_key)
        if judged is None:
            if self._is_unknown(content, is_key=is_key):
                self.counts.leave(UNKNOWN, offset)
            return None
        schema, doubt = judged
        if doubt:
            self.counts.leave(doubt, offset)
        else:
            self.counts.rewritten += 1
            self._has_ids[is_key] = True
            if self._on_mapped is not None:
                self._on_mapped(offset, content, is_key, schema.id)
        return self._beginning(schema, doubt, content)

    def uncounted(self, _offset: int, content: bytes, is_key: bool) -> bytes | None:  # noqa: FBT001  # as above
        """As a call, for a record that does not count."""
        judged = self._find(content, is_key=is_key)
        return None if judged is None else self._beginning(*judged, content)

    def id_in(self, content: bytes, *, is_key: bool) -> int | None:
        """The id in a key or value, where a subject of the topic and the schema prove it. Counts nothing."""
        judged = self._find(content, is_key=is_key)
        return judged[0].id if judged is not None and judged[1] in {"", NOT_MAPPED} else None

    def _find(self, content: bytes, *, is_key: bool) -> tuple[StoredSchema, str] | None:
        """The schema whose id a field begins with, and why the id is not to be changed; empty if it is."""
        schema_id = framed_schema_id(content)
        schema = None if schema_id is None else self._snapshot.by_id.get(("", schema_id))
        if schema is None or (len(content) == PREFIX.size and not self._reader.fits(schema, content)):
            return None  # five bytes are no sign of an id, unless its schema has values without bytes
        return schema, self._doubt(schema, content, is_key=is_key)

    def _is_unknown(self, content: bytes, *, is_key: bool) -> bool:
        """Whether a field begins with an id above zero that the registry lacks, and has neighbours with ids."""
        schema_id = framed_schema_id(content)
        is_unknown = bool(schema_id) and ("", schema_id) not in self._snapshot.by_id
        return is_unknown and self._has_ids[is_key] and len(content) > PREFIX.size

    def _beginning(self, schema: StoredSchema, doubt: str, content: bytes) -> bytes | None:
        beginning = b"" if doubt else PREFIX.pack(0, self._ids[schema.id])
        return None if content.startswith(beginning) else beginning

    def _doubt(self, schema: StoredSchema, content: bytes, *, is_key: bool) -> str:
        place = schema.id, is_key
        if place not in self._proven:
            self._proven[place] = self._has_subject(schema, is_key=is_key)
        if not self._proven[place]:
            return NO_SUBJECT
        if not self._reader.fits(schema, content):
            return NO_FIT
        return "" if schema.id in self._ids else NOT_MAPPED

    def _has_subject(self, schema: StoredSchema, *, is_key: bool) -> bool:
        """By the strategies of Confluent's serializers: of the topic, of the topic and the type, of the type."""
        name = self._reader.type_of(schema)
        subjects = {_subject(self._topic, is_key=is_key)}
        subjects |= {name, f"{self._topic}-{name}"} if name else set()
        return not subjects.isdisjoint(self._snapshot.subjects.get(schema.id, ()))


def _subject(topic: str, *, is_key: bool) -> str:
    return f"{topic}-{'key' if is_key else 'value'}"
