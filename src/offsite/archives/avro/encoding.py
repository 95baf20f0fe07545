"""The Avro schemas of the archive, and records encoded by groups and columns: ten times as fast as encoding single
records.

The plain schema is the seed format's. Offsite's schema begins with the seven fields of the plain schema; further
properties follow, because Avro's schema resolution drops fields unknown to a reader. `value` stays plain bytes: a null
could not be resolved to bytes. Format: Avro 1.11 specification, schema resolution.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, repeat
from typing import TypeAlias, cast

from offsite.archives.avro.varints import LENGTHS, NumberTable, long_columns
from offsite.archives.indexed.writing import Losses
from offsite.log.records.record import CREATE_TIME, LOG_APPEND_TIME, RecordHeaders
from offsite.log.records.record_columns import RecordColumns
from offsite.log.varint import zigzag

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
_KEY_LENGTHS = NumberTable(prefix=b"\x00")  # the union's first branch
_NULL_KEY = b"\x02"
NO_HEADERS = b"\x02"
_END = b"\x00"
_MAX_CACHED_NAMES, _MAX_CACHED_LETTERS = 4096, 100


def encode_schema(schema: Mapping[str, Schema]) -> bytes:
    """Encode the schema as in a file."""
    return json.dumps(schema, separators=(",", ":")).encode("ascii")


Tails = Callable[[RecordColumns], Iterable[bytes]]


class RecordEncoding:
    """Encodes the records of a partition. `tails` encodes the fields behind the value."""

    def __init__(self, *, topic: str, partition: int, tails: Tails) -> None:
        name = topic.encode("utf-8")
        self._head = zigzag(len(name)) + name + zigzag(partition)
        self._tails = tails

    def encode(self, columns: RecordColumns) -> bytes:
        return b"".join(
            chain.from_iterable(
                zip(
                    repeat(self._head),
                    *long_columns(columns.offsets),
                    *long_columns(columns.timestamps_ms),
                    *_key_columns(columns.keys),
                    *_value_columns(columns.values),
                    self._tails(columns),
                    strict=False,  # constants repeat for ever
                )
            )
        )


def full_tails(columns: RecordColumns) -> Iterable[bytes]:
    """Encode the fields `headers`, `valueIsNull`, `timestampType`, `headerList`: offsite's schema holds every
    record."""
    kinds = columns.timestamp_types
    if any(columns.headers):
        return map(_full_tail, columns.headers, columns.values, kinds)
    if None not in columns.values and len(set(kinds)) == 1:
        return repeat(_full_tail((), b"", kinds[0]))
    return [BARE_TAILS[value is None, kind] for value, kind in zip(columns.values, kinds, strict=True)]


def plain_tails(losses: Losses) -> Tails:
    """Encode the field `headers` only; properties beyond the field are refused or counted."""

    def tails(columns: RecordColumns) -> Iterable[bytes]:
        _note_values(columns, losses)
        if not any(columns.headers):
            return repeat(NO_HEADERS)
        for offset, headers in zip(columns.offsets, columns.headers, strict=True):
            _note_headers(offset, headers, losses)
        return map(_header_map, columns.headers)

    return tails


def _key_columns(keys: Sequence[bytes | None]) -> tuple[Iterable[bytes], ...]:
    """Return the union branch with the length, and the bytes."""
    present = [key for key in keys if key is not None]
    if len(present) == len(keys):
        return map(_KEY_LENGTHS.__getitem__, map(len, present)), present
    if not present:
        return (repeat(_NULL_KEY),)
    return (
        [_NULL_KEY if key is None else _KEY_LENGTHS[len(key)] for key in keys],
        [key or b"" for key in keys],
    )


def _value_columns(values: Sequence[bytes | None]) -> tuple[Iterable[bytes], ...]:
    present = cast("Sequence[bytes]", values) if None not in values else [value or b"" for value in values]
    return map(LENGTHS.__getitem__, map(len, present)), present


def _full_tail(headers: RecordHeaders, value: bytes | None, timestamp_type: int) -> bytes:
    """Encode a tail. The map holds the headers, unless the map would lose an order, a null or odd bytes."""
    flags = (b"\x00" if value is not None else b"\x01") + LENGTHS[timestamp_type]
    if not headers:
        return NO_HEADERS + flags + b"\x00"
    if len(headers) == 1:
        name, content = headers[0]
        encoded = _NAMES[name]
        if encoded is not None and content is not None:
            return b"\x00\x02" + encoded + LENGTHS[len(content)] + content + _END + flags + b"\x00"
    return _header_map(headers) + flags + b"\x02" + _header_list(headers)


def _header_map(headers: RecordHeaders) -> bytes:
    if not headers:
        return NO_HEADERS
    last: dict[bytes, bytes] = {}
    for name, content in headers:
        encoded = _NAMES[name]
        if encoded is not None and content is not None:
            last[encoded] = content
    if not last:
        return b"\x00" + _END
    parts = [part for encoded, content in last.items() for part in (encoded, LENGTHS[len(content)], content)]
    return b"".join((b"\x00", LENGTHS[len(last)], *parts, _END))


def _header_list(headers: RecordHeaders) -> bytes:
    parts = [LENGTHS[len(headers)]]
    for name, content in headers:
        parts.append(_NAMES[name] or _blob(name.encode("utf-8", "surrogateescape")))
        parts += (b"\x00",) if content is None else (b"\x02", LENGTHS[len(content)], content)
    parts.append(_END)
    return b"".join(parts)


class _NameTable(dict[str, "bytes | None"]):
    """Encoded header names, None for a name outside UTF-8; bounded. Nearly all records of a topic share a few names."""

    def __missing__(self, name: str) -> bytes | None:
        encoded = _blob(name.encode("utf-8")) if _is_text(name) else None
        if len(name) <= _MAX_CACHED_LETTERS:
            if len(self) >= _MAX_CACHED_NAMES:
                self.clear()
            self[name] = encoded
        return encoded


_NAMES = _NameTable()


def _blob(data: bytes) -> bytes:
    return LENGTHS[len(data)] + data


def _is_text(name: str) -> bool:
    """Whether the name is UTF-8: further bytes appear as surrogates."""
    return name.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in name)


def _note_values(columns: RecordColumns, losses: Losses) -> None:
    if None in columns.values:
        for offset, value in zip(columns.offsets, columns.values, strict=True):
            if value is None:
                losses.note(offset, "a null value, which becomes an empty value")
    if any(columns.timestamp_types):
        for offset, kind in zip(columns.offsets, columns.timestamp_types, strict=True):
            if kind != CREATE_TIME:
                losses.note(offset, "the timestamp type LogAppendTime")


def _note_headers(offset: int, headers: RecordHeaders, losses: Losses) -> None:
    names = [name for name, _ in headers]
    if len(set(names)) < len(names):
        losses.note(offset, "several headers with the same name, of which only the last is kept")
    if any(value is None for _, value in headers):
        losses.note(offset, "a header whose value is null, which is left out")
    if not all(map(_is_text, names)):
        losses.note(offset, "a header whose name is not UTF-8, which is left out")


BARE_TAILS = {
    (is_null, kind): _full_tail((), None if is_null else b"", kind)
    for is_null in (False, True)
    for kind in (CREATE_TIME, LOG_APPEND_TIME)
}
"""Tails of records without headers, by null value and timestamp type: nearly all records."""
