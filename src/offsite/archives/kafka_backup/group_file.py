"""The committed offsets of one partition: a JSON object, group → next offset to read. Pure.

The tool rewrites it in place, so a crash leaves it empty or cut: then it says nothing. Groups stand in the order of the
hash map that the tool keeps them in, so that our files are the same bytes as its own. Groups that share a slot of it
stand as they came from the broker, for which we take the order of the partitions of `__consumer_offsets` they live in.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from offsite.model.untrusted.bounded_json import BadJson, parse_json
from offsite.model.untrusted.bounds import MAX_OFFSET

_FIRST_TABLE_SIZE = 16
_MAX_LOAD = 0.75
_OFFSETS_PARTITIONS = 50  # the broker's default; GroupCoordinator: abs(hash of the group) % partitions


def encode_group_file(offsets: Mapping[str, int]) -> bytes:
    """The whole file."""
    ordered = {group: offsets[group] for group in _in_hash_order(offsets)}
    return json.dumps(ordered, ensure_ascii=False, separators=(",", ":")).encode()


def decode_group_file(data: bytes) -> dict[str, int] | None:
    """None when it is empty, cut or no such object. A null offset is left out, and one
    that Kafka cannot have."""
    try:
        document = parse_json(data)
    except BadJson:
        return None
    if not isinstance(document, dict):
        return None
    return {group: offset for group, offset in document.items() if type(offset) is int and 0 <= offset <= MAX_OFFSET}


def _in_hash_order(groups: Mapping[str, int]) -> list[str]:
    slots = _FIRST_TABLE_SIZE
    while len(groups) > slots * _MAX_LOAD:
        slots *= 2
    return sorted(groups, key=lambda group: (_spread(_hash(group)) % slots, abs(_hash(group)) % _OFFSETS_PARTITIONS))


def _spread(code: int) -> int:
    """What a Java `HashMap` makes of a hash code, to find its slot."""
    unsigned = code & 0xFFFFFFFF
    return unsigned ^ (unsigned >> 16)


def _hash(text: str) -> int:
    """Java's `String.hashCode()`: s[0]·31^(n-1) + … over UTF-16 units, as a signed 32-bit number."""
    code = 0
    for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H"):
        code = (31 * code + unit) & 0xFFFFFFFF
    return code - (1 << 32) if code >> 31 else code
