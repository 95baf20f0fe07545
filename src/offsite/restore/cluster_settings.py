"""A backup's cluster settings on a target: compared for every plan, set only on request. ACLs, quotas, and settings of
groups and of all brokers.

Settings are set after the records are written: a rule or a limit must not stop the restore. Nothing is removed from the
target. A person creates the users, because no backup has their credentials.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from offsite.backup.cluster_settings import ObservedSettings, read_cluster_settings, read_configs
from offsite.kafka.settings import SettingsClient
from offsite.model.cluster_settings import (
    BROKERS,
    GROUPS,
    Acl,
    ClientQuota,
    ClusterSettings,
    QuotaEntity,
    ResourceConfigs,
    ScramUser,
)
from offsite.model.errors import BadOption, DamagedObject, Denied, KafkaNotAuthorized, KafkaUnavailable, OffsiteError
from offsite.repository.snapshots.named_object import get_cluster_snapshot
from offsite.repository.state import BackupState
from offsite.stores.store import Store

ACLS, QUOTAS = "acls", "quotas"
PARTS = (ACLS, QUOTAS, GROUPS, BROKERS)
_HINT = "grant the principal Describe and Alter on the cluster, or restore without cluster settings: --metadata none"
_BY_HAND = (
    "log.retention.",
    "log.cleanup.policy",
    "leader.replication.throttled",
    "follower.replication.throttled",
    "replica.alter.log.dirs.io.max.bytes.per.second",
    "min.insync.replicas",
    "unclean.leader.election.enable",
)
"""Settings of all brokers that a restore never sets: they would delete restored records, name a passing state, or, with
fewer brokers than at the source, stop all writers of the target, even the offsets of groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitChange:
    """One limit of an entity: the value on the target (None: none), and the value in the backup."""

    entity: QuotaEntity
    limit: str
    now: float | None
    then: float

    def __str__(self) -> str:
        return f"{self.entity}: {self.limit} {'none' if self.now is None else f'{self.now:g}'} → {self.then:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """One setting of a group, or of all brokers (`name` empty): the value on the target (None: not set), and the value
    in the backup. `by_hand`: a restore does not set it. Only a forged backup names one broker."""

    kind: str
    name: str
    setting: str
    now: str | None
    then: str
    by_hand: bool = False

    def __str__(self) -> str:
        whose = str(ResourceConfigs(kind=self.kind, name=self.name, configs=()))
        hand = ", by hand: a restore does not set it" if self.by_hand else ""
        return f"{whose}: {self.setting} {'not set' if self.now is None else self.now} → {self.then}{hand}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataPlan:
    """The backup's settings that the target lacks; `apply` names the parts to set. `configs`: settings of groups and of
    all brokers. `users_by_hand` cannot log in on the target until a person creates them. `not_carried`: settings of the
    source that the backup does not hold."""

    apply: tuple[str, ...] = ()
    acls: tuple[Acl, ...] = ()
    limits: tuple[LimitChange, ...] = ()
    users_by_hand: tuple[ScramUser, ...] = ()
    notes: tuple[str, ...] = ()
    not_carried: tuple[str, ...] = ()
    configs: tuple[ConfigChange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedMetadata:
    """Result of setting: the numbers of settings set, and the settings refused by the target with the reasons.
    `not_carried` as in the plan."""

    acls: int = 0
    limits: int = 0
    refused: tuple[str, ...] = ()
    not_carried: tuple[str, ...] = ()
    configs: int = 0


def parse_metadata(text: str) -> tuple[str, ...]:
    """The parts named by a text: `none`, `all`, or parts separated by commas. Raises `BadOption`."""
    named = tuple(sorted({part.strip() for part in text.split(",") if part.strip()}))
    if named == ("none",):
        return ()
    if named == ("all",):
        return PARTS
    if not named or set(named) - set(PARTS):
        raise BadOption(f"{text!r} is not restorable metadata", hint=f"write all, none, or some of {', '.join(PARTS)}")
    return named


def plan_metadata(
    client: SettingsClient, store: Store, point: BackupState, *, topics: Mapping[str, str], apply: tuple[str, ...]
) -> tuple[MetadataPlan, tuple[OffsiteError, ...]]:
    """The plan from comparing `point` with the target, and the errors that stop a restore with a request to set the
    parts; `topics` are the restored topics, source name → target name. Changes nothing."""
    try:
        stored = None if point.metadata is None else get_cluster_snapshot(store, point.metadata)
    except DamagedObject as error:
        return MetadataPlan(apply=apply, notes=(error.message,)), (error,) if apply else ()
    if stored is None:
        note = f"commit {point.seq} has no cluster settings: an older version of offsite made the commit"
        return MetadataPlan(apply=apply, notes=(note,) if apply else ()), ()
    target = read_cluster_settings(client)
    plan, errors = _compared(stored, target, topics, apply), tuple(_not_comparable(target, apply))
    if not stored.configs:
        return plan, errors
    try:
        current = read_configs(client)
    except (Denied, KafkaUnavailable) as error:
        unread = f"settings of groups and brokers of the target could not be read: {error.message}"
        stops = (KafkaNotAuthorized(unread, hint=_HINT),) if {GROUPS, BROKERS} & set(apply) else ()
        return replace(plan, notes=(*plan.notes, unread)), (*errors, *stops)
    return replace(plan, configs=tuple(_config_changes(stored.configs, current))), errors


def _config_changes(stored: Sequence[ResourceConfigs], current: Sequence[ResourceConfigs]) -> Iterator[ConfigChange]:
    target = {(of.kind, of.name, name): value for of in current for name, value in of.configs}
    for of in stored:
        for name, value in of.configs if of.kind in {GROUPS, BROKERS} else ():
            now = target.get((of.kind, of.name, name))
            if now != value:
                by_hand = of.kind == BROKERS and (bool(of.name) or name.startswith(_BY_HAND))
                yield ConfigChange(kind=of.kind, name=of.name, setting=name, now=now, then=value, by_hand=by_hand)


def apply_metadata(client: SettingsClient, plan: MetadataPlan) -> AppliedMetadata:
    """Set the requested parts. May be repeated. Refused settings are listed, and the rest is set."""
    acls = plan.acls if ACLS in plan.apply else ()
    quotas = _quotas(plan.limits) if QUOTAS in plan.apply else ()
    configs = tuple(change for change in plan.configs if change.kind in plan.apply and not change.by_hand)
    acl_problems = client.create_acls(acls) if acls else ()
    quota_problems = client.set_client_quotas(quotas) if quotas else ()
    config_problems = client.set_configs(_by_resource(configs)) if configs else ()
    return AppliedMetadata(
        acls=sum(not problem for problem in acl_problems),
        limits=sum(len(q.limits) for q, problem in zip(quotas, quota_problems, strict=True) if not problem),
        refused=(
            *(f"{acl}: {problem}" for acl, problem in zip(acls, acl_problems, strict=True) if problem),
            *(f"{quota.entity}: {problem}" for quota, problem in zip(quotas, quota_problems, strict=True) if problem),
            *(f"{change}: {problem}" for change, problem in zip(configs, config_problems, strict=True) if problem),
        ),
        configs=sum(not problem for problem in config_problems),
        not_carried=plan.not_carried,
    )


def _by_resource(changes: Sequence[ConfigChange]) -> tuple[ResourceConfigs, ...]:
    """The settings by resource, in the order of the changes."""
    resources: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for change in changes:
        resources.setdefault((change.kind, change.name), []).append((change.setting, change.then))
    return tuple(
        ResourceConfigs(kind=kind, name=name, configs=tuple(configs)) for (kind, name), configs in resources.items()
    )


def _compared(
    stored: ClusterSettings, target: ObservedSettings, topics: Mapping[str, str], apply: tuple[str, ...]
) -> MetadataPlan:
    target_settings = target.settings
    backup_acls = tuple(dict.fromkeys(_renamed(stored.acls or (), topics)))
    return MetadataPlan(
        apply=apply,
        acls=tuple(a for a in backup_acls if a not in (target_settings.acls or ())) if target.has_authorizer else (),
        limits=tuple(_limit_changes(stored.quotas or (), target_settings.quotas or ())),
        users_by_hand=_missing_users(stored.scram_users or (), target_settings.scram_users),
        notes=tuple(_notes(stored, target, topics, backup_acls)),
        not_carried=stored.not_carried,
    )


def _not_comparable(target: ObservedSettings, apply: tuple[str, ...]) -> Iterator[OffsiteError]:
    unread = {ACLS: target.settings.acls, QUOTAS: target.settings.quotas}
    for part in apply:
        if part in unread and unread[part] is None:
            yield KafkaNotAuthorized(f"{part} of the target cannot be compared", hint=_HINT)


def _renamed(acls: Sequence[Acl], topics: Mapping[str, str]) -> Iterator[Acl]:
    """Rules on topics count when they cover a restored topic; a rule on a single topic follows the new name."""
    for acl in acls:
        if acl.resource_type != "TOPIC" or acl.resource == "*" or _covers(acl, topics):
            yield acl
        elif acl.pattern == "LITERAL" and acl.resource in topics:
            yield replace(acl, resource=topics[acl.resource])


def _covers(acl: Acl, topics: Mapping[str, str]) -> bool:
    return acl.pattern == "PREFIXED" and any(name.startswith(acl.resource) for name in topics)


def _limit_changes(backup_quotas: Sequence[ClientQuota], target_quotas: Sequence[ClientQuota]) -> Iterator[LimitChange]:
    current = {(quota.entity, name): value for quota in target_quotas for name, value in quota.limits}
    for quota in backup_quotas:
        for name, value in quota.limits:
            if (now := current.get((quota.entity, name))) != value:
                yield LimitChange(entity=quota.entity, limit=name, now=now, then=value)


def _missing_users(
    backup_users: Sequence[ScramUser], target_users: Sequence[ScramUser] | None
) -> tuple[ScramUser, ...]:
    existing = {(user.name, user.mechanism) for user in target_users or ()}
    return tuple(user for user in backup_users if (user.name, user.mechanism) not in existing)


def _quotas(limits: Sequence[LimitChange]) -> tuple[ClientQuota, ...]:
    entities = dict.fromkeys(change.entity for change in limits)
    return tuple(
        ClientQuota(entity=entity, limits=tuple((c.limit, c.then) for c in limits if c.entity == entity))
        for entity in entities
    )


def _notes(
    stored: ClusterSettings, target: ObservedSettings, topics: Mapping[str, str], backup_acls: Sequence[Acl]
) -> Iterator[str]:
    for part, settings in (
        ("ACLs", stored.acls),
        ("client quotas", stored.quotas),
        ("SCRAM users", stored.scram_users),
    ):
        if settings is None:
            yield f"the backup has no {part}: the run that made the commit could not read them"
    if backup_acls and not target.has_authorizer:
        yield f"the target has no authorizer: {len(backup_acls)} ACLs of the backup are left out"
    if stored.acls or stored.quotas or stored.scram_users:
        yield from (f"on the target, {problem}" for problem in target.not_read)
    for acl in backup_acls:
        lost = [to for name, to in topics.items() if _covers(acl, {name: to}) and not to.startswith(acl.resource)]
        if lost and acl.resource_type == "TOPIC":
            yield f"{acl} does not cover the new name {', '.join(lost)}"
