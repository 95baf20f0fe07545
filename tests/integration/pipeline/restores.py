"""A restore of one partition made ready up to the moment where it is written, and processes that write it."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import NamedTuple

from offsite.log.records.record import Record
from offsite.model.clock import Clock
from offsite.model.errors import OffsiteError
from offsite.model.selection import parse_selection
from offsite.model.topic_choices import parse_renames
from offsite.restore.plan import PlannedRestore, prepare_restore
from offsite.restore.request import RestoreRequest
from offsite.restore.target_topics import create_topics, find_targets
from offsite.restore.write import attempt as restore_attempt
from offsite.restore.write.attempt import RestoreEnds, WriteAttempt
from offsite.restore.write.bundle import AnyRestoreTask, restore_any_partition
from offsite.restore.write_jobs import restore_tasks
from tests.begun_restores import put_own_record
from tests.integration.e2e.site import Site, new_name
from tests.integration.kafka.cluster import Batch

# A server of few threads to fork from: the test process has those of librdkafka, and maybe a JVM's.
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["offsite.restore.write.bundle", __name__])
LIMIT_S = 90.0


class LogEntry(NamedTuple):
    """A batch as it lies in the target, without what differs between attempts."""

    base_offset: int
    is_control: bool
    records: tuple[Record, ...]


class PartitionRestored:
    """`topic` under another name; `offsets` is the mode."""

    def __init__(self, site: Site, topic: str, offsets: str) -> None:
        self.site, self.topic, self.target, self.offsets = site, topic, new_name(topic), offsets
        prepared = self.prepare()
        store = site.backup.store
        put_own_record(store, prepared.layout, prepared.record)
        create_topics(site.cluster.admin, prepared.record.settings)
        targets = find_targets(store, prepared.layout, site.cluster.admin, [self.target])
        self.task: AnyRestoreTask
        (self.task,) = restore_tasks(prepared.plan, prepared.offsets, targets)
        self.ends = RestoreEnds(
            kafka=site.cluster.config, store=store, records=store, layout=prepared.layout, read_committed=True
        )

    def prepare(self) -> PlannedRestore:
        request = RestoreRequest(
            selection=parse_selection([self.topic]),
            renames=parse_renames([f"{self.topic}={self.target}"]),
            offsets=self.offsets,
        )
        return prepare_restore(self.site.backup, self.site.cluster.admin, request)

    def attempt(self, *, clock: Clock | None = None) -> WriteAttempt:
        """A newer one than all so far."""
        target = self.task.partition.target
        return WriteAttempt(self.site.cluster.router, self.ends.store, self.ends.layout, target, start=0, clock=clock)

    def has_begun(self) -> bool:
        """Whether there was any attempt: a process that sleeps before it takes a number takes a newer one later."""
        return self.ends.store.head(self.ends.layout.attempt_key(self.task.partition.target, 1)) is not None

    def run(self) -> int:
        """The partition written in this process; how many records are in it then."""
        return restore_any_partition(self.task, ends=self.ends).records

    def log(self) -> Sequence[LogEntry]:
        cluster = self.site.cluster
        return [
            LogEntry(batch.header.base_offset, batch.header.is_control, _content(batch))
            for batch in cluster.read(cluster.whole(self.target))
            if not batch.header.is_control or self.offsets == "preserve"
        ]


class Writing:
    """The partition written by a process of its own, which can be stopped and woken. Unless it `looks`, it never looks
    into the repository after a pause: brokers alone can shut it out."""

    def __init__(self, restore: PartitionRestored, *, looks: bool = True) -> None:
        self._outcome, child = _PROCESSES.Pipe(duplex=False)
        self._process = _PROCESSES.Process(target=_write, args=(restore.task, restore.ends, child, looks), daemon=True)
        self._process.start()
        child.close()
        assert self._outcome.recv() == "begun"

    def stop(self) -> None:
        self._signal(signal.SIGSTOP)

    def wake(self) -> None:
        self._signal(signal.SIGCONT)

    def outcome(self) -> object:
        """How many records there are, or the error; waits for it."""
        assert self._outcome.poll(LIMIT_S), "the process does not end"
        result = self._outcome.recv()
        self._process.join()
        return result

    def kill(self) -> None:
        if self._process.is_alive():
            self._process.kill()
        self._process.join()

    def _signal(self, number: signal.Signals) -> None:
        if self._process.pid is not None and self._process.is_alive():
            with suppress(ProcessLookupError):  # it has ended in between
                os.kill(self._process.pid, number)


def _write(task: AnyRestoreTask, ends: RestoreEnds, outcome: Connection, looks: bool) -> None:
    if not looks:
        restore_attempt.PAUSE_S = restore_attempt.CHECK_EVERY_S = math.inf
    outcome.send("begun")
    try:
        result: object = restore_any_partition(task, ends=ends).records
    except OffsiteError as error:
        result = error
    outcome.send(result)


def _content(batch: Batch) -> tuple[Record, ...]:
    """A marker has the time at which it was written."""
    return tuple(each._replace(timestamp_ms=0) if batch.header.is_control else each for each in batch.records())
