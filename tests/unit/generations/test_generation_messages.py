"""The coordination message, byte for byte as Avro's Java library makes it, and what strangers may put in its place."""

from __future__ import annotations

import io
import json
from pathlib import Path

import fastavro
import pytest
from fastavro.schema import fingerprint, to_parsing_canonical_form
from hypothesis import given
from hypothesis import strategies as st

from offsite.generations.coordination import Addresses
from offsite.generations.decision import Announcement, Send
from offsite.generations.message import (
    CANONICAL_SCHEMA,
    FINGERPRINT,
    CoordinationMessage,
    Event,
    crc_64_avro,
    decode_message,
    encode_message,
)
from offsite.generations.request import GenerationInput, parse_generations, read_properties
from offsite.model.errors import BadOption
from offsite.repository.generation_sets.entry import Instance

SCHEMA = {
    "namespace": "ch.tbd.kafka.backuprestore.model.avro",
    "type": "record",
    "name": "AvroCompactedLogBackupCoordination",
    "fields": [
        {"name": "event", "type": {"name": "EnumType", "type": "enum", "symbols": ["ACTIVATE", "PASSIVATE"]}},
        {"name": "connectorInstanceName", "type": "string"},
        {"name": "topic", "type": "string"},
        {"name": "partition", "type": "int"},
        {"name": "offset", "type": "long"},
        {"name": "timestamp", "type": "long"},
    ],
}
MESSAGES = st.builds(
    CoordinationMessage,
    event=st.sampled_from(list(Event)),
    connector=st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40),
    topic=st.from_regex(r"[a-z]{1,20}", fullmatch=True),
    partition=st.integers(0, 999_999),
    offset=st.integers(0, 2**63 - 1),
    at_ms=st.integers(-(2**63), 2**63 - 1),
)


def test_the_fingerprint_is_that_of_the_published_schema() -> None:
    canonical = to_parsing_canonical_form(SCHEMA)
    assert canonical == CANONICAL_SCHEMA
    assert fingerprint(canonical, "CRC-64-AVRO") == FINGERPRINT.hex()
    assert crc_64_avro(b'"int"') == 0x7275D51A3F395C8F  # as the specification's own tests have it
    assert json.loads(canonical)["fields"][0]["type"]["name"].startswith("ch.tbd.")


@given(MESSAGES)
def test_it_is_read_by_others_and_by_us(message: CoordinationMessage) -> None:
    data = encode_message(message)
    assert data[:10] == b"\xc3\x01" + FINGERPRINT
    assert fastavro.schemaless_reader(io.BytesIO(data[10:]), SCHEMA, None) == {
        "event": message.event.value,
        "connectorInstanceName": f"{message.connector}-{message.partition}",
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.at_ms,
    }
    assert decode_message(message.key, data) == message
    assert decode_message(b"another-0", data) is None
    assert decode_message(message.key, data + b"\0") is None


@given(MESSAGES, st.data())
def test_a_cut_or_altered_message_is_none_or_another_one(message: CoordinationMessage, data: st.DataObject) -> None:
    encoded = bytearray(encode_message(message))
    assert decode_message(message.key, bytes(encoded[: data.draw(st.integers(0, len(encoded) - 1))])) is None
    encoded[data.draw(st.integers(0, len(encoded) - 1))] ^= data.draw(st.integers(1, 255))
    assert decode_message(message.key, bytes(encoded)) != message


@given(st.binary(max_size=80))
def test_anything_may_be_there(body: bytes) -> None:
    decode_message(b"pair-activate-0", b"\xc3\x01" + FINGERPRINT + body)
    assert decode_message(b"pair-activate-0", b"\xc3\x02" + body) is None


def test_one_message_for_each_number_of_a_partition() -> None:
    send = Send(event=Event.ACTIVATE, to=Instance.B, at_ms=5, partitions=3)
    held = {("b", "i", 0): 7, ("a", "j", 0): 4, ("b", "i", 1): 9}
    sent = list(Addresses(name="pair", fallback="*").messages(send, held))
    assert [(each.topic, each.partition, each.offset) for each in sent] == [("a", 0, 4), ("b", 1, 9), ("a", 2, 0)]
    assert {each.connector for each in sent} == {"pair-passivate"}
    assert Announcement(event=Event.ACTIVATE, to=Instance.B, at_ms=5) == Announcement(
        event=send.event, to=send.to, at_ms=sent[0].at_ms
    )


def test_the_properties_of_the_tool(tmp_path: Path) -> None:
    path = tmp_path / "connector.properties"
    path.write_text(
        "name=customers-passivate\ntopics=customers\ncompacted.log.backup.length.days=1.5\n"
        "compacted.log.backup.initial.status=PASSIVATE\ns3.bucket.name=b\n"
    )
    request = parse_generations(GenerationInput(), {}, path)
    assert (request.name, request.instance, request.is_first, request.length_ms) == (
        "customers",
        Instance.B,
        False,
        129_600_000,
    )
    assert request.backup.selection is not None
    assert request.backup.selection.include == ("customers",)
    given = GenerationInput(name="other", instance=Instance.A, length="2h", first=True)
    request = parse_generations(given, {"topics": ["orders"]}, path)
    assert (request.name, request.instance, request.is_first, request.length_ms) == (
        "other",
        Instance.A,
        True,
        7_200_000,
    )


def test_its_hours_are_read_as_well(tmp_path: Path) -> None:
    path = tmp_path / "connector.properties"
    path.write_text("compacted.log.backup.length.hours=6\n")
    assert read_properties(path).length == "6h"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("name=x\n", "--instance is missing"),
        ("name=x-activate\ncompacted.log.backup.initial.status=RUNNING\n", "RUNNING is not known"),
        ("name=x-activate\ncompacted.log.backup.length.days=1\ncompacted.log.backup.length.hours=1\n", "both given"),
        ("name=x-activate\ncompacted.log.backup.length.days=many\n", "not a duration"),
        ("name=x-activate\ncompacted.log.backup.length.days=0\n", "without a pause"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "connector.properties"
    path.write_text(text)
    with pytest.raises(BadOption, match=told):
        parse_generations(GenerationInput(), {}, path)
