"""Answers as bytes, from plain mappings: the schemas are kafka-python's, offsite's own codec has no part in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.misbehaving_broker.messages import ANSWERS, Request

Answer = Mapping[str, Any]


def encoded(request: Request, answer: Answer) -> bytes:
    """The whole answer, header included. Fields that are not named have the schema's defaults."""
    body = _made(ANSWERS[request.api], ANSWERS[request.api]._struct.fields, answer, request.version)
    return request.header() + bytes(body.encode(version=request.version))


def _made(kind: Any, fields: Mapping[str, Any], values: Answer, version: int) -> Any:
    return kind(version=version, **{name: _value(fields[name], value, version) for name, value in values.items()})


def _value(field: Any, value: Any, version: int) -> Any:
    if field.is_struct_array():
        return [_made(field.data_class, field.fields, each, version) for each in value]
    return value
