"""Reads the footers and page headers of Parquet: the memory needed by pyarrow, known before pyarrow allocates. Pure.

A page states its size, and pyarrow believes the statement; the reader here checks first. Page bytes do not bound the
values of a page with a dictionary, nor values that repeat the beginning of the previous value. Lists and structs nest a
few levels at most. Format: Thrift compact protocol specification; parquet.thrift.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, cast

__all__ = [
    "I32",
    "I64",
    "LIST",
    "STRUCT",
    "BadThrift",
    "Fetch",
    "Fields",
    "Page",
    "check_footer",
    "read_pages",
    "read_struct",
    "window_bytes",
]


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


_OPTIONAL, _REPEATED = 1, 2
_BYTE_ARRAY = 6
_HEADER_BYTES, _MAX_HEADER_BYTES = 1 << 10, 1 << 20
_MAX_FOOTER_BYTES, _MAX_SCHEMA_DEPTH = 4 << 20, 32
_MAGIC = b"PAR1"
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_DICTIONARY_ENCODINGS, _DELTA_BYTE_ARRAY = (2, 8), 7
Fetch = Callable[[int, int], bytes]
"""Returns bytes from a start, at most a given number."""


class _Leaf(NamedTuple):
    is_bytes: bool
    repetition: int
    definition: int


def check_levels(footer: Fields) -> None:
    """Check a footer's counts by nesting level against the schema: a difference makes pyarrow end the process.

    Raises `BadThrift`. Source: parquet.thrift, `SizeStatistics`.
    """
    leaves = list(_leaves(_structs(footer, 2)))
    for group in _structs(footer, 4):
        chunks = _structs(group, 1)
        if len(chunks) != len(leaves):
            raise BadThrift(f"a row group of {len(chunks)} columns, of {len(leaves)}")
        for leaf, chunk in zip(leaves, chunks, strict=True):
            _check(leaf, _struct(_struct(chunk, 3), 16))


def _check(leaf: _Leaf, sizes: Fields) -> None:
    levels = {2: leaf.repetition, 3: leaf.definition}
    counts = {number: len(cast("list[object]", sizes.get((number, LIST), []))) for number in levels}
    if any(count not in (0, levels[number] + 1) for number, count in counts.items()):
        raise BadThrift("a column of other levels than its schema has")
    if (1, I64) in sizes and not leaf.is_bytes:
        raise BadThrift("a column without texts, but with sizes of texts")


def _leaves(elements: Sequence[Fields]) -> Iterator[_Leaf]:
    """Yield the leaves in the order of columns; the first element is the root, counted by no level."""
    remaining = iter(elements)
    open_groups = [(_number_or_0(next(remaining, {}), 5), 0, 0)]
    while open_groups:
        children, repetition, definition = open_groups.pop()
        if children <= 0:
            continue
        open_groups.append((children - 1, repetition, definition))
        element = next(remaining, None)
        if element is None:
            raise BadThrift("a truncated schema")
        kind, inner = _number_or_0(element, 3), _number_or_0(element, 5)
        repetition, definition = repetition + (kind == _REPEATED), definition + (kind in (_OPTIONAL, _REPEATED))
        if inner > 0:
            open_groups.append((inner, repetition, definition))
        else:
            yield _Leaf(_number_or_0(element, 1) == _BYTE_ARRAY, repetition, definition)


def _structs(fields: Fields, number: int) -> list[Fields]:
    structs = cast("list[Fields]", fields.get((number, LIST), []))
    if not all(isinstance(struct, dict) for struct in structs):
        raise BadThrift(f"field {number} is not a list of structs")
    return structs


def _struct(fields: Fields, number: int) -> Fields:
    return cast("Fields", fields.get((number, STRUCT), {}))


def _number_or_0(fields: Fields, number: int) -> int:
    return cast("int", fields.get((number, I32), 0))


class Page(NamedTuple):
    """A page, by its header. `is_growing`: every value may be as large as the page. `is_named`: values refer to the
    dictionary, which is a page as well."""

    plain_bytes: int
    values: int
    is_dictionary: bool
    is_named: bool
    is_growing: bool


def check_footer(fetch: Fetch, size_bytes: int) -> None:
    """Check the footer of a file. Raises `BadThrift` for a footer with excessive memory needs or with a schema
    dangerous for pyarrow."""
    tail = fetch(max(size_bytes - 8, 0), 8)
    footer_bytes = int.from_bytes(tail[:4], "little")
    if tail[4:] != _MAGIC or not footer_bytes <= min(size_bytes - 12, _MAX_FOOTER_BYTES):
        raise BadThrift(f"a footer of {footer_bytes} bytes, or none")
    footer, _ = read_struct(fetch(size_bytes - 8 - footer_bytes, footer_bytes))
    open_groups: list[int] = []
    for element in cast("list[Fields]", footer.get((2, LIST), [])):
        if isinstance(element, dict) and (children := _number(element, 5, default=0)) > 0:
            open_groups.append(children + 1)
        if len(open_groups) > _MAX_SCHEMA_DEPTH:
            raise BadThrift(f"a schema that nests deeper than {_MAX_SCHEMA_DEPTH}")
        while open_groups:
            open_groups[-1] -= 1
            if open_groups[-1]:
                break
            open_groups.pop()
    check_levels(footer)


def read_pages(fetch: Fetch, start: int, size_bytes: int) -> Iterator[Page]:
    """Yield the pages of a column chunk. Raises `BadThrift`."""
    at, end = start, start + size_bytes
    while at < end:
        header, header_bytes = _header(fetch, at, end)
        plain_bytes, stored_bytes = _number(header, 2), _number(header, 3)
        if plain_bytes < 0 or not 0 <= stored_bytes <= end - at - header_bytes:
            raise BadThrift(f"a page of {stored_bytes} bytes at byte {at}")
        yield _page(header, plain_bytes)
        at += header_bytes + stored_bytes


def window_bytes(pages: Sequence[Page], values: int) -> int:
    """Return the maximum size of `values` successive values, wherever the window lies, for values without a
    dictionary."""
    costs = [_cost(page, values) for page in pages]
    most = total = inner = first = 0
    for last in range(len(pages)):
        total += costs[last]
        inner += pages[last - 1].values if last - 1 > first else 0
        while inner > values - 2 and first < last:
            total -= costs[first]
            first += 1
            inner -= pages[first].values if first < last else 0
        most = max(most, total)
    return most


def _cost(page: Page, values: int) -> int:
    if page.is_named or page.is_dictionary:
        return 0
    return page.plain_bytes * (min(values, page.values) if page.is_growing else 1)


def _header(fetch: Fetch, at: int, end: int) -> tuple[Fields, int]:
    chunk_bytes = _HEADER_BYTES
    while True:
        data = fetch(at, min(chunk_bytes, end - at))
        try:
            return read_struct(data)
        except BadThrift:
            if len(data) < chunk_bytes or chunk_bytes >= _MAX_HEADER_BYTES:
                raise
            chunk_bytes *= 32


def _page(header: Fields, plain_bytes: int) -> Page:
    kind = _number(header, 1)
    number = {_DATA: 5, _DICTIONARY: 7, _DATA_V2: 8}.get(kind)
    if number is None:
        return Page(plain_bytes, 0, is_dictionary=False, is_named=False, is_growing=False)
    inner = header.get((number, STRUCT))
    if not isinstance(inner, dict):
        raise BadThrift("a page without its header")
    values, encoding = _number(inner, 1), _number(inner, 4 if kind == _DATA_V2 else 2)
    is_dictionary = kind == _DICTIONARY
    if values < 0 or (is_dictionary and values > plain_bytes):
        raise BadThrift(f"a page of {values} values in {plain_bytes} bytes")
    is_named = not is_dictionary and encoding in _DICTIONARY_ENCODINGS
    return Page(plain_bytes, values, is_dictionary, is_named, encoding == _DELTA_BYTE_ARRAY)


def _number(fields: Fields, number: int, *, default: int | None = None) -> int:
    value = fields.get((number, I32), default)
    if not isinstance(value, int) or not -(1 << 31) <= value < 1 << 31:
        raise BadThrift(f"no field {number}")
    return value
