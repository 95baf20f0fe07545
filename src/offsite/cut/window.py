"""The window: what was seen of transactions, participants and groups near the ends of the logs that were read.

Kafka's brokers keep each partition in order, and nothing between partitions. What holds partitions together are the
applications: a transaction writes to several, a consumer reads one and writes to another. These values say as much of
that as a log shows. A partition of `__consumer_offsets` is a partition like any other.

Offsets are Kafka's. An *end* is exclusive: an end of 7 keeps offsets up to 6. Only what may be undecided at the ends
has to be in a window; everything older is taken as kept, which `Window.bases` makes sure of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from offsite.log.range import Span


class PartitionKey(NamedTuple):
    """One partition of one incarnation of a topic. A tuple, because fixpoints look it up hundreds of thousands of
    times."""

    topic: str
    topic_id: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


Ends = Mapping[PartitionKey, int]
"""The exclusive end of each partition: a cut, or what it is cut from."""


Producer = str | int
"""A transactional id, or a producer id where that is all that is known."""

REMOVED = -1
"""No committed offset, as Kafka's own protocol says it."""


class Outcome(Enum):
    """How a transaction ended, as far as anybody has seen. A commit or abort marker in one partition decides for all,
    and so does the coordinator's word in `__transaction_state` (prepare or complete)."""

    COMMIT = "commit"
    ABORT = "abort"
    OPEN = "open"


class Written(NamedTuple):
    """What a transaction wrote to one partition: its first and its last record, and its marker, or None for a marker
    that was not seen.

    Of several transactions in one span, `marker` is the last one that has to be below the end, and `markers` has all of
    their commit markers that were seen, rising. Of a single transaction `markers` may be left empty.
    """

    first: int
    last: int
    marker: int | None
    markers: tuple[int, ...] = ()

    @property
    def commit_markers(self) -> tuple[int, ...]:
        """The commit markers that were seen, rising, if the span was committed."""
        return self.markers or (() if self.marker is None else (self.marker,))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCommit:
    """An offset that a group committed: `group` has read `partition` below `offset`. The commit is itself a record, at
    `position` of `log`, a partition of `__consumer_offsets`.

    `exactly_once` is true for a commit inside a transaction (TxnOffsetCommit). `offset` is `REMOVED` for a tombstone:
    the group was deleted, or its offset expired. `outputs`: the highest offset that a participant had written to each
    partition since its commit before, None where it cannot say; empty for whoever is no participant, and for a commit
    from before the ends were first read, whose outputs are all below any cut. `metadata` is the client's own text.
    """

    group: str
    partition: PartitionKey
    offset: int
    log: PartitionKey
    position: int
    exactly_once: bool = False
    outputs: tuple[tuple[PartitionKey, int], ...] | None = ()
    metadata: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSpan:
    """One transaction: where it wrote, what it says it read, and how it ended.

    `written` has each partition with data of the transaction, that of `__consumer_offsets` as well. A partition that
    the coordinator names as part of it, and of which nothing was seen yet, counts with its end as first and last
    offset and no marker: to ignore it would keep half of the transaction. A partition with a marker alone is no part.
    `reads`: the group commits inside it, all with `exactly_once`. `name`: its transactional id, where it is known.
    `number` rises with the transactions of one producer, and no two of them have the same. `is_whole` is false where
    it may have begun before the window: then it cannot be left out, for nobody knows where.

    Several transactions of a producer, one after the other, that can only be told apart from the ones before and after
    them are one span: kept or left out as one.
    """

    producer_id: int
    epoch: int
    written: Mapping[PartitionKey, Written]
    outcome: Outcome
    reads: tuple[GroupCommit, ...] = ()
    name: str = ""
    number: int = 0
    is_whole: bool = True

    @property
    def producer(self) -> Producer:
        """Whose transactions come one after the other: a transactional id may have several producer ids in time."""
        return self.name or self.producer_id


@dataclass(frozen=True, slots=True, kw_only=True)
class ParticipantRecord:
    """The record at `offset` of `partition` says in a header what its writer had read before: `deps` has the exclusive
    end of each partition that it depends on. Records of aborted transactions do not count."""

    partition: PartitionKey
    offset: int
    deps: Ends


@dataclass(frozen=True, slots=True, kw_only=True)
class StampedRecord:
    """The record at `offset` of `partition` is the first one there whose stamp is that of the checkpoint or higher: its
    writer may have seen what lies behind the checkpoint elsewhere. No cut of that checkpoint keeps it."""

    partition: PartitionKey
    offset: int
    stamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SupersededRecord:
    """The record at `offset` of a compacted topic that the source's cleaner took before it was copied; the record at
    `successor` has the same key."""

    partition: PartitionKey
    offset: int
    successor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalParticipant:
    """Somebody outside of Kafka that has saved its own state together with a position: a Flink savepoint, a database.

    `positions`: the exclusive ends its state has read. One that `can_replay` may stand before the cut and catches up.
    """

    name: str
    positions: Ends
    can_replay: bool = False


class WriterKind(Enum):
    """How a topic's records were written, as the copy saw it."""

    TRANSACTION = "transaction"
    PARTICIPANT = "participant"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """All facts that a cut is made from.

    `bases`: for each partition the offset from which on the window knows everything and the backup holds everything,
    but for `gaps` (rising spans that are not held). A partition that is not named has base 0.
    `commits`: group commits outside of the window's transactions, with the last ones before the window.
    `stamped`: of a checkpoint that was opened to participants, the first record of each partition that is behind it.
    `writers`: how each topic's records were written, in all of its history that a restore would claim.
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
    gaps: Mapping[PartitionKey, tuple[Span, ...]] = field(default_factory=dict)
    writers: Mapping[str, frozenset[WriterKind]] = field(default_factory=dict)
    unpaired: frozenset[str] = frozenset()
    time_fenced: frozenset[str] = frozenset()
