"""Encodes a record as a line of JSON, and back: the line holds the whole record, and a checksum. Pure.

    {"topic":"orders","partition":0,"offset":7,"timestamp":1700000000000,"timestampType":0,"key":null,"value":"text",
     "headers":[{"key":"a","value64":"/w=="}],"crc32c":"0a1b2c3d"}

UTF-8 bytes are text under `key` or `value`; further bytes are base64 under `key64` or `value64`, also for header names.
Null is null. What a schema explains may stand beside it (`decodedKey`, `decodedValue`: encoding, data, schema id, and
the schema's subject, version and name); nobody reads it back. `timestamp` is in ms; `timestampType` 0 is CreateTime, 1
LogAppendTime. `crc32c` covers the line's bytes before the comma. Foreign lines may lack `crc32c`, `timestampType` and
`headers`; unknown fields are ignored. A missing field is no null: the value may have another name.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from json.encoder import encode_basestring

from crc32c import crc32c

from offsite.log.range import TopicPartition
from offsite.log.records.record import CREATE_TIME, LOG_APPEND_TIME, Record, RecordHeaders
from offsite.log.records.record_columns import RecordColumns
from offsite.model.bounds import MAX_OFFSET
from offsite.model.units import MIB
from offsite.model.untrusted.bounded_json import check_json_size

_CHECKSUM = b',"crc32c":"%08x"}'
_CHECKSUM_BEGIN = _CHECKSUM[:10]
_CHECKSUM_BYTES = len(_CHECKSUM % 0)
_LARGE_BYTES = 1 * MIB
MAX_WIDE_BYTES = 64 * MIB

_NEEDED = ("topic", "partition", "offset", "timestamp", "key", "value")
_DECODED = "decodedKey", "decodedValue"
_NAMES = frozenset((*_NEEDED, "timestampType", "headers", "key64", "value64", "crc32c", *_DECODED))
DECODED_MAX_CHARS = 1 << 20
"""Of the decoded form of a key or value; a longer one is left out, since a line must stay readable."""
_HEADER_NAMES, _VALUE_NAMES = frozenset(("key", "key64")), frozenset(("value", "value64"))
_MAX_NAMED, _MAX_NAME, _MAX_TOPIC = 5, 40, 250

_new = tuple.__new__  # half the time of calling `Record`

Fields = Mapping[str, object]


class BadLine(ValueError):
    """The line holds no record, or a record of another partition."""


class OtherFields(BadLine):
    """The line is an intact object of another tool, with other contents or other field names."""


Decode = Callable[[bytes, bool], object]
"""Gets a key or value, and whether it is a key. Returns its decoded form, of JSON values; None without one."""


def encode_lines(columns: RecordColumns, of: TopicPartition, decode: Decode | None = None) -> Iterator[bytes]:
    """Yield a line per record, with the newline."""
    head = f'{{"topic":{encode_basestring(of.topic)},"partition":{of.partition},"offset":'
    for offset, time_ms, kind, key, value, headers in zip(*columns, strict=True):
        text = (
            f'{head}{offset},"timestamp":{time_ms},"timestampType":{kind},'
            f'{_field("key", key)},{_field("value", value)},"headers":[{",".join(map(_header, headers))}]'
        )
        if decode is not None:
            text += "".join(
                _decoded_field(name, decode(blob, is_key))
                for name, blob, is_key in zip(_DECODED, (key, value), (True, False), strict=True)
                if blob is not None
            )
        line = text.encode("utf-8")
        yield b"%b%b\n" % (line, _CHECKSUM % crc32c(line))


def decode_line(line: bytes, of: TopicPartition, *, must_be_checked: bool, unknown: set[str]) -> Record:
    """Decode the record of a line without newline. Raises `BadLine`.

    `must_be_checked`: refuse a line without a checksum. `unknown` receives some names of ignored fields.
    """
    is_checked = _check(line if line.endswith(b"}") else line.rstrip(b"\r"), must_be_checked=must_be_checked)
    fields = _fields(line, is_checked=is_checked)
    _check_names(fields)
    if (more := fields.keys() - _NAMES) and len(unknown) < _MAX_NAMED:
        unknown.update(name[:_MAX_NAME] for name in sorted(more)[:_MAX_NAMED])
    topic, partition = fields.get("topic"), _integer("partition", fields.get("partition"))
    if topic != of.topic or partition != of.partition:
        problem = f"a record of {str(topic)[:_MAX_TOPIC]}/{partition}, not of {of}"
        raise BadLine(problem) if must_be_checked else OtherFields(problem)
    return _record(fields)


def _check(line: bytes, *, must_be_checked: bool) -> bool:
    """Return whether the line has a checksum; a wrong checksum raises."""
    body, checksum = line[:-_CHECKSUM_BYTES], line[-_CHECKSUM_BYTES:]
    if not checksum.startswith(_CHECKSUM_BEGIN):
        if must_be_checked:
            raise BadLine("a line without a checksum of its own")
    elif _CHECKSUM % crc32c(body) != checksum:
        raise BadLine("the line fails its CRC32C")
    else:
        return True
    return False


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Refuse two values for a name: the right value is unknown."""
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a field that occurs twice")
    return fields


