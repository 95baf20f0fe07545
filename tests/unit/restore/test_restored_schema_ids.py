"""A restore brings schemas to the registry of the target, and its records mean there what they meant at the source."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from offsite.cli.views.restore import render_what_came_back
from offsite.kafka.protocol.request import Api
from offsite.log.range import TopicPartition
from offsite.log.records.record import Record, partition_for_key
from offsite.model.errors import (
    BadOption,
    KafkaNotAuthorized,
    RestoreRefused,
    RestoreTakenOver,
    SchemasRefused,
    StoreUnavailable,
    TargetNotEmpty,
)
from offsite.model.options import SchemaIdsWay
from offsite.model.selection import parse_selection
from offsite.points.record_rewrite import LeftFields, RewriteCounts
from offsite.repository.layout import is_own_key
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.schema_ids import (
    BatchLimit,
    RestoredSchemaIds,
    get_schema_ids,
    put_schema_ids,
    put_schemas,
)
from offsite.restore import registration, rewritten_ids, run
from offsite.restore.compare.run import CompareRequest, CompareResult, plan_comparison, run_comparison
from offsite.restore.plan_report import report_plan
from offsite.restore.result import RestoreResult
from offsite.schemas.id_rewrite import NO_FIT, NO_SUBJECT
from offsite.stores.posix_store import open_folder
from offsite.upkeep.verification.run import check_records
from tests.fake_cluster.cluster import DENIED
from tests.fake_cluster.site import BACKUP, Site
from tests.framed_topics import (
    KINDS,
    LOOKALIKES,
    ORDER,
    PRICE,
    FramedIds,
    address_of,
    framed,
    meanings,
    reader_of,
    register_kinds,
    snapshot_of,
    take_ids,
    write_records,
)
from tests.schema_registry import SchemaRegistryServer, serving

TAKEN = 20
COUNT = 30
MODES: tuple[dict[str, Any], ...] = ({"offsets": "preserve"}, {"offsets": "translate"}, {"repartition": ["avro=3"]})


@pytest.fixture
def registry() -> Iterator[SchemaRegistryServer]:
    with serving(SchemaRegistryServer()) as server:
        yield server


@pytest.fixture
def there() -> Iterator[SchemaRegistryServer]:
    with serving(SchemaRegistryServer()) as server:
        yield server


@pytest.fixture
def ids(registry: SchemaRegistryServer) -> FramedIds:
    return register_kinds(registry)


def backed_up(site: Site, registry: SchemaRegistryServer, ids: FramedIds, *, codec: int = 4) -> None:
    """Two partitions for each kind of schema, in batches of five records."""
    for kind in KINDS:
        site.source.make_topic(kind, partitions=2, retention_ms="-1")
        for partition in range(2):
            for start in range(0, COUNT, 5):
                records = [ids.record(kind, number + 3 * partition, number) for number in range(start, start + 5)]
                write_records(site.source, kind, records, partition=partition, codec=codec)
    site.back_up("*", registry=registry.url)


def restored(site: Site, there: SchemaRegistryServer, **words: Any) -> RestoreResult:
    return site.restore(registry=address_of(there), **words)


def columns(records: list[Record]) -> tuple[list[bytes | None], list[bytes | None]]:
    return [record.key for record in records], [record.value for record in records]


def check_meanings(site: Site, registry: SchemaRegistryServer, there: SchemaRegistryServer) -> None:
    """Offset by offset the target's records mean to its consumers what the source's mean to theirs."""
    reader_here, reader_there = reader_of(registry), reader_of(there)
    for kind in KINDS:
        for partition in range(2):
            before, after = site.source.read(kind, partition), site.target.read(kind, partition)
            assert [(r.offset, r.timestamp_ms, r.headers) for r in after] == [
                (r.offset, r.timestamp_ms, r.headers) for r in before
            ]
            for old, new in zip(columns(before), columns(after), strict=True):
                assert meanings(reader_there, new) == meanings(reader_here, old)


def test_an_empty_registry_gets_the_schemas_under_their_ids(
    site: Site, registry: SchemaRegistryServer, there: SchemaRegistryServer, ids: FramedIds
) -> None:
    backed_up(site, registry, ids)
    result = restored(site, there)
    assert result.verified is True
    assert snapshot_of(there).schemas == snapshot_of(registry).schemas
    for kind in KINDS:
        assert site.target.read(kind) == site.source.read(kind)
    check_meanings(site, registry, there)


def test_the_same_registry_gets_nothing(site: Site, registry: SchemaRegistryServer, ids: FramedIds) -> None:
    backed_up(site, registry, ids)
    registry.asked.clear()
    result = restored(site, registry)
    assert result.verified is True
    assert {method for method, _, _ in registry.asked} == {"GET"}


@pytest.mark.parametrize("offsets", ["preserve", "translate"])
@pytest.mark.parametrize("codec", [0, 4, *(pytest.param(codec, marks=pytest.mark.soak) for codec in (1, 2, 3))])
def test_over_taken_ids_the_records_are_rewritten(  # noqa: PLR0917
    site: Site, registry: SchemaRegistryServer, there: SchemaRegistryServer, ids: FramedIds, offsets: str, codec: int
) -> None:
    take_ids(there, TAKEN)
    backed_up(site, registry, ids, codec=codec)
    result = restored(site, there, offsets=offsets)
    assert (result.verified, result.findings) == (True, ())
    check_meanings(site, registry, there)
    new = {int.from_bytes((record.value or b"")[1:5], "big") for kind in KINDS for record in site.target.read(kind)}
    assert min(new) > TAKEN


def ids_of(contents: list[bytes | None]) -> set[int]:
    return {int.from_bytes(content[1:5], "big") for content in contents if content}


def registrations(server: SchemaRegistryServer) -> int:
    return sum(method == "POST" and path.endswith("/versions") for method, path, _ in server.asked)


def test_the_counts_say_what_was_changed(
    site: Site, registry: SchemaRegistryServer, there: SchemaRegistryServer, ids: FramedIds
) -> None:
    take_ids(there, TAKEN)
    backed_up(site, registry, ids)
    result = restored(site, there, rename=["avro=copy"])
    assert result.schema_ids is not None
    assert (result.schema_ids.way, result.schema_ids.registry) == (SchemaIdsWay.REWRITE, there.url)
    assert dict(result.schema_ids.topics) == {
        topic: RewriteCounts(changed=2 * 2 * COUNT) for topic in ("copy", "json", "protobuf")
    }
    assert (result.schema_ids.changed, result.schema_ids.left) == (12 * COUNT, 0)


@pytest.mark.parametrize(
    "words", [{"offsets": "preserve"}, {"offsets": "translate"}, {"repartition": ["odd=3", "avro=3"]}]
)
def test_what_only_looks_like_an_id_stays_and_is_counted(
    site: Site, registry: SchemaRegistryServer, there: SchemaRegistryServer, ids: FramedIds, words: dict[str, Any]
) -> None:
    """In a topic without subjects, and in one whose schema does not decode the bytes."""
    take_ids(there, TAKEN)
    site.source.make_topic("odd", retention_ms="-1")
    site.source.write("odd", [b"plain", *LOOKALIKES])
    site.source.make_topic("avro", partitions=2, retention_ms="-1")
    write_records(site.source, "avro", [ids.record("avro", number, number) for number in range(4)])
    broken = framed(ids.by_subject["avro-value"], b"\xff")
    site.source.write("avro", [broken, broken], partition=1)
    site.back_up("*", registry=registry.url)
    result = restored(site, there, **words)
    assert result.verified is True
    odd = [record.value for partition in site.target.topics["odd"].partitions for record in partition.records()]
    assert sorted(filter(None, odd)) == sorted([b"plain", *LOOKALIKES])
    assert result.schema_ids is not None
    assert dict(result.schema_ids.topics) == {
        "odd": RewriteCounts(left=(LeftFields(reason=NO_SUBJECT, partition=0, first_offset=2, fields=2),)),
        "avro": RewriteCounts(changed=8, left=(LeftFields(reason=NO_FIT, partition=1, first_offset=0, fields=2),)),
    }
    assert result.schema_ids.left == 4
    lines = [str(line) for line in render_what_came_back(result)]
    assert f"  8 keys and values have a schema id of {there.url}" in lines
    assert (
        "  LEFT: odd: 2 keys and values begin as those with a schema id of the source do, and stay: no subject of the "
        "topic has the id (first: source partition 0, offset 2)"
    ) in lines


def test_transactions_are_rewritten_whatever_became_of_them(
    site: Site, registry: SchemaRegistryServer, there: SchemaRegistryServer, ids: FramedIds
) -> None:
    take_ids(there, TAKEN)
    site.source.make_topic("avro", retention_ms="-1")
    for number, committed in enumerate([True, False, True, None]):
        values = [ids.value("avro", 10 * number + n) for n in range(3)]
        site.source.write_in_transaction("avro", values, committed=committed)
    site.back_up("*", registry=registry.url)
    result = restored(site, there, offsets="preserve", cut="as-copied")
    assert (result.verified, result.records) == (True, 6)
    before, after = site.source.read("avro"), site.target.read("avro")
    assert [record.offset for record in after] == [record.offset for record in before][: len(after)]
    new = [record.value for record in after]
    old = [record.value for record in before[: len(after)]]
    assert meanings(reader_of(there), new) == meanings(reader_of(registry), old)
    assert len(after) == 11, "the last record of the open transaction is its abort"
    log = site.target.topics["avro"].partitions[0]
    assert log.end == 15


def test_a_repartitioned_record_goes_to_the_partition_of_its_rewritten_key(
    site: Site, registry: SchemaRegistryServer, there: SchemaRegistryServer, ids: FramedIds
) -> None:
    take_ids(there, TAKEN)
    backed_up(site, registry, ids)
    plan = site.plan_restore(registry=address_of(there), repartition=["avro=5"])
    assert any("avro go to the partitions of their rewritten keys" in note for note in report_plan(plan).notes)
    result = restored(site, there, repartition=["avro=5"])
    assert (result.verified, result.topics["avro"].records) == (True, 2 * COUNT)
    assert result.schema_ids is not None
    assert result.schema_ids.topics["avro"] == RewriteCounts(changed=4 * COUNT)
    restored_values: list[bytes | None] = []
    for partition in range(5):
        records = site.target.read("avro", partition)
        assert {partition_for_key(record.key or b"", 5) for record in records} <= {partition}
        restored_values += [record.value for record in records]
    values = [record.value for partition in range(2) for record in site.source.read("avro", partition)]
    old, new = meanings(reader_of(registry), values), meanings(reader_of(there), restored_values)
    assert sorted(map(repr, new)) == sorted(map(repr, old))


def test_a_part_of_a_batch_is_counted_as_far_as_it_is_restored(
    site: Site, registry: SchemaRegistryServer, there: SchemaRegistryServer, ids: FramedIds
) -> None:
    take_ids(there, TAKEN)
    backed_up(site, registry, ids)
    result = restored(site, there, topics=["json"], before=["topic=json,partition=0,offset=7"])
    assert result.schema_ids is not None
    assert (result.records, result.schema_ids.changed) == (7 + COUNT, 2 * (7 + COUNT))


@pytest.mark.parametrize("offsets", ["preserve", "translate"])
def test_batches_that_grew_are_split_at_their_offsets(  # noqa: PLR0917
    site: Site,
    registry: SchemaRegistryServer,
    there: SchemaRegistryServer,
    ids: FramedIds,
    offsets: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    limits = [BatchLimit(topic=kind, size_bytes=300) for kind in KINDS]
    monkeypatch.setattr(registration, "_limits", lambda *_: limits)
    take_ids(there, TAKEN)
    backed_up(site, registry, ids, codec=0)
    result = restored(site, there, offsets=offsets)
    assert (result.verified, result.findings) == (True, ())
    check_meanings(site, registry, there)
    logs = [log for kind in KINDS for log in site.target.topics[kind].partitions]
    sizes = [len(batch) for log in logs for _, batch in log._batches]
    assert max(sizes) <= 300


def test_the_limit_of_each_target_is_stored_with_the_restore(
    site: Site, registry: SchemaRegistryServer, there: SchemaRegistryServer, ids: FramedIds
) -> None:
    take_ids(there, TAKEN)
    backed_up(site, registry, ids)
    for topic, limit in (("small", "2000"), ("tiny", "10")):
        site.source.make_topic(topic, retention_ms="-1", max_message_bytes=limit)
        site.source.write(topic, [b"v"])
    site.back_up()
    site.target.make_topic("json", partitions=2, retention_ms="-1", max_message_bytes="5000")
    stored = stored_ids(site, restored(site, there).restore)
    limits = {limit.topic: limit.size_bytes for limit in stored.limits}
    assert (limits["json"], limits["small"], limits["avro"]) == (5000, 2000, 1024 * 1024 + 12)
    assert limits["tiny"] > 10, "the batches that it has already"


def stored_ids(site: Site, restore: str) -> RestoredSchemaIds:
    stored = get_schema_ids(site.backup.record_store, RestoreLayout(backup=site.backup.layout, restore=restore))
    assert stored is not None
    return stored[0]


def killed(*_: object, **__: object) -> None:
    raise StoreUnavailable("killed", hint="")


def restored_and_killed(site: Site, there: SchemaRegistryServer, place: ModuleType, function: str) -> None:
    """A restore that ends where it would call `function` of the module `place`."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(place, function, killed)
        with pytest.raises(StoreUnavailable):
            restored(site, there)


