"""Committed offsets out of an archived `__consumer_offsets`: the last record of each key counts."""

from __future__ import annotations

from collections.abc import Iterable

from offsite.log.groups.fold import GroupPartition, OffsetRecord, parse_group_record
from offsite.log.groups.offsets import CommittedOffset, GroupOffsets, TopicOffsets
from offsite.log.records.record import Record

__all__ = ["OFFSETS_TOPIC", "GroupTable"]

OFFSETS_TOPIC = "__consumer_offsets"


class GroupTable:
    """Fed with the records of each partition in the order of offsets; a group lives in one partition."""

    def __init__(self) -> None:
        self._commits: dict[GroupPartition, OffsetRecord] = {}

    def feed(self, records: Iterable[Record]) -> None:
        """Raises `DamagedBatch` for a record whose key is cut."""
        for record in records:
            parsed = parse_group_record(record)
            if parsed is None:
                continue
            if parsed.value is None:
                self._commits.pop(parsed.of, None)
            else:
                self._commits[parsed.of] = parsed

    def groups(self) -> dict[str, GroupOffsets]:
        """By name. Raises `DamagedBatch` for a value that is cut."""
        found: dict[str, dict[str, list[CommittedOffset]]] = {}
        for of, commit in self._commits.items():
            found.setdefault(of.group, {}).setdefault(of.topic, []).append(commit.committed())
        return {
            group: GroupOffsets(
                group=group, topics=tuple(TopicOffsets.of(topic, topics[topic]) for topic in sorted(topics))
            )
            for group, topics in sorted(found.items())
        }
