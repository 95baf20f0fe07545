"""Reading and adding access rules (the DescribeAcls and CreateAcls APIs, KIP-140; patterns: KIP-290)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from offsite.kafka.protocol.broker_errors import broker_error, error_name
from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.wire import Decoder, Encoder
from offsite.model.cluster_settings import Acl
from offsite.model.errors import DamagedObject
from offsite.model.untrusted.whole_number import whole_number

VERSION = 1
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


def describe_acls_request() -> Request[tuple[Acl, ...]]:
    """All rules, sorted. Raises `NoAuthorizer`, `KafkaNotAuthorized`."""
    body = Encoder().i8(_ANY).string(None).i8(_ANY).string(None).string(None).i8(_ANY).i8(_ANY).done()
    return Request(api=Api.DESCRIBE_ACLS, version=VERSION, body=body, parse=_parse_described)


def create_acls_request(acls: Iterable[Acl]) -> Request[Sequence[str]]:
    """Add rules; one that is there already stays. The answer has one text for each: empty, or why it was refused."""
    body = Encoder().array(acls, _put).done()
    return Request(api=Api.CREATE_ACLS, version=VERSION, body=body, parse=_parse_created)


def _put(out: Encoder, acl: Acl) -> None:
    out.i8(_code(_RESOURCES, acl.resource_type)).string(acl.resource).i8(_code(_PATTERNS, acl.pattern))
    out.string(acl.principal).string(acl.host)
    out.i8(_code(_OPERATIONS, acl.operation)).i8(_code(_PERMISSIONS, acl.permission))


def _parse_described(answer: Decoder) -> tuple[Acl, ...]:
    answer.i32()  # throttle time
    code = answer.i16()
    answer.nullable_string()  # the broker's view of our request, of no use to a person
    if code:
        raise broker_error(code, "reading ACLs")
    return tuple(sorted(acl for resource in answer.array(_resource) for acl in resource))


def _resource(answer: Decoder) -> list[Acl]:
    kind, name, pattern = answer.i8(), answer.string(), answer.i8()
    return answer.array(lambda each: _acl(each, kind=kind, name=name, pattern=pattern))


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


def _parse_created(answer: Decoder) -> Sequence[str]:
    answer.i32()  # throttle time
    return answer.array(_outcome)


def _outcome(answer: Decoder) -> str:
    code, detail = answer.i16(), answer.string()
    return f"{error_name(code)} ({detail})" if code else ""


def _name(names: Mapping[int, str], code: int) -> str:
    return names.get(code, str(code))


def _code(names: Mapping[int, str], name: str) -> int:
    """Of a name that a backup holds: one that `_name` gave."""
    code = next((code for code, known in names.items() if known == name), None)
    if (found := code or whole_number(name, most=_MAX_CODE)) is None:
        raise DamagedObject(f"{name[:100]!r} is nothing that an ACL can have", hint="the backup's settings name it")
    return found