@pytest.mark.parametrize("taken", [0, TAKEN], ids=["kept", "rewritten"])
def test_a_restore_that_was_killed_before_it_stored_the_ids_registers_nothing_twice(
    site: Site,
    registry: SchemaRegistryServer,
    there: SchemaRegistryServer,
    ids: FramedIds,
    taken: int,
) -> None:
    take_ids(there, taken)
    backed_up(site, registry, ids)
    restored_and_killed(site, there, registration, "put_schema_ids")
    assert site.target.topics == {}
    before, versions = snapshot_of(there), registrations(there)
    assert restored(site, there).verified is True
    assert snapshot_of(there) == before
    assert registrations(there) == versions
    check_meanings(site, registry, there)


def test_a_restore_that_was_killed_before_it_wrote_uses_what_it_stored(
    site: Site,
    registry: SchemaRegistryServer,
    there: SchemaRegistryServer,
    ids: FramedIds,
) -> None:
    take_ids(there, TAKEN)
    backed_up(site, registry, ids)
    restored_and_killed(site, there, run, "_write")
    site.target.make_topic("avro", partitions=2, retention_ms="-1")
    there.asked.clear()
    plan = site.plan_restore(registry=address_of(there))
    assert (plan.resumes, plan.schema_ids.way, plan.schema_ids.decided_before) == (True, SchemaIdsWay.REWRITE, True)
    result = restored(site, there)
    assert (result.resumed, result.verified) == (True, True)
    assert {method for method, _, _ in there.asked} == {"GET"}
    check_meanings(site, registry, there)


