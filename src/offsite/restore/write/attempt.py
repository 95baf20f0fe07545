"""One attempt at writing one target partition of a restore: its number, its producer, and whether the attempt still
counts.

A newer attempt supersedes an older one. Brokers refuse batches of the older attempt from the newer one's first batch
on. After a pause, a writer checks the repository before it sends anything again, in case the brokers have forgotten the
producer.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeAlias

from offsite.engine import rate_lease
from offsite.kafka.config import KafkaConfig
from offsite.kafka.lane import Lanes
from offsite.kafka.net.routing import Router
from offsite.kafka.producer import Producer, new_producer
from offsite.kafka.reader import PartitionReader
from offsite.log.batch import BatchHeader
from offsite.log.range import Chunk, LogRange, TopicPartition
from offsite.model.clock import Clock, SleeplessClock, SystemClock
from offsite.model.errors import OffsiteError, TargetDisturbed, TargetNotEmpty, TransactionLost, WriterFenced
from offsite.model.journal import decided, warned
from offsite.points.record_rewrite import NOTHING_CHANGED, RewriteCounts
from offsite.repository.restores.fence import PartitionFence, restore_producer_id
from offsite.repository.restores.layout import RestoreLayout
from offsite.stores.store import Store

PAUSE_S = 1.0
"""Pause, in seconds, after which an attempt checks whether it still counts. A take-over needs longer: a newer attempt
first waits for the partition to stand still."""
CHECK_EVERY_S = 10.0
"""Seconds between two checks: one small request to the store per partition in progress."""

_NOT_OURS = (TransactionLost, TargetNotEmpty, TargetDisturbed)


class WriteAttempt:
    """One attempt, with a unique number. `start`: the end of the target before the restore. Raises the errors of store
    and broker."""

    def __init__(  # noqa: PLR0913  # where to write, what it is part of
        self,
        router: Router,
        store: Store,
        layout: RestoreLayout,
        target: TopicPartition,
        *,
        start: int,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or SleeplessClock()
        self.router = router
        self.target = target
        self.start = start
        self._fence = PartitionFence(store=store, layout=layout, target=target)
        self.producer_id = restore_producer_id(
            store, layout, lambda: new_producer(router, clock or SystemClock()).producer_id
        )
        self.number = self._fence.take(by=f"{socket.gethostname()}:{os.getpid()}")
        self._called_s = self._checked_s = self._clock.monotonic_s()
        self._tell("attempt", "writing begins; older attempts can no longer write")

    def producer(self) -> Producer:
        """The producer of this attempt, at its first record. Call once."""
        return Producer(producer_id=self.producer_id, epoch=self.number)

    def wrote(self, header: BatchHeader) -> bool:
        """Whether an attempt of this restore wrote the batch, outside of a transaction. Another restore of the same
        backup writes the same records: at another offset, only the producer id tells the two restores apart."""
        return header.producer_id == self.producer_id

    @property
    def is_first(self) -> bool:
        return self.number == 1

    def check(self) -> None:
        """Raises `WriterFenced` when a newer attempt has begun or the restore has ended: from then on the target may
        hold records of another writer."""
        self._checked_s = self._clock.monotonic_s()
        if self._fence.is_superseded(self.number):
            raise self._superseded()
        if self._fence.has_ended():
            raise self._over()

    def guard(self) -> None:
        """Run `check` after a pause, and at intervals. Call before every send."""
        now_s = self._clock.monotonic_s()
        paused = now_s - self._called_s > PAUSE_S
        self._called_s = now_s
        if paused or now_s - self._checked_s > CHECK_EVERY_S:
            self.check()
            self._called_s = self._clock.monotonic_s()

    @contextmanager
    def judged(self) -> Iterator[None]:
        """A block with errors judged at its end: unexpected data found by a superseded attempt is the newer attempt's
        work, and no reason to change anything."""
        try:
            yield
        except _NOT_OURS:
            self.check()
            raise

    def unexpected(self, start: int, *, end: int, own_producer_ids: frozenset[int] = frozenset()) -> OffsiteError:
        """The error for `[start, end)` of the target, when it does not hold the expected records. `own_producer_ids`:
        producer ids of the restore besides the id of all attempts.

        `TargetDisturbed`: earlier attempts wrote the range; a topic made by this restore may be made again.
        `TargetNotEmpty`: another producer has written, in the range or before, and its records must not be touched.
        """
        log_range = LogRange(topic=self.target.topic, partition=self.target.partition, start=self.start, end=end)
        stranger = first_foreign_offset(self.router, log_range, own_producer_ids=own_producer_ids | {self.producer_id})
        if stranger is not None:
            return foreign_records_error(self.target, stranger)
        if start < end and holds_markers_only(self.router, replace(log_range, start=start)):
            self._tell("fence", "brokers wrote a marker twice", start=start, end=end)
            return TargetDisturbed(
                f"{self.target} has the same transaction marker twice at offsets {start} to {end}: the coordinator "
                "moved",
                hint=(
                    "run the same command again; if the topic existed before the restore, delete it and create it "
                    "again first"
                ),
            )
        self._tell("fence", "the records of this restore are out of order", start=start, end=end)
        return TargetDisturbed(
            f"{self.target} is out of order at offsets {start} to {end}: a leader or a coordinator moved, or an "
            "earlier attempt of this restore wrote at the same time",
            hint=(
                "run the same command again; if the topic existed before the restore, delete it and create it again "
                "first"
            ),
        )

    def _superseded(self) -> WriterFenced:
        self._tell("fence", "a newer attempt has begun")
        return WriterFenced(
            f"a newer attempt writes into {self.target}: attempt {self.number} has stopped",
            hint="the newer attempt is not affected; run the same command again when the newer attempt has ended",
        )

    def _over(self) -> WriterFenced:
        self._tell("fence", "the restore has ended")
        return WriterFenced(
            f"the restore has ended: attempt {self.number} at {self.target} writes nothing more",
            hint="the restore is not affected: this worker was paused and continued too late",
        )

    def _tell(self, event: str, why: str, *, start: int | None = None, end: int | None = None) -> None:
        write = decided if event == "attempt" else warned
        topic, partition = self.target.topic, self.target.partition
        write(event, why=why, topic=topic, partition=partition, attempt=self.number, start=start, end=end)


def foreign_records_error(target: TopicPartition, offset: int) -> TargetNotEmpty:
    return TargetNotEmpty(
        f"{target} holds records that this restore did not write, at offset {offset}",
        hint="stop all other writers of the topic; delete the topic and restore again, or restore under another name",
    )


def holds_markers_only(router: Router, log_range: LogRange) -> bool:
    """Whether all batches that begin in `log_range` are transaction markers, with at least one batch. Raises as a
    reader."""
    kinds = [
        h.is_control
        for item in PartitionReader(router).read(log_range)
        if isinstance(item, Chunk)
        for h in item.batches
    ]
    return bool(kinds) and all(kinds)


def first_foreign_offset(router: Router, log_range: LogRange, *, own_producer_ids: frozenset[int]) -> int | None:
    """Offset of the first batch in `log_range` by a producer outside of `own_producer_ids`; the start of the range
    without any batch. Raises the errors of a reader."""
    has_batches = False
    for item in PartitionReader(router).read(log_range):
        for header in item.batches if isinstance(item, Chunk) else ():
            has_batches = True
            if header.producer_id not in own_producer_ids:
                return header.base_offset
    return None if has_batches or not log_range else log_range.start


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreEnds:
    """The two ends of a restore's copy, repository and cluster, as sent to the workers. `records`: the store of the
    restore's records. `read_committed`: leave out aborted data, and data undecided at the restore point."""

    kafka: KafkaConfig
    store: Store
    records: Store
    layout: RestoreLayout
    read_committed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReceipt:
    """Result for one target partition. `records` are in the target now, `resumed_records` of them written by an earlier
    attempt; `invisible_records` were left out as aborted or undecided, `undecided` counts the undecided transactions.
    `rewritten`: of all records, whichever attempt wrote them."""

    target: TopicPartition
    records: int
    resumed_records: int
    invisible_records: int
    undecided: int
    bytes: int
    rewritten: RewriteCounts = NOTHING_CHANGED


RestoreSteps: TypeAlias = Generator[None, None, RestoreReceipt]
"""The writing of one partition, about a batch at a time, so that several partitions can take turns."""


def paced_lanes(router: Router) -> Lanes:
    """Lanes that send batches at the rate of the running task. Raises `SparkFailed`."""
    pace = rate_lease.write_lease()
    return Lanes(router, pay=None if pace is None else pace.pay)
