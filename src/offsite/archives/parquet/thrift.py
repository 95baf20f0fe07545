"""Thrift's compact protocol, as far as needed for footers and page headers of Parquet. Pure.

pyarrow believes footers and headers unchecked; the reader here checks first. Lists and structs nest a few levels at
most. Format: Thrift compact protocol specification; parquet.thrift.
"""

from __future__ import annotations

__all__ = ["I32", "I64", "LIST", "STRUCT", "BadThrift", "Fields", "read_struct"]

I32, I64, BINARY, LIST, SET, MAP, STRUCT = 5, 6, 8, 9, 10, 11, 12
_TRUE, _FALSE, _BYTE, _I16, _DOUBLE = 1, 2, 3, 4, 7
_MAX_DEPTH = 12

Fields = dict[tuple[int, int], object]
"""Values by number and type: readers skip a field of unexpected type."""


class BadThrift(ValueError):
    """The bytes are no struct, or claim more bytes than exist."""


def read_struct(data: bytes, at: int = 0) -> tuple[Fields, int]:
    """Read the struct at a position; returns the struct and the position behind."""
    try:
        return _Reader(data).struct(at, 0)
    except IndexError as error:
        raise BadThrift("a struct is cut") from error


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def struct(self, at: int, depth: int) -> tuple[Fields, int]:
        if depth > _MAX_DEPTH:
            raise BadThrift("structs that nest too deep")
        fields: Fields = {}
        number = 0
        while head := self._data[at]:
            kind, at = head & 15, at + 1
            if head >> 4:
                number += head >> 4
            else:
                number, at = self._long(at)
            fields[number, kind], at = self._field(kind, at, depth)
        return fields, at + 1

    def _field(self, kind: int, at: int, depth: int) -> tuple[object, int]:
        return (kind == _TRUE, at) if kind in (_TRUE, _FALSE) else self._value(kind, at, depth)

    def _value(self, kind: int, at: int, depth: int) -> tuple[object, int]:
        if kind in (_TRUE, _FALSE, _BYTE):
            return self._data[at], at + 1
        if kind in (_I16, I32, I64):
            return self._long(at)
        if kind == _DOUBLE:
            return None, at + 8
        if kind == BINARY:
            size, at = self._varint(at)
            return None, self._checked(at + size)
        if kind == STRUCT:
            return self.struct(at, depth + 1)
        if kind in (LIST, SET):
            return self._list(at, depth)
        raise BadThrift(f"a field of type {kind}")

    def _list(self, at: int, depth: int) -> tuple[list[object], int]:
        if depth > _MAX_DEPTH:
            raise BadThrift("lists that nest too deep")
        head, at = self._data[at], at + 1
        size, kind = head >> 4, head & 15
        if size == 15:
            size, at = self._varint(at)
        if size > len(self._data) - at:
            raise BadThrift(f"a list of {size}")
        items = []
        for _ in range(size):
            element, at = self._value(kind, at, depth + 1)
            items.append(element)
        return items, at

    def _long(self, at: int) -> tuple[int, int]:
        value, at = self._varint(at)
        return value >> 1 ^ -(value & 1), at

    def _varint(self, at: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            byte = self._data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, at
            shift += 7
            if shift > 63:
                raise BadThrift("a number of more than 64 bits")

    def _checked(self, at: int) -> int:
        if at > len(self._data):
            raise BadThrift("a text is cut")
        return at
