"""The committed offsets of groups in an archive: a file per partition, and all groups from all files.

A file is a JSON object, group → next offset to read. The tool rewrites the file in place, so a crash leaves the file
empty or cut: such a file says nothing. Groups appear in the order of the tool's hash map, so offsite's files equal the
tool's byte for byte. Groups in a shared slot appear in the broker's order; offsite assumes the order of the groups'
partitions of `__consumer_offsets`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from offsite.archives.files import Files
from offsite.archives.kafka_backup.partition_files import PartitionFiles
from offsite.log.group_offsets import CommittedOffset, GroupOffsets, TopicOffsets
from offsite.model.bounds import MAX_OFFSET
from offsite.model.untrusted.bounded_json import BadJson, parse_json

_CONNECT = "connect-"
_USUAL_OWN_GROUP = "connect-backup-sink"
_FIRST_TABLE_SIZE = 16
_MAX_LOAD = 0.75
_OFFSETS_PARTITIONS = 50  # the broker's default; GroupCoordinator: abs(hash of the group) % partitions


def read_groups(
    files: Files, partitions: Sequence[PartitionFiles], own_group: str
) -> tuple[dict[str, GroupOffsets], tuple[str, ...]]:
    """Return the groups by name, without the tool's own, and sentences about left-out and unreadable data. A file empty
    or cut by a crash counts as absent."""
    by_group: dict[str, dict[str, list[CommittedOffset]]] = {}
    unreadable = []
    for partition in partitions:
        if partition.group_file is None:
            continue
        offsets = decode_group_file(files.get(partition.group_file) or b"")
        if offsets is None:
            unreadable.append(
                f"{partition.group_file} is empty or truncated, so committed offsets of that partition are unknown"
            )
        for group, offset in (offsets or {}).items():
            row = CommittedOffset(partition.partition, offset)
            by_group.setdefault(group, {}).setdefault(partition.topic, []).append(row)
    excluded_group = _own_group(by_group, own_group)
    sentences = (
        (f"the group {excluded_group} was left out: it belongs to the backup itself",)
        if excluded_group in by_group
        else ()
    )
    groups = {name: _group(name, by_group[name]) for name in sorted(by_group) if name != excluded_group}
    return groups, (*sentences, *unreadable)


def _own_group(groups: Iterable[str], own_group: str) -> str:
    if own_group:
        return own_group
    connectors = [group for group in groups if group.startswith(_CONNECT)]
    if _USUAL_OWN_GROUP in connectors:
        return _USUAL_OWN_GROUP
    return connectors[0] if len(connectors) == 1 else ""


def _group(name: str, topics: Mapping[str, Iterable[CommittedOffset]]) -> GroupOffsets:
    rows = tuple(TopicOffsets.of(topic, topics[topic]) for topic in sorted(topics))
    return GroupOffsets(group=name, topics=rows)


def encode_group_file(offsets: Mapping[str, int]) -> bytes:
    """Encode the whole file."""
    ordered = {group: offsets[group] for group in _in_hash_order(offsets)}
    return json.dumps(ordered, ensure_ascii=False, separators=(",", ":")).encode()


def decode_group_file(data: bytes) -> dict[str, int] | None:
    """Decode a group file; None for an empty, cut or otherwise invalid file. Null offsets and offsets beyond Kafka's
    limits are left out."""
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
    """Return Java `HashMap`'s spread of a hash code, which decides the slot."""
    unsigned = code & 0xFFFFFFFF
    return unsigned ^ (unsigned >> 16)


def _hash(text: str) -> int:
    """Java's `String.hashCode()`: s[0]·31^(n-1) + … over UTF-16 units, as a signed 32-bit number."""
    code = 0
    for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H"):
        code = (31 * code + unit) & 0xFFFFFFFF
    return code - (1 << 32) if code >> 31 else code
