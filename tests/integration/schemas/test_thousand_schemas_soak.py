"""1,000 schemas with references go to another registry by a restore, under the same ids or under its own, and each
restored record decodes there to what it was at the source, at its offset."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import fastavro
import pytest

from offsite.model.options import SchemaIdsWay
from offsite.model.schema_registry import RegistrySnapshot
from offsite.points.held_schemas import held_schemas
from offsite.restore.result import RestoreResult
from offsite.schemas.framing import FramedReader, FramedValue
from offsite.schemas.read_registry import read_registry
from offsite.schemas.registry_client import RegistryAddress, RegistryClient
from tests.fake_cluster.site import Site, open_site
from tests.fetched_tools import NoTool
from tests.registries import apicurio
from tests.schema_registry import SchemaRegistryServer, serving

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

TOPICS, KEYS, VALUES = 100, 3, 7
SCHEMAS = TOPICS * (KEYS + VALUES)
TAKEN = 500
RECORDS = TOPICS * 2 * VALUES


class Source:
    """Registers schemas, every second one of a kind with a reference to the one before, and makes a framed payload for
    each. `kind`: Avro, JSON, Protobuf. A subject has one kind: Apicurio takes that of its first version for all."""

    def __init__(self, client: RegistryClient) -> None:
        self._client, self._count = client, 0
        self._before: dict[int, tuple[int, str, int]] = {}
        self._versions: dict[str, int] = {}

    def payload(self, subject: str, kind: int) -> bytes:
        number = self._count
        self._count += 1
        part = self._before.pop(kind, None)
        text, payload = (self._avro, self._json, self._proto)[kind](number, None if part is None else part[0])
        named = {0: "R{}", 1: "j{}.json", 2: "m{}.proto"}[kind]
        uses = [] if part is None else [{"name": named.format(part[0]), "subject": part[1], "version": part[2]}]
        body = {"schema": text, "schemaType": ("AVRO", "JSON", "PROTOBUF")[kind], "references": uses}
        answer = self._client.send("POST", "subjects", subject, "versions", body=body)  # type: ignore[arg-type]
        assert isinstance(answer.value, dict), answer
        self._versions[subject] = self._versions.get(subject, 0) + 1
        if part is None:
            self._before[kind] = number, subject, self._versions[subject]
        return b"\0" + int(str(answer.value["id"])).to_bytes(4, "big") + payload

    def _avro(self, number: int, part: int | None) -> tuple[str, bytes]:
        fields = [{"name": "x", "type": "int"}] + ([] if part is None else [{"name": "part", "type": f"R{part}"}])
        inner = {"type": "record", "name": f"R{part}", "fields": [{"name": "x", "type": "int"}]}
        whole = {"type": "record", "name": f"R{number}", "fields": fields}
        expanded = whole if part is None else {**whole, "fields": [fields[0], {"name": "part", "type": inner}]}
        value = {"x": number} if part is None else {"x": number, "part": {"x": part}}
        fastavro.schemaless_writer(out := io.BytesIO(), fastavro.parse_schema(expanded), value)
        return json.dumps(whole), out.getvalue()

    def _json(self, number: int, part: int | None) -> tuple[str, bytes]:
        members = {"x": {"type": "integer"}} | ({} if part is None else {"part": {"$ref": f"j{part}.json"}})
        text = {"title": f"J{number}", "type": "object", "properties": members}
        return json.dumps(text), json.dumps({"x": number}).encode()

    def _proto(self, number: int, part: int | None) -> tuple[str, bytes]:
        imported = "" if part is None else f'import "m{part}.proto"; '
        member = "" if part is None else f" M{part} part = 2;"
        text = f'syntax = "proto3"; {imported}message M{number} {{ int32 x = 1;{member} }}'
        x = b"\x08" + bytes([number & 0x7F | 0x80, number >> 7])
        return text, b"\0" + x + (b"" if part is None else b"\x12\x02\x08\x05")


@pytest.fixture(scope="module")
def backed_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with serving(SchemaRegistryServer()) as server, open_site(tmp_path_factory.mktemp("site")) as site:
        source = Source(client_of(server.url))
        for number in range(TOPICS):
            topic = f"t{number}"
            site.source.make_topic(topic, retention_ms="-1")
            keys = [source.payload(f"{topic}-key", number % 3) for _ in range(KEYS)]
            values = [source.payload(f"{topic}-value", (number + 1) % 3) for _ in range(VALUES)]
            for offset in range(2 * VALUES):
                site.source.write(topic, [values[offset % VALUES]], key=keys[offset % KEYS])
        site.back_up("*", registry=server.url)
        yield site


def client_of(url: str) -> RegistryClient:
    return RegistryClient(RegistryAddress(url=url))


def test_under_the_same_ids_each_record_decodes_as_it_is(backed_up: Site) -> None:
    held = held_schemas(backed_up.backup)
    assert len(held.schemas) == SCHEMAS
    with serving(SchemaRegistryServer()) as server:
        result = restored(backed_up, server.url, "kept")
        there = read_registry(client_of(server.url))
        assert set(held.schemas) <= set(there.schemas)
        check_records(backed_up, "kept", held, there)
        assert result.schema_ids is not None
        assert (result.schema_ids.way, result.schema_ids.topics) == (SchemaIdsWay.KEEP, {})


@pytest.mark.parametrize("kind", ["double", "apicurio"])
def test_under_other_ids_each_record_decodes_to_what_it_was(backed_up: Site, kind: str, tmp_path: Path) -> None:
    """Karapace takes references in Protobuf alone."""
    try:
        with {"double": double, "apicurio": apicurio}[kind](tmp_path) as url:
            client = client_of(url)
            for number in range(TAKEN):
                text = json.dumps({"type": "record", "name": f"Other{number}", "fields": []})
                assert client.send("POST", "subjects", f"other{number % 50}", "versions", body={"schema": text}).is_well
            result = restored(backed_up, url, kind)
            check_records(backed_up, kind, held_schemas(backed_up.backup), read_registry(client))
            assert result.schema_ids is not None
            assert (result.schema_ids.way, result.schema_ids.left) == (SchemaIdsWay.REWRITE, 0)
            assert result.schema_ids.changed == 2 * RECORDS
    except NoTool as error:
        pytest.skip(str(error))


@contextmanager
def double(_: Path) -> Iterator[str]:
    with serving(SchemaRegistryServer()) as server:
        yield server.url


def restored(site: Site, url: str, prefix: str) -> RestoreResult:
    """Every topic, under a name of its own, at the offsets of the source."""
    words = {"rename": [f"*={prefix}-*"], "offsets": "preserve"}
    result = site.restore(registry=RegistryAddress(url=url), **words)
    assert (result.verified, result.findings, result.records) == (True, (), RECORDS)
    return result


def check_records(site: Site, prefix: str, held: RegistrySnapshot, there: RegistrySnapshot) -> None:
    source, target = FramedReader(lambda: held), FramedReader(lambda: there)
    count = 0
    for topic in site.source.topics:
        before, after = site.source.read(topic), site.target.read(f"{prefix}-{topic}")
        assert [record.offset for record in after] == [record.offset for record in before]
        for old, new in zip(before, after, strict=True):
            assert meaning(source, old.key) == meaning(target, new.key)
            assert meaning(source, old.value) == meaning(target, new.value)
            count += 1
    assert count == RECORDS


def meaning(reader: FramedReader, content: bytes | None) -> tuple[object, ...]:
    value = None if content is None else reader.read(content)
    assert isinstance(value, FramedValue), content
    return value.kind, value.type, value.value
