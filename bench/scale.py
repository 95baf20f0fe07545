"""How much the bench moves, and how often."""

from __future__ import annotations

from dataclasses import dataclass

CODECS = ("none", "lz4", "zstd")
PARTITIONS = 4
RECORD_BYTES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """`records` per topic, one topic for each codec; `small_records` are those of the topic of the start-up figures."""

    records: int
    repeats: int
    small_records: int = 500_000

    @property
    def payload_bytes(self) -> int:
        """The values of one topic: what every MB/s here counts, whatever a codec made of them."""
        return self.records * RECORD_BYTES


FULL = Scale(records=4_000_000, repeats=3)
QUICK = Scale(records=400_000, repeats=1)
