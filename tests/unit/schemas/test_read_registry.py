"""A registry is read whole, whatever its server leaves out of which list."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from offsite.model.errors import BadRegistry, RegistryUnavailable
from offsite.model.schema_registry import RegistrySnapshot, SchemaReference, SubjectSettings, SubjectVersion
from offsite.schemas import read_registry as reading
from offsite.schemas.read_registry import read_registry
from offsite.schemas.registry_client import RegistryAddress, RegistryClient
from tests.schema_registry import SchemaRegistryServer, Version, serving
from tests.virtual_time import VirtualClock


@pytest.fixture
def server() -> Iterator[SchemaRegistryServer]:
    with serving(SchemaRegistryServer()) as server:
        yield server


def client_of(server: SchemaRegistryServer) -> RegistryClient:
    return RegistryClient(RegistryAddress(url=server.url))


def read(server: SchemaRegistryServer, earlier: RegistrySnapshot | None = None) -> RegistrySnapshot:
    return read_registry(client_of(server), earlier=earlier)


def avro(name: str, **more: object) -> str:
    return json.dumps({"type": "record", "name": name, "fields": [{"name": "x", "type": "int"}], **more})


@pytest.mark.parametrize("lists", [True, False], ids=["with a list of schemas", "with a list without ids"])
@pytest.mark.parametrize("pages", [True, False], ids=["in pages", "at once"])
def test_schemas_with_references_are_read_from_every_kind_of_server(*, lists: bool, pages: bool) -> None:
    with serving(SchemaRegistryServer(lists=lists, pages=pages, page_max=30)) as server:
        for number in range(101):
            used = [{"name": "n", "subject": f"s{number // 3 - 1}", "version": 1}] if number > 3 else []
            server.register(f"s{number}", avro(f"R{number}"), references=used)
        snapshot = read(server)
    assert len(snapshot.schemas) == len(snapshot.versions) == 101
    assert {schema.text for schema in snapshot.schemas} == {avro(f"R{number}") for number in range(101)}
    assert snapshot.by_version["s99", 1].references == (SchemaReference(name="n", subject="s32", version=1),)
    assert [schema.text for schema in snapshot.with_references(snapshot.by_version["s30", 1])] == [
        avro("R2"),
        avro("R9"),
        avro("R30"),
    ]
    assert snapshot.unread == ()


def test_deleted_versions_and_subjects_are_read_and_marked(server: SchemaRegistryServer) -> None:
    first, second = server.register("a", avro("A")), server.register("a", avro("B"))
    server.register("b", avro("A"))
    server.answer("DELETE", "/subjects/a/versions/1", {})
    server.answer("DELETE", "/subjects/b", {})
    assert read(server).versions == (
        SubjectVersion(subject="a", version=1, id=first, is_deleted=True),
        SubjectVersion(subject="a", version=2, id=second),
        SubjectVersion(subject="b", version=1, id=first, is_deleted=True),
    )


def test_a_deleted_version_that_the_server_lists_and_does_not_show_is_named() -> None:
    with serving(SchemaRegistryServer(hides_deleted=True, lists=False)) as server:
        server.register("a", avro("A"))
        server.register("b", avro("B"))
        server.answer("DELETE", "/subjects/b", {})
        snapshot = read(server)
    assert [version.subject for version in snapshot.versions] == ["a"]
    assert snapshot.unread == ("version 1 of 'b' is listed or used, and not shown",)


@pytest.mark.parametrize(("subjects", "doubts"), [(250, 1), (200, 1), (199, 0)])
def test_a_list_without_pages_that_ends_at_a_round_number_is_doubted(subjects: int, doubts: int) -> None:
    with serving(SchemaRegistryServer(pages=False, list_max=200)) as server:
        for number in range(subjects):
            server.register(f"s{number}", '"int"')
        unread = read(server).unread
    assert unread == ("200 subjects are listed, and no next page: there may be more",)[:doubts]


def test_own_settings_of_subjects_are_read_and_inherited_ones_are_not(server: SchemaRegistryServer) -> None:
    for subject in ("a", "b", "c"):
        server.register(subject, avro(subject))
    server.config["a"] = {"compatibilityLevel": "FULL", "normalize": True}
    server.config["b"] = {"compatibilityLevel": "BACKWARD"}
    server.modes["c"] = "READONLY"
    assert read(server).settings == (
        SubjectSettings(subject="", compatibility="BACKWARD", mode="READWRITE"),
        SubjectSettings(subject="a", compatibility="FULL", more='{"normalize":true}'),
        SubjectSettings(subject="c", mode="READONLY"),
    )


def test_names_metadata_and_kinds_are_kept(server: SchemaRegistryServer) -> None:
    rules = {"domainRules": [{"name": "r"}]}
    server.register("we/ird ü%?-value", '"string"', metadata={"properties": {"b": "1", "a": "2"}}, ruleSet=rules)
    server.register("p", 'syntax = "proto3";', schemaType="PROTOBUF")
    snapshot = read(server)
    schema = snapshot.by_version["we/ird ü%?-value", 1]
    assert (schema.kind, json.loads(schema.more)) == (
        "AVRO",
        {"metadata": {"properties": {"a": "2", "b": "1"}}, "ruleSet": rules},
    )
    assert snapshot.by_version["p", 1].kind == "PROTOBUF"


def test_each_context_has_ids_of_its_own(server: SchemaRegistryServer) -> None:
    server.register("a", avro("A"))
    server.register(":.west:a", avro("W"))
    snapshot = read(server)
    assert {place: schema.text for place, schema in snapshot.by_id.items()} == {
        ("", 1): avro("A"),
        ("west", 1): avro("W"),
    }
    assert snapshot.by_version[":.west:a", 1].text == avro("W")


def test_a_schema_that_was_deleted_for_ever_stays_known(server: SchemaRegistryServer) -> None:
    server.register("a", avro("A"))
    server.register("b", avro("B"))
    before = read(server)
    server.answer("DELETE", "/subjects/a?permanent=true", {})
    after = read(server, before)
    assert [(schema.id, schema.is_gone) for schema in after.schemas] == [(1, True), (2, False)]
    assert [version.subject for version in after.versions] == ["b"]
    assert read(server, after) == after
    server.subjects["a"] = {1: Version(1, {"schema": avro("A")})}
    assert read(server, after) == before


def test_what_is_gone_does_not_grow_for_ever(server: SchemaRegistryServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reading may find all schemas replaced."""
    monkeypatch.setattr(reading, "TEXT_BYTES_MAX", 1_000)
    server.register("a", avro("A", doc="x" * 600))
    before = read(server)
    server.first_id, server.subjects = 2, {}
    server.register("a", avro("B", doc="x" * 600))
    with pytest.raises(BadRegistry, match="those that it has no longer, are longer than"):
        read(server, before)


