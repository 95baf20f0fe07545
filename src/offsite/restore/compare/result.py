"""The result of comparing a cluster with a backup: equal, different, or unknown, with details.

Three results, because "nothing was different" is only worth something if something was compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofFinding:
    """The first difference in one partition; `partition` is -1 for a difference of the whole topic. `kind`: `changed`,
    `missing`, `extra`, `reordered`, `map` (see `RecordDifference`), `topic` (missing), `partitions` (another number),
    `truncated` (the log ends before the backup does), `bounds` (wrong start or end) or `damaged` (one of the ends will
    never be readable)."""

    source: str
    topic: str
    partition: int
    kind: str
    fields: tuple[str, ...]
    source_offset: int
    target_offset: int
    records: int
    detail: str

    @property
    def where(self) -> str:
        """`topic/partition (from source), source offset N, target offset M`, with the known parts."""
        place = self.topic if self.partition < 0 else f"{self.topic}/{self.partition}"
        renamed = f" (from {self.source})" if self.source != self.topic else ""
        sides = {"source offset": self.source_offset, "target offset": self.target_offset}
        return ", ".join([f"{place}{renamed}", *(f"{side} {at}" for side, at in sides.items() if at >= 0)])

    @property
    def what(self) -> str:
        return f"{self.kind}: {self.detail}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UncomparedPartition:
    """A partition that could not be read now, with the reason: nothing is known of it. `error` is the error's id; empty
    when the partition was read, and the read did not decide whether compaction removed all lacking records."""

    source: str
    topic: str
    partition: int
    error: str
    message: str
    hint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenPartition:
    """Result for one partition. `verified`: True when records were compared and all are equal; False with a finding;
    None without anything to compare, for an unreadable partition, or when the read did not decide (`problem`).

    `records` are equal at both ends, and so are `markers` of transactions (compared only for the very topic of the
    backup). `digest` is over all of them, empty with a difference or when records of several partitions were compared.

    Since the backup, the cluster has written `later_offsets` after the backup's end, deleted `expired_offsets` at the
    beginning, and lost `compacted_records` to compaction, for certain or, when unknown, perhaps. These numbers do not
    count, unless the proof is exact. `hole_offsets` lie in holes of the backup.
    """

    partition: int
    verified: bool | None
    records: int
    markers: int
    decoded_records: int
    compacted_records: int
    digest: str
    target_start: int
    target_end: int
    later_offsets: int
    expired_offsets: int
    hole_offsets: int
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenTopic:
    """Result for one topic, named as in the cluster. `verified` as of a partition: True when some partitions were
    compared, all are equal and all could be read."""

    source: str
    verified: bool | None
    records: int
    partitions: tuple[ProvenPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Result of a whole comparison. `verified`: True when something was compared, no difference found and every
    partition read; False with `findings`, the first difference of every partition; None without anything to compare, or
    with partitions that could not be read (`uncompared`)."""

    verified: bool | None
    records: int
    topics: Mapping[str, ProvenTopic]
    findings: tuple[ProofFinding, ...]
    uncompared: tuple[UncomparedPartition, ...] = ()

    @property
    def compared_partitions(self) -> int:
        return sum(partition.verified is not None for topic in self.topics.values() for partition in topic.partitions)

    @property
    def empty_partitions(self) -> int:
        """Number of partitions without anything to compare."""
        every = [partition for topic in self.topics.values() for partition in topic.partitions]
        return sum(partition.verified is None and not partition.problem for partition in every)
