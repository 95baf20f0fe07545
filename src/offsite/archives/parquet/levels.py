"""What a footer counts by levels of nesting, held against its schema: pyarrow ends the process where they differ.

Source: parquet.thrift, `SizeStatistics`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

from offsite.archives.parquet.thrift import I32, I64, LIST, STRUCT, BadThrift, Fields

__all__ = ["check_levels"]

_OPTIONAL, _REPEATED = 1, 2
_BYTE_ARRAY = 6


class _Leaf(NamedTuple):
    is_bytes: bool
    repetition: int
    definition: int


def check_levels(footer: Fields) -> None:
    """Raises `BadThrift`."""
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
        raise BadThrift("a column with sizes of texts that are none")


def _leaves(elements: Sequence[Fields]) -> Iterator[_Leaf]:
    """In the order of columns; the first element is the root, which no level counts."""
    rest = iter(elements)
    open_groups = [(_number(next(rest, {}), 5), 0, 0)]
    while open_groups:
        children, repetition, definition = open_groups.pop()
        if children <= 0:
            continue
        open_groups.append((children - 1, repetition, definition))
        element = next(rest, None)
        if element is None:
            raise BadThrift("a schema that is cut")
        kind, inner = _number(element, 3), _number(element, 5)
        repetition, definition = repetition + (kind == _REPEATED), definition + (kind in (_OPTIONAL, _REPEATED))
        if inner > 0:
            open_groups.append((inner, repetition, definition))
        else:
            yield _Leaf(_number(element, 1) == _BYTE_ARRAY, repetition, definition)


def _structs(fields: Fields, number: int) -> list[Fields]:
    found = cast("list[Fields]", fields.get((number, LIST), []))
    if not all(isinstance(each, dict) for each in found):
        raise BadThrift(f"field {number} is no list of structs")
    return found


def _struct(fields: Fields, number: int) -> Fields:
    return cast("Fields", fields.get((number, STRUCT), {}))


def _number(fields: Fields, number: int) -> int:
    return cast("int", fields.get((number, I32), 0))
