"""Which bytes of a record are a schema id, and what another registry calls the schema. Pure.

Four bytes behind a zero may be anything. They are an id where two things agree that know nothing of each other: the
registry has the id under a subject of the record's topic, and the schema of the id decodes all the rest of the field.
Everything else that looks like an id is left as it is, and counted by the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from offsite.model.schema_registry import RegistrySnapshot, StoredSchema
from offsite.schemas.framing import PREFIX, FramedReader, framed_schema_id

NO_SUBJECT = "no subject of the topic has the id"
NO_FIT = "the schema does not decode the bytes"
NOT_MAPPED = "the target has no such schema"


@dataclass(slots=True, kw_only=True)
class IdCounts:
    """`rewritten`: fields whose id was mapped, one that stays the same too. `left`: fields that look framed by an id of
    the registry, by the reason why they stay. Fields with an id that the registry lacks are not counted."""

    rewritten: int = 0
    left: Counter[str] = field(default_factory=Counter)


class TopicIds:
    """The ids in the records of one topic. `topic`: its name at the source, where the subjects are from. `ids`: from
    ids of `snapshot` to those of the target, of the default context."""

    def __init__(self, snapshot: RegistrySnapshot, topic: str, ids: Mapping[int, int]) -> None:
        self._snapshot, self._topic = snapshot, topic
        self._beginnings = {old: PREFIX.pack(0, new) for old, new in ids.items()}
        self._reader = FramedReader(lambda: snapshot)
        self._proven: dict[tuple[int, bool], bool] = {}
        self.counts = IdCounts()

    def __call__(self, content: bytes, is_key: bool) -> bytes | None:  # noqa: FBT001  # as `change_beginnings` calls
        """The new first five bytes of a key or value; None for a field that stays as it is."""
        schema_id = framed_schema_id(content)
        schema = None if schema_id is None else self._snapshot.by_id.get(("", schema_id))
        if schema is None:
            return None
        reason = self._doubt(schema, content, is_key=is_key)
        if reason:
            self.counts.left[reason] += 1
            return None
        self.counts.rewritten += 1
        beginning = self._beginnings[schema.id]
        return None if content.startswith(beginning) else beginning

    def id_in(self, content: bytes, *, is_key: bool) -> int | None:
        """The id in a key or value, where a subject of the topic and the schema prove it. Counts nothing."""
        schema_id = framed_schema_id(content)
        schema = None if schema_id is None else self._snapshot.by_id.get(("", schema_id))
        if schema is None or self._doubt(schema, content, is_key=is_key) not in {"", NOT_MAPPED}:
            return None
        return schema.id

    def _doubt(self, schema: StoredSchema, content: bytes, *, is_key: bool) -> str:
        """Why the field is not to be rewritten; empty if it is."""
        place = schema.id, is_key
        if place not in self._proven:
            self._proven[place] = self._has_subject(schema, is_key=is_key)
        if not self._proven[place]:
            return NO_SUBJECT
        if not self._reader.fits(schema, content):
            return NO_FIT
        return "" if schema.id in self._beginnings else NOT_MAPPED

    def _has_subject(self, schema: StoredSchema, *, is_key: bool) -> bool:
        """By the strategies of Confluent's serializers: of the topic, of the topic and the type, of the type."""
        name = self._reader.type_of(schema)
        subjects = {f"{self._topic}-{'key' if is_key else 'value'}"}
        subjects |= {name, f"{self._topic}-{name}"} if name else set()
        return not subjects.isdisjoint(self._subjects.get(schema.id, ()))

    @cached_property
    def _subjects(self) -> dict[int, set[str]]:
        subjects: dict[int, set[str]] = {}
        for (subject, _), schema in self._snapshot.by_version.items():
            if not schema.context:
                subjects.setdefault(schema.id, set()).add(subject)
        return subjects
