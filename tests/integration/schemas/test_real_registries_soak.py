"""Real registries are read as the double of the unit tests is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from offsite.model.schema_registry import RegistrySnapshot, SchemaReference
from offsite.repository.snapshots.registry_snapshot import REGISTRY
from offsite.sandbox import SandboxInfo
from offsite.schemas.framing import FramedReader
from offsite.schemas.read_registry import read_registry, with_ids
from offsite.schemas.register import IdsNotKept, register_same_ids
from offsite.schemas.register import register as register_all
from offsite.schemas.registry_client import RegistryAddress, RegistryClient
from tests.fake_cluster.site import open_site
from tests.fetched_tools import NoTool
from tests.registries import apicurio, karapace
from tests.schema_registry import SchemaRegistryServer, serving

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

MANY = 900
"""Of Apicurio 3.0, more than 1,000 subjects are not to be had."""


@pytest.fixture(params=["apicurio", "karapace", "double"])
def registry(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RegistryClient]:
    try:
        match request.param:
            case "apicurio":
                with apicurio(tmp_path) as url:
                    yield RegistryClient(RegistryAddress(url=url))
            case "karapace":
                sandbox: SandboxInfo = request.getfixturevalue("broker")
                with karapace(tmp_path, sandbox.bootstrap) as url:
                    yield RegistryClient(RegistryAddress(url=url))
            case _:
                with serving(SchemaRegistryServer()) as server:
                    yield RegistryClient(RegistryAddress(url=server.url))
    except NoTool as error:
        pytest.skip(str(error))


def register(client: RegistryClient, subject: str, text: str, *uses: str) -> int:
    references = [{"name": f"{used}.proto", "subject": used, "version": 1} for used in uses]
    body = {"schema": text, "schemaType": "PROTOBUF", **({"references": references} if references else {})}
    answer = client.send("POST", "subjects", subject, "versions", body=body)
    assert answer.is_well, answer
    assert isinstance(answer.value, dict)
    schema_id = answer.value["id"]
    assert isinstance(schema_id, int)
    return schema_id


def proto(name: str, *uses: str) -> str:
    imports = "".join(f'import "{used}.proto"; ' for used in uses)
    members = " ".join(f"{used.title()} {used} = {number};" for number, used in enumerate(uses, start=2))
    return f'syntax = "proto3"; package shop; {imports}message {name.title()} {{ int32 x = 1; {members} }}'


def read(client: RegistryClient, earlier: RegistrySnapshot | None = None) -> RegistrySnapshot:
    snapshot = read_registry(client, earlier=earlier)
    assert REGISTRY.decode(REGISTRY.encode(snapshot), key="registry") == snapshot
    return snapshot


def test_subjects_references_settings_and_deleted_versions_are_read(registry: RegistryClient) -> None:
    money = register(registry, "money", proto("money"))
    order = register(registry, "order", proto("order", "money"), "money")
    again = register(registry, "we/ird ü%-value", proto("money"))
    assert again == money
    register(registry, "money", proto("money").replace("x = 1;", "x = 1; int32 y = 3;"))
    assert registry.send("PUT", "config", "order", body={"compatibility": "FULL"}).is_well
    assert registry.send("DELETE", "subjects", "money", "versions", "2").is_well
    snapshot = read(registry)
    named = {(version.subject, version.version): version for version in snapshot.versions}
    assert {place: version.is_deleted for place, version in named.items()} == {
        ("money", 1): False,
        ("money", 2): True,
        ("order", 1): False,
        ("we/ird ü%-value", 1): False,
    }
    assert named["order", 1].id == order
    assert snapshot.by_version["order", 1].references == (
        SchemaReference(name="money.proto", subject="money", version=1),
    )
    assert "FULL" in {settings.compatibility for settings in snapshot.settings if settings.subject == "order"}
    assert snapshot.unread == ()


def test_a_schema_that_was_deleted_for_ever_stays_known(registry: RegistryClient) -> None:
    gone = register(registry, "gone", proto("gone"))
    register(registry, "kept", proto("kept"))
    before = read(registry)
    for query in ({}, {"permanent": "true"}):
        assert registry.send("DELETE", "subjects", "gone", query=query).is_well
    after = read(registry, before)
    assert [schema.id for schema in after.schemas if schema.is_gone] == [gone]
    assert [version.subject for version in after.versions] == ["kept"]
    assert after.by_id["", gone].text == before.by_id["", gone].text


def test_the_ids_of_a_deleted_subject_are_known(registry: RegistryClient) -> None:
    """What a restore has registered, and deleted again as it was, is there when the restore goes on."""
    deleted = register(registry, "deleted", proto("deleted"))
    register(registry, "kept", proto("kept"))
    assert registry.send("DELETE", "subjects", "deleted").is_well
    there = with_ids(registry, read(registry), [deleted])
    assert there.by_id["", deleted].kind == "PROTOBUF"
    assert "message Deleted" in there.by_id["", deleted].text


def test_schemas_of_another_registry_are_registered_over_taken_ids(registry: RegistryClient) -> None:
    with serving(SchemaRegistryServer()) as server:
        source = RegistryClient(RegistryAddress(url=server.url))
        for number in range(40):
            uses = [f"m{number // 2 - 1}"] if number > 3 else []
            register(source, f"m{number}", proto(f"m{number}", *uses), *uses)
        snapshot = read(source)
    for number in range(20):
        register(registry, f"taken{number}", proto(f"taken{number}"))
    registered = register_all(registry, snapshot)
    assert registered.refused == []
    assert set(registered.ids) == set(range(1, 41))
    assert min(registered.ids.values()) > 20
    copied = read(registry)
    for old, new in registered.ids.items():
        names = [
            [
                schema.text.split("message ")[1].split()[0]
                for schema in whole.with_references(whole.by_id["", schema_id])
            ]
            for whole, schema_id in ((snapshot, old), (copied, new))
        ]
        assert names[0] == names[1]
    assert register_all(registry, snapshot) == registered


def test_a_restore_over_taken_ids_is_proven_and_decodes(registry: RegistryClient, tmp_path: Path) -> None:
    """Keys and values of Protobuf, whose messages use others. An empty registry that keeps no ids makes no difference.
    A restore that is repeated registers nothing twice."""
    with serving(SchemaRegistryServer()) as server, open_site(tmp_path) as site:
        source = RegistryClient(RegistryAddress(url=server.url))
        register(source, "money", proto("money"))
        ids = [register(source, subject, proto("order", "money"), "money") for subject in ("orders-value", "x")][:1]
        ids.append(register(source, "orders-key", proto("key")))
        site.source.make_topic("orders", retention_ms="-1")
        value, key = (b"\0" + schema_id.to_bytes(4, "big") + b"\0\x08\x05" for schema_id in ids)
        site.source.write("orders", [value] * 5, key=key)
        site.back_up("*", registry=server.url)
        for number in range(10):
            register(registry, f"taken{number}", proto(f"taken{number}"))
        contents = []
        for name in ("first", "second"):
            result = site.restore(registry=registry._address, rename=[f"orders={name}"])
            assert (result.verified, result.schema_ids and result.schema_ids.changed) == (True, 10)
            contents.append(read(registry))
        there = contents[1]
        assert there == contents[0]
        reader = FramedReader(lambda: there)
        for record in site.target.read("second"):
            read_values = [reader.read(content or b"") for content in (record.key, record.value)]
            assert [
                (framed_value.type, framed_value.value) for framed_value in read_values if framed_value is not None
            ] == [
                ("shop.Key", {"x": 5}),
                ("shop.Order", {"x": 5}),
            ]


def test_whether_ids_are_kept_is_found_out(registry: RegistryClient, request: pytest.FixtureRequest) -> None:
    with serving(SchemaRegistryServer(first_id=500)) as server:
        source = RegistryClient(RegistryAddress(url=server.url))
        register(source, "kept", proto("kept"))
        snapshot = read(source)
    if "double" in request.node.name:
        assert register_same_ids(registry, snapshot, modes={}).ids == {500: 500}
    else:  # no real one that can be had keeps ids; each says so in its own way
        with pytest.raises(IdsNotKept):
            register_same_ids(registry, snapshot, modes={})


def test_many_schemas_with_references_are_read_whole(registry: RegistryClient) -> None:
    names = [f"m{number}" for number in range(MANY)]
    for number, name in enumerate(names):
        uses = [names[number // 3 - 1]] if number > 3 else []
        register(registry, name, proto(name, *uses), *uses)
    snapshot = read(registry)
    assert len(snapshot.versions) == len(snapshot.schemas) == MANY
    last = snapshot.with_references(snapshot.by_version[names[-1], 1])
    assert [schema.references == () for schema in last] == [True] + [False] * (len(last) - 1)
