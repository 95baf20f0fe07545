"""The plan of a restore, decided in full before anything is touched; or the continuation of an unfinished restore."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from offsite.groups.run import check_groups
from offsite.kafka.admin import ClusterAdmin
from offsite.model.errors import NoSuchRestore, OffsiteError, RestoreRefused, TargetNotEmpty
from offsite.model.ids import dated_id
from offsite.model.journal import decided, warned
from offsite.model.selection import GroupPatterns, TopicSelection
from offsite.points.point_in_time import PointInTime, SelectedChains, select_chains
from offsite.points.restore_point import FixedPoint, find_commit, find_point
from offsite.points.source_view import check_left_out, check_readable
from offsite.repository.backup import Backup
from offsite.repository.heads import check_to_read
from offsite.repository.lease import ProcessIdentity
from offsite.repository.records_place import GIVEN_AGAIN, record_places, writing_records
from offsite.repository.restores.layout import RestoreLayout
from offsite.repository.restores.record import (
    RestoreRecord,
    UnreadableRestore,
    find_successor,
    try_unfinished_restores,
    without_last_steps,
)
from offsite.repository.restores.schema_ids import get_schema_ids
from offsite.repository.restores.topic_settings import TargetTopicSettings
from offsite.restore.cluster_settings import MetadataPlan, plan_metadata
from offsite.restore.groups_outlook import GroupOutlook, foresee_groups, unrequested_share_groups
from offsite.restore.import_modes import earlier_modes
from offsite.restore.offsets import (
    BY_COORDINATOR,
    DIRECT,
    TRANSACTION_OPEN_MAX_S,
    OffsetsRules,
    OffsetsVerdict,
    find_diskless,
    slow_transaction,
)
from offsite.restore.preflight import check_settings, raise_problems, read_circumstances
from offsite.restore.request import RestoreRequest, encode_request
from offsite.restore.schema_ids import PlannedRegistry, SchemaIds, SchemaIdsRules
from offsite.restore.set_aside import with_originals
from offsite.restore.target_topics import read_targets
from offsite.restore.unfinished_aside import UnfinishedRestore, began_here, unfinished_asides
from offsite.restore.write.plan import RestorePlan, TargetTopic, plan_restore, target_names
from offsite.schemas.registry_client import RegistryAddress
from offsite.stores.open_store import open_store

IN_USE = "the schema registry of this cluster uses the topic, and the schemas exist already"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRestore:
    """A decided restore: nothing was touched yet. `record`: of an unfinished restore to continue, else new; `resumes`
    tells which. `unfinished`: further restores into this cluster with settings set aside. `outlook`: where the
    requested groups will continue. `group_note`: the share groups that nobody requested; empty without any.
    `schema_ids`: the topics with ids of a schema registry, and what is done about the ids; `registry`: that of the
    target, if it is named."""

    backup: Backup
    record: RestoreRecord
    resumes: bool
    plan: RestorePlan
    point: PointInTime
    metadata: MetadataPlan
    offsets: tuple[OffsetsVerdict, ...]
    request: RestoreRequest
    unfinished: tuple[UnfinishedRestore, ...] = ()
    outlook: GroupOutlook | None = None
    group_note: str = ""
    schema_ids: SchemaIds = field(default_factory=SchemaIds)
    registry: PlannedRegistry | None = None

    @property
    def adopts(self) -> bool:
        """Whether another installation, or an unknown one, began the restore, and a person decided to continue here."""
        return self.request.resume == self.record.restore

    @property
    def groups(self) -> GroupPatterns:
        return self.request.groups

    @property
    def layout(self) -> RestoreLayout:
        return RestoreLayout(backup=self.backup.layout, restore=self.record.restore)


def prepare_restore(
    backup: Backup, admin: ClusterAdmin, request: RestoreRequest, *, registry: RegistryAddress | None = None
) -> PlannedRestore:
    """The decided restore; changes nothing. Looks for an unfinished restore of the same request, begun by this
    installation or named by the request, and plans to continue at the commit of its begin. If none of its target topics
    exists any more, plans a new restore instead. `registry`: that of the target, where schemas are brought to.

    Raises `NoSuchRestorePoint`, `NoSuchRestore` for an unknown restore named by the request, `CommitsGone`, and the
    errors of `plan_restore`, `check_readable` and `SchemaIdsRules.foresee`; `RestoreRefused` for a place unfit for
    records of this backup.
    """
    request = replace(request, registry="" if registry is None else registry.url)
    if request.records is not None:
        backup = backup.with_records_at(open_store(request.records))
    situation = _Situation.read(backup, admin, request)
    backup, unfinished = situation.backup, situation.unfinished
    point = situation.point()
    # 1. Chains to read, and the target topics that exist.
    selected = select_chains(point, request.selection).copyable()
    check_left_out(selected.chains, backup.store)
    names = target_names(selected, request.renames)
    existing = [] if unfinished else read_targets(admin, names.values(), now_ms=situation.now_ms)
    plan = situation.plan(selected, existing)
    # 2. Settings of the cluster and of the target topics; topics that keep their offsets. Raises all problems at once.
    metadata, unset = plan_metadata(admin.settings, backup.store, point.state, topics=names, apply=request.metadata)
    settings, problems = situation.settings(plan, existing)
    offsets = situation.offsets(plan, point, existing, find_diskless(existing, settings))
    situation.refuse((*problems, *unset), existing)
    # 3. The record, with the original settings that other unfinished restores have set aside.
    asides = situation.asides()
    record = unfinished or replace(
        situation.new_record(plan, point),
        settings=with_originals(settings, existing, asides),
        preserved=tuple(sorted(verdict.target for verdict in offsets if verdict.preserve)),
    )
    schema_ids, planned_registry = situation.schema_ids(plan, point, registry)
    return PlannedRestore(
        backup=backup,
        record=record,
        resumes=unfinished is not None,
        plan=plan,
        point=point,
        metadata=metadata,
        offsets=offsets,
        request=request,
        unfinished=asides,
        outlook=foresee_groups(backup, record, plan, request.groups, admin.groups),
        group_note=unrequested_share_groups(backup, point.commit, names, request.groups),
        schema_ids=schema_ids,
        registry=planned_registry,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Situation:
    """What a restore is planned on: the backup, the target cluster `cluster_id`, and the `unfinished` restore of the
    same request to continue, whose restore point is fixed."""

    backup: Backup
    admin: ClusterAdmin
    request: RestoreRequest
    cluster_id: str
    now_ms: int
    unfinished: RestoreRecord | None

    @classmethod
    def read(cls, backup: Backup, admin: ClusterAdmin, request: RestoreRequest) -> _Situation:
        cluster_id = admin.cluster().cluster_id
        with writing_records(backup):  # reading a store's time writes an object
            now_ms = backup.record_store.now_ms()
        unfinished = _unfinished(backup, admin, request, cluster_id)
        is_named = request.is_named or unfinished is not None
        return cls(
            backup=backup.for_reading(is_named=is_named, as_of=request.as_of_head),
            admin=admin,
            request=request,
            cluster_id=cluster_id,
            now_ms=now_ms,
            unfinished=unfinished,
        )

    def point(self) -> PointInTime:
        check_to_read(self.backup, accept_rollback=self.request.accept_rollback)
        fixed = FixedPoint.of_restore(self.unfinished) if self.unfinished else None
        point = find_point(self.backup, self.request, fixed, cut=self.request.cut)
        check_groups(point.state, self.request.groups)
        return point

    def plan(self, selected: SelectedChains, existing: Sequence[TargetTopic]) -> RestorePlan:
        plan = plan_restore(
            selected,
            renames=self.request.renames,
            existing={target.topic for target in existing},
            counts=self.request.repartition,
        )
        check_readable(plan.all_chains, self.backup.store)
        if self.backup.descriptor.cluster_id != self.cluster_id:
            return plan
        return without_live_schemas(plan, self.request.selection, existing, self.unfinished)

    def offsets(
        self, plan: RestorePlan, point: PointInTime, existing: Sequence[TargetTopic], diskless: Collection[str]
    ) -> tuple[OffsetsVerdict, ...]:
        missing = self.admin.missing_for_outcomes()
        way = replace(BY_COORDINATOR, missing=missing) if missing else DIRECT
        open_max_s = way.open_part * TRANSACTION_OPEN_MAX_S
        rules = OffsetsRules(
            point=point,
            request=self.request,
            existing=existing,
            unfinished=self.unfinished,
            diskless=diskless,
            way=way,
            cannot_replay=self.admin.cannot_replay(),
            find_slow=partial(slow_transaction, store=self.backup.store, open_max_s=open_max_s, way=way),
        )
        return rules.decide(plan)

    def settings(
        self, plan: RestorePlan, existing: Sequence[TargetTopic]
    ) -> tuple[tuple[TargetTopicSettings, ...], tuple[OffsiteError, ...]]:
        """The settings of the target topics, and their problems."""
        if self.unfinished:
            return (), ()
        circumstances = read_circumstances(self.admin, self.request, now_ms=self.now_ms)
        return check_settings(self.admin, plan.topics, existing, circumstances)

    def schema_ids(
        self, plan: RestorePlan, point: PointInTime, registry: RegistryAddress | None
    ) -> tuple[SchemaIds, PlannedRegistry | None]:
        """What the restore does with ids of schemas; an earlier run of the same restore may have decided it."""
        stored = None
        if self.unfinished is not None:
            layout = RestoreLayout(backup=self.backup.layout, restore=self.unfinished.restore)
            stored = get_schema_ids(self.backup.record_store, layout)
        rules = SchemaIdsRules(
            backup=self.backup,
            commit=point.commit,
            choice=self.request.schema_ids,
            registry=registry,
            is_other_cluster=self.backup.descriptor.cluster_id != self.cluster_id,
            stored=None if stored is None else stored[0],
            modes={} if registry is None else earlier_modes(self.backup, registry.url),
        )
        return rules.foresee(plan)

    def refuse(self, problems: Sequence[OffsiteError], existing: Sequence[TargetTopic]) -> None:
        """Raise all of `problems` as one error; for a continued restore, they were asked before."""
        try:
            raise_problems(() if self.unfinished else problems)
        except (TargetNotEmpty, RestoreRefused) as error:
            raise _with_way_on(self.backup, self.cluster_id, existing, error) from error

    def asides(self) -> tuple[UnfinishedRestore, ...]:
        """Further unfinished restores into this cluster, with the settings that they have set aside."""
        unfinished = unfinished_asides(self.backup, but=self.unfinished.restore if self.unfinished else "")
        return tuple(aside for aside in unfinished if aside.record.cluster_id == self.cluster_id)

    def new_record(self, plan: RestorePlan, point: PointInTime) -> RestoreRecord:
        return RestoreRecord(
            restore=dated_id(self.now_ms),
            commit=plan.commit,
            cluster_id=self.cluster_id,
            request=encode_request(self.request),
            isolation=str(self.request.isolation),
            offsets=str(self.request.offsets),
            created_at_ms=self.now_ms,
            topics=tuple(sorted((topic.source.topic, topic.target) for topic in plan.topics)),
            created=tuple(sorted(topic.target for topic in plan.topics if topic.create)),
            until_ms=point.until_ms,
            cut=point.cut.choice,
            incarnations=tuple(sorted((topic.source.topic, topic.source.topic_id) for topic in plan.topics)),
        )


def newer_commit(prepared: PlannedRestore) -> int | None:
    """The commit that the request means by now, when later than the restored commit. None also when unknown: a restore
    does not fail because of the question."""
    try:
        head = prepared.backup.sound_state()
        meant = find_commit(prepared.backup, prepared.request, head, cut=prepared.request.cut)
    except OffsiteError as error:
        warned("newer_commit", why=f"it is unknown whether there is a newer commit: {error.message}")
        return None
    return meant if meant > prepared.record.commit else None


def _unfinished(backup: Backup, admin: ClusterAdmin, request: RestoreRequest, cluster_id: str) -> RestoreRecord | None:
    """The newest restore without a report, begun here by this very request or named by the request. None when nothing
    can be continued: a later restore took its place, or all its target topics are gone and no process holds the
    restore."""
    matching = [
        record
        for record in _readable(backup)
        if record.identity == (cluster_id, without_last_steps(encode_request(request)))
    ]
    counts = partial(_counts, backup, request)
    newest = max(filter(counts, matching), key=lambda record: record.created_at_ms, default=None)
    if request.resume is not None and (newest is None or newest.restore != request.resume):
        raise NoSuchRestore(
            f"backup {backup.descriptor.name} has no unfinished restore {request.resume} for this request into this "
            "cluster, or has a newer restore",
            hint=(
                "use the same options as the command that began the restore, and the restore id that it printed; "
                f"{GIVEN_AGAIN}"
            ),
        )
    for record in matching:
        if not counts(record):
            why = "this machine did not begin it, so it is not continued"
            warned("restore_claimed", restore=record.restore, why=why)
    if newest is None or find_successor(backup.record_store, backup.layout, newest, accepts=counts) is not None:
        return None
    return newest if _can_go_on(backup, admin, newest) else None


def _counts(backup: Backup, request: RestoreRequest, record: RestoreRecord) -> bool:
    return record.restore == request.resume or began_here(backup, record)


def _readable(backup: Backup) -> Iterator[RestoreRecord]:
    """The unfinished restores. An unreadable restore is not continued; while a process holds it, no other restore
    begins beside (see `lease`)."""
    for restore in try_unfinished_restores(backup.record_store, backup.layout):
        if isinstance(restore, UnreadableRestore):
            warned("restore_unreadable", restore=restore.restore, why=restore.problem)
        else:
            yield restore


def _with_way_on(backup: Backup, cluster_id: str, existing: Sequence[TargetTopic], error: OffsiteError) -> OffsiteError:
    """The error; with the way to continue when an unfinished restore with other options has filled the topics."""
    for place in record_places(backup):
        if (way := _way_on(place, cluster_id, existing)) is not None:
            way = way if place.records_at is backup.records_at else f"{way}, without --records"
            return type(error)(error.message, hint=f"{way}; {error.hint}")
    return error


def _way_on(backup: Backup, cluster_id: str, existing: Sequence[TargetTopic]) -> str | None:
    filled = {target.topic for target in existing if target.records}
    records = [record for record in _readable(backup) if record.cluster_id == cluster_id]
    for record in sorted(records, key=partial(began_here, backup), reverse=True):
        ours, is_begun_here = sorted(filled & {target for _, target in record.topics}), began_here(backup, record)
        counts = partial(began_here, backup)
        if not ours or find_successor(backup.record_store, backup.layout, record, accepts=counts) is not None:
            continue
        words = ", ".join(f"{name}={text}" for name, text in record.request)
        advice = (
            f"{ours[0]} belongs to the unfinished restore {record.restore}: to continue it, use the same options again"
        )
        if not is_begun_here:
            advice = (
                f"{ours[0]} belongs, according to its record, to the unfinished restore {record.restore}, and this "
                "machine did not begin that restore. Only if another machine of yours began it: use the same options "
                f"with --resume {record.restore}"
            )
        return f"{advice} ({words})"
    return None


def _can_go_on(backup: Backup, admin: ClusterAdmin, record: RestoreRecord) -> bool:
    targets = {target for _, target in record.topics}
    if targets & admin.topics().keys():
        return True
    lease = RestoreLayout(backup=backup.layout, restore=record.restore).lease(backup.record_store)
    if lease.holder(asking=ProcessIdentity.current()) is not None:
        return True
    decided("begins_anew", why="none of its target topics exists now", restore=record.restore)
    return False


def without_live_schemas(
    plan: RestorePlan, selection: TopicSelection, existing: Sequence[TargetTopic], unfinished: RestoreRecord | None
) -> RestorePlan:
    """A plan for the backup's own cluster, less the schemas topic when the topic is in use and nobody named it: a
    backup includes the topic unasked, and on this cluster the ids in the records mean the same. A continued restore
    leaves out the topics of its first run."""
    in_use = {target.topic for target in existing if target.records}
    for topic in plan.topics:
        name = topic.source.topic
        unasked = topic.source.holds_schemas and name == topic.target and name not in selection.include
        skipped = name not in dict(unfinished.topics) if unfinished else name in in_use
        if unasked and skipped and len(plan.topics) > 1:
            return _without(plan, name)
    return plan


def _without(plan: RestorePlan, name: str) -> RestorePlan:
    return replace(
        plan,
        topics=tuple(topic for topic in plan.topics if topic.source.topic != name),
        partitions=tuple(partition for partition in plan.partitions if partition.chain.source.topic != name),
        repartitions=tuple(repartition for repartition in plan.repartitions if repartition.target != name),
        holes=tuple(hole for hole in plan.holes if hole.partition_id.topic != name),
        skipped=(*plan.skipped, (name, IN_USE)),
    )
