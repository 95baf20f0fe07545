"""A plan names the topics with schema ids, where they were seen, and what they mean at the registry of the target."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import fastavro
import pytest

from offsite.model.errors import RegistryUnavailable
from offsite.restore.plan_report import report_plan
from offsite.restore.schema_ids import SchemaIds
from offsite.restore.topics_with_ids import TopicWithIds
from offsite.schemas.registry_client import RegistryAddress, RegistryClient
from tests.fake_cluster.site import Site
from tests.schema_registry import SchemaRegistryServer, serving

ITEM = {"type": "record", "name": "Item", "fields": [{"name": "sku", "type": "string"}]}
PROTO = 'syntax = "proto3"; message Event { string text = 1; }'


def framed(schema_id: int, payload: bytes = b"?") -> bytes:
    return b"\0" + schema_id.to_bytes(4, "big") + payload


def item(schema_id: int, sku: str = "a") -> bytes:
    fastavro.schemaless_writer(out := io.BytesIO(), fastavro.parse_schema(ITEM), {"sku": sku})
    return framed(schema_id, out.getvalue())


@pytest.fixture
def registry() -> Iterator[SchemaRegistryServer]:
    with serving(SchemaRegistryServer(first_id=7)) as server:
        server.register("orders-value", json.dumps(ITEM))
        yield server


@pytest.fixture
def there() -> Iterator[SchemaRegistryServer]:
    with serving(SchemaRegistryServer()) as server:
        yield server


def backed_up(site: Site, registry: str = "", **topics: list[bytes | None]) -> None:
    for topic, values in topics.items():
        site.source.make_topic(topic)
        site.source.write(topic, values)
    site.back_up(*topics, registry=registry or None)


def planned(site: Site, there: SchemaRegistryServer | None = None, **words: Any) -> SchemaIds:
    return site.plan_restore(registry=None if there is None else RegistryAddress(url=there.url), **words).schema_ids


def test_topics_with_ids_are_named_and_others_are_not(site: Site, registry: SchemaRegistryServer) -> None:
    backed_up(site, registry.url, orders=[item(7)] * 3, text=[b"\0text"] * 3, more=[item(7), b"plain"])
    assert planned(site).topics == (TopicWithIds(topic="orders", values=(7,)),)
    (note,) = (note for note in report_plan(site.plan_restore()).notes if "schema ids" in note)
    assert "schema ids are in the records of orders (values 7): over another registry" in note
    assert "--registry URL" in note


def test_what_only_looks_like_an_id_is_no_claim(site: Site, registry: SchemaRegistryServer) -> None:
    """An id under a subject of the topic, over bytes that the schema does not decode; and one of no subject."""
    backed_up(site, registry.url, orders=[framed(7, b"\xff"), framed(7, b""), b"plain"], more=[item(7), b"a", b"b"])
    assert planned(site) == SchemaIds()


def test_without_schemas_the_bytes_are_described_and_nothing_is_claimed(site: Site) -> None:
    backed_up(site, orders=[item(7), item(8), None, item(7)])
    assert planned(site).topics == (TopicWithIds(topic="orders", values=(7, 8), is_proven=False),)
    (note,) = planned(site).notes
    assert note.startswith("records begin as those with schema ids do in orders (values 7, 8), and the backup has no")
    assert "if they are ids" in note


@pytest.mark.parametrize(
    "values",
    [
        [framed(7), framed(7)],
        [framed(7), framed(7), b"text"],
        [framed(0)] * 3,
        [framed(number) for number in range(1, 7)],
        [(1_700_000_000_000 + number).to_bytes(8, "big") for number in range(5)],
        [b"\0\0\0\0\7"] * 3,
    ],
    ids=["few", "not all", "no id", "many ids", "times", "nothing behind"],
)
def test_bytes_that_may_be_anything_are_passed_over(site: Site, values: list[bytes | None]) -> None:
    backed_up(site, orders=values)
    assert planned(site) == SchemaIds()


def test_on_the_cluster_of_the_backup_ids_keep_their_meaning(site: Site, registry: SchemaRegistryServer) -> None:
    backed_up(site, registry.url, orders=[item(7)])
    plan = site.plan_restore(into=site.source, rename=["orders=again"])
    assert plan.schema_ids == SchemaIds()


def test_a_registry_that_gives_every_id_the_same_meaning_ends_the_worry(
    site: Site, registry: SchemaRegistryServer
) -> None:
    registry.register("events-value", PROTO, schemaType="PROTOBUF")
    backed_up(site, registry.url, orders=[item(7)])
    with serving(SchemaRegistryServer(first_id=7)) as there:
        there.register("other-value", json.dumps(ITEM, indent=1))
        there.register("other-value", PROTO.replace("; ", ";\n  "), schemaType="PROTOBUF")
        seen = planned(site, there)
        assert (seen.held, seen.other) == (2, ())
        assert list(seen.notes) == [f"{there.url} gives 2 schema ids of the backup the same meaning"]


def test_ids_that_mean_something_else_there_are_named_with_their_topics(
    site: Site, registry: SchemaRegistryServer, there: SchemaRegistryServer
) -> None:
    registry.register("notes-value", '{"title": "Note"}', schemaType="JSON")
    backed_up(site, registry.url, orders=[item(7)], notes=[framed(8, b"{}")])
    for number in range(7):
        there.register(f"s{number}", json.dumps({**ITEM, "name": f"Other{number}"}))
    there.register("notes-value", '{"title":"Note"}', schemaType="JSON")
    first, second, third = planned(site, there, schema_ids="leave").notes
    assert first == f"1 of 2 schema ids of the backup mean something else at {there.url}, or nothing: 7"
    assert second == "schema ids stay as they are: --schema-ids leave"
    assert third.startswith("schema ids are in the records of orders (values 7): ")


def test_a_schema_that_is_used_counts_as_well(
    site: Site, registry: SchemaRegistryServer, there: SchemaRegistryServer
) -> None:
    there.first_id = 7
    user = '{"type": "record", "name": "Use", "fields": [{"name": "item", "type": "Item"}]}'
    for server, part in ((registry, ITEM), (there, {**ITEM, "doc": "another"})):
        server.register("orders-value", json.dumps(part))
        uses = [{"name": "Item", "subject": "orders-value", "version": 1}]
        server.register("uses-value", user, references=uses)
    backed_up(site, registry.url, orders=[item(7)])
    assert planned(site, there).other == (7, 8)


def test_a_registry_is_no_help_where_the_backup_has_no_schemas(site: Site, there: SchemaRegistryServer) -> None:
    backed_up(site, orders=[b"plain"])
    assert list(planned(site, there).notes) == [
        f"the backup holds no schemas: nobody can tell what the ids in its records mean at {there.url}"
    ]


def test_a_registry_that_was_asked_for_and_does_not_answer_is_an_error(
    site: Site, registry: SchemaRegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults = {**(RegistryClient.__init__.__kwdefaults__ or {}), "outage_max_s": 0.0}
    monkeypatch.setattr(RegistryClient.__init__, "__kwdefaults__", defaults)
    backed_up(site, registry.url, orders=[item(7)])
    registry.interfere = lambda _method, _target: (503, b"", {})
    with pytest.raises(RegistryUnavailable):
        planned(site, registry)


def test_a_damaged_segment_says_nothing_of_ids(site: Site, registry: SchemaRegistryServer) -> None:
    backed_up(site, registry.url, orders=[item(7)])
    prepared = site.plan_restore()
    (chain,) = prepared.plan.all_chains
    (segment,) = chain.segments
    path = site.repository.store
    data = path.get(segment.key)
    assert data is not None
    path.delete(segment.key)
    path.put_if_absent(segment.key, data[:-1] + bytes([data[-1] ^ 1]))
    assert planned(site).topics == ()


def test_the_result_of_a_restore_says_it_again(site: Site, registry: SchemaRegistryServer) -> None:
    backed_up(site, registry.url, orders=[item(7)])
    assert any("schema ids are in the records of orders" in note for note in site.restore().notes)
