"""Reading and setting limits of clients (the DescribeClientQuotas and AlterClientQuotas APIs, KIP-546)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from offsite.kafka.protocol.broker_errors import broker_error, error_name
from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.wire import Decoder, Encoder
from offsite.model.cluster_settings import ClientQuota, QuotaEntity

VERSION = 0


def describe_quotas_request() -> Request[tuple[ClientQuota, ...]]:
    """The quotas of all entities, sorted. Raises `KafkaNotAuthorized`."""
    body = Encoder().array([], Encoder.string).boolean(False).done()
    return Request(api=Api.DESCRIBE_CLIENT_QUOTAS, version=VERSION, body=body, parse=_parse_described)


def alter_quotas_request(quotas: Iterable[ClientQuota]) -> Request[Sequence[str]]:
    """Set limits; those not named stay as they are. The answer has one text for each entity: empty, or why it was
    refused."""

    def put_part(out: Encoder, part: tuple[str, str]) -> None:
        out.string(part[0]).string(part[1] or None)

    def put_limit(out: Encoder, limit: tuple[str, float]) -> None:
        out.string(limit[0]).f64(limit[1]).boolean(False)

    def put(out: Encoder, quota: ClientQuota) -> None:
        out.array(quota.entity.parts, put_part).array(quota.limits, put_limit)

    body = Encoder().array(quotas, put).boolean(False).done()
    return Request(api=Api.ALTER_CLIENT_QUOTAS, version=VERSION, body=body, parse=_parse_altered)


def _parse_described(answer: Decoder) -> tuple[ClientQuota, ...]:
    answer.i32()  # throttle time
    code, detail = answer.i16(), answer.nullable_string()
    if code:
        raise broker_error(code, "reading client quotas", detail=detail or "")
    return tuple(sorted(answer.array(_quota)))


def _quota(answer: Decoder) -> ClientQuota:
    entity = _entity(answer)
    return ClientQuota(entity=entity, limits=tuple(sorted(answer.array(lambda each: (each.string(), each.f64())))))


def _entity(answer: Decoder) -> QuotaEntity:
    return QuotaEntity(parts=tuple(sorted(answer.array(lambda each: (each.string(), each.string())))))


def _parse_altered(answer: Decoder) -> Sequence[str]:
    answer.i32()  # throttle time
    return answer.array(_outcome)


def _outcome(answer: Decoder) -> str:
    code, detail = answer.i16(), answer.string()
    _entity(answer)
    return f"{error_name(code)} ({detail})" if code else ""