def _fields(line: bytes, *, is_checked: bool) -> Fields:
    decode = _raw_decode if is_checked else _decode_once
    try:
        if len(line) > _LARGE_BYTES:
            _check_size(line)
        text = line.decode("utf-8")
        fields, end = decode(text) if line.startswith(b"{") else (None, -1)
        if end != len(text):  # there is white space, or worse
            fields = json.loads(line, object_pairs_hook=None if is_checked else _once)
    except (ValueError, RecursionError) as error:
        raise BadLine(f"not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise BadLine("not a JSON object")
    return fields


_raw_decode, _decode_once = json.JSONDecoder().raw_decode, json.JSONDecoder(object_pairs_hook=_once).raw_decode


def _check_names(fields: Fields) -> None:
    """Raise `OtherFields` with the missing names, and the names found instead."""
    missing = [name for name in _NEEDED if name not in fields and f"{name}64" not in fields]
    if missing:
        unknown = [repr(name[:_MAX_NAME]) for name in fields if name not in _NAMES][:_MAX_NAMED]
        instead = f"; not known here: {', '.join(unknown)}" if unknown else ""
        raise OtherFields(f"a line without {' and '.join(map(repr, missing))}{instead}")


def _check_size(line: bytes) -> None:
    """Check the size: text beyond ASCII may need four bytes of memory per byte, twice."""
    check_json_size(line)
    if len(line) > MAX_WIDE_BYTES and not line.isascii():
        raise BadLine(f"a line of {len(line)} bytes that are not ASCII: at most {MAX_WIDE_BYTES} are read")


def _record(fields: Fields) -> Record:
    offset = _integer("offset", fields.get("offset"))
    time_ms = _integer("timestamp", fields.get("timestamp"))
    kind = _integer("timestampType", fields.get("timestampType", CREATE_TIME))
    if offset < 0 or kind not in (CREATE_TIME, LOG_APPEND_TIME):
        raise BadLine(f"offset {offset} or timestampType {kind} is impossible")
    key, value = _blob(fields, "key", "key64"), _blob(fields, "value", "value64")
    return _new(Record, (offset, time_ms, kind, key, value, _headers(fields)))


def _headers(fields: Fields) -> RecordHeaders:
    rows = fields.get("headers")
    if rows is not None and not isinstance(rows, list):
        raise OtherFields("field 'headers' is not a list")
    return tuple(map(_header_pair, rows)) if rows else ()


def _header_pair(fields: object) -> tuple[str, bytes | None]:
    if not isinstance(fields, dict) or not _HEADER_NAMES & fields.keys() or not _VALUE_NAMES & fields.keys():
        raise OtherFields("a header that is not an object with a key and a value")
    if (name := _blob(fields, "key", "key64")) is None:
        raise BadLine("a header without a name")
    return name.decode("utf-8", "surrogateescape"), _blob(fields, "value", "value64")


def _blob(fields: Fields, name: str, name64: str) -> bytes | None:
    text = fields.get(name)
    if name64 in fields:
        return _decoded(fields, name, name64)
    if text is None:
        return None
    if not isinstance(text, str):
        raise OtherFields(f"field {name!r} is not text")
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise BadLine(f"field {name!r} has half of a surrogate pair") from error


def _decoded(fields: Fields, name: str, name64: str) -> bytes:
    coded = fields[name64]
    if not isinstance(coded, str) or name in fields:
        raise BadLine(f"field {name64!r} is not base64, or {name!r} exists too")
    try:
        return b64decode(coded, validate=True)
    except ValueError as error:
        raise BadLine(f"field {name64!r} is not base64: {error}") from error


def _integer(name: str, value: object) -> int:
    if type(value) is not int:
        raise OtherFields(f"field {name!r} is not an integer")
    if not -MAX_OFFSET - 1 <= value <= MAX_OFFSET:
        raise BadLine(f"field {name!r} is not an integer of 64 bits")
    return value


def _header(header: tuple[str, bytes | None]) -> str:
    name, value = header
    return f"{{{_field('key', name.encode('utf-8', 'surrogateescape'))},{_field('value', value)}}}"


def _decoded_field(name: str, decoded: object) -> str:
    """A comma and the field; empty without a decoded form. Text that is no Unicode is escaped."""
    if decoded is None:
        return ""
    text = json.dumps(decoded, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        text = json.dumps(decoded, separators=(",", ":"))
    return f',"{name}":{text}' if len(text) <= DECODED_MAX_CHARS else ""


def _field(name: str, blob: bytes | None) -> str:
    if blob is None:
        return f'"{name}":null'
    try:
        return f'"{name}":{encode_basestring(blob.decode("utf-8"))}'
    except UnicodeDecodeError:
        return f'"{name}64":"{b64encode(blob).decode("ascii")}"'
