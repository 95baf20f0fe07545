"""What a restore opens at a registry of the target, it closes again, however it ends."""

from __future__ import annotations

import pytest

from offsite.model.options import SchemaIdsChoice, SchemaIdsWay
from offsite.model.schema_registry import RegistrySnapshot, StoredSchema, SubjectVersion
from offsite.restore.registration import _Registration
from offsite.schemas.read_registry import _Reading
from offsite.schemas.registry_client import RegistryAddress, RegistryClient
from tests.schema_registry import SchemaRegistryServer, serving


@pytest.mark.parametrize("way", [SchemaIdsWay.KEEP, SchemaIdsWay.REWRITE])
@pytest.mark.parametrize("reading", ["read_places", "read_ids"])
def test_an_interrupt_while_schemas_are_read_back_leaves_nothing_open(
    monkeypatch: pytest.MonkeyPatch, reading: str, way: SchemaIdsWay
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    schemas = RegistrySnapshot(
        schemas=(StoredSchema(id=7, kind="AVRO", text='"int"'),),
        versions=(SubjectVersion(subject="a", version=1, id=7, is_deleted=True),),
    )
    with serving(SchemaRegistryServer(hides_deleted=True)) as server:
        registration = _Registration(
            client=RegistryClient(RegistryAddress(url=server.url)),
            schemas=schemas,
            choice=SchemaIdsChoice.DEFAULT,
            keep_modes=dict,
            show=lambda _progress: None,
        )
        monkeypatch.setattr(_Reading, reading, interrupted)
        if reading == "read_ids":
            monkeypatch.setattr(_Reading, "read_places", lambda *_: None)
        with pytest.raises(KeyboardInterrupt):
            registration.carry_out(way)
        assert server.modes == {"": "READWRITE"}
        assert server.subjects["a"][1].is_deleted
