"""The KafkaUser resources of a restore point's cluster settings, and what no KafkaUser can say. Pure.

Strimzi has one user for each resource, and the name of the resource is that of the user: `User:NAME` in Kafka, or
`User:CN=NAME` with a certificate of Strimzi. So a user with another name has no resource. Source: Strimzi's user
operator (`KafkaUserModel`, `SimpleAclRule`), `api` 0.51.0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from offsite.archives.strimzi.manifest import Manifest, is_name, manifest
from offsite.model.cluster_settings import Acl, ClusterSettings, QuotaEntity, ScramUser
from offsite.model.options import StrimziVersion

_USER, _CERTIFICATE = "User:", "CN="
_CN_MAX_CHARS = 64
"""Strimzi refuses a longer name of a user with a certificate."""
_SCRAM, _TLS = "SCRAM-SHA-512", "tls"
_RESOURCES = {"TOPIC": "topic", "GROUP": "group", "CLUSTER": "cluster", "TRANSACTIONAL_ID": "transactionalId"}
_PATTERNS = {"LITERAL": "literal", "PREFIXED": "prefix"}
_CLUSTER_RESOURCE = "kafka-cluster"
_OPERATIONS = {
    "ALL": "All",
    "READ": "Read",
    "WRITE": "Write",
    "CREATE": "Create",
    "DELETE": "Delete",
    "ALTER": "Alter",
    "DESCRIBE": "Describe",
    "CLUSTER_ACTION": "ClusterAction",
    "DESCRIBE_CONFIGS": "DescribeConfigs",
    "ALTER_CONFIGS": "AlterConfigs",
    "IDEMPOTENT_WRITE": "IdempotentWrite",
}
_PERMISSIONS = {"ALLOW": "allow", "DENY": "deny"}
_WHOLE_LIMITS = {
    "producer_byte_rate": "producerByteRate",
    "consumer_byte_rate": "consumerByteRate",
    "request_percentage": "requestPercentage",
}
_WHOLE_MAX = 2**31 - 1
"""The API server takes more, and then the User Operator cannot read the resource (`Integer` in `KafkaUserQuotas`)."""
_LIMITS = {**_WHOLE_LIMITS, "controller_mutation_rate": "controllerMutationRate"}


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaUsers:
    """The resources, and a sentence for everything of the users and their rights that they leave out."""

    manifests: tuple[Manifest, ...]
    not_said: tuple[str, ...]


class _NotSaid(Exception):
    """Why no KafkaUser can say something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _User:
    """What the cluster knows of a user, as far as a KafkaUser can say it. `authentication`: empty for a user who logs
    in by something that Strimzi does not make, such as OAuth."""

    authentication: str = ""
    acls: list[Acl] = field(default_factory=list)
    limits: dict[str, float] = field(default_factory=dict)


def kafka_users(settings: ClusterSettings, *, cluster: str, version: StrimziVersion) -> KafkaUsers:
    """The users who have a SCRAM password, a rule or a quota, by name. Passwords are in no backup: Strimzi makes them.
    SCRAM users come first: a name that they have is theirs."""
    users = dict[str, _User]()
    not_said = [f"{part}: the run that made the restore point could not read them" for part in _unread(settings)]
    for subject, add in _parts(settings):
        try:
            add(users)
        except _NotSaid as reason:
            not_said.append(f"{subject}: {reason}")
    manifests = tuple(
        manifest("KafkaUser", name, _spec(user), cluster=cluster, version=version)
        for name, user in sorted(users.items())
    )
    return KafkaUsers(manifests=manifests, not_said=tuple(not_said))


def _unread(settings: ClusterSettings) -> Iterator[str]:
    parts = {"ACLs": settings.acls, "client quotas": settings.quotas, "SCRAM users": settings.scram_users}
    return (part for part, value in parts.items() if value is None)


def _parts(settings: ClusterSettings) -> Iterator[tuple[str, Callable[[dict[str, _User]], None]]]:
    """Each part of the settings, as a person reads it, and what adds it to the users or raises `_NotSaid`."""
    for scram_user in settings.scram_users or ():
        yield f"SCRAM user {scram_user}", partial(_add_scram, scram_user)
    for acl in settings.acls or ():
        yield f"ACL {acl}", partial(_add_acl, acl)
    for quota in settings.quotas or ():
        for limit, value in quota.limits:
            yield f"quota {limit} {value:g} of {quota.entity}", partial(_add_limit, quota.entity, limit, value)


