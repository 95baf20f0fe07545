"""Brings the schemas of a backup into the registry of the target, before a restore writes its first record, and decides
which ids its records get.

A status proves nothing: Apicurio takes a schema of one kind and shows it as one of another. So all that was registered
is read back, and compared with what the backup holds. The decision is stored once; a continued restore uses it
unchanged. A crash before it is stored costs nothing: a schema that is there already is found, not registered again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from offsite.engine.runner import OnProgress, RunProgress
from offsite.kafka.admin import ClusterAdmin
from offsite.model.bounds import setting_number
from offsite.model.clock import SystemClock
from offsite.model.errors import DamagedObject, SchemasRefused
from offsite.model.journal import decided
from offsite.model.names import amount, named
from offsite.model.options import SchemaIdsChoice, SchemaIdsWay
from offsite.model.schema_registry import RegistrySnapshot, context_of
from offsite.points.point_in_time import PartitionChain
from offsite.repository.local_memory import check_own, note_written
from offsite.repository.restores.schema_ids import (
    BatchLimit,
    MappedId,
    RestoredSchemaIds,
    get_schema_ids,
    put_schema_ids,
    put_schemas,
)
from offsite.restore.import_modes import keep_modes
from offsite.restore.lease import RestoreLease
from offsite.restore.plan import PlannedRestore
from offsite.restore.preflight import read_broker_defaults
from offsite.restore.rewritten_ids import IdRewrite
from offsite.restore.schema_ids import PlannedRegistry
from offsite.restore.write.plan import BATCH_LIMIT
from offsite.schemas.meaning import other_meanings
from offsite.schemas.read_registry import read_versions, with_ids
from offsite.schemas.register import IdsNotKept, Registered, finish, read_modes, register, register_same_ids
from offsite.schemas.registry_client import RegistryClient

_NAMED_MAX = 5


def bring_schemas(
    prepared: PlannedRestore, admin: ClusterAdmin, lease: RestoreLease, *, on_progress: OnProgress | None = None
) -> PlannedRestore:
    """The restore with the ids that its records get: registered, stored, and part of its chains. Without a registry the
    restore as it is. `on_progress` gets how many versions are registered, as a note. Raises `SchemasRefused`,
    `RestoreRefused` where a stranger wrote the decision, the errors of the registry, and those of the store."""
    if prepared.registry is None:
        return prepared
    store, layout = prepared.backup.record_store, prepared.layout
    if get_schema_ids(store, layout) is not None:
        check_own(store, layout, layout.schema_ids_key)
    else:
        lease.check()
        ids = _registered_ids(prepared, prepared.registry, admin, lease.watch_progress(on_progress))
        lease.check()
        put_schema_ids(store, layout, ids, on_record=partial(note_written, store))
    stored = get_schema_ids(store, layout)
    if stored is None:
        raise DamagedObject(f"{layout.schema_ids_key} was written but is missing", hint="run the same command again")
    ids, ref = stored
    planned = prepared.schema_ids
    why = planned.why if ids.way is planned.way else f"{planned.registry} does not keep the ids that it is given"
    prepared = replace(prepared, schema_ids=replace(planned, way=ids.way, why=why, merged=_merged(ids)))
    return _with_rewrite(prepared, IdRewrite(ref=ref)) if ids.way is SchemaIdsWay.REWRITE else prepared


def _merged(ids: RestoredSchemaIds) -> tuple[int, ...]:
    counts = Counter(mapped.there for mapped in ids.ids)
    return tuple(mapped.id for mapped in ids.ids if counts[mapped.there] > 1)


def _registered_ids(
    prepared: PlannedRestore, planned: PlannedRegistry, admin: ClusterAdmin, show: OnProgress
) -> RestoredSchemaIds:
    """Register what the plan says, and return what is to be stored."""
    store, layout, way = prepared.backup.record_store, prepared.layout, prepared.schema_ids.way
    if way is SchemaIdsWay.LEAVE:
        return RestoredSchemaIds(way=way, registry=planned.address.url)
    registration = _Registration(
        client=RegistryClient(planned.address),
        schemas=planned.schemas,
        choice=prepared.request.schema_ids,
        keep_modes=partial(keep_modes, prepared.backup, layout, planned.address.url, earlier=planned.modes),
        show=show,
    )
    way, ids, there = registration.carry_out(way)
    return RestoredSchemaIds(
        way=way,
        registry=planned.address.url,
        ids=tuple(MappedId(id=schema_id, there=ids[schema_id]) for schema_id in sorted(ids)),
        limits=tuple(_limits(prepared, admin)) if way is SchemaIdsWay.REWRITE else (),
        schemas=put_schemas(store, layout, planned.schemas),
        there=put_schemas(store, layout, there) if way is SchemaIdsWay.REWRITE else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Registration:
    """The registration of `schemas` at one registry, as a person chose. `keep_modes` gets the modes of subjects there
    before an import opens them, and returns those of before all runs."""

    client: RegistryClient
    schemas: RegistrySnapshot
    choice: SchemaIdsChoice
    keep_modes: Callable[[Mapping[str, str]], dict[str, str]]
    show: OnProgress
    began_s: float = field(default_factory=SystemClock().monotonic_s)

    def carry_out(self, way: SchemaIdsWay) -> tuple[SchemaIdsWay, dict[int, int], RegistrySnapshot]:
        """The way that was possible, the ids there of all schemas that were registered, and the schemas as read back
        (none where no id changes)."""
        if way is SchemaIdsWay.SAME:
            same = {version.id for version in self.schemas.versions if not context_of(version.subject)}
            return way, {schema_id: schema_id for schema_id in same}, RegistrySnapshot()
        if way is SchemaIdsWay.KEEP:
            try:
                return way, self._kept(), RegistrySnapshot()
            except IdsNotKept as error:
                if self.choice is SchemaIdsChoice.KEEP:
                    raise SchemasRefused(
                        f"{self.client.place} does not keep the ids of schemas: {error}",
                        hint="use --schema-ids rewrite; what was registered until now stays there, under other ids",
                    ) from error
                decided("schema_ids_rewritten", why=f"the registry does not keep ids: {error}")
        registered = register(self.client, self.schemas, on_version=self._show)
        try:
            return SchemaIdsWay.REWRITE, registered.ids, self._checked(registered)
        finally:
            finish(self.client, registered, self.schemas)

    def _checked(self, registered: Registered) -> RegistrySnapshot:
        """What was registered under other ids, as read back. Raises `SchemasRefused`."""
        if registered.refused:
            raise SchemasRefused(
                f"{self.client.place} refuses {amount(len(registered.refused), 'schema')} of the backup: "
                f"{named(registered.refused, most=_NAMED_MAX, of='schemas')}",
                hint="make the registry take them (its compatibility or mode), or use --schema-ids leave; then run the "
                "same command again: no record was written",
            )
        there, changed = self._read_back(registered)
        if changed:
            raise SchemasRefused(
                f"{self.client.place} shows {amount(len(changed), 'schema')} otherwise than they were registered: "
                f"{self._named(changed)}",
                hint="restore into another registry, or use --schema-ids leave; no record was written",
            )
        return there

    def _kept(self) -> dict[int, int]:
        """Register under the same ids. Raises `IdsNotKept`."""
        modes = self.keep_modes(read_modes(self.client, self.schemas))
        registered = register_same_ids(self.client, self.schemas, modes=modes, on_version=self._show)
        try:
            _, changed = self._read_back(registered)
        finally:
            finish(self.client, registered, self.schemas)
        if changed:
            raise IdsNotKept(f"it shows others than were registered: {self._named(changed)}")
        return registered.ids

    def _read_back(self, registered: Registered) -> tuple[RegistrySnapshot, tuple[int, ...]]:
        """The schemas as the registry shows them, and the ids of the backup that mean something else there. By a client
        of its own: an interrupt closes it, and what was opened is closed by the other."""
        client = self.client.anew()
        there = with_ids(client, read_versions(client, registered.places), registered.ids.values())
        return there, other_meanings(self.schemas, there, registered.ids)

    def _show(self, done: int) -> None:
        """Tell how far it is. Raises `RestoreTakenOver` soon after another process has taken over."""
        total = sum(not context_of(version.subject) for version in self.schemas.versions)
        progress = RunProgress(
            tasks_total=1,
            tasks_done=0,
            tasks_failed=0,
            moved_bytes=0,
            records=0,
            elapsed_s=SystemClock().monotonic_s() - self.began_s,
            worker_peak_rss_bytes=0,
            note=f"{done:,} of {amount(total, 'version of a schema', 'versions of schemas')} registered",
        )
        self.show(progress)

    def _named(self, ids: tuple[int, ...]) -> str:
        subjects = self.schemas.subjects
        names = [f"id {schema_id} ({min(subjects.get(schema_id, ['']))[:100]!r})" for schema_id in ids]
        return named(names, most=_NAMED_MAX)


def _limits(prepared: PlannedRestore, admin: ClusterAdmin) -> Iterator[BatchLimit]:
    """The largest batch that each target takes once it is restored."""
    defaults = read_broker_defaults(admin.settings)
    settings = {decision.topic: decision for decision in prepared.record.settings}
    existing = [decision.topic for decision in prepared.record.settings if not decision.create]
    configs = admin.topic_configs(existing, with_defaults=True) if existing else {}
    for topic in prepared.plan.topics:
        decision = settings[topic.target]
        at_end = {name: value for name, value in decision.at_end if value is not None}
        own = dict(configs.get(topic.target, {})) or dict(decision.configs) | at_end
        limit_bytes = setting_number(own, BATCH_LIMIT, defaults.max_batch_bytes)
        yield BatchLimit(topic=topic.source.topic, size_bytes=max(limit_bytes, topic.largest_batch_bytes))


def _with_rewrite(prepared: PlannedRestore, rewrite: IdRewrite) -> PlannedRestore:
    def change(chain: PartitionChain) -> PartitionChain:
        return replace(chain, rewrite=rewrite)

    return replace(
        prepared,
        plan=prepared.plan.with_chains(change),
        offsets=tuple(verdict.with_chains(change) for verdict in prepared.offsets),
    )
