"""The committed offsets that one partition of `__consumer_offsets` adds up to, as a group coordinator would know them.

Memory holds one entry per live (group, topic, partition), however long the log is. Commits made inside a
transaction count from its commit marker on, and never over a commit that was written after them (KIP-98).
"""

from __future__ import annotations

from collections.abc import Iterable

from offsite.log.batch import BatchHeader
from offsite.log.buffer import Buffer
from offsite.log.control import control_type
from offsite.log.groups.offsets import GroupOffsets, TopicOffsetsBuilder
from offsite.log.groups.records import GroupPartition, OffsetRecord, parse_group_record
from offsite.log.records.batch_records import iterate

__all__ = ["GroupFold"]


class GroupFold:
    """Fed with the batches of one partition in offset order."""

    def __init__(self, *, until_ms: int | None = None) -> None:
        """`until_ms`: records dated later do not count."""
        self.skipped_records = 0
        """Records that hold no commit: descriptions of groups, and versions that are not known."""
        self._until_ms = until_ms
        self._commits: dict[GroupPartition, OffsetRecord] = {}
        self._pending: dict[int, dict[GroupPartition, OffsetRecord]] = {}

    def feed(self, data: Buffer, headers: Iterable[BatchHeader]) -> None:
        """Take in the next batches. Raises `DamagedBatch`."""
        for header in headers:
            if header.is_control:
                self._end_transaction(header.view(data), header)
            elif header.record_count:
                self._take(header.view(data), header)

    def table(self) -> dict[str, GroupOffsets]:
        """The groups by name, after the last batch; open transactions do not count. Raises `DamagedBatch`.

        A group lives in one partition of `__consumer_offsets` only: tables of several are joined without a conflict.
        """
        found: dict[str, dict[str, TopicOffsetsBuilder]] = {}
        for of, commit in self._commits.items():
            topics = found.setdefault(of.group, {})
            builder = topics.get(of.topic) or topics.setdefault(of.topic, TopicOffsetsBuilder(of.topic))
            builder.add(*commit.committed())
        return {
            group: GroupOffsets(group=group, topics=tuple(topics[name].build() for name in sorted(topics)))
            for group, topics in sorted(found.items())
        }

    def _take(self, batch: memoryview, header: BatchHeader) -> None:
        for record in iterate(batch, header):
            if self._until_ms is not None and record.timestamp_ms > self._until_ms:
                continue
            parsed = parse_group_record(record)
            if parsed is None:
                self.skipped_records += 1
            elif parsed.value is None:
                self._remove(parsed.of)
            elif header.is_transactional:
                self._pending.setdefault(header.producer_id, {})[parsed.of] = parsed
            else:
                self._commits[parsed.of] = parsed

    def _remove(self, of: GroupPartition) -> None:
        self._commits.pop(of, None)
        for pending in self._pending.values():
            pending.pop(of, None)

    def _end_transaction(self, batch: memoryview, header: BatchHeader) -> None:
        marker = control_type(batch, header)
        if marker is None or self._is_late(header):
            return
        ended = self._pending.pop(header.producer_id, {})
        for of, commit in ended.items() if marker.kind == "commit" else ():
            known = self._commits.get(of)
            if known is None or known.position < commit.position:
                self._commits[of] = commit

    def _is_late(self, header: BatchHeader) -> bool:
        return self._until_ms is not None and header.max_timestamp_ms > self._until_ms