def _add_scram(scram_user: ScramUser, users: dict[str, _User]) -> None:
    if scram_user.mechanism != _SCRAM:
        raise _NotSaid(f"Strimzi makes users of {_SCRAM} alone")
    if not is_name(scram_user.name):
        raise _NotSaid(f"no KafkaUser may have the name {scram_user.name}")
    users[scram_user.name] = _User(authentication="scram-sha-512")


def _add_acl(acl: Acl, users: dict[str, _User]) -> None:
    if acl.resource_type not in _RESOURCES:
        raise _NotSaid(f"Strimzi has no rules on {acl.resource_type}")
    if acl.operation not in _OPERATIONS:
        raise _NotSaid(f"Strimzi has no operation {acl.operation}")
    if acl.pattern not in _PATTERNS or acl.permission not in _PERMISSIONS:
        raise _NotSaid("Strimzi has no such pattern or permission")
    if acl.resource_type == "CLUSTER" and (acl.resource, acl.pattern) != (_CLUSTER_RESOURCE, "LITERAL"):
        raise _NotSaid(f"Strimzi has rules on the cluster {_CLUSTER_RESOURCE} alone")
    if not acl.principal.startswith(_USER):
        raise _NotSaid("Strimzi has users alone")
    _user_of(acl.principal.removeprefix(_USER), users).acls.append(acl)


def _add_limit(entity: QuotaEntity, limit: str, value: float, users: dict[str, _User]) -> None:
    if len(entity.parts) != 1 or entity.parts[0][0] != "user" or not entity.parts[0][1]:
        raise _NotSaid("Strimzi has quotas of single users alone")
    if limit not in _LIMITS:
        raise _NotSaid("a KafkaUser has no such limit")
    if not 0 <= value < math.inf:
        raise _NotSaid("a KafkaUser has no such number")
    if limit in _WHOLE_LIMITS and not (value.is_integer() and value <= _WHOLE_MAX):
        raise _NotSaid(f"a KafkaUser has a whole number up to {_WHOLE_MAX:,} there")
    _user_of(entity.parts[0][1], users).limits[limit] = value


def _user_of(principal: str, users: dict[str, _User]) -> _User:
    """The user of a principal, added where it is new. Raises `_NotSaid`."""
    name = principal.removeprefix(_CERTIFICATE)
    authentication = _TLS if principal.startswith(_CERTIFICATE) else ""
    if not is_name(name) or (authentication and len(name) > _CN_MAX_CHARS):
        raise _NotSaid(f"no KafkaUser may be for the user {principal}")
    user = users.setdefault(name, _User(authentication=authentication))
    if (user.authentication == _TLS) != bool(authentication):
        raise _NotSaid(f"the KafkaUser {name} is for another user, who logs in otherwise")
    return user


def _spec(user: _User) -> Manifest:
    acls = _rules(user.acls)
    quotas = {_LIMITS[limit]: _number(value) for limit, value in sorted(user.limits.items())}
    return {
        **({"authentication": {"type": user.authentication}} if user.authentication else {}),
        **({"authorization": {"type": "simple", "acls": acls}} if acls else {}),
        **({"quotas": quotas} if quotas else {}),
    }


def _rules(acls: Sequence[Acl]) -> list[Manifest]:
    """One rule for each resource, host and permission, with all its operations."""
    operations: dict[Acl, list[str]] = {}
    for acl in sorted(acls):
        operations.setdefault(replace(acl, operation=""), []).append(_OPERATIONS[acl.operation])
    return [_rule(acl, named) for acl, named in operations.items()]


def _rule(acl: Acl, operations: Sequence[str]) -> Manifest:
    named = {"name": acl.resource, "patternType": _PATTERNS[acl.pattern]} if acl.resource_type != "CLUSTER" else {}
    return {
        "type": _PERMISSIONS[acl.permission],
        "resource": {"type": _RESOURCES[acl.resource_type], **named},
        "operations": list(operations),
        **({"host": acl.host} if acl.host != "*" else {}),
    }


def _number(value: float) -> int | float:
    return int(value) if value.is_integer() else value
