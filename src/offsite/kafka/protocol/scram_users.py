"""Which users log in by SCRAM (the DescribeUserScramCredentials API, KIP-554). Brokers tell no salts and no keys."""

from __future__ import annotations

from offsite.kafka.protocol.broker_errors import broker_error
from offsite.kafka.protocol.request import Api, Request
from offsite.kafka.protocol.wire import Decoder, Encoder
from offsite.model.cluster_settings import ScramUser

VERSION = 0
_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


def describe_scram_users_request() -> Request[tuple[ScramUser, ...]]:
    """All users with each of their mechanisms, sorted. Raises `KafkaNotAuthorized`.

    An empty list asks for all, as null does; but a broker (4.1.1) that has to deny the latter never answers.
    """
    body = Encoder(flexible=True).array([], Encoder.string).end().done()
    return Request(api=Api.DESCRIBE_USER_SCRAM_CREDENTIALS, version=VERSION, body=body, parse=_parse, flexible=True)


def _parse(answer: Decoder) -> tuple[ScramUser, ...]:
    answer.i32()  # throttle time
    code, detail = answer.i16(), answer.nullable_string()
    if code:
        raise broker_error(code, "reading SCRAM users", detail=detail or "")
    return tuple(sorted(user for users in answer.array(_user) for user in users))


def _user(answer: Decoder) -> list[ScramUser]:
    name = answer.string()
    answer.i16()  # a user that was asked for by name may be missing: none was
    answer.nullable_string()
    users = answer.array(lambda each: _credential(each, name))
    answer.end()
    return users


def _credential(answer: Decoder, name: str) -> ScramUser:
    mechanism, iterations = answer.i8(), answer.i32()
    answer.end()
    return ScramUser(name=name, mechanism=_MECHANISMS.get(mechanism, str(mechanism)), iterations=iterations)
