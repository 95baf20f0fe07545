"""The topic of a registry gives the same value as a reading over REST."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from offsite.log.records.record import Record
from offsite.model.schema_registry import RegistrySnapshot, SchemaReference, StoredSchema, SubjectVersion
from offsite.schemas.framing import FramedReader, SchemaName
from offsite.schemas.topic import read_schemas_topic, with_schemas_of


def records(*entries: tuple[dict[str, Any] | bytes, dict[str, Any] | bytes | None]) -> Iterator[Record]:
    for offset, (key, value) in enumerate(entries):
        data = [part if isinstance(part, bytes | None) else json.dumps(part).encode() for part in (key, value)]
        yield Record(offset, 5, 0, *data)


def schema(subject: str, version: object, schema_id: int, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    key = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
    value = {"subject": subject, "version": version, "id": schema_id, "schema": '"int"', "deleted": False}
    return key, value | more


def test_versions_deletions_and_references_are_read() -> None:
    uses = {"references": [{"name": "n", "subject": "a", "version": 1}], "schemaType": "PROTOBUF"}
    delete = {"keytype": "DELETE_SUBJECT", "subject": "b", "magic": 0}
    snapshot = read_schemas_topic(
        records(
            ({"keytype": "NOOP"}, None),
            schema("a", 1, 1),
            schema("a", 2, 2),
            schema("a", 2, 2, deleted=True),
            schema("b", 1, 1),
            schema("b", 2, 3, **uses),
            schema(":.west:b", 1, 1, schema='"long"'),
            (delete, {"subject": "b", "version": 1}),
            schema("c", 1, 4),
            (schema("c", 1, 4)[0], None),
            (b"{", b"{"),
        )
    )
    assert snapshot.versions == (
        SubjectVersion(subject=":.west:b", version=1, id=1),
        SubjectVersion(subject="a", version=1, id=1),
        SubjectVersion(subject="a", version=2, id=2, is_deleted=True),
        SubjectVersion(subject="b", version=1, id=1, is_deleted=True),
        SubjectVersion(subject="b", version=2, id=3),
    )
    assert [(stored.context, stored.id) for stored in snapshot.schemas] == [
        ("", 1),
        ("", 2),
        ("", 3),
        ("", 4),
        ("west", 1),
    ]
    assert snapshot.by_id["", 3].references == (SchemaReference(name="n", subject="a", version=1),)
    assert snapshot.by_id["", 3].kind == "PROTOBUF"


def test_strange_records_are_passed_over() -> None:
    strange = [
        schema("a", 1, 1, id=True),
        schema("a", 1, 1, id=-1),
        schema("a", 1, 1, id=2**31),
        schema("a", 1, 1, schema=None),
        schema("a", "1", 7, references=[{}, 7, {"subject": "s", "version": "1"}]),
        (b"[]", b"7"),
    ]
    snapshot = read_schemas_topic(records(*strange))
    assert snapshot.versions == ()
    assert [(stored.id, stored.references) for stored in snapshot.schemas] == [(7, ())]


def test_a_registry_wins_over_the_topic_and_lacks_nothing_of_it() -> None:
    of_registry = RegistrySnapshot(
        schemas=(StoredSchema(id=1, kind="AVRO", text="new"),),
        versions=(SubjectVersion(subject="a", version=1, id=1, is_deleted=True),),
    )
    both = with_schemas_of(of_registry, read_schemas_topic(records(schema("a", 1, 1), schema("b", 1, 2))))
    assert [(stored.id, stored.text) for stored in both.schemas] == [(1, "new"), (2, '"int"')]
    assert [(version.subject, version.is_deleted) for version in both.versions] == [("a", True), ("b", False)]


def test_a_schema_has_the_name_of_its_topic_or_its_first() -> None:
    snapshot = read_schemas_topic(
        records(
            schema("other", 1, 1),
            schema("t-value", 2, 1),
            schema("t-value", 5, 1),
            schema("t-key", 1, 1),
            schema("z", 9, 1),
        )
    )
    reader = FramedReader(lambda: snapshot)
    assert reader.name_of(1, "t", is_key=False) == SchemaName(subject="t-value", version=5, name="")
    assert reader.name_of(1, "t", is_key=True) == SchemaName(subject="t-key", version=1, name="")
    assert reader.name_of(1, "u", is_key=True, type_name="T") == SchemaName(subject="other", version=1, name="T")
    assert reader.name_of(2, "t", is_key=True) is None


def test_a_record_with_half_of_a_character_is_passed_over() -> None:
    """It could be stored, and never be read again."""
    key, value = schema("a", 1, 1)
    half = json.dumps(value | {"schema": '{"title": "\ud800"}', "schemaType": "JSON"}).encode()
    snapshot = read_schemas_topic(records((key, half), schema("a\ud800", 2, 2), schema("b", 1, 3)))
    assert [stored.id for stored in snapshot.schemas] == [3]
