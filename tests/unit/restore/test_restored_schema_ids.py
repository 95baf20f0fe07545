"""A restore brings schemas to the registry of the target, and its records mean there what they meant at the source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from offsite.log.records.record import Record
from offsite.model.options import SchemaIdsWay
from offsite.restore.plan_report import report_plan
from offsite.restore.result import RestoreResult
from tests.fake_cluster.site import Site
from tests.framed_topics import (
    KINDS,
    LOOKALIKES,
    FramedIds,
    address_of,
    meanings,
    register_kinds,
    snapshot_of,
    take_ids,
    write_records,
)
from tests.schema_registry import SchemaRegistryServer, serving

TAKEN = 20
COUNT = 30


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
    for kind in KINDS:
        for partition in range(2):
            before, after = site.source.read(kind, partition), site.target.read(kind, partition)
            assert [(r.offset, r.timestamp_ms, r.headers) for r in after] == [
                (r.offset, r.timestamp_ms, r.headers) for r in before
            ]
            for old, new in zip(columns(before), columns(after), strict=True):
                assert meanings(there, new) == meanings(registry, old)


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
@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
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
