r"""One command as it is stored: a line of text, `key:value`, for ksqlDB's own tools and for people, and an entry in the
sidecar beside the file, with all that a line cannot hold. Pure.

Two tools read the lines: ksqlDB (class BackupReplayFile) and Kafka's console producer (`parse.key`,
`key.separator=:`). Both read UTF-8, end a line at a line feed, a carriage return or both, and cut the line at its
*first* colon, although a key is JSON text, possibly with a colon. So a command has a line only if both tools read the
command's content back. The line is

- the exact bytes, as ksqlDB writes them, if possible, as nearly always;
- else the same JSON in other bytes: a colon inside the key as `\u003a`, line-breaking white space as blanks;
- else no line: a null or empty key or value, text that is not UTF-8, a line break outside of JSON.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

from offsite.log.records.record import Record, RecordHeaders
from offsite.model.untrusted.bounded_json import UNAMBIGUOUS, BadJson, check_json_size, decode_object, parse_json
from offsite.model.untrusted.json_object import JsonObject, JsonValue
from offsite.model.untrusted.text import is_utf8

SEPARATOR = b":"
_BREAKS = re.compile(rb"[\r\n]")
_JSON_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
FORMAT = 1
SUFFIX = ".meta.jsonl"
_HEADER = ("topic", "cluster_id", "topic_id", "created_at_ms", "created_by", "replication_factor")


class BackupLine(NamedTuple):
    """`text` is without the line feed. `is_exact`: the line holds the exact bytes of key and value."""

    text: bytes
    is_exact: bool


def line_of(key: bytes | None, value: bytes | None) -> BackupLine | None:
    """The line of a command; None if the command has none."""
    if not key or not value:
        return None
    shown_key, shown_value = _shown_key(key), _shown_value(value)
    if shown_key is None or shown_value is None:
        return None
    text = shown_key + SEPARATOR + shown_value
    return BackupLine(text, parse_line(text) == (key, value))


def parse_line(text: bytes) -> tuple[bytes, bytes] | None:
    """The key and the value of a line, also of ksqlDB's line with a colon inside the key; None for other text."""
    if (match := _JSON_TEXT.match(text)) and text[match.end() : match.end() + 1] == SEPARATOR:
        return text[: match.end()], text[match.end() + 1 :]
    return cut_at_first_colon(text)


def is_whole_line(text: bytes) -> bool:
    """Whether a line of ksqlDB is surely complete: its value is a JSON object, and no prefix of a JSON object is
    one."""
    pair = parse_line(text)
    return pair is not None and isinstance(json_or_none(pair[1]), dict)


def cut_at_first_colon(text: bytes) -> tuple[bytes, bytes] | None:
    """Read a line as ksqlDB and the console producer do."""
    key, separator, value = text.partition(SEPARATOR)
    return (key, value) if separator else None


def _shown_key(key: bytes) -> bytes | None:
    if not is_utf8(key):
        return None
    if SEPARATOR not in key and not _BREAKS.search(key):
        return key
    shown = _BREAKS.sub(b" ", key).replace(SEPARATOR, b"\\u003a")
    return shown if isinstance(json_or_none(key), str) else None


def _shown_value(value: bytes) -> bytes | None:
    if not is_utf8(value):
        return None
    if not _BREAKS.search(value):
        return value
    return None if json_or_none(value) is None else _BREAKS.sub(b" ", value)


def json_or_none(data: bytes) -> object:
    """None for text that is no JSON, including JSON with a line break inside a string."""
    try:
        return parse_json(data)
    except BadJson:
        return None


class BadEntry(ValueError):
    """A foreign line in a sidecar, or a line of a newer format."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The topic of the file. `cluster_id` and `topic_id` are empty if unknown, `replication_factor` is 0. `configs`:
    the topic's own settings at the beginning of the file; empty without the right to read them."""

    topic: str
    cluster_id: str
    topic_id: str
    created_at_ms: int
    created_by: str
    replication_factor: int = 0
    configs: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        fields: dict[str, JsonValue] = {"format": FORMAT, **{name: getattr(self, name) for name in _HEADER}}
        if self.configs:
            fields["configs"] = dict(sorted(self.configs.items()))
        return _text(fields)

    @classmethod
    def decode(cls, data: bytes) -> Header:
        """Raises `BadEntry`."""
        document = _object(data)
        if (form := document.count("format")) != FORMAT:
            raise BadEntry(f"it has format {form}, but this version of offsite reads format {FORMAT}")
        return cls(
            topic=document.topic(),
            cluster_id=document.text("cluster_id"),
            topic_id=document.text("topic_id"),
            created_at_ms=document.integer("created_at_ms"),
            created_by=document.text("created_by"),
            replication_factor=document.integer_or("replication_factor", 0),
            configs=dict(document.text_map("configs")) if "configs" in document.fields else {},
        )


