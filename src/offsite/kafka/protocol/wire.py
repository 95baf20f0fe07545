"""Kafka's request and response encoding: fields as bytes. Pure.

Source: the protocol guide and KIP-482. `flexible` chooses the compact encoding of lengths, and tagged fields at the end
of every structure. Reading bytes that cannot be an answer (past the end, a length beyond the end or below null, broken
UTF-8) raises one of `UNREADABLE`; the connection turns the exception into an error of offsite. A length is believed
only once it fits into the received bytes: no allocation and no loop follows an unchecked length.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from itertools import groupby
from operator import attrgetter
from typing import Self, TypeVar
from uuid import UUID

from offsite.log.range import TopicPartition
from offsite.model.errors import BadOption

T = TypeVar("T")

_I8 = struct.Struct(">b")
_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")
_F64 = struct.Struct(">d")
_UUID_BYTES = 16
_VARINT_MORE = 0x80
_VARINT_BITS = 0x7F
_VARINT_SHIFT_MAX = 28  # five bytes: lengths and counts are of 32 bits
_NULL = -1

ARRAY_MAX = 1_000_000
"""Most items of an array that brokers read since Kafka 4.2 (`MessageUtil.MAX_ARRAY_LENGTH`). Brokers also limit tagged
fields, of which offsite writes none."""

UNREADABLE = (struct.error, LookupError, ValueError, OverflowError)
"""Exceptions of decoding bytes that are no such answer."""

MAX_THROTTLE_MS = 60_000
"""The longest wait on an answer's demand. Brokers under a quota hold the connection back themselves (KIP-219), so an
early request does no harm; a broken number, if believed, would stop a run for weeks."""


class UnreadableError(struct.error):
    """The bytes are no such answer: an impossible length or text."""


def bounded_throttle_ms(throttle_ms: int) -> int:
    """Return the wait that a broker asks for, within 0 and `MAX_THROTTLE_MS`."""
    return min(max(throttle_ms, 0), MAX_THROTTLE_MS)


class Encoder:
    """Builds one request body; every method returns the encoder itself."""

    __slots__ = ("_out", "flexible")

    def __init__(self, *, flexible: bool = False) -> None:
        self._out = bytearray()
        self.flexible = flexible

    def i8(self, value: int) -> Self:
        self._out += _I8.pack(value)
        return self

    def i16(self, value: int) -> Self:
        self._out += _I16.pack(value)
        return self

    def i32(self, value: int) -> Self:
        self._out += _I32.pack(value)
        return self

    def i64(self, value: int) -> Self:
        self._out += _I64.pack(value)
        return self

    def f64(self, value: float) -> Self:
        self._out += _F64.pack(value)
        return self

    def boolean(self, value: bool) -> Self:  # noqa: FBT001  (the value is the field)
        self._out.append(value)
        return self

    def uuid(self, value: UUID) -> Self:
        self._out += value.bytes
        return self

    def string(self, value: str | None) -> Self:
        if value is None:
            return self._length(-1, _I16)
        data = value.encode()
        self._length(len(data), _I16)
        self._out += data
        return self

    def blob(self, value: bytes) -> Self:
        self._length(len(value), _I32)
        self._out += value
        return self

    def array(self, items: Iterable[T] | None, write: Callable[[Encoder, T], object]) -> Self:
        """Write an array. `write` puts one item; for a structure of a flexible message, `write` also ends the structure
        with `end()`. Raises `BadOption` beyond `ARRAY_MAX`."""
        if items is None:
            return self._length(-1, _I32)
        values = list(items)
        if len(values) > ARRAY_MAX:
            raise BadOption(
                f"a request would list {len(values):,} items, and brokers read at most {ARRAY_MAX:,}",
                hint="select fewer topics or partitions in one command",
            )
        self._length(len(values), _I32)
        for value in values:
            write(self, value)
        return self

    def topics(
        self, partitions: Iterable[TopicPartition], write: Callable[[Encoder, TopicPartition], object] | None = None
    ) -> Self:
        """Write an array of topics, each with the array of its partitions. `write` puts one partition, and ends a
        structure as for `array`; without `write`, the number alone."""
        by_topic = [(topic, list(group)) for topic, group in groupby(sorted(partitions), key=attrgetter("topic"))]
        return self.array(by_topic, lambda out, topic: out.string(topic[0]).array(topic[1], write or _put_number).end())

    def end(self) -> Self:
        """End a structure: no tagged fields."""
        if self.flexible:
            self._out.append(0)
        return self

    def done(self) -> bytes:
        return bytes(self._out)

    def _length(self, length: int, plain: struct.Struct) -> Self:
        if self.flexible:
            self._uvarint(length + 1)
        else:
            self._out += plain.pack(length)
        return self

    def _uvarint(self, value: int) -> None:
        while value > _VARINT_BITS:
            self._out.append(value & _VARINT_BITS | _VARINT_MORE)
            value >>= 7
        self._out.append(value)


class Decoder:
    """Walks one response body in place, from `position` on."""

    __slots__ = ("data", "flexible", "position")

    def __init__(self, data: memoryview, *, position: int = 0, flexible: bool = False) -> None:
        self.data = data
        self.position = position
        self.flexible = flexible

    def i8(self) -> int:
        return self._unpack(_I8)

    def i16(self) -> int:
        return self._unpack(_I16)

    def i32(self) -> int:
        return self._unpack(_I32)

    def i64(self) -> int:
        return self._unpack(_I64)

    def f64(self) -> float:
        (value,) = _F64.unpack(self._take(_F64.size))
        return float(value)

    def boolean(self) -> bool:
        return self.i8() != 0

    def uuid(self) -> UUID:
        return UUID(bytes=bytes(self._take(_UUID_BYTES)))

    def nullable_string(self) -> str | None:
        length = self._length(_I16)
        if length < 0:
            return None
        try:
            return str(self._take(length), "utf-8")
        except UnicodeDecodeError as error:
            raise UnreadableError("a text that is not UTF-8") from error

    def string(self) -> str:
        return self.nullable_string() or ""

    def blob(self) -> bytes:
        return bytes(self._take(max(0, self._length(_I32))))

    def count(self) -> int:
        """Return the number of items of an array that the caller reads itself; null counts as 0."""
        return max(0, self._length(_I32))

    def blob_length(self) -> int:
        """Return the length of a bytes field whose content the caller takes at `position`; null counts as 0."""
        return max(0, self._length(_I32))

    def throttle_ms(self) -> int:
        """Read the throttle time, bounded by the longest acceptable wait."""
        return bounded_throttle_ms(self.i32())

    def array(self, read: Callable[[Decoder], T]) -> list[T]:
        """Read the items of an array, none for null. `read` takes one item; for a structure of a flexible message,
        `read` also ends the structure with `end()`."""
        return [read(self) for _ in range(self._length(_I32))]

    def topics(self, read: Callable[[Decoder, str], tuple[TopicPartition, T]]) -> dict[TopicPartition, T]:
        """Read an array of topics, each with the array of its partitions. `read` takes one partition of the named
        topic, and ends a structure as for `array`."""

        def read_topic(answer: Decoder) -> list[tuple[TopicPartition, T]]:
            topic = answer.string()
            partitions = answer.array(lambda partition: read(partition, topic))
            answer.end()
            return partitions

        return {key: value for partitions in self.array(read_topic) for key, value in partitions}

    def done(self) -> None:
        """Check the end of the body. Raises one of `UNREADABLE` when bytes are left."""
        if excess := len(self.data) - self.position:
            raise UnreadableError(f"{excess} bytes after the end of the answer")

    def end(self) -> None:
        """End a structure; skip tagged fields."""
        if self.flexible:
            for _ in range(self._uvarint()):
                self._uvarint()
                self._take(self._uvarint())

    def _unpack(self, kind: struct.Struct) -> int:
        (value,) = kind.unpack_from(self.data, self.position)
        self.position += kind.size
        return int(value)

    def _take(self, length: int) -> memoryview:
        end = self.position + length
        if end > len(self.data):
            raise IndexError(f"{length} bytes needed at {self.position} of {len(self.data)}")
        view = self.data[self.position : end]
        self.position = end
        return view

    def _length(self, plain: struct.Struct) -> int:
        """Read a number of bytes, or of items of at least a byte each; -1 for null."""
        length = self._uvarint() - 1 if self.flexible else self._unpack(plain)
        if not _NULL <= length <= len(self.data) - self.position:
            raise UnreadableError(f"a length of {length} at {self.position} of {len(self.data)} bytes")
        return length

    def _uvarint(self) -> int:
        value = shift = 0
        while shift <= _VARINT_SHIFT_MAX:
            byte = self.data[self.position]
            self.position += 1
            value |= (byte & _VARINT_BITS) << shift
            if byte < _VARINT_MORE:
                return value
            shift += 7
        raise UnreadableError("a varint of more than five bytes")


def partition_code(answer: Decoder, topic: str) -> tuple[TopicPartition, int]:
    """A partition's error code, of an answer that says nothing else of a partition: to be read by `Decoder.topics`."""
    partition, code = answer.i32(), answer.i16()
    answer.end()
    return TopicPartition(topic=topic, partition=partition), code


def _put_number(out: Encoder, partition: TopicPartition) -> None:
    out.i32(partition.partition)
