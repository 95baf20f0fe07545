"""The schemas of a Confluent-compatible registry, read from its backed-up topic: by id, with their references.

Pure: records in, texts out. Topic format: Confluent's registry, keys and values are JSON.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from offsite.log.records.record import Record
from offsite.model.untrusted.bounded_json import BadJson, parse_json

AVRO = "AVRO"

_SCHEMA_KEY = "SCHEMA"


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredSchema:
    """A schema. `kind`: AVRO, JSON or PROTOBUF. `references`: the (subject, version) of schemas that it uses."""

    kind: str
    text: str
    references: tuple[tuple[str, int], ...] = ()


class SchemaRegistry:
    """All schemas, deleted ones included: old records may need them."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._by_id: dict[int, RegisteredSchema] = {}
        self._by_version: dict[tuple[str, int], RegisteredSchema] = {}
        for record in records:
            self._add(_json_object(record.key), _json_object(record.value))

    def find(self, schema_id: int) -> RegisteredSchema | None:
        return self._by_id.get(schema_id)

    def with_references(self, schema: RegisteredSchema) -> list[str]:
        """The texts of the references of `schema`, every text behind its own references, and last the text of
        `schema`."""
        texts: dict[str, None] = {}
        self._collect(schema, texts, set())
        return list(texts)

    def _collect(self, schema: RegisteredSchema, texts: dict[str, None], collected: set[tuple[str, int]]) -> None:
        for reference in schema.references:
            referenced = self._by_version.get(reference)
            if referenced is not None and reference not in collected:
                collected.add(reference)
                self._collect(referenced, texts, collected)
        texts[schema.text] = None

    def _add(self, key: dict[str, object], value: dict[str, object]) -> None:
        """Take a record of the topic; ignore records that are no schema."""
        schema_id, text = value.get("id"), value.get("schema")
        if key.get("keytype") != _SCHEMA_KEY or not isinstance(schema_id, int) or not isinstance(text, str):
            return
        schema = RegisteredSchema(
            kind=str(value.get("schemaType") or AVRO), text=text, references=tuple(_references(value.get("references")))
        )
        self._by_id[schema_id] = schema
        subject, version = value.get("subject"), value.get("version")
        if isinstance(subject, str) and isinstance(version, int):
            self._by_version[subject, version] = schema


def _references(items: object) -> Iterable[tuple[str, int]]:
    for reference in items if isinstance(items, list) else ():
        if (
            isinstance(reference, dict)
            and isinstance(reference.get("subject"), str)
            and isinstance(reference.get("version"), int)
        ):
            yield reference["subject"], reference["version"]


def _json_object(data: bytes | None) -> dict[str, object]:
    try:
        parsed = parse_json(data or b"")
    except BadJson:
        return {}
    return parsed if isinstance(parsed, dict) else {}
