"""What Confluent's serializers put in front of a payload, and the value behind it: a zero byte, four bytes of an id,
the payload.

Bytes that begin with a zero need not be framed, so bytes that cannot be read never fail.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from offsite.model.schema_registry import AVRO, JSON, PROTOBUF, RegistrySnapshot, StoredSchema, SubjectVersion
from offsite.model.untrusted.bounded_json import BadJson, parse_json
from offsite.model.untrusted.nesting import NESTED_MAX, nests_too_deep
from offsite.schemas.avro import AvroType, avro_type
from offsite.schemas.protobuf import ProtobufTypes, protobuf_types

PREFIX = struct.Struct(">bI")
_JSON = "json-schema"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaName:
    """What a person calls a schema: the `subject` and `version` under which it is registered, and the `name` of the
    type (empty where the schema has none)."""

    subject: str
    version: int
    name: str

    def __str__(self) -> str:
        return f"{self.name or self.subject}, version {self.version} of {self.subject}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FramedValue:
    """A decoded payload. `kind`: `avro`, `json-schema` or `protobuf`, from its schema. `value`: plain Python. `type`:
    the name of the type, empty where there is none."""

    kind: str
    schema_id: int
    value: object
    type: str = ""


def framed_schema_id(data: bytes) -> int | None:
    """The schema id of `data`, if framed. A prefix alone is: an Avro record without fields has no bytes."""
    if len(data) < PREFIX.size:
        return None
    magic, schema_id = PREFIX.unpack_from(data)
    return schema_id if magic == 0 else None


class FramedReader:
    """Decodes payloads by the schemas of a registry, in its default context. The registry is read at the first framed
    payload."""

    def __init__(self, open_registry: Callable[[], RegistrySnapshot]) -> None:
        self._open_registry = open_registry
        self._avro: dict[int, AvroType | None] = {}
        self._protobuf: dict[int, ProtobufTypes | None] = {}

    def read(self, data: bytes) -> FramedValue | None:
        """The value of `data`; None if it is not framed, has no schema in the registry, or does not fit its schema."""
        schema = self._schema_of(data)
        if schema is None:
            return None
        if schema.kind == AVRO:
            return self._read_avro(schema, data)
        if schema.kind == JSON:
            return _read_json(schema.id, data)
        return self._read_protobuf(schema, data) if schema.kind == PROTOBUF else None

    def read_plain(self, data: bytes) -> FramedValue | None:
        """As `read`, to compare: without logical types, and None for what nests deep (see `AvroType.read_plain`)."""
        schema = self._schema_of(data)
        if schema is None or schema.kind != AVRO:
            read = self.read(data)
            return None if read is None or (read.kind == _JSON and _may_be_deep(data, read.value)) else read
        return self._read_avro(schema, data, plain=True)

    def fits(self, schema: StoredSchema, data: bytes) -> bool:
        """Whether `data`, framed with the id of `schema`, is a whole payload of it, whoever asks."""
        if schema.kind != PROTOBUF:
            return self.read_plain(data) is not None
        types = self._types(schema)
        return types is not None and types.fits(data, PREFIX.size)

    def type_of(self, schema: StoredSchema) -> str:
        """The name of the type that `schema` describes, as strategies of subjects use it; empty without one."""
        if schema.kind == PROTOBUF:
            types = self._types(schema)
            return types.first if types is not None else ""
        if schema.kind == AVRO:
            avro = self._avro_type(schema)
            return avro.name if avro is not None else ""
        return _title_of(schema.text)

    def name_of(self, schema_id: int, topic: str, *, is_key: bool, type_name: str = "") -> SchemaName | None:
        """Under which name the schema is registered: as that of the topic, if it is, else under the first name, and the
        latest version of it."""
        named = self._versions.get(schema_id, ())
        subject = f"{topic}-{'key' if is_key else 'value'}"
        of_topic = [version for version in named if version.subject == subject] or named
        if not of_topic:
            return None
        version = max(of_topic, key=lambda version: (version.subject == of_topic[0].subject, version.version))
        return SchemaName(subject=version.subject, version=version.version, name=type_name)

    @cached_property
    def registry(self) -> RegistrySnapshot:
        return self._open_registry()

    @cached_property
    def _versions(self) -> dict[int, list[SubjectVersion]]:
        versions: dict[int, list[SubjectVersion]] = {}
        for version in self.registry.versions:
            schema = self.registry.by_version.get((version.subject, version.version))
            if schema is not None and not schema.context:
                versions.setdefault(schema.id, []).append(version)
        return versions

    def _schema_of(self, data: bytes) -> StoredSchema | None:
        schema_id = framed_schema_id(data)
        return None if schema_id is None else self.registry.by_id.get(("", schema_id))

    def _read_avro(self, schema: StoredSchema, data: bytes, *, plain: bool = False) -> FramedValue | None:
        avro = self._avro_type(schema)
        if avro is None:
            return None
        read = avro.read_plain(data, PREFIX.size) if plain else avro.read(data, PREFIX.size)
        if read is None:
            return None
        return FramedValue(kind="avro", schema_id=schema.id, value=read[0], type=avro.name)

    def _avro_type(self, schema: StoredSchema) -> AvroType | None:
        if schema.id not in self._avro:
            self._avro[schema.id] = avro_type([used.text for used in self.registry.with_references(schema)])
        return self._avro[schema.id]

    def _types(self, schema: StoredSchema) -> ProtobufTypes | None:
        if schema.id not in self._protobuf:
            self._protobuf[schema.id] = protobuf_types(self.registry, schema)
        return self._protobuf[schema.id]

    def _read_protobuf(self, schema: StoredSchema, data: bytes) -> FramedValue | None:
        types = self._types(schema)
        read = None if types is None else types.read(data, PREFIX.size)
        if read is None:
            return None
        return FramedValue(kind="protobuf", schema_id=schema.id, value=read.value, type=read.message)


def _title_of(text: str) -> str:
    try:
        parsed = parse_json(text.encode())
    except BadJson:
        return ""
    title = parsed.get("title", "") if isinstance(parsed, dict) else ""
    return title if isinstance(title, str) else ""


def _may_be_deep(data: bytes, value: object) -> bool:
    return data.count(b"[") + data.count(b"{") > NESTED_MAX and nests_too_deep(value)


def _read_json(schema_id: int, data: bytes) -> FramedValue | None:
    try:
        return FramedValue(kind=_JSON, schema_id=schema_id, value=parse_json(data[PREFIX.size :]))
    except BadJson:
        return None
