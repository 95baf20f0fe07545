"""Contents of a cluster besides topics and groups: access rules, quotas, and SCRAM users. Never a secret."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from offsite.model.untrusted.json_codec import Form, ObjectFirst, Spare

BROKERS, GROUPS = "brokers", "groups"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Acl:
    """One rule, in the words of `kafka-acls.sh` (`TOPIC`, `PREFIXED`, `READ`, `ALLOW`). An unknown code stays a number,
    so that the rule is kept and can be set again."""

    resource_type: str
    resource: str
    pattern: str
    principal: str
    host: str
    operation: str
    permission: str

    def __str__(self) -> str:
        where = "" if self.host == "*" else f" from {self.host}"
        return (
            f"{self.permission} {self.principal}{where} {self.operation} on "
            f"{self.resource_type} {self.pattern}:{self.resource}"
        )


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class QuotaEntity:
    """The entity limited by a quota: (`user`, `client-id` or `ip`, name) pairs, sorted. An empty name is the default of
    all."""

    parts: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return ", ".join(f"{kind} {name or '<default>'}" for kind, name in self.parts)


_ENTITY = Form(lambda document, name: QuotaEntity(parts=document.text_map(name)), lambda entity: dict(entity.parts))


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ClientQuota:
    """The limits of one entity, such as `producer_byte_rate`, sorted by name."""

    entity: Annotated[QuotaEntity, _ENTITY]
    limits: ObjectFirst[tuple[tuple[str, float], ...]]


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ScramUser:
    """A user who may log in by `mechanism`. No broker tells the password, so a person has to set the password again."""

    name: str
    mechanism: str
    iterations: int

    def __str__(self) -> str:
        return f"{self.name} ({self.mechanism}, {self.iterations} iterations)"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ResourceConfigs:
    """Settings made while the cluster ran, in the words of `kafka-configs.sh`. `kind`: `groups`, or `brokers` with an
    empty `name` for all brokers."""

    kind: str
    name: str
    configs: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return f"group {self.name}" if self.kind == GROUPS else f"broker {self.name}" if self.name else "all brokers"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSettings:
    """Access rules, quotas, SCRAM users, and settings of groups and of all brokers, every part sorted. None: the
    cluster denied the part. `not_carried`: further contents of the cluster that no backup of this version holds, in
    sentences."""

    acls: tuple[Acl, ...] | None = ()
    quotas: tuple[ClientQuota, ...] | None = ()
    scram_users: tuple[ScramUser, ...] | None = ()
    not_carried: Spare[tuple[str, ...]] = ()
    configs: Spare[tuple[ResourceConfigs, ...]] = ()
