"""Kafka's request and response encoding: what a field looks like in bytes. Pure.

Source: the protocol guide and KIP-482. `flexible` chooses the compact encoding of lengths and the tagged fields that
end each structure. Reading what cannot be an answer (past its end, a length beyond it or below null, broken UTF-8)
raises one of `UNREADABLE`, which the connection turns into an error of ours. No length is believed before it is seen
to fit into what has arrived: nothing is allocated for it, and no loop runs after it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Self, TypeVar
from uuid import UUID

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

UNREADABLE = (struct.error, LookupError, ValueError, OverflowError)
"""What decoding raises on bytes that are no such answer."""

MAX_THROTTLE_MS = 60_000
"""The longest that we wait because an answer says so. Brokers under a quota hold the connection back themselves
(KIP-219), so to ask again earlier than told does no harm; to believe a broken number would stop a run for weeks."""


class UnreadableError(struct.error):
    """The bytes are no such answer: a length or a text that cannot be."""


def bounded_throttle_ms(told_ms: int) -> int:
    """What a broker says we should wait, within 0 and `MAX_THROTTLE_MS`."""
    return min(max(told_ms, 0), MAX_THROTTLE_MS)


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
        """Write an array. `write` puts one item and, where it is a structure of a flexible message, ends it with
        `end()`."""
        if items is None:
            return self._length(-1, _I32)
        values = list(items)
        self._length(len(values), _I32)
        for value in values:
            write(self, value)
        return self

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
            raise UnreadableError("a text that is no UTF-8") from error

    def string(self) -> str:
        return self.nullable_string() or ""

    def blob(self) -> bytes:
        return bytes(self._take(max(0, self._length(_I32))))

    def count(self) -> int:
        """The number of items of an array that the caller reads itself; null counts as 0."""
        return max(0, self._length(_I32))

    def blob_length(self) -> int:
        """The length of a bytes field whose content the caller takes at `position` itself; null counts as 0."""
        return max(0, self._length(_I32))

    def throttle_ms(self) -> int:
        """The field of that name, within what we are ready to wait."""
        return bounded_throttle_ms(self.i32())

    def array(self, read: Callable[[Decoder], T]) -> list[T]:
        """The items of an array, none for null. `read` takes one item and, where it is a structure of a flexible
        message, ends it with `end()`."""
        return [read(self) for _ in range(self._length(_I32))]

    def done(self) -> None:
        """The body ends here. Raises one of `UNREADABLE` when there is more of it."""
        if left := len(self.data) - self.position:
            raise UnreadableError(f"{left} bytes behind the answer's end")

    def end(self) -> None:
        """End a structure: tagged fields are skipped."""
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
            raise IndexError(f"{length} bytes wanted at {self.position} of {len(self.data)}")
        taken = self.data[self.position : end]
        self.position = end
        return taken

    def _length(self, plain: struct.Struct) -> int:
        """Of bytes, or a number of items, each of which takes a byte at least; -1 for null."""
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
