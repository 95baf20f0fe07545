"""Which records a compacted log may lack: those whose key comes again behind them. The others were lost.

The log cleaner keeps the last record of each key. So the last one that is lacking needs a later record of its key in
the log, unless it is a tombstone (they expire), has no key (the cleaner drops those), or is of a transaction that was
aborted. Memory grows with the keys that are lacking and did not come again so far: 64-bit hashes, `HELD_KEYS_MAX` of
them; beyond that, the question stays open.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from offsite.log.difference import Difference
from offsite.log.records.record import Record

HELD_KEYS_MAX = 500_000
"""Keys held at once: about 60 MB in a worker."""


class Superseded:
    """Judge of the records that a compacted log lacks, told of all records in the order of the log. `placed`: those of
    both sides have the offsets of one log."""

    def __init__(self, *, placed: bool, held_max: int = HELD_KEYS_MAX) -> None:
        self._placed = placed
        self._held_max = held_max
        self._held: dict[int, int] = {}
        """By key, the offset in the backup of the last record that is lacking; `~offset` where that may be right."""
        self._too_many = False

    @property
    def waits(self) -> bool:
        """Whether a later record could still explain one that is lacking."""
        return bool(self._held)

    def lack(self, records: Iterable[Record], *, committed: bool | None) -> None:
        """Take records of the backup that the log does not have. `committed`: whether their transaction was; None: not
        known."""
        for record in records:
            if record.key is not None and committed is not False and not self._too_many:
                self._hold(hash(record.key), record, certain=committed is True)

    def show(self, records: Sequence[Record], *, committed: bool | None) -> None:
        """Take records that the log has."""
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

    def lost(self) -> Difference | None:
        """The records that compaction cannot have taken, after all of the log was shown."""
        lost = [offset for offset in self._held.values() if offset >= 0]
        if not lost:
            return None
        return Difference(
            kind="missing",
            fields=(),
            source_offset=min(lost),
            target_offset=-1,
            records=len(lost),
            detail=f"{len(lost):,} {'record' if len(lost) == 1 else 'records'} of the backup, the first at offset "
            f"{min(lost)}, not in the cluster, nor a later one of the same key: compaction keeps the last of each",
        )

    def unknown(self) -> str:
        """Why it is not known whether compaction took all that is lacking; empty where it is."""
        if self._too_many:
            return (
                f"it lacks records of more than {self._held_max:,} keys that compaction may have taken: whether a "
                "later record of each key is there was not followed up"
            )
        if any(offset < 0 for offset in self._held.values()):
            return "it lacks records of transactions whose end is not known, and later ones of their keys"
        return ""

    def _hold(self, key: int, record: Record, *, certain: bool) -> None:
        held = self._held.get(key)
        if certain and record.value is None:
            self._held.pop(key, None)
        elif certain:
            self._held[key] = record.offset
        elif record.value is not None:
            self._held.setdefault(key, ~record.offset)
        elif held is not None:
            self._held[key] = min(held, ~held)
        if len(self._held) > self._held_max:
            self._held.clear()
            self._too_many = True
