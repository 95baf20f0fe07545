"""Judges the records that a compacted log lacks: a record is superseded if its key comes again later; otherwise lost.

The log cleaner keeps the last record of every key. The last lacking record of a key needs a later record of the key in
the log. Exceptions: a tombstone (tombstones expire), a record without a key (the cleaner drops such records), and a
record of an aborted transaction. Memory grows with the lacking keys that did not come again so far: 64-bit hashes, at
most `HELD_KEYS_MAX`; beyond the limit the question stays open.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from offsite.log.difference import RecordDifference
from offsite.log.records.record import Record

HELD_KEYS_MAX = 500_000
"""Keys held at once: about 60 MB in a worker."""


class SupersededKeys:
    """Judges the records that a compacted log lacks, given all records in the order of the log. `placed`: the records
    of both sides have the offsets of one log."""

    def __init__(self, *, placed: bool, held_max: int = HELD_KEYS_MAX) -> None:
        self._placed = placed
        self._held_max = held_max
        self._held: dict[int, int] = {}
        """By key, the offset in the backup of the last lacking record; `~offset` when the record may be lacking
        rightly."""
        self._too_many = False

    @property
    def waits(self) -> bool:
        """Whether a later record could still explain a lacking record."""
        return bool(self._held)

    def lack(self, records: Iterable[Record], *, committed: bool | None) -> None:
        """Take records of the backup that the log does not have. `committed`: whether their transaction was committed;
        None: unknown."""
        for record in records:
            if record.key is not None and committed is not False and not self._too_many:
                self._hold(hash(record.key), record, certain=committed is True)

    def show(self, records: Sequence[Record], *, committed: bool | None) -> None:
        """Take records of the log."""
        if not self._held or committed is False:
            return
        for record in records:
            key = hash(record.key)
            offset = self._held.get(key)
            if record.key is None or offset is None or (self._placed and record.offset <= max(offset, ~offset)):
                continue
            if committed:
                del self._held[key]
            else:
                self._held[key] = min(offset, ~offset)

    def lost(self) -> RecordDifference | None:
        """The records that compaction cannot have removed. Call after all records of the log."""
        lost = [offset for offset in self._held.values() if offset >= 0]
        if not lost:
            return None
        return RecordDifference(
            kind="missing",
            fields=(),
            source_offset=min(lost),
            target_offset=-1,
            records=len(lost),
            detail=f"{len(lost):,} {'record' if len(lost) == 1 else 'records'} of the backup, the first at offset "
            f"{min(lost)}, missing in the cluster, and no later record of the same key either: compaction would "
            "keep the last record of each key",
        )

    def unknown(self) -> str:
        """Why it is uncertain whether compaction removed all lacking records; empty when certain."""
        if self._too_many:
            return (
                f"it lacks records of more than {self._held_max:,} keys that compaction may have removed: too many to "
                "check for a later record of each key"
            )
        if any(offset < 0 for offset in self._held.values()):
            return "it lacks records of transactions with an unknown end, and later records of their keys"
        return ""

    def _hold(self, key: int, record: Record, *, certain: bool) -> None:
        held_offset = self._held.get(key)
        if certain and record.value is None:
            self._held.pop(key, None)
        elif certain:
            self._held[key] = record.offset
        elif record.value is not None:
            self._held.setdefault(key, ~record.offset)
        elif held_offset is not None:
            self._held[key] = min(held_offset, ~held_offset)
        if len(self._held) > self._held_max:
            self._held.clear()
            self._too_many = True
