"""The keys of a batch by offset. A compaction needs no more of most records, and nothing more is built."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from offsite.log.batch import BatchHeader
from offsite.log.buffer import Buffer
from offsite.log.records.batch_records import decode, decode_rows

__all__ = ["KeyedRecords", "keyed_records"]

_KEY, _VALUE, _OFFSET = map(attrgetter, ("key", "value", "offset"))


class KeyedRecords(NamedTuple):
    """The keys (None: no key), offsets and values (None: a tombstone) of the records of a batch."""

    keys: Sequence[bytes | None]
    offsets: Sequence[int]
    values: Sequence[bytes | None]

    def within(self, start: int, end: int) -> KeyedRecords:
        """The records at offsets in `[start, end)`."""
        places = [place for place, offset in enumerate(self.offsets) if start <= offset < end]
        keys, offsets, values = self
        return KeyedRecords(
            [keys[place] for place in places], [offsets[place] for place in places], [values[place] for place in places]
        )


def keyed_records(batch: Buffer, header: BatchHeader) -> KeyedRecords:
    """The keys of a data batch (`header.view(data)`), in order. Raises `DamagedBatch`."""
    listed = decode_rows(batch, header)
    rows = decode(batch, header) if listed is None else listed.rows
    offsets = list(map(_OFFSET, rows)) if header.has_gaps else range(header.base_offset, header.next_offset)
    return KeyedRecords(list(map(_KEY, rows)), offsets, list(map(_VALUE, rows)))
