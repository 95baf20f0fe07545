"""Schemas are registered elsewhere under the same ids where the registry keeps them, else with a map that is right."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from offsite.model.errors import BadRegistry
from offsite.model.schema_registry import (
    RegistrySnapshot,
    SchemaReference,
    StoredSchema,
    SubjectSettings,
    SubjectVersion,
)
from offsite.schemas.read_registry import read_registry
from offsite.schemas.register import IdsNotKept, Registered, _in_order, finish, read_modes
from offsite.schemas.register import register as register_only
from offsite.schemas.register import register_same_ids as register_same_only
from offsite.schemas.registry_client import RegistryAddress, RegistryClient
from tests.schema_registry import SchemaRegistryServer, serving


@pytest.fixture
def target() -> Iterator[SchemaRegistryServer]:
    with serving(SchemaRegistryServer()) as server:
        yield server


def client_of(server: SchemaRegistryServer) -> RegistryClient:
    return RegistryClient(RegistryAddress(url=server.url))


def register(client: RegistryClient, snapshot: RegistrySnapshot) -> Registered:
    registered = register_only(client, snapshot)
    finish(client, registered, snapshot)
    return registered


def register_same_ids(
    client: RegistryClient, snapshot: RegistrySnapshot, modes: dict[str, str] | None = None
) -> Registered:
    """`modes`: before an import that broke off."""
    registered = register_same_only(client, snapshot, modes=read_modes(client, snapshot) if modes is None else modes)
    finish(client, registered, snapshot)
    return registered


def avro(name: str) -> str:
    return json.dumps({"type": "record", "name": name, "fields": []})


@pytest.fixture(scope="module")
def snapshot() -> RegistrySnapshot:
    with serving(SchemaRegistryServer(first_id=100)) as server:
        for number in range(60):
            used = [{"name": "n", "subject": f"s{99 - number // 2}", "version": 1}] if number > 3 else []
            server.register(f"s{99 - number}", avro(f"R{number}"), references=used)
        server.register("s99", avro("Second"))
        server.register("s99", avro("Third"), metadata={"properties": {"a": "b"}})
        server.register("other", avro("R1"))
        server.answer("DELETE", "/subjects/s99/versions/2", {})
        server.register("s98", avro("Again"))
        server.answer("DELETE", "/subjects/s98/versions/2", {})
        server.modes["s98"] = "READONLY"
        return read_registry(client_of(server))


def meanings(snapshot: RegistrySnapshot, ids: dict[int, int]) -> set[tuple[int, str]]:
    return {(ids.get(schema.id, schema.id), schema.text) for schema in snapshot.schemas}


def test_an_import_keeps_ids_versions_deletions_and_modes(
    target: SchemaRegistryServer, snapshot: RegistrySnapshot
) -> None:
    target.register("mine", avro("Mine"))
    register_same_ids(client_of(target), snapshot)
    copied = read_registry(client_of(target))
    assert set(snapshot.schemas) <= set(copied.schemas)
    assert set(snapshot.versions) <= set(copied.versions)
    assert target.modes["s98"] == "READONLY"
    assert {mode for subject, mode in target.modes.items() if subject != "s98"} == {"READWRITE"}


def test_taken_ids_are_mapped(target: SchemaRegistryServer, snapshot: RegistrySnapshot) -> None:
    for number in range(150):
        target.register("taken", avro(f"Taken{number}"))
    target.register("s99", avro("Before"))
    registered = register(client_of(target), snapshot)
    assert registered.refused == []
    assert min(registered.ids.values()) > 150
    copied = read_registry(client_of(target))
    assert meanings(snapshot, registered.ids) <= meanings(copied, {})
    assert registered.versions["s99", 1] == 2, "the subject had a version of its own"
    deleted = {(version.subject, version.version) for version in copied.versions if version.is_deleted}
    assert deleted == {("s98", 2), ("s99", 3)}
    for schema in snapshot.schemas:
        new = copied.by_id["", registered.ids[schema.id]]
        texts = [used.text for used in copied.with_references(new)]
        assert texts == [used.text for used in snapshot.with_references(schema)]


def test_a_second_time_changes_nothing(target: SchemaRegistryServer, snapshot: RegistrySnapshot) -> None:
    first = register(client_of(target), snapshot)
    before = read_registry(client_of(target))
    assert register(client_of(target), snapshot).ids == first.ids
    after = read_registry(client_of(target))
    assert after == before


def test_what_was_there_before_is_not_deleted(target: SchemaRegistryServer, snapshot: RegistrySnapshot) -> None:
    target.register("s99", avro("Second"))
    register(client_of(target), snapshot)
    living = [v for v in read_registry(client_of(target)).versions if v.subject == "s99" and not v.is_deleted]
    assert len(living) == 3


@pytest.mark.parametrize("kind", ["another id", "another mode", "no mode", "a refused id"])
def test_a_registry_that_keeps_no_ids_is_found_out(
    target: SchemaRegistryServer, snapshot: RegistrySnapshot, kind: str
) -> None:
    def instead(method: str, path: str) -> tuple[int, bytes, dict[str, str]] | None:
        if method == "PUT" and path.startswith("/mode") and kind != "a refused id":
            return {
                "another id": (200, b'{"mode": "IMPORT"}', {}),
                "another mode": (200, b'{"mode": "READWRITE"}', {}),
                "no mode": (405, b"", {}),
            }[kind]
        return (422, b"{}", {}) if kind == "a refused id" and method == "POST" else None

    target.imports, target.interfere = False, instead
    with pytest.raises(IdsNotKept):
        register_same_ids(client_of(target), snapshot)


def test_a_subject_that_exists_with_other_ids_is_not_imported_into(
    target: SchemaRegistryServer, snapshot: RegistrySnapshot
) -> None:
    target.register("s98", avro("Mine"))
    with pytest.raises(IdsNotKept, match="version 1 of 's98' exists already, with id 1"):
        register_same_ids(client_of(target), snapshot)
    assert list(target.subjects["s98"]) == [1]
    assert set(target.modes.values()) == {"READWRITE"}, "no subject stays open for imports"


@pytest.mark.parametrize("was_killed", [True, False])
@pytest.mark.parametrize("after", [0, 1, 30, 62])
def test_an_import_that_broke_off_goes_on(
    target: SchemaRegistryServer, snapshot: RegistrySnapshot, after: int, was_killed: bool
) -> None:
    registrations = 0

    def kill(method: str, path: str) -> tuple[int, bytes, dict[str, str]] | None:
        nonlocal registrations
        registrations += method == "POST" and path.endswith("/versions")
        return (418, b"", {}) if registrations > after else None

    modes = read_modes(client_of(target), snapshot)
    target.interfere = kill
    with pytest.raises((IdsNotKept, BadRegistry)):
        register_same_ids(client_of(target), snapshot, modes)
    target.interfere = lambda _method, _path: None
    if was_killed:  # its last requests were not sent either
        target.modes |= dict.fromkeys(target.subjects, "IMPORT")
    register_same_ids(client_of(target), snapshot, modes)
    copied = read_registry(client_of(target))
    assert set(snapshot.schemas) <= set(copied.schemas)
    assert snapshot.versions == copied.versions
    assert "IMPORT" not in target.modes.values(), "no subject stays open for imports"


def test_a_subject_that_somebody_else_imports_into_is_left_to_them(
    target: SchemaRegistryServer, snapshot: RegistrySnapshot
) -> None:
    """Also where nothing of it is missing: its mode is not that of this import."""
    target.modes["s98"] = "IMPORT"
    with pytest.raises(IdsNotKept, match="subject 's98' has a mode of its own there, 'IMPORT'"):
        register_same_ids(client_of(target), snapshot)
    assert target.modes == {"": "READWRITE", "s98": "IMPORT"}
    del target.modes["s98"]
    register_same_ids(client_of(target), snapshot)
    target.modes["s97"] = "IMPORT"
    register_same_ids(client_of(target), snapshot)
    assert target.modes == {"": "READWRITE", "s98": "READONLY", "s97": "IMPORT"}


@pytest.mark.parametrize(("deletes", "mode"), [(True, None), (False, "READWRITE")])
def test_a_subject_without_a_mode_gets_none(
    target: SchemaRegistryServer, snapshot: RegistrySnapshot, deletes: bool, mode: str | None
) -> None:
    target.deletes_modes = deletes
    target.modes |= {"": "READONLY_OVERRIDE", "s96": "READWRITE"}
    register_same_ids(client_of(target), snapshot)
    assert [target.modes.get(subject) for subject in ("s97", "s96", "s98")] == [mode, "READWRITE", "READONLY"]


def test_how_far_it_is_is_told(target: SchemaRegistryServer, snapshot: RegistrySnapshot) -> None:
    counts: list[int] = []
    register_only(client_of(target), snapshot, on_version=counts.append)
    assert counts == list(range(len(snapshot.versions)))


def test_a_subject_that_is_new_gets_its_compatibility_first(target: SchemaRegistryServer) -> None:
    with serving(SchemaRegistryServer()) as server:
        for name in ("orders-value", "notes-value"):
            server.register(name, avro("A"))
            server.config[name] = {"compatibilityLevel": "NONE"}
        snapshot = read_registry(client_of(server))
    target.register("notes-value", avro("Mine"))
    register(client_of(target), snapshot)
    assert target.config == {"": {"compatibilityLevel": "BACKWARD"}, "orders-value": {"compatibilityLevel": "NONE"}}
    first = next(method for method, path, _ in target.asked if "orders-value" in path and method in {"PUT", "POST"})
    assert first == "PUT"


def test_a_chain_of_references_of_any_length_is_ordered(target: SchemaRegistryServer) -> None:
    """Also where one refers to the next in a circle."""
    count = 3_000
    versions = [SubjectVersion(subject=f"s{n:05}", version=1, id=n) for n in range(count)]
    schemas = [
        StoredSchema(id=n, kind="JSON", text=str(n), references=(reference(f"s{(n + 1) % count:05}"),))
        for n in range(count)
    ]
    ordered = [version.id for version, _ in _in_order(RegistrySnapshot(schemas=(*schemas,), versions=(*versions,)))]
    assert ordered == list(range(count - 1, -1, -1))


def reference(subject: str) -> SchemaReference:
    return SchemaReference(name=subject, subject=subject, version=1)


def test_a_version_that_is_refused_is_named(target: SchemaRegistryServer, snapshot: RegistrySnapshot) -> None:
    def refuse(method: str, path: str) -> tuple[int, bytes, Any] | None:
        is_it = method == "POST" and path == "/subjects/other/versions"
        return (409, b'{"message": "incompatible"}', {}) if is_it else None

    target.interfere = refuse
    assert register(client_of(target), snapshot).refused == ["version 1 of 'other': 409 (incompatible)"]


@pytest.mark.parametrize("number", ["1", None, True, -1, 1 << 31, 1.5])
def test_an_id_that_is_none_is_refused(
    target: SchemaRegistryServer, snapshot: RegistrySnapshot, number: object
) -> None:
    answer = json.dumps({"id": number, "version": 1, "schema": "", "subject": ""}).encode()
    target.interfere = lambda method, _path: (200, answer, {}) if method == "POST" else None
    with pytest.raises(BadRegistry, match="shows a version without its id or number"):
        register(client_of(target), snapshot)


def test_a_login_that_may_only_register_goes_without_compatibility(target: SchemaRegistryServer) -> None:
    with serving(SchemaRegistryServer()) as server:
        server.register("orders-value", avro("A"))
        server.config["orders-value"] = {"compatibilityLevel": "NONE"}
        snapshot = read_registry(client_of(server))
    target.interfere = lambda method, _path: (403, b"{}", {}) if method == "PUT" else None
    assert register(client_of(target), snapshot).refused == []
    with pytest.raises(IdsNotKept, match="this login may not set the mode IMPORT"):
        register_same_ids(client_of(target), RegistrySnapshot(schemas=snapshot.schemas, versions=(VERSION_2,)))


VERSION_2 = SubjectVersion(subject="orders-value", version=2, id=1)


def test_a_version_that_was_deleted_and_registered_again_lives(target: SchemaRegistryServer) -> None:
    with serving(SchemaRegistryServer()) as server:
        server.register("orders-value", avro("A"))
        server.answer("DELETE", "/subjects/orders-value/versions/1", {})
        server.register("orders-value", avro("A"))
        snapshot = read_registry(client_of(server))
    assert [version.is_deleted for version in snapshot.versions] == [True, False]
    register(client_of(target), snapshot)
    assert [version.is_deleted for version in target.subjects["orders-value"].values()] == [False]


def test_a_version_that_was_there_is_not_deleted_though_a_look_up_misses_it(target: SchemaRegistryServer) -> None:
    """A registry may look up a text as it is, and register it by what it says."""
    with serving(SchemaRegistryServer()) as server:
        server.register("orders-value", avro("A"))
        server.answer("DELETE", "/subjects/orders-value/versions/1", {})
        snapshot = read_registry(client_of(server))
    target.register("orders-value", avro("A"))
    look_ups = 0

    def miss(method: str, path: str) -> tuple[int, bytes, dict[str, str]] | None:
        nonlocal look_ups
        look_ups += method == "POST" and path.startswith("/subjects/orders-value?deleted")
        return (404, b"{}", {}) if look_ups == 1 and "?deleted" in path and method == "POST" else None

    target.interfere = miss
    register(client_of(target), snapshot)
    assert [version.is_deleted for version in target.subjects["orders-value"].values()] == [False]


def test_a_subject_that_somebody_closed_is_not_opened(target: SchemaRegistryServer, snapshot: RegistrySnapshot) -> None:
    target.modes["s99"] = "READONLY"
    with pytest.raises(IdsNotKept, match="subject 's99' has a mode of its own there"):
        register_same_ids(client_of(target), snapshot)
    assert target.modes["s99"] == "READONLY"


@pytest.mark.parametrize("status", [422, 403, 200])
def test_what_cannot_be_set_back_is_told(
    target: SchemaRegistryServer, snapshot: RegistrySnapshot, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    registered = register_same_only(client_of(target), snapshot, modes={})
    target.interfere = lambda method, _path: (status, b"{", {}) if method in {"PUT", "DELETE"} else None
    finish(client_of(target), registered, snapshot)
    assert "schema_not_deleted" in caplog.text
    assert "schema_mode_not_set" in caplog.text


def test_a_login_that_may_not_delete_closes_what_it_opened(
    target: SchemaRegistryServer, snapshot: RegistrySnapshot, caplog: pytest.LogCaptureFixture
) -> None:
    """A right of its own at registries with roles."""
    target.interfere = lambda method, _path: (403, b"{}", {}) if method == "DELETE" else None
    register_same_ids(client_of(target), snapshot)
    assert "schema_not_deleted" in caplog.text
    assert "IMPORT" not in target.modes.values()


@pytest.mark.parametrize("name", ["", ".", "..", ":.", ":.west", ":.west:"])
def test_nothing_is_set_for_a_subject_that_a_path_cannot_name(target: SchemaRegistryServer, name: str) -> None:
    """A mode or a compatibility of it would be that of all subjects of the target."""
    schema = StoredSchema(id=9, kind="AVRO", text=avro("X"))
    stranger = RegistrySnapshot(
        schemas=(schema,),
        versions=(SubjectVersion(subject=name, version=1, id=9),),
        settings=(SubjectSettings(subject=name, compatibility="NONE", mode="READONLY"),),
    )
    client = client_of(target)
    assert register(client, stranger).ids == {}
    registered = register_same_ids(client, stranger)
    finish(client, registered, stranger)
    assert target.asked == []
