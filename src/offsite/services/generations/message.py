"""The message of the coordination topic, as TrivadisPF/kafka-backup defined it: Avro's single-object encoding. Pure.

Its connectors write, and read, `AvroCompactedLogBackupCoordination` with the class that Avro's Java library generates:
two bytes of magic, the fingerprint of the schema's parsing canonical form (CRC-64-AVRO, 8 bytes little-endian), and the
record. The key names who is meant, `{connector}-{partition}`, and so does `connectorInstanceName`. A null value takes
a message back. Format: Avro 1.11 specification, "Single-object encoding" and "Schema fingerprints".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import StrEnum

from offsite.model.untrusted.bounds import MAX_PARTITIONS
from offsite.model.untrusted.names import is_topic_name

TOPIC = "_compacted_log_backup_coordination"
CANONICAL_SCHEMA = (
    '{"name":"ch.tbd.kafka.backuprestore.model.avro.AvroCompactedLogBackupCoordination","type":"record","fields":['
    '{"name":"event","type":{"name":"ch.tbd.kafka.backuprestore.model.avro.EnumType","type":"enum",'
    '"symbols":["ACTIVATE","PASSIVATE"]}},'
    '{"name":"connectorInstanceName","type":"string"},'
    '{"name":"topic","type":"string"},'
    '{"name":"partition","type":"int"},'
    '{"name":"offset","type":"long"},'
    '{"name":"timestamp","type":"long"}]}'
)
"""The parsing canonical form of the schema, of which the fingerprint is made."""

MESSAGE_BYTES_MAX = 4096
"""A longer one is nobody's: names of topics and connectors have some hundred bytes."""
_MAGIC = b"\xc3\x01"
_EMPTY = 0xC15D213AA4D7A795
_MASK = (1 << 64) - 1
_VARINT_BITS_MAX = 63


class Event(StrEnum):
    """What is asked of the one who is meant. The order is that of the schema."""

    ACTIVATE = "ACTIVATE"
    PASSIVATE = "PASSIVATE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message. `connector` is the instance that is meant, `offset` the next one of the partition that the sender
    has not read. `at_ms`: the time of what it tells of, by the store's clock."""

    event: Event
    connector: str
    topic: str
    partition: int
    offset: int
    at_ms: int

    @property
    def key(self) -> bytes:
        return message_key(self.connector, self.partition)


def message_key(connector: str, partition: int) -> bytes:
    return f"{connector}-{partition}".encode()


def encode_message(message: Message) -> bytes:
    body = bytearray(_MAGIC + FINGERPRINT)
    _put_long(body, list(Event).index(message.event))
    for text in (f"{message.connector}-{message.partition}", message.topic):  # the tool puts its key there, too
        data = text.encode()
        _put_long(body, len(data))
        body += data
    for number in (message.partition, message.offset, message.at_ms):
        _put_long(body, number)
    return bytes(body)


def decode_message(key: bytes, value: bytes) -> Message | None:
    """The message; None for what is none, or names another one than its key does: anybody may write there."""
    try:
        return _decoded(key, value)
    except (ValueError, IndexError):
        return None


def _decoded(key: bytes, value: bytes) -> Message | None:
    if len(value) > MESSAGE_BYTES_MAX or value[: len(_HEAD)] != _HEAD:
        return None
    reader = _Reader(value, len(_HEAD))
    event = tuple(Event)[_bounded(reader.long(), len(Event))]
    name, topic = reader.text(), reader.text()
    partition, offset, at_ms = _bounded(reader.long(), MAX_PARTITIONS), reader.long(), reader.long()
    connector = name.removesuffix(f"-{partition}")
    if not reader.is_done or name == connector or name.encode() != key or not is_topic_name(topic) or offset < 0:
        return None
    return Message(event=event, connector=connector, topic=topic, partition=partition, offset=offset, at_ms=at_ms)


def crc_64_avro(data: bytes) -> int:
    """The Rabin fingerprint of the specification."""
    found = _EMPTY
    for byte in data:
        found = (found >> 8) ^ _table_entry((found ^ byte) & 0xFF)
    return found


def _table_entry(index: int) -> int:
    for _ in range(8):
        index = (index >> 1) ^ (_EMPTY & -(index & 1) & _MASK)
    return index


FINGERPRINT = struct.pack("<Q", crc_64_avro(CANONICAL_SCHEMA.encode()))
_HEAD = _MAGIC + FINGERPRINT


class _Reader:
    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at

    @property
    def is_done(self) -> bool:
        return self._at == len(self._data)

    def long(self) -> int:
        """A zigzag varint of at most 64 bits. Raises `ValueError`, `IndexError`."""
        found = 0
        for shift in range(0, _VARINT_BITS_MAX + 1, 7):
            byte = self._data[self._at]
            self._at += 1
            found |= (byte & 0x7F) << shift
            if byte < 0x80:  # the last one
                if found > _MASK:
                    break
                return found >> 1 ^ -(found & 1)
        raise ValueError("a number of more than 64 bits")

    def text(self) -> str:
        size = _bounded(self.long(), MESSAGE_BYTES_MAX)
        start, self._at = self._at, self._at + size
        if self._at > len(self._data):
            raise ValueError("a text goes on behind the message")
        return self._data[start : self._at].decode()


def _bounded(number: int, below: int) -> int:
    if not 0 <= number < below:
        raise ValueError(f"{number} is not from 0 to {below - 1}")
    return number


def _put_long(out: bytearray, number: int) -> None:
    rest = number * 2 if number >= 0 else -number * 2 - 1
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
