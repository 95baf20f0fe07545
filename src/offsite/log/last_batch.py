"""The last batch of what is known of a log: by it a log that goes on is told from another one of the same name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from offsite.log.batch import BatchHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class LastBatch:
    """`crc`: the batch's own CRC32C, over its times, its producer and its records."""

    last_offset: int
    crc: int

    @classmethod
    def of(cls, header: BatchHeader) -> Self:
        return cls(last_offset=header.last_offset, crc=header.crc)
