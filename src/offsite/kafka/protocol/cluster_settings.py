"""Read and set cluster contents besides topics and groups: access rules, client quotas, SCRAM users.

Access rules: the DescribeAcls and CreateAcls APIs (KIP-140; patterns: KIP-290). Quotas: DescribeClientQuotas and
AlterClientQuotas (KIP-546). SCRAM users: DescribeUserScramCredentials (KIP-554); brokers tell neither salts nor keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from offsite.kafka.protocol.broker_errors import broker_error, error_name
from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.wire import Decoder, Encoder
from offsite.model.bounds import whole_number
from offsite.model.cluster_settings import Acl, ClientQuota, QuotaEntity, ScramUser
from offsite.model.errors import DamagedObject

ACLS_VERSION = 1
_ANY = 1
_MAX_CODE = 127
_RESOURCES = {2: "TOPIC", 3: "GROUP", 4: "CLUSTER", 5: "TRANSACTIONAL_ID", 6: "DELEGATION_TOKEN", 7: "USER"}
_PATTERNS = {3: "LITERAL", 4: "PREFIXED"}
_OPERATIONS = {
    2: "ALL",
    3: "READ",
    4: "WRITE",
    5: "CREATE",
    6: "DELETE",
    7: "ALTER",
    8: "DESCRIBE",
    9: "CLUSTER_ACTION",
    10: "DESCRIBE_CONFIGS",
    11: "ALTER_CONFIGS",
    12: "IDEMPOTENT_WRITE",
    13: "CREATE_TOKENS",
    14: "DESCRIBE_TOKENS",
    15: "TWO_PHASE_COMMIT",
}
_PERMISSIONS = {2: "DENY", 3: "ALLOW"}
QUOTAS_VERSION = 0
SCRAM_USERS_VERSION = 0
_SCRAM_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


def describe_acls_request() -> Request[tuple[Acl, ...]]:
    """Request all rules, sorted. Raises `NoAuthorizer`, `KafkaNotAuthorized`."""
    body = Encoder().i8(_ANY).string(None).i8(_ANY).string(None).string(None).i8(_ANY).i8(_ANY).done()
    return Request(api=Api.DESCRIBE_ACLS, version=ACLS_VERSION, body=body, read=_read_acls)


def create_acls_request(acls: Iterable[Acl]) -> Request[Sequence[str]]:
    """Add rules; an existing rule stays. The answer has one text per rule: empty, or the reason of the refusal."""
    body = Encoder().array(acls, _put_acl).done()
    return Request(api=Api.CREATE_ACLS, version=ACLS_VERSION, body=body, read=lambda answer: answer.array(_acl_outcome))


def _put_acl(out: Encoder, acl: Acl) -> None:
    out.i8(_code(_RESOURCES, acl.resource_type)).string(acl.resource).i8(_code(_PATTERNS, acl.pattern))
    out.string(acl.principal).string(acl.host)
    out.i8(_code(_OPERATIONS, acl.operation)).i8(_code(_PERMISSIONS, acl.permission))


def _read_acls(answer: Decoder) -> tuple[Acl, ...]:
    code = answer.i16()
    answer.nullable_string()  # the broker's text about our request, of no use to a person
    if code:
        raise broker_error(code, "reading ACLs")
    return tuple(sorted(acl for resource in answer.array(_acls_of_resource) for acl in resource))


def _acls_of_resource(answer: Decoder) -> list[Acl]:
    kind, name, pattern = answer.i8(), answer.string(), answer.i8()
    return answer.array(lambda acl: _acl(acl, kind=kind, name=name, pattern=pattern))


def _acl(answer: Decoder, *, kind: int, name: str, pattern: int) -> Acl:
    return Acl(
        resource_type=_name(_RESOURCES, kind),
        resource=name,
        pattern=_name(_PATTERNS, pattern),
        principal=answer.string(),
        host=answer.string(),
        operation=_name(_OPERATIONS, answer.i8()),
        permission=_name(_PERMISSIONS, answer.i8()),
    )


def _acl_outcome(answer: Decoder) -> str:
    code, detail = answer.i16(), answer.string()
    return f"{error_name(code)} ({detail})" if code else ""


def _name(names: Mapping[int, str], code: int) -> str:
    return names.get(code, str(code))


def _code(names: Mapping[int, str], name: str) -> int:
    """Return the code of a name in a backup, as given by `_name`."""
    code = next((code for code, code_name in names.items() if code_name == name), None)
    if (number := code or whole_number(name, most=_MAX_CODE)) is None:
        raise DamagedObject(f"{name[:100]!r} is not valid in an ACL", hint="the settings in the backup name it")
    return number


def describe_quotas_request() -> Request[tuple[ClientQuota, ...]]:
    """The quotas of all entities, sorted. Raises `KafkaNotAuthorized`."""
    body = Encoder().array([], Encoder.string).boolean(False).done()
    return Request(api=Api.DESCRIBE_CLIENT_QUOTAS, version=QUOTAS_VERSION, body=body, read=_read_quotas)


def alter_quotas_request(quotas: Iterable[ClientQuota]) -> Request[Sequence[str]]:
    """Set limits; unnamed limits stay. The answer has one text per entity: empty, or the reason of the refusal."""

    def put_part(out: Encoder, part: tuple[str, str]) -> None:
        out.string(part[0]).string(part[1] or None)

    def put_limit(out: Encoder, limit: tuple[str, float]) -> None:
        out.string(limit[0]).f64(limit[1]).boolean(False)

    def put(out: Encoder, quota: ClientQuota) -> None:
        out.array(quota.entity.parts, put_part).array(quota.limits, put_limit)

    body = Encoder().array(quotas, put).boolean(False).done()
    return Request(
        api=Api.ALTER_CLIENT_QUOTAS, version=QUOTAS_VERSION, body=body, read=lambda answer: answer.array(_quota_outcome)
    )


def _read_quotas(answer: Decoder) -> tuple[ClientQuota, ...]:
    code, detail = answer.i16(), answer.nullable_string()
    if code:
        raise broker_error(code, "reading client quotas", detail=detail or "")
    return tuple(sorted(answer.array(_quota)))


def _quota(answer: Decoder) -> ClientQuota:
    entity = _quota_entity(answer)
    return ClientQuota(entity=entity, limits=tuple(sorted(answer.array(lambda limit: (limit.string(), limit.f64())))))


def _quota_entity(answer: Decoder) -> QuotaEntity:
    return QuotaEntity(parts=tuple(sorted(answer.array(lambda part: (part.string(), part.string())))))


def _quota_outcome(answer: Decoder) -> str:
    code, detail = answer.i16(), answer.string()
    _quota_entity(answer)
    return f"{error_name(code)} ({detail})" if code else ""


def describe_scram_users_request() -> Request[tuple[ScramUser, ...]]:
    """Request all users with all mechanisms, sorted. Raises `KafkaNotAuthorized`.

    An empty list asks for all users, as null does. A broker (4.1.1) that has to deny null never answers, so the request
    sends the empty list.
    """
    body = Encoder(flexible=True).array([], Encoder.string).end().done()
    return Request(
        api=Api.DESCRIBE_USER_SCRAM_CREDENTIALS,
        version=SCRAM_USERS_VERSION,
        body=body,
        read=_read_scram_users,
        flexible=True,
    )


def _read_scram_users(answer: Decoder) -> tuple[ScramUser, ...]:
    code, detail = answer.i16(), answer.nullable_string()
    if code:
        raise broker_error(code, "reading SCRAM users", detail=detail or "")
    return tuple(sorted(user for users in answer.array(_scram_user) for user in users))


def _scram_user(answer: Decoder) -> list[ScramUser]:
    name = answer.string()
    answer.i16()  # error for a missing user; no user was asked for by name
    answer.nullable_string()
    users = answer.array(lambda credential: _credential(credential, name))
    answer.end()
    return users


def _credential(answer: Decoder, name: str) -> ScramUser:
    mechanism, iterations = answer.i8(), answer.i32()
    answer.end()
    return ScramUser(name=name, mechanism=_SCRAM_MECHANISMS.get(mechanism, str(mechanism)), iterations=iterations)