class SidecarEntry(NamedTuple):
    """One command. `line`: its line in the file, None without one.

    The sidecar's first line is the header. Each further line is a command in the topic's order: offset, time, headers;
    whether the command has a line in the file; key and value if the line does not hold their exact bytes. `chain` is
    the SHA-256 over the previous chain, the entry itself and the command's line. So each byte of both files counts, and
    the first wrong entry names the damaged line. A chain without a key finds damage; anyone with write access to both
    files can also forge both.
    """

    record: Record
    line: BackupLine | None
    chain: str


def first_chain(header: bytes) -> str:
    return sha256(header).hexdigest()


def entry_of(record: Record, chain: str) -> SidecarEntry:
    """The entry after an entry with `chain`."""
    line = line_of(record.key, record.value)
    return SidecarEntry(record, line, _chained(chain, _fields(record, line), line))


def encode_entry(entry: SidecarEntry) -> bytes:
    """The entry's line in the sidecar, without the line feed."""
    return _text({**_fields(entry.record, entry.line), "chain": entry.chain})


class StoredSidecarEntry(NamedTuple):
    """An entry as read; with its line it becomes a command."""

    fields: Mapping[str, JsonValue]
    chain: str
    has_line: bool

    def with_line(self, text: bytes | None) -> SidecarEntry:
        """The entry. Raises `BadEntry` if the line does not belong to the entry."""
        record = _record(JsonObject(fields=self.fields, damaged=BadEntry), text)
        line = None if text is None else BackupLine(text, "key" not in self.fields)
        return SidecarEntry(record, line, self.chain)

    def follows(self, chain: str, text: bytes | None) -> bool:
        """Whether the entry was made with this previous chain and this line."""
        line = None if text is None else BackupLine(text, is_exact=True)
        return _chained(chain, self.fields, line) == self.chain


def decode_entry(data: bytes) -> StoredSidecarEntry:
    """Raises `BadEntry`."""
    document = _object(data)
    chain = document.text("chain")
    fields = {name: value for name, value in document.fields.items() if name != "chain"}
    has_line = fields.get("line")
    if not isinstance(has_line, bool):
        raise BadEntry("field 'line' is neither true nor false")
    return StoredSidecarEntry(fields, chain, has_line)


def _fields(record: Record, line: BackupLine | None) -> dict[str, JsonValue]:
    fields: dict[str, JsonValue] = {
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "timestamp_type": record.timestamp_type,
        "line": line is not None,
    }
    if record.headers:
        fields["headers"] = [[_hidden(_name_bytes(name)), _hidden(value)] for name, value in record.headers]
    if line is None or not line.is_exact:
        fields |= {"key": _hidden(record.key), "value": _hidden(record.value)}
    return fields


def _record(document: JsonObject, text: bytes | None) -> Record:
    if "key" in document.fields:
        key, value = _shown(document, "key"), _shown(document, "value")
    else:
        parsed = None if text is None else parse_line(text)
        if parsed is None:
            raise BadEntry("it has no key, and no valid line to take the key from")
        key, value = parsed
    offset, time_ms, time_type = (
        document.count("offset"),
        document.integer("timestamp_ms"),
        document.integer("timestamp_type"),
    )
    return Record(offset, time_ms, time_type, key, value, _headers(document))


def _headers(document: JsonObject) -> RecordHeaders:
    pairs = document.fields.get("headers", [])
    if not isinstance(pairs, list):
        raise BadEntry("field 'headers' is not a list")
    read = []
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2:
            raise BadEntry("a header is not a pair")
        name, value = (_unhidden(text, "headers") for text in pair)
        read.append(((name or b"").decode("utf-8", "surrogateescape"), value))
    return tuple(read)


def _chained(chain: str, fields: Mapping[str, JsonValue], line: BackupLine | None) -> str:
    text = b"" if line is None else line.text
    return sha256(b"\n".join((chain.encode(), _text(fields), text))).hexdigest()


def _text(fields: Mapping[str, JsonValue]) -> bytes:
    return json.dumps(fields, separators=(",", ":"), sort_keys=True).encode()


def _object(data: bytes) -> JsonObject:
    try:
        check_json_size(data)
        return JsonObject(fields=decode_object(data, decoder=UNAMBIGUOUS), damaged=BadEntry)
    except BadJson as error:
        raise BadEntry(str(error)) from error


def _name_bytes(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _hidden(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def _shown(document: JsonObject, name: str) -> bytes | None:
    return _unhidden(document.fields.get(name), name)


def _unhidden(text: object, name: str) -> bytes | None:
    if text is None:
        return None
    try:
        return b64decode(str(text), validate=True)
    except ValueError as error:
        raise BadEntry(f"field {name!r} is not base64") from error
