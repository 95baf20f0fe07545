"""The messages about share groups that kafka-python does not have yet, by Kafka's definitions in `schemas`."""

from __future__ import annotations

from kafka.protocol.api_message import ApiMessage

_SCHEMAS = "tests.misbehaving_broker.schemas"


class DescribeShareGroupOffsetsRequest(ApiMessage, load_json=_SCHEMAS):
    pass


class DescribeShareGroupOffsetsResponse(ApiMessage, load_json=_SCHEMAS):
    pass


class AlterShareGroupOffsetsRequest(ApiMessage, load_json=_SCHEMAS):
    pass


class AlterShareGroupOffsetsResponse(ApiMessage, load_json=_SCHEMAS):
    pass


class DeleteShareGroupOffsetsRequest(ApiMessage, load_json=_SCHEMAS):
    pass


class DeleteShareGroupOffsetsResponse(ApiMessage, load_json=_SCHEMAS):
    pass
