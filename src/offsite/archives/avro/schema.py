"""The Avro schemas of the archive: the plain schema of the seed format, and offsite's, readable with the plain schema.

Offsite's schema begins with the seven fields of the plain schema; further properties follow, because Avro's schema
resolution drops fields unknown to a reader. `value` stays plain bytes: a null could not be resolved to bytes. Format:
Avro 1.11 specification, schema resolution.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypeAlias

__all__ = ["PLAIN_SCHEMA", "SCHEMA", "Schema", "encode_schema"]

Schema: TypeAlias = "str | dict[str, Schema] | list[Schema] | bool | int | None"

_NAMESPACE, _NAME = "ch.tbd.kafka.backuprestore.model.avro", "AvroKafkaRecord"
_FIRST: list[Schema] = [
    {"name": "topic", "type": "string"},
    {"name": "partition", "type": "int"},
    {"name": "offset", "type": "long"},
    {"name": "timestamp", "type": "long"},
]
_MAP: Schema = {"type": "map", "values": "bytes"}

PLAIN_SCHEMA: dict[str, Schema] = {
    "namespace": _NAMESPACE,
    "type": "record",
    "name": _NAME,
    "fields": [
        *_FIRST,
        {"name": "key", "type": ["bytes", "null"], "default": "null"},
        {"name": "value", "type": "bytes"},
        {"name": "headers", "type": [_MAP, "null"], "default": None},
    ],
}
"""The published form, with a default (`headers`) forbidden by Avro and ignored by readers of files."""

_HEADER: Schema = {
    "type": "record",
    "name": "AvroKafkaHeader",
    "fields": [{"name": "name", "type": "bytes"}, {"name": "value", "type": ["null", "bytes"]}],
}

SCHEMA: dict[str, Schema] = {
    "namespace": _NAMESPACE,
    "type": "record",
    "name": _NAME,
    "fields": [
        *_FIRST,
        {"name": "key", "type": ["bytes", "null"]},
        {"name": "value", "type": "bytes", "doc": "Empty also for a null value, see valueIsNull."},
        {
            "name": "headers",
            "type": [_MAP, "null"],
            "doc": "The last value of each name that is UTF-8, if it is not null. Null when there are no headers.",
        },
        {"name": "valueIsNull", "type": "boolean", "default": False},
        {"name": "timestampType", "type": "int", "default": 0, "doc": "0 CreateTime, 1 LogAppendTime."},
        {
            "name": "headerList",
            "type": ["null", {"type": "array", "items": _HEADER}],
            "default": None,
            "doc": "All headers in their order, where the map does not say it all; names are bytes.",
        },
    ],
}
"""Written into every file, `doc` texts included. Never change a byte: readers take every other schema for foreign."""


def encode_schema(schema: Mapping[str, Schema]) -> bytes:
    """Encode the schema as in a file."""
    return json.dumps(schema, separators=(",", ":")).encode("ascii")