@pytest.mark.parametrize("words", MODES)
def test_a_restore_that_stopped_inside_a_partition_goes_on_with_the_same_bytes(
    site: Site, registry: SchemaRegistryServer, there: SchemaRegistryServer, ids: FramedIds, words: dict[str, Any]
) -> None:
    take_ids(there, TAKEN)
    backed_up(site, registry, ids)
    key = Api.PRODUCE, TopicPartition(topic="avro", partition=0)
    site.target.failing[key], site.target.passing[key] = DENIED, 0 if "repartition" in words else 1
    with pytest.raises(KafkaNotAuthorized):
        restored(site, there, topics=["avro"], **words)
    written = sum(log.end for log in site.target.topics["avro"].partitions)
    site.target.failing.clear()
    rewritten_ids._OPENED.clear()
    registry.subjects.clear()
    result = restored(site, there, topics=["avro"], **words)
    assert written < 2 * COUNT
    assert (result.resumed, result.verified, result.records) == (True, True, 2 * COUNT)
    assert result.schema_ids is not None
    assert result.schema_ids.changed == 4 * COUNT


def test_a_registry_in_which_the_ids_mean_something_else_by_now_refuses_the_continuation(
    site: Site, registry: SchemaRegistryServer, there: SchemaRegistryServer, ids: FramedIds
) -> None:
    take_ids(there, TAKEN)
    backed_up(site, registry, ids)
    key = Api.PRODUCE, TopicPartition(topic="avro", partition=0)
    site.target.failing[key], site.target.passing[key] = DENIED, 1
    with pytest.raises(KafkaNotAuthorized):
        restored(site, there, topics=["avro"])
    site.target.failing.clear()
    before = site.target.values("avro")
    for subject in list(there.subjects):
        del there.subjects[subject]
    for number in range(40):
        there.register("others", json.dumps({"type": "record", "name": f"Other{number}", "fields": []}))
    with pytest.raises(SchemasRefused, match="gives 8 schema ids another meaning than when this restore began"):
        restored(site, there, topics=["avro"])
    assert site.target.values("avro") == before


