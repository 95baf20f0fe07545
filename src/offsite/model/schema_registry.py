"""The contents of a schema registry at one moment, by the names of Confluent's API: schemas with their ids, the
versions of subjects, and settings of subjects. Never a secret. Pure.

An id says what a schema is, and keeps its meaning: a registry gives an id to one text with one set of references. A
subject is a name under which versions are registered. Subjects of a context (`:.name:subject`) have ids of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, TypeGuard

from offsite.model.untrusted.json_codec import Key, Spare, integer_within

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"

MAX_ID = (1 << 31) - 1
_ID = integer_within(0, MAX_ID)
_CONTEXT = ":."


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class SchemaReference:
    """A schema that another one uses. `name`: how the other one calls it (a full name in Avro, a path in Protobuf)."""

    name: str
    subject: str
    version: Annotated[int, _ID]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class StoredSchema:
    """A schema by its id. `kind`: `AVRO`, `JSON`, `PROTOBUF`, or what else the registry says. `more`: metadata and
    rules as a JSON text with sorted members, or empty: two schemas that differ in it have two ids. `context`: whose id
    it is; empty for the default one. `is_gone`: an earlier reading had the schema, and the registry lacks it by now."""

    context: Spare[str] = ""
    id: Annotated[int, _ID]
    kind: Annotated[str, Key("type")]
    text: Annotated[str, Key("schema")]
    references: tuple[SchemaReference, ...] = ()
    more: Spare[str] = ""
    is_gone: Annotated[Spare[bool], Key("gone")] = False


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class SubjectVersion:
    """`is_deleted`: deleted softly. The registry still explains the id, and does not offer the version any more."""

    subject: str
    version: Annotated[int, _ID]
    id: Annotated[int, _ID]
    is_deleted: Annotated[Spare[bool], Key("deleted")] = False


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class SubjectSettings:
    """Settings of one subject that differ from those of all, or with an empty `subject` those of all. Empty: the same.
    `compatibility` and `mode` are words of the registry (`BACKWARD`, `READONLY`). `more`: further settings as a JSON
    text with sorted members."""

    subject: str
    compatibility: Spare[str] = ""
    mode: Spare[str] = ""
    more: Spare[str] = ""


@dataclass(frozen=True, kw_only=True)
class RegistrySnapshot:
    """Everything sorted: the same contents are equal. `unread`: what the registry lists and does not show, in
    sentences."""

    schemas: tuple[StoredSchema, ...] = ()
    versions: tuple[SubjectVersion, ...] = ()
    settings: tuple[SubjectSettings, ...] = ()
    unread: Spare[tuple[str, ...]] = ()

    @cached_property
    def by_id(self) -> dict[tuple[str, int], StoredSchema]:
        """By context and id."""
        return {(schema.context, schema.id): schema for schema in self.schemas}

    @cached_property
    def by_version(self) -> dict[tuple[str, int], StoredSchema]:
        """By subject and version."""
        return {
            (version.subject, version.version): schema
            for version in self.versions
            if (schema := self.by_id.get((context_of(version.subject), version.id))) is not None
        }

    @cached_property
    def subjects(self) -> dict[int, frozenset[str]]:
        """By id: the subjects that have it, of the default context."""
        names: dict[int, set[str]] = {}
        for (subject, _), schema in self.by_version.items():
            if not schema.context:
                names.setdefault(schema.id, set()).add(subject)
        return {schema_id: frozenset(subjects) for schema_id, subjects in names.items()}

    @cached_property
    def subject_names(self) -> frozenset[str]:
        """All subjects of the default context."""
        return frozenset(version.subject for version in self.versions if not context_of(version.subject))

    def with_references(self, schema: StoredSchema) -> tuple[StoredSchema, ...]:
        """The schemas that `schema` uses, each behind those that it uses itself, and `schema` last. Missing ones and
        circles are left out."""
        ordered: dict[tuple[str, int], StoredSchema] = {}
        opened = {(schema.context, schema.id)}
        pending = [(schema, iter(schema.references))]
        while pending:  # not by recursion: a chain of strangers may be long
            user, references = pending[-1]
            reference = next(references, None)
            if reference is None:
                ordered[user.context, user.id] = user
                pending.pop()
                continue
            used = self.by_version.get((reference.subject, reference.version))
            if used is not None and (used.context, used.id) not in opened:
                opened.add((used.context, used.id))
                pending.append((used, iter(used.references)))
        return tuple(ordered.values())


def is_id(value: object) -> TypeGuard[int]:
    """Whether `value` can be an id or the number of a version."""
    return type(value) is int and 0 <= value <= MAX_ID


def is_subject(name: str) -> bool:
    """Whether `name` can be that of one subject in the path of a request. Dots would be taken out of the path, and an
    empty name, also behind a context, stands for all subjects: their modes and settings are none of anybody's here."""
    own = name.removeprefix(_CONTEXT).partition(":")[2] if name.startswith(_CONTEXT) else name
    return own not in {"", ".", ".."}


def context_of(subject: str) -> str:
    """The context in the name of a subject, empty for the default one: `:.west:orders-value` is of `west`."""
    name, colon, _ = subject.removeprefix(_CONTEXT).partition(":")
    return name if subject.startswith(_CONTEXT) and colon else ""
