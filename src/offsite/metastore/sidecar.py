"""The content that a line cannot hold: one JSON line per command, chained by hashes, beside the backup file. Pure.

The first line is the header. Each further line is a command in the topic's order: offset, time, headers; whether the
command has a line in the file; key and value if the line does not hold their exact bytes. `chain` is the SHA-256 over
the previous chain, the entry itself and the command's line. So each byte of both files counts, and the first wrong
entry names the damaged line. A chain without a key finds damage; anyone with write access to both files can also forge
both.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

from offsite.log.records.record import Record, RecordHeaders
from offsite.metastore.line import BackupLine, line_of, parse_line
from offsite.model.untrusted.bounded_json import UNAMBIGUOUS, BadJson, check_json_size, decode_object
from offsite.model.untrusted.json_object import JsonObject, JsonValue

FORMAT = 1
SUFFIX = ".meta.jsonl"


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


_HEADER = ("topic", "cluster_id", "topic_id", "created_at_ms", "created_by", "replication_factor")


class SidecarEntry(NamedTuple):
    """One command. `line`: its line in the file, None without one."""

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
