"""The committed offsets of one partition: a JSON object, group → next offset to read. Pure.

The tool rewrites it in place, so a crash leaves it empty or cut: then it says nothing. Groups stand in the order of the
hash map that the tool keeps them in, so that our files are the same bytes as its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

_FIRST_TABLE_SIZE = 16
_MAX_LOAD = 0.75


def encode_group_file(offsets: Mapping[str, int]) -> bytes:
    """Groups that share a slot of the hash map keep the order that they are given in."""
    ordered = {group: offsets[group] for group in _in_hash_order(offsets)}
    return json.dumps(ordered, ensure_ascii=False, separators=(",", ":")).encode()


def decode_group_file(data: bytes) -> dict[str, int] | None:
    """None when it is empty, cut or no such object. A null offset is left out."""
    try:
        document = json.loads(data)
    except ValueError:
        return None
    if not isinstance(document, dict):
        return None
    return {group: offset for group, offset in document.items() if type(offset) is int and offset >= 0}


def _in_hash_order(groups: Mapping[str, int]) -> list[str]:
    slots = _FIRST_TABLE_SIZE
    while len(groups) > slots * _MAX_LOAD:
        slots *= 2
    return sorted(groups, key=lambda group: _spread_hash(group) % slots)


def _spread_hash(text: str) -> int:
    """What a Java `HashMap` makes of `String.hashCode()` (documented there: s[0]·31^(n-1) + … over UTF-16 units)."""
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    code = 0
    for unit in units:
        code = (31 * code + unit) & 0xFFFFFFFF
    return code ^ (code >> 16)