def test_the_ids_of_a_stranger_are_not_followed(
    site: Site,
    registry: SchemaRegistryServer,
    there: SchemaRegistryServer,
    ids: FramedIds,
) -> None:
    take_ids(there, TAKEN)
    backed_up(site, registry, ids)
    restored_and_killed(site, there, run, "_write")
    site.target.make_topic("avro", partitions=2, retention_ms="-1")
    layout = site.plan_restore(registry=address_of(there)).layout
    stored, store = stored_ids(site, layout.restore), site.backup.record_store
    store.delete(layout.schema_ids_key)
    swapped = replace(stored, ids=tuple(replace(mapped, there=stored.ids[0].there) for mapped in stored.ids[:1]))
    put_schema_ids(store, layout, swapped, on_record=lambda _key, _data: None)
    with pytest.raises(RestoreRefused, match="this installation did not write it"):
        restored(site, there)
    assert site.target.values("avro") == []


def test_a_registry_that_keeps_no_ids_turns_the_plan_to_rewriting(
    site: Site, registry: SchemaRegistryServer, there: SchemaRegistryServer, ids: FramedIds
) -> None:
    """As Apicurio, which answers IMPORT, and gives ids of its own."""
    registry.first_id = 100
    registry.subjects.clear()
    ids = register_kinds(registry)
    backed_up(site, registry, ids)
    there.imports = False
    assert site.plan_restore(registry=address_of(there)).schema_ids.way is SchemaIdsWay.KEEP
    with serving(SchemaRegistryServer(imports=False)) as another:
        with pytest.raises(SchemasRefused, match="does not keep the ids of schemas"):
            restored(site, another, schema_ids="keep")
        assert site.target.topics == {}
    result = restored(site, there)
    assert result.schema_ids is not None
    assert (result.verified, result.schema_ids.way) == (True, SchemaIdsWay.REWRITE)
    assert any(f"{there.url} does not keep the ids that it is given" in note for note in result.notes)
    check_meanings(site, registry, there)