def test_another_registry_in_its_place_is_refused(server: SchemaRegistryServer) -> None:
    server.register("a", avro("A"))
    before = read(server)
    server.subjects["a"][1].body = {"schema": avro("Other")}
    with pytest.raises(BadRegistry, match="gives id 1 another meaning than an earlier commit"):
        read(server, before)


def test_the_same_schema_with_other_blanks_has_the_same_meaning(server: SchemaRegistryServer) -> None:
    server.register("a", avro("A"))
    before = read(server)
    server.subjects["a"][1].body = {"schema": json.dumps(json.loads(avro("A")), indent=1)}
    assert read(server, before).schemas != before.schemas


def test_an_id_with_two_meanings_is_refused(server: SchemaRegistryServer) -> None:
    server.subjects = {"a": {1: Version(7, {"schema": avro("A")})}, "b": {1: Version(7, {"schema": avro("B")})}}
    with pytest.raises(BadRegistry, match="gives id 7 two meanings, one as version 1 of 'b'"):
        read(server)


def test_a_schema_that_was_registered_meanwhile_and_used_at_once_is_read(server: SchemaRegistryServer) -> None:
    server.register("a", avro("A"))

    def register(_method: str, target: str) -> None:
        if target.startswith("/subjects/a/versions?") and "new" not in server.subjects:
            server.register("new", avro("N"))
            server.register("a", avro("U"), references=[{"name": "N", "subject": "new", "version": 1}])

    server.interfere, server.lists = register, False
    snapshot = read(server)
    assert snapshot.by_version["new", 1].text == avro("N")
    assert snapshot.unread == ()


@pytest.mark.parametrize(
    ("target", "answer", "problem"),
    [
        ("/subjects?", b'{"a": 1}', "answers /subjects with no list"),
        ("/subjects?", b'["a", 7]', "lists a subject that is no name"),
        ("/subjects/a/versions?", b'["1"]', "lists a version of 'a' that is no number"),
        ("/subjects/a/versions?", b"[99999999999]", "lists a version of 'a' that is no number"),
        ("/subjects/a/versions/1", b"[]", "shows version 1 of 'a' as no object"),
        ("/subjects/a/versions/1", b'{"subject":"a","version":2,"id":1,"schema":""}', "another version"),
        ("/subjects/a/versions/1", b'{"subject":"a","version":1,"id":-1,"schema":""}', "field 'id' is not"),
        ("/subjects/a/versions/1", b'{"subject":"a","version":1,"id":1,"schema":"\\ud800"}', "no Unicode"),
        ("/config/a", b'{"compatibilityLevel": 7}', "settings of 'a' that are no words"),
        ("/subjects?", b"<html>", "not JSON"),
        ("/subjects?", b"[" * 100_000, "nests too deep"),
    ],
)
def test_an_answer_of_another_form_is_refused(
    server: SchemaRegistryServer, target: str, answer: bytes, problem: str
) -> None:
    server.register("a", avro("A"))
    server.lists = False
    server.interfere = lambda _method, asked: (200, answer, {}) if asked.startswith(target) else None
    with pytest.raises(BadRegistry, match=problem):
        read(server)


