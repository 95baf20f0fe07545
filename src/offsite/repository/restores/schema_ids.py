"""What a restore decided about ids of schemas: one create-only object, stored before the first record is written, and
the schemas of both registries beside it.

They lie with the restore, not with the backup: a backup lets older readings of a registry go, a restore may be compared
for ever. And its workers and later comparisons need neither of the registries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

from offsite.model.errors import DamagedObject
from offsite.model.options import SchemaIdsWay
from offsite.model.schema_registry import MAX_ID, RegistrySnapshot
from offsite.model.untrusted.json_codec import Count, integer_within
from offsite.repository.commit import SnapshotRef
from offsite.repository.json_form import StoredForm
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import put_first
from offsite.repository.segments.body import content_hash
from offsite.repository.snapshots.named_object import get_named, put_named
from offsite.stores.store import Store

_ID = integer_within(0, MAX_ID)


@dataclass(frozen=True, slots=True, kw_only=True)
class MappedId:
    """The schema `id` of the backup has the id `there` at the target."""

    id: Annotated[int, _ID]
    there: Annotated[int, _ID]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimit:
    """The largest batch, in bytes, that the target of source topic `topic` takes."""

    topic: str
    size_bytes: Count


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredSchemaIds:
    """The `way` of a restore with ids of schemas. `registry`: the address of the target's, never a login. `ids`,
    rising: all that are registered there. `limits`: of the source topics. `schemas`: those of the backup, which the
    restore used; `there`: those of the target, as read back. Nothing but way and address, where ids are left."""

    way: SchemaIdsWay
    registry: str
    ids: tuple[MappedId, ...] = ()
    limits: tuple[BatchLimit, ...] = ()
    schemas: SnapshotRef | None = None
    there: SnapshotRef | None = None

    @property
    def by_id(self) -> dict[int, int]:
        return {mapped.id: mapped.there for mapped in self.ids}


_IDS, _SCHEMAS = StoredForm(RestoredSchemaIds), StoredForm(RegistrySnapshot)


def put_schemas(store: Store, layout: RestoreLayout, snapshot: RegistrySnapshot) -> SnapshotRef:
    """Store schemas for `RestoredSchemaIds` to name."""
    return put_named(store, _SCHEMAS.encode(snapshot), recorded=None, key=layout.schemas_key)


def get_schemas(store: Store, ref: SnapshotRef | None) -> RegistrySnapshot:
    """The schemas that `RestoredSchemaIds` names. Raises `DamagedObject`, `FormatTooNew`."""
    if ref is None:
        return RegistrySnapshot()
    return _SCHEMAS.decode(get_named(store, ref, damaged=DamagedObject), key=ref.key)


def put_schema_ids(
    store: Store, layout: RestoreLayout, ids: RestoredSchemaIds, *, on_record: Callable[[str, bytes], None]
) -> None:
    """Store what the restore decided. `on_record` gets key and bytes before. Raises `RestoreTakenOver` if another
    process was faster."""
    data = _IDS.encode(ids)
    on_record(layout.schema_ids_key, data)
    put_first(store, layout, layout.schema_ids_key, data, otherwise="decided about the schema ids of")


def get_schema_ids(store: Store, layout: RestoreLayout) -> tuple[RestoredSchemaIds, SnapshotRef] | None:
    """What the restore decided, with the key and hash of the object; None before. Raises `DamagedObject`,
    `FormatTooNew`."""
    data = store.get(layout.schema_ids_key)
    if data is None:
        return None
    ref = SnapshotRef(key=layout.schema_ids_key, hash=content_hash(data))
    return _IDS.decode(data, key=layout.schema_ids_key), ref


def get_named_ids(store: Store, ref: SnapshotRef) -> RestoredSchemaIds:
    """What `ref` names. Raises `DamagedObject`, also where the object is another one by now."""
    return _IDS.decode(get_named(store, ref, damaged=DamagedObject), key=ref.key)