def test_a_schema_that_the_registry_refuses_refuses_the_restore_by_name(
    site: Site, registry: SchemaRegistryServer, there: SchemaRegistryServer, ids: FramedIds
) -> None:
    take_ids(there, TAKEN)
    backed_up(site, registry, ids)
    there.interfere = lambda method, path: (
        (409, b'{"message": "incompatible\\u001b[1m"}', {})
        if method == "POST" and path == "/subjects/json-value/versions"
        else None
    )
    with pytest.raises(SchemasRefused) as caught:
        restored(site, there)
    assert "refuses 1 schema of the backup: version 1 of 'json-value': 409 (incompatible" in caught.value.message
    assert caught.value.message.isprintable()
    assert site.target.topics == {}


@pytest.mark.parametrize("taken", [0, TAKEN], ids=["kept", "rewritten"])
def test_a_registry_that_shows_another_kind_than_it_took_is_found_out(
    site: Site, registry: SchemaRegistryServer, there: SchemaRegistryServer, ids: FramedIds, taken: int
) -> None:
    """Apicurio 3.0 takes the kind of a subject's first version for all of them."""
    take_ids(there, taken)
    backed_up(site, registry, ids)

    def instead(method: str, path: str) -> tuple[int, bytes, dict[str, str]] | None:
        if method != "GET" or not path.startswith("/subjects/json-value/versions/"):
            return None
        status, shown = there.answer(method, path, {})
        return status, json.dumps({**shown, "schemaType": "AVRO"} if status == 200 else shown).encode(), {}

    there.interfere = instead
    with pytest.raises(SchemasRefused, match=r"shows 1 schema otherwise than they were registered: id 7 "):
        restored(site, there)
    assert site.target.topics == {}


def test_ids_are_left_where_a_person_says_so(
    site: Site, registry: SchemaRegistryServer, there: SchemaRegistryServer, ids: FramedIds
) -> None:
    take_ids(there, TAKEN)
    backed_up(site, registry, ids)
    result = restored(site, there, schema_ids="leave")
    assert result.verified is True
    assert site.target.read("avro") == site.source.read("avro")
    assert registrations(there) == TAKEN or {path for m, path, _ in there.asked if m != "GET"} == set()
    assert any("schema ids stay as they are: --schema-ids leave" in note for note in result.notes)


@pytest.mark.parametrize("choice", ["keep", "rewrite"])
def test_a_choice_that_cannot_be_carried_out_is_refused_in_the_plan(
    site: Site, registry: SchemaRegistryServer, there: SchemaRegistryServer, choice: str
) -> None:
    site.source.make_topic("plain", retention_ms="-1")
    site.source.write("plain", [b"a"])
    site.back_up("*")
    with pytest.raises(BadOption, match=f"--schema-ids {choice} works only with a registry of the target"):
        site.plan_restore(schema_ids=choice)
    with pytest.raises(SchemasRefused, match="the backup nightly holds no schemas of a registry"):
        site.plan_restore(schema_ids=choice, registry=address_of(there))


def test_ids_that_are_taken_are_not_kept(
    site: Site, registry: SchemaRegistryServer, there: SchemaRegistryServer, ids: FramedIds
) -> None:
    take_ids(there, 3)
    backed_up(site, registry, ids)
    with pytest.raises(SchemasRefused, match="cannot take the schemas under their ids: 3 ids are taken there: 1, 2, 3"):
        site.plan_restore(schema_ids="keep", registry=address_of(there))


def test_another_choice_or_registry_is_another_restore(
    site: Site, registry: SchemaRegistryServer, there: SchemaRegistryServer, ids: FramedIds
) -> None:
    """Records of one restore must not get ids in two ways."""
    take_ids(there, TAKEN)
    backed_up(site, registry, ids)
    key = Api.PRODUCE, TopicPartition(topic="avro", partition=0)
    site.target.failing[key], site.target.passing[key] = DENIED, 1
    with pytest.raises(KafkaNotAuthorized):
        restored(site, there, topics=["avro"])
    site.target.failing.clear()
    with pytest.raises(TargetNotEmpty) as caught:
        site.plan_restore(topics=["avro"])
    assert "to continue it, use the same options again" in caught.value.hint
    assert f"registry={there.url}" in caught.value.hint
    with pytest.raises(TargetNotEmpty):
        site.plan_restore(topics=["avro"], registry=address_of(there), schema_ids="leave")
    assert site.plan_restore(topics=["avro"], registry=address_of(there)).resumes


@pytest.mark.parametrize("words", MODES)
def test_an_earlier_restore_is_compared_by_what_it_stored(
    site: Site, registry: SchemaRegistryServer, there: SchemaRegistryServer, ids: FramedIds, words: dict[str, Any]
) -> None:
    take_ids(there, TAKEN)
    backed_up(site, registry, ids)
    result = restored(site, there, **words)
    there.subjects.clear()
    rewritten_ids._OPENED.clear()
    again = compare(site, result.restore)
    assert (again.verified, again.compared_records) == (True, 6 * COUNT)
    log = site.target.topics["json"].partitions[0]
    write_records(site.target, "json", [Record(log.end, 1, 0, ids.key("json", 1), ids.value("json", 1))])
    assert compare(site, result.restore, exact=True).verified is False


