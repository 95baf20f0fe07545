"""The committed offsets of all groups of an archive, from the files of all partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from offsite.archives.files import Files
from offsite.archives.kafka_backup.group_file import decode_group_file
from offsite.archives.kafka_backup.partition_files import PartitionFiles
from offsite.log.groups.offsets import CommittedOffset, GroupOffsets, TopicOffsets

_CONNECT = "connect-"
_USUAL_OWN_GROUP = "connect-backup-sink"


def read_groups(
    files: Files, partitions: Sequence[PartitionFiles], own_group: str
) -> tuple[dict[str, GroupOffsets], tuple[str, ...]]:
    """Groups by name, without the tool's own, and a sentence about that one. A file that is empty or cut, as a crash
    leaves it, counts as absent."""
    found: dict[str, dict[str, list[CommittedOffset]]] = {}
    unreadable = []
    for each in partitions:
        if each.group_file is None:
            continue
        offsets = decode_group_file(files.get(each.group_file) or b"")
        if offsets is None:
            unreadable.append(f"{each.group_file} is empty or cut, so committed offsets of that partition are unknown")
        for group, offset in (offsets or {}).items():
            row = CommittedOffset(each.partition, offset)
            found.setdefault(group, {}).setdefault(each.topic, []).append(row)
    own = _own_group(found, own_group)
    sentences = (f"the group {own} was left out, as that of the backup itself",) if own in found else ()
    groups = {name: _group(name, found[name]) for name in sorted(found) if name != own}
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