def test_an_endless_list_of_subjects_ends(server: SchemaRegistryServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "SUBJECTS_MAX", 2_000)
    server.interfere = lambda _method, target: (200, json.dumps([f"{target}-{n}" for n in range(1000)]).encode(), {})
    with pytest.raises(BadRegistry, match="more than 2,000 subjects"):
        read(server)


def test_texts_that_are_too_long_together_are_refused(
    server: SchemaRegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "TEXT_BYTES_MAX", 200)
    for name in "abcd":
        server.register(name, avro(name))
    with pytest.raises(BadRegistry, match="are longer than"):
        read(server)


@pytest.mark.parametrize("lists", [True, False])
def test_a_reading_ends_before_the_answers_fill_the_memory(monkeypatch: pytest.MonkeyPatch, *, lists: bool) -> None:
    monkeypatch.setattr(reading, "TEXT_BYTES_MAX", 20_000)
    with serving(SchemaRegistryServer(lists=lists)) as server:
        for number in range(400):
            server.register("a", avro(f"A{number}", doc="x" * 1_000))
        with pytest.raises(BadRegistry, match="are longer than"):
            read(server)
        assert len(server.asked) < 60


@pytest.mark.parametrize(
    "answer",
    [
        ("/subjects/a/versions/1?", {"references": [{"name": "n", "subject": "a", "version": 1}] * 1_000}),
        ("/subjects/a/versions/1?", {"schemaType": "x" * 50_000}),
        ("/config/a", {"compatibilityLevel": "BACKWARD", "more": "x" * 50_000}),
        ("/mode/a", {"mode": "x" * 50_000}),
    ],
    ids=["references", "type", "settings", "mode"],
)
def test_everything_that_is_kept_counts(
    server: SchemaRegistryServer, monkeypatch: pytest.MonkeyPatch, answer: tuple[str, dict[str, object]]
) -> None:
    monkeypatch.setattr(reading, "TEXT_BYTES_MAX", 40_000)
    server.register("a", avro("A"))
    server.lists = False
    target, members = answer
    data = json.dumps({"subject": "a", "version": 1, "id": 1, "schema": avro("A"), **members}).encode()
    server.interfere = lambda _method, asked: (200, data, {}) if asked.startswith(target) else None
    with pytest.raises(BadRegistry, match="are longer than"):
        read(server)


def test_a_long_list_of_versions_is_refused_at_once(server: SchemaRegistryServer) -> None:
    """To look each of them up in the list would take hours."""
    server.register("a", avro("A"))
    numbers = json.dumps(list(range(1, 1_000_000))).encode()
    server.interfere = lambda _method, target: (200, numbers, {}) if target.startswith("/subjects/a/versions") else None
    with pytest.raises(BadRegistry, match="more than 200,000 versions"):
        read(server)


@pytest.mark.parametrize("name", ["", ".", "..", ":.", ":.west", ":.west:", ":.west:.."])
def test_a_subject_that_a_path_cannot_name_is_not_asked_for(server: SchemaRegistryServer, name: str) -> None:
    """Its settings would be those of all subjects, or of a context."""
    server.register("a", avro("A"))
    server.lists = False
    names = json.dumps(["a", name]).encode()
    server.interfere = lambda _method, target: (200, names, {}) if target.startswith("/subjects?") else None
    snapshot = read(server)
    assert {version.subject for version in snapshot.versions} == {"a"}
    assert snapshot.unread == ("a subject whose name no request can name is listed, and not read",)
    paths = {target.partition("?")[0] for _, target, _ in server.asked}
    assert paths == {
        *("/subjects", "/schemas", "/subjects/a/versions", "/subjects/a/versions/1"),
        *("/config", "/config/a", "/mode", "/mode/a"),
    }


def test_a_slow_registry_ends_the_reading(server: SchemaRegistryServer) -> None:
    server.register("a", avro("A"))
    clock = VirtualClock()
    server.interfere = lambda _method, _target: clock.sleep(reading.READ_LIMIT_S + 1)  # type: ignore[func-returns-value]
    with pytest.raises(RegistryUnavailable, match="was not read within 900 s"):
        read_registry(client_of(server), clock=clock)


def test_an_interrupted_reading_ends_all_requests(
    server: SchemaRegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    client = client_of(server)
    monkeypatch.setattr(client, "get", interrupted)
    with pytest.raises(KeyboardInterrupt):
        read_registry(client)
    with pytest.raises(RegistryUnavailable, match="is not asked any more"):
        client.send("GET", "subjects")


def test_an_empty_registry_is_read(server: SchemaRegistryServer) -> None:
    snapshot = read(server)
    assert snapshot == replace(RegistrySnapshot(), settings=snapshot.settings)