def compare(site: Site, restore: str, **words: Any) -> CompareResult:
    request = CompareRequest(selection=parse_selection(["*"]), restore=restore, **words)
    planned = plan_comparison(site.backup, site.target.admin, request)
    return run_comparison(planned, cluster=site.target.connected, runner=site.runner)


@pytest.mark.parametrize("words", MODES)
def test_the_proof_decodes_by_both_registries_and_finds_a_map_that_is_wrong(  # noqa: PLR0917
    site: Site,
    registry: SchemaRegistryServer,
    there: SchemaRegistryServer,
    ids: FramedIds,
    words: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Bytes of one schema that another one decodes, too: the comparison of bytes alone sees nothing."""
    take_ids(there, TAKEN)
    other = json.dumps({**ORDER, "fields": [{"name": "name", "type": "string"}, {"name": "weight", "type": "long"}]})
    wrong = there.register("wrong", other)
    backed_up(site, registry, ids)
    put = registration.put_schema_ids

    def swapped(store: Any, layout: Any, stored: RestoredSchemaIds, **rest: Any) -> None:
        is_it = ids.by_subject["avro-value"]
        mapped = tuple(replace(pair, there=wrong) if pair.id == is_it else pair for pair in stored.ids)
        there_too = put_schemas(store, layout, snapshot_of(there))
        put(store, layout, replace(stored, ids=mapped, there=there_too), **rest)

    monkeypatch.setattr(registration, "put_schema_ids", swapped)
    result = restored(site, there, topics=["avro"], **words)
    assert result.verified is False
    assert f"the value (schema id {wrong}) does not mean what it means" in result.findings[0].detail


def test_ids_lie_with_the_records_of_a_restore_where_these_are_elsewhere(
    site: Site, registry: SchemaRegistryServer, there: SchemaRegistryServer, ids: FramedIds, tmp_path: Path
) -> None:
    take_ids(there, TAKEN)
    backed_up(site, registry, ids)
    place = tmp_path / "records"
    place.mkdir()
    result = restored(site, there, records=str(place), repartition=["json=3"])
    assert (result.verified, result.findings) == (True, ())
    elsewhere = replace(site, repository=replace(site.repository, records_at=open_folder(place)))
    assert not list(site.repository.store.list(f"backups/{BACKUP}/restores/"))
    rewritten_ids._OPENED.clear()
    assert compare(elsewhere, result.restore).verified is True


def test_schemas_that_become_one_are_told(
    site: Site, registry: SchemaRegistryServer, there: SchemaRegistryServer
) -> None:
    """A registry may have one text under two ids, by imports. Keys of the one and of the other are equal then."""
    for schema_id, subject in ((50, "avro-key"), (51, "shop.Price")):
        registry.modes[subject] = "IMPORT"
        body = {"schema": json.dumps(PRICE), "id": schema_id, "version": 1}
        assert registry.answer("POST", f"/subjects/{subject}/versions", body)[0] == 200
    take_ids(there, 60)
    site.source.make_topic("avro", retention_ms="-1")
    keys = [framed(schema_id, b"\x02") for schema_id in (50, 51)]
    write_records(site.source, "avro", [Record(n, n, 0, key, b"v") for n, key in enumerate(keys)])
    site.back_up("*", registry=registry.url)
    result = restored(site, there)
    assert result.verified is True
    assert len({record.key for record in site.target.read("avro")}) == 1
    assert any("one schema for several of the backup, those of the ids 50, 51" in note for note in result.notes)


def test_what_is_stored_of_ids_is_verified_and_removed_as_all_else(
    site: Site, registry: SchemaRegistryServer, there: SchemaRegistryServer, ids: FramedIds
) -> None:
    take_ids(there, TAKEN)
    backed_up(site, registry, ids)
    restore = restored(site, there).restore
    store, prefix = site.repository.store, site.backup.layout.restores_prefix(restore)
    keys = [info.key for info in store.list(prefix) if "schema" in info.key]
    assert len(keys) == 3
    assert all(map(is_own_key, keys))
    for key in keys:
        data = store.get(key)
        assert data is not None
        store.delete(key)
        store.put_if_absent(key, data.replace(b"AVRO", b"JSON").replace(b"rewrite", b"leave"))
        assert [damage.key for damage in check_records(site.backup).damaged] == [key]
        store.delete(key)
        store.put_if_absent(key, data)
    assert check_records(site.backup).damaged == ()


def test_a_machine_without_a_memory_restores_all_the_same(  # noqa: PLR0917
    site: Site,
    registry: SchemaRegistryServer,
    there: SchemaRegistryServer,
    ids: FramedIds,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    take_ids(there, TAKEN)
    backed_up(site, registry, ids)
    assert restored(site, there, topics=["avro"]).verified is True


def test_of_two_processes_one_decides(
    site: Site,
    registry: SchemaRegistryServer,
    there: SchemaRegistryServer,
    ids: FramedIds,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    take_ids(there, TAKEN)
    backed_up(site, registry, ids)
    put = registration.put_schema_ids

    def after_another(store: Any, layout: Any, stored: RestoredSchemaIds, **more: Any) -> None:
        put(store, layout, replace(stored, way=SchemaIdsWay.LEAVE, ids=()), **more)
        put(store, layout, stored, **more)

    monkeypatch.setattr(registration, "put_schema_ids", after_another)
    with pytest.raises(RestoreTakenOver):
        restored(site, there)
    assert site.target.topics == {}


def test_an_import_whose_process_was_killed_goes_on_to_its_end(
    site: Site,
    registry: SchemaRegistryServer,
    there: SchemaRegistryServer,
    ids: FramedIds,
) -> None:
    """All versions are there. Their subjects are in mode IMPORT, in which no producer can register."""
    backed_up(site, registry, ids)
    restored_and_killed(site, there, registration, "finish")
    assert set(there.modes.values()) == {"READWRITE", "IMPORT"}
    plan = site.plan_restore(registry=address_of(there))
    assert (plan.schema_ids.way, plan.schema_ids.why) == (
        SchemaIdsWay.KEEP,
        "an import of 8 subjects broke off there, and goes on",
    )
    before = registrations(there)
    assert restored(site, there).verified is True
    assert there.modes == {"": "READWRITE"}
    assert registrations(there) == before


def test_modes_that_a_stranger_wrote_open_nothing(
    site: Site,
    registry: SchemaRegistryServer,
    there: SchemaRegistryServer,
    ids: FramedIds,
) -> None:
    """Into the folder of an unfinished restore, whatever it is."""
    backed_up(site, registry, ids)
    restored_and_killed(site, there, registration, "finish")
    store = site.backup.record_store
    (key,) = (info.key for info in store.list(f"backups/{BACKUP}/restores/") if info.key.endswith("import-modes.json"))
    for data in (b"[", (store.get(key) or b"").replace(b"avro", b"json")):
        store.delete(key)
        store.put_if_absent(key, data)
        plan = site.plan_restore(registry=address_of(there))
        assert plan.schema_ids.way is SchemaIdsWay.SAME
        assert len(plan.schema_ids.importing) == 8


def test_an_import_of_somebody_else_is_left_to_them(
    site: Site, registry: SchemaRegistryServer, there: SchemaRegistryServer, ids: FramedIds
) -> None:
    """Another tool may be moving subjects to this registry."""
    there.modes["json-value"] = "IMPORT"
    version = {**registry.subjects["json-value"][1].body, "id": ids.by_subject["json-value"], "version": 1}
    there.answer("POST", "/subjects/json-value/versions", version)
    registry.register("json-value", '{"title": "another"}', schemaType="JSON")
    backed_up(site, registry, ids)
    obstacle = "subject 'json-value' is in mode IMPORT there, set by somebody else"
    assert site.plan_restore(registry=address_of(there)).schema_ids.why == obstacle
    with pytest.raises(SchemasRefused, match=obstacle):
        restored(site, there, schema_ids="keep")
    with pytest.raises(SchemasRefused, match="refuses 1 schema of the backup: version 2 of 'json-value'"):
        restored(site, there)
    assert there.modes == {"": "READWRITE", "json-value": "IMPORT"}
    assert site.target.topics == {}


def test_subjects_that_somebody_else_left_in_an_import_are_told(
    site: Site, registry: SchemaRegistryServer, there: SchemaRegistryServer, ids: FramedIds
) -> None:
    backed_up(site, registry, ids)
    restored(site, there, rename=["*=first-*"])
    there.modes["json-value"] = "IMPORT"
    result = restored(site, there)
    assert result.schema_ids is not None
    assert (result.verified, result.schema_ids.way) == (True, SchemaIdsWay.SAME)
    assert f"no producer can register schemas for json-value at {there.url}: somebody else set the mode IMPORT" in (
        result.notes
    )
    assert there.modes == {"": "READWRITE", "json-value": "IMPORT"}


@pytest.mark.parametrize("taken", [0, TAKEN], ids=["kept", "rewritten"])
def test_a_deleted_subject_whose_versions_are_not_shown_is_known_by_its_ids(
    site: Site, registry: SchemaRegistryServer, there: SchemaRegistryServer, ids: FramedIds, taken: int
) -> None:
    """As at Apicurio, also for a restore that goes on."""
    there.hides_deleted = True
    take_ids(there, taken)
    for subject in ("avro-value", "json-key"):
        registry.answer("DELETE", f"/subjects/{subject}", {})
    backed_up(site, registry, ids)
    assert restored(site, there, rename=["*=first-*"]).verified is True
    assert all(version.is_deleted for version in there.subjects["avro-value"].values())
    key = Api.PRODUCE, TopicPartition(topic="avro", partition=0)
    site.target.failing[key], site.target.passing[key] = DENIED, 1
    with pytest.raises(KafkaNotAuthorized):
        restored(site, there, topics=["avro"])
    site.target.failing.clear()
    result = restored(site, there, topics=["avro"])
    assert (result.resumed, result.verified) == (True, True)


SCHEMA_RECORD = {"subject": "avro-value", "version": 1, "id": 7, "schema": json.dumps(PRICE)}


@pytest.fixture
def with_topic(site: Site) -> Site:
    """A source whose registry keeps its schemas in a topic that clients can read."""
    site.source.make_topic("_schemas", cleanup_policy="compact")
    key = {"keytype": "SCHEMA", "subject": "avro-value", "version": 1}
    site.source.write("_schemas", [json.dumps(SCHEMA_RECORD).encode()], key=json.dumps(key).encode())
    site.source.make_topic("avro", retention_ms="-1")
    site.source.write("avro", [framed(7, b"\x02")])
    site.back_up("*")
    return site


def test_schemas_of_a_topic_are_brought_as_well(with_topic: Site, there: SchemaRegistryServer) -> None:
    take_ids(there, TAKEN)
    result = restored(with_topic, there, exclude=["_schemas"])
    assert (result.verified, result.schema_ids and result.schema_ids.changed) == (True, 1)
    assert with_topic.target.values("avro") == [framed(TAKEN + 1, b"\x02")]


def test_the_topic_of_a_registry_brings_its_own_ids(with_topic: Site, there: SchemaRegistryServer) -> None:
    take_ids(there, TAKEN)
    plan = with_topic.plan_restore(registry=address_of(there))
    assert (plan.schema_ids.way, plan.schema_ids.why) == (
        SchemaIdsWay.LEAVE,
        "the topic of the schema registry is restored along",
    )
    with pytest.raises(BadOption, match="both bring schemas to the target"):
        with_topic.plan_restore(registry=address_of(there), schema_ids="rewrite")
    assert restored(with_topic, there).verified is True
    assert with_topic.target.values("avro") == [framed(7, b"\x02")]
    assert registrations(there) == 0


@pytest.mark.parametrize("taken", [0, TAKEN], ids=["kept", "rewritten"])
def test_topics_whose_schemas_the_backup_lacks_are_named_whatever_becomes_of_the_others(
    site: Site, registry: SchemaRegistryServer, there: SchemaRegistryServer, ids: FramedIds, taken: int
) -> None:
    take_ids(there, taken)
    site.source.make_topic("elsewhere", retention_ms="-1")
    site.source.write("elsewhere", [framed(900, b"text")] * 3)
    backed_up(site, registry, ids)
    notes = report_plan(site.plan_restore(registry=address_of(there))).notes
    assert any(note.startswith("records begin as those with schema ids do in elsewhere (values 900)") for note in notes)


@pytest.mark.parametrize("taken", [0, TAKEN], ids=["kept", "rewritten"])
def test_a_commit_is_restored_with_its_own_versions_though_the_registry_was_emptied_since(
    site: Site, registry: SchemaRegistryServer, there: SchemaRegistryServer, ids: FramedIds, taken: int
) -> None:
    take_ids(there, taken)
    backed_up(site, registry, ids)
    commit = site.backup.state().seq
    registry.subjects.clear()
    write_records(site.source, "avro", [ids.record("avro", 1, COUNT)])
    site.back_up("*", registry=registry.url)
    assert site.backup.state().seq > commit
    result = restored(site, there, commit=commit)
    assert result.verified is True
    assert result.schema_ids is not None
    assert (result.schema_ids.way, result.schema_ids.left) == (
        SchemaIdsWay.REWRITE if taken else SchemaIdsWay.KEEP,
        0,
    )
    assert set(ids.by_subject) <= set(there.subjects)


def test_a_refused_schema_leaves_no_deleted_version_living(
    site: Site, registry: SchemaRegistryServer, there: SchemaRegistryServer, ids: FramedIds
) -> None:
    take_ids(there, TAKEN)
    registry.answer("DELETE", "/subjects/avro-key", {})
    backed_up(site, registry, ids)
    there.interfere = lambda method, path: (
        (409, b"{}", {}) if method == "POST" and path == "/subjects/json-value/versions" else None
    )
    with pytest.raises(SchemasRefused):
        restored(site, there)
    assert [version.is_deleted for version in there.subjects["avro-key"].values()] == [True]
