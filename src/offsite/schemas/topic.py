"""The topic of a schema registry (`_schemas` of Confluent and Karapace: keys and values are JSON) as the value that a
reading over REST gives. Records that are none of a registry are passed over."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from offsite.log.records.record import Record
from offsite.model.schema_registry import (
    AVRO,
    RegistrySnapshot,
    SchemaReference,
    StoredSchema,
    SubjectVersion,
    context_of,
    is_id,
)
from offsite.model.untrusted.bounded_json import BadJson, has_halves, parse_json

_SCHEMA, _DELETE_SUBJECT = "SCHEMA", "DELETE_SUBJECT"


def read_schemas_topic(records: Iterable[Record]) -> RegistrySnapshot:
    """All schemas, deleted ones included: old records may need them. The latest record of an id or of a version
    counts."""
    schemas: dict[tuple[str, int], StoredSchema] = {}
    versions: dict[tuple[str, int], SubjectVersion] = {}
    for record in records:
        key, value = _json_object(record.key), _json_object(record.value)
        subject, version = value.get("subject"), value.get("version")
        if key.get("keytype") == _SCHEMA and (schema := _schema(value)) is not None:
            schemas[schema.context, schema.id] = schema
            if isinstance(subject, str) and is_id(version):
                deleted = value.get("deleted") is True
                versions[subject, version] = SubjectVersion(
                    subject=subject, version=version, id=schema.id, is_deleted=deleted
                )
        elif key.get("keytype") == _SCHEMA and record.value is None:
            versions.pop((str(key.get("subject")), _number(key.get("version"))), None)
        elif key.get("keytype") == _DELETE_SUBJECT and is_id(version):
            for place in [(name, number) for name, number in versions if name == subject and number <= version]:
                versions[place] = replace(versions[place], is_deleted=True)
    return RegistrySnapshot(schemas=tuple(sorted(schemas.values())), versions=tuple(sorted(versions.values())))


def with_schemas_of(snapshot: RegistrySnapshot, other: RegistrySnapshot) -> RegistrySnapshot:
    """`snapshot`, with the schemas and versions of `other` that it lacks."""
    schemas = [schema for schema in other.schemas if (schema.context, schema.id) not in snapshot.by_id]
    places = {(version.subject, version.version) for version in snapshot.versions}
    versions = [version for version in other.versions if (version.subject, version.version) not in places]
    return replace(
        snapshot,
        schemas=tuple(sorted((*snapshot.schemas, *schemas))),
        versions=tuple(sorted((*snapshot.versions, *versions))),
    )


def _schema(value: dict[str, object]) -> StoredSchema | None:
    schema_id, text, subject = value.get("id"), value.get("schema"), value.get("subject")
    if not is_id(schema_id) or not isinstance(text, str):
        return None
    return StoredSchema(
        context=context_of(subject) if isinstance(subject, str) else "",
        id=schema_id,
        kind=str(value.get("schemaType") or AVRO),
        text=text,
        references=tuple(_references(value.get("references"))),
    )


def _references(listed: object) -> Iterator[SchemaReference]:
    for reference in listed if isinstance(listed, list) else ():
        if isinstance(reference, dict):
            name, subject, version = (reference.get(member) for member in ("name", "subject", "version"))
            if isinstance(subject, str) and is_id(version):
                yield SchemaReference(name=name if isinstance(name, str) else "", subject=subject, version=version)


def _number(value: object) -> int:
    return value if is_id(value) else -1


def _json_object(data: bytes | None) -> dict[str, object]:
    try:
        parsed = parse_json(data or b"")
    except BadJson:
        return {}
    return parsed if isinstance(parsed, dict) and not has_halves(data or b"", parsed) else {}
