"""The window: observations of transactions, participants and groups near the ends of the logs.

Kafka's brokers keep order within a partition, and none between partitions. Applications hold partitions together: a
transaction writes to several, a consumer reads from a partition and writes to another. The values here say as much of
the relations as a log shows. A partition of `__consumer_offsets` is a partition like any other.

Offsets are Kafka's. An *end* is exclusive: an end of 7 keeps offsets up to 6. A window only needs transactions that may
be undecided at the ends; everything older is taken as kept, which `Window.bases` ensures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from offsite.log.range import PartitionId, Span

REMOVED = -1
"""No committed offset, as in Kafka's own protocol."""


Ends = Mapping[PartitionId, int]
"""The exclusive end of every partition: a cut, or the ends that are cut."""


Producer = str | int
"""A transactional id, or a producer id where no more is known."""


class SpanOutcome(Enum):
    """How a transaction ended, as far as observed. A commit or abort marker in any partition decides for all, and so
    does the coordinator's record in `__transaction_state` (prepare or complete)."""

    COMMIT = "commit"
    ABORT = "abort"
    OPEN = "open"


class WrittenRange(NamedTuple):
    """The records of a transaction in a partition: the first, the last, and the marker; None for an unseen marker.

    For several transactions in a span, `marker` is the last that must be below the end, and `markers` are all observed
    commit markers, rising. For a single transaction `markers` may be empty.
    """

    first: int
    last: int
    marker: int | None
    markers: tuple[int, ...] = ()

    @property
    def commit_markers(self) -> tuple[int, ...]:
        """The observed commit markers, rising, if the span was committed."""
        return self.markers or (() if self.marker is None else (self.marker,))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCommit:
    """An offset that a group committed: `group` has read `partition` below `offset`. The commit is itself a record, at
    `position` of `log`, a partition of `__consumer_offsets`.

    `exactly_once`: the commit is inside a transaction (TxnOffsetCommit). `offset` is `REMOVED` for a tombstone: the
    group was deleted, or its offset expired. `outputs`: the highest offset that a participant had written to every
    partition since its last commit; None where unknown; empty for a client that is no participant, and for a commit
    from before the ends were first read, whose outputs are all below any cut. `metadata`: the client's own text.
    """

    group: str
    partition: PartitionId
    offset: int
    log: PartitionId
    position: int
    exactly_once: bool = False
    outputs: tuple[tuple[PartitionId, int], ...] | None = ()
    metadata: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSpan:
    """A transaction: where it wrote, what it claims to have read, and how it ended.

    `written` has every partition with data of the transaction, partitions of `__consumer_offsets` included. A partition
    that the coordinator names as part of the transaction, and of which nothing was seen yet, counts with its end as
    first and last offset and no marker: ignoring it would keep half of the transaction. A partition with only a marker
    is no part. `reads`: the group commits inside the transaction, all with `exactly_once`. `name`: its transactional
    id, where known. `number`: unique, and rises with the transactions of a producer. `is_whole`: false where the
    transaction may have begun before the window; it cannot be left out, because nobody knows its beginning.

    Consecutive transactions of a producer that cannot be told apart form a single span, kept or left out as a unit.
    """

    producer_id: int
    epoch: int
    written: Mapping[PartitionId, WrittenRange]
    outcome: SpanOutcome
    reads: tuple[GroupCommit, ...] = ()
    name: str = ""
    number: int = 0
    is_whole: bool = True

    @property
    def producer(self) -> Producer:
        """The owner of a sequence of transactions: a transactional id may have several producer ids over time."""
        return self.name or self.producer_id


@dataclass(frozen=True, slots=True, kw_only=True)
class ParticipantRecord:
    """A record with declared dependencies: a header of the record at `offset` of `partition` says what its writer had
    read before. `deps`: the exclusive end of every partition that the record depends on. Records of aborted
    transactions do not count."""

    partition: PartitionId
    offset: int
    deps: Ends


@dataclass(frozen=True, slots=True, kw_only=True)
class StampedRecord:
    """The first record of `partition`, at `offset`, whose stamp reaches the checkpoint's number: its writer may have
    seen records behind the checkpoint elsewhere. No cut of the checkpoint keeps the record."""

    partition: PartitionId
    offset: int
    stamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SupersededRecord:
    """A record at `offset` of a compacted topic that the source's cleaner removed before the copy; the record at
    `successor` has the same key."""

    partition: PartitionId
    offset: int
    successor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalParticipant:
    """An external system that has saved its own state together with a position: a Flink savepoint, a database.

    `positions`: the exclusive ends that its state has read. A participant that `can_replay` may stand before the cut
    and catches up.
    """

    name: str
    positions: Ends
    can_replay: bool = False


class WriterKind(Enum):
    """How a topic's records were written, as the copy saw them."""

    TRANSACTION = "transaction"
    PARTICIPANT = "participant"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """All facts that a cut is made from.

    `bases`: by partition, the offset from which on the window knows everything and the backup holds everything, except
    for `gaps` (rising spans that are not held). A partition that is not named has base 0.
    `commits`: group commits outside of the window's transactions, including the last commits before the window.
    `stamped`: for a checkpoint that was opened to participants, the first record of every partition behind the
    checkpoint.
    `writers`: how every topic's records were written, in all of the history that a restore would claim.
    `unpaired`: topics with transactions whose partitions could not be told for certain.
    `time_fenced`: topics with LogAppendTime whose ends were chosen by time.
    """

    transactions: tuple[TransactionSpan, ...] = ()
    records: tuple[ParticipantRecord, ...] = ()
    stamped: tuple[StampedRecord, ...] = ()
    superseded: tuple[SupersededRecord, ...] = ()
    commits: tuple[GroupCommit, ...] = ()
    externals: tuple[ExternalParticipant, ...] = ()
    bases: Ends = field(default_factory=dict)
    gaps: Mapping[PartitionId, tuple[Span, ...]] = field(default_factory=dict)
    writers: Mapping[str, frozenset[WriterKind]] = field(default_factory=dict)
    unpaired: frozenset[str] = frozenset()
    time_fenced: frozenset[str] = frozenset()
