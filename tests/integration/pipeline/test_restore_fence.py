"""Two writers of one target partition: a restore that was stopped, and its repetition. Whatever the first one does when
it wakes, the target is as if there had been one."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from offsite.demo.data import BASE_MS, DemoMessage
from offsite.engine.runner import Done
from offsite.kafka.writer import PartitionWriter
from offsite.log.records.batch_records import encode
from offsite.log.records.record import Record
from offsite.model.clock import SystemClock
from offsite.model.errors import KafkaProtocolError, TargetDisturbed, TargetNotEmpty, TransactionLost, WriterFenced
from offsite.repository.repository import Repository
from offsite.restore.run import run_restore
from offsite.restore.write.attempt import WriteAttempt
from offsite.restore.write.bundle import restore_any_partition
from offsite.sandbox import SandboxInfo
from offsite.stores.open_store import open_store
from tests.inline_runner import InlineRunner
from tests.integration.e2e.site import Site
from tests.integration.e2e.transactions import with_transaction
from tests.integration.kafka.cluster import Cluster, wait_until
from tests.integration.pipeline.restores import LogEntry, PartitionRestored, Writing

MODES = ["translate", "preserve"]
ROUNDS = 2
SOAK_ROUNDS = int(os.environ.get("OFFSITE_SOAK_ROUNDS", "200")) // len(MODES)
BATCHES, TRANSACTIONS = 1500, 12
LOOKING = 0.3
"""How many of them look into the repository when they wake; brokers alone must do as well."""
EARLY = 3
"""Every such round wakes the first one while the second one writes, or before it has begun."""

rounds = pytest.mark.parametrize("count", [ROUNDS, pytest.param(SOAK_ROUNDS, marks=pytest.mark.soak)])
modes = pytest.mark.parametrize("offsets", MODES)


@pytest.fixture
def site(broker: SandboxInfo, tmp_path: Path) -> Site:
    return Site(Cluster(broker.bootstrap), Repository.init(open_store(str(tmp_path / "repository"))), InlineRunner())


@pytest.fixture
def chance() -> random.Random:
    seed = int(os.environ.get("OFFSITE_SEED", time.time_ns() % 1_000_000))
    print(f"OFFSITE_SEED={seed}")  # noqa: T201  # shown with a failure, and taken back from the environment
    return random.Random(seed)


@modes
@rounds
@pytest.mark.timeout(3600)
def test_what_was_stopped_and_wakes_appends_nothing(
    site: Site, chance: random.Random, offsets: str, count: int
) -> None:
    topic = long_topic(site)
    alone = PartitionRestored(site, topic, offsets)
    began_s = time.monotonic()
    records = alone.run()
    took_s, expected, end = time.monotonic() - began_s, alone.log(), site.cluster.end(alone.target)
    tally: Counter[str] = Counter()
    for number in range(count):
        restore = PartitionRestored(site, topic, offsets)
        first = Writing(restore, looks=chance.random() < LOOKING)
        try:
            time.sleep(chance.uniform(0, took_s))
            first.stop()
            may_succeed = not restore.has_begun() or site.cluster.end(restore.target) == end
            if number % EARLY == EARLY - 1:
                what = woken_meanwhile(restore, first, chance.uniform(0, took_s))
            else:
                assert restore.run() == records
                assert restore.log() == expected
                first.wake()
                ended = first.outcome()
                assert isinstance(ended, WriterFenced) or (may_succeed and ended == records), ended
                what = "shut out" if isinstance(ended, WriterFenced) else "had written all, or begins late"
        finally:
            first.wake()
            first.kill()
        tally[what] += 1
        assert what == "found out" or _but_late_outcomes(restore.log(), expected) == expected
    print(f"{offsets}: {count} rounds, {dict(tally)}")  # noqa: T201


def _but_late_outcomes(log: Sequence[LogEntry], expected: Sequence[LogEntry]) -> Sequence[LogEntry]:
    """Without outcomes behind the end: no broker tells those of an attempt that does not look (decision 0005). Nobody
    sees them, and nothing is open that they could end."""
    late = log[len(expected) :]
    return log[: len(expected)] if all(each.is_control for each in late) else log


def woken_meanwhile(restore: PartitionRestored, first: Writing, after_s: float) -> str:
    """Each may be the newer attempt then: it has written all, or found out that the other one wrote as well."""
    second = Writing(restore)
    time.sleep(after_s)
    first.wake()
    ended = [second.outcome(), first.outcome()]
    second.kill()
    if any(isinstance(each, TargetDisturbed | TransactionLost | KafkaProtocolError) for each in ended):
        return "found out"
    assert all(isinstance(each, int | WriterFenced) for each in ended), ended
    assert any(isinstance(each, int) for each in ended), ended
    return "one after the other" if all(isinstance(each, int) for each in ended) else "woken early, shut out"


@modes
def test_records_of_an_older_attempt_behind_the_newest_look_are_found_out_and_the_topic_is_made_again(
    site: Site, offsets: str
) -> None:
    """As if the older one had woken between the newer one's look at the end and its first batch."""
    restore = PartitionRestored(site, short_topic(site), offsets)
    older = restore.attempt()
    append(site, restore, [b"record 0", b"record 1"], as_attempt=older)
    append(site, restore, [b"record 0"], as_attempt=older, sequence=2)
    with pytest.raises(TargetDisturbed, match="an earlier attempt of this restore wrote"):
        restore.run()
    result = run_restore(restore.prepare(), cluster=site.cluster, runner=InlineRunner())
    assert (result.resumed, result.verified, result.records) == (True, True, 5)
    assert site.read(restore.target)[0] == site.read(restore.topic)[0] if offsets == "preserve" else True


@modes
def test_records_of_others_are_refused_and_never_deleted(site: Site, offsets: str) -> None:
    restore = PartitionRestored(site, short_topic(site), offsets)
    site.produce(restore.target, messages(100, 103))
    with pytest.raises(TargetNotEmpty, match="did not write, at offset 0"):
        run_restore(restore.prepare(), cluster=site.cluster, runner=InlineRunner())
    assert site.cluster.end(restore.target) == 3


@modes
def test_what_another_restore_has_written_whose_records_lie_elsewhere_is_not_gone_on_with(
    site: Site, tmp_path: Path, offsets: str
) -> None:
    """Neither knows of the other. The first one is stopped amid its work; were the second one to finish it, the first
    one would add its records once more when it wakes."""
    restore = PartitionRestored(site, short_topic(site), offsets)
    (tmp_path / "records").mkdir()
    elsewhere = replace(restore.ends, records=open_store(str(tmp_path / "records")))
    first = restore.attempt()
    append(site, restore, [b"record 0", b"record 1"], as_attempt=first)
    with pytest.raises(TargetNotEmpty, match="did not write, at offset 0"):
        restore_any_partition(restore.task, ends=elsewhere)
    assert site.cluster.end(restore.target) == 2
    assert restore.run() == 5
    assert site.cluster.end(restore.target) == 5


def test_an_attempt_that_was_paused_looks_before_it_sends_though_the_brokers_have_forgotten_it(site: Site) -> None:
    """The topic was made again: its brokers know no epoch."""
    restore = PartitionRestored(site, short_topic(site), "translate")
    clock = StoppedClock()
    older = restore.attempt(clock=clock)
    older.guard()
    restore.attempt()
    older.guard()
    clock.now_s += 2
    with pytest.raises(WriterFenced, match="attempt 1 has stopped"):
        append(site, restore, [b"late"], as_attempt=older)
    assert site.cluster.end(restore.target) == 0


def test_brokers_refuse_an_older_attempt_from_the_first_batch_of_a_newer_one_on(site: Site) -> None:
    restore = PartitionRestored(site, short_topic(site), "translate")
    older = restore.attempt()
    (outcome,) = InlineRunner().run_all([restore], PartitionRestored.run)
    assert outcome == Done(value=5)
    with pytest.raises(WriterFenced, match="brokers rejected"):
        append(site, restore, [b"late"], as_attempt=older)
    assert site.cluster.end(restore.target) == 5


class StoppedClock(SystemClock):
    now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s


def append(
    site: Site, restore: PartitionRestored, values: Sequence[bytes], *, as_attempt: WriteAttempt, sequence: int = 0
) -> None:
    """Write records as an attempt would, wherever the log ends."""
    producer = as_attempt.producer()
    producer.next_sequence = sequence
    records = [Record(n, BASE_MS + n, 0, b"%d" % n, value) for n, value in enumerate(values)]
    as_attempt.guard()
    with PartitionWriter(site.cluster.router, restore.task.partition.target, producer=producer) as writer:
        writer.send(encode(records))
        writer.flush()


def messages(start: int, end: int) -> Iterator[DemoMessage]:
    return (DemoMessage(key=b"%d" % n, value=b"record %d" % n, timestamp_ms=BASE_MS + n) for n in range(start, end))


def short_topic(site: Site) -> str:
    """Two batches: the first of two records."""
    topic = site.make_topic()
    for part in (messages(0, 2), messages(2, 5)):
        site.produce(topic, part, linger_ms=1000)  # a busy machine would make batches of one record
    site.back_up(topic)
    return topic


def long_topic(site: Site) -> str:
    """Many small batches, between transactions of which some were aborted."""
    topic = site.make_topic()
    for number in range(TRANSACTIONS):
        start = number * 10_000
        with_transaction(site, topic, messages(start, start + 5), commit=number % 4 != 3)
        plain(site, topic, messages(start + 5, start + 5 + BATCHES // TRANSACTIONS))
    site.back_up(topic)
    return topic


def plain(site: Site, topic: str, written: Iterable[DemoMessage]) -> None:
    """Each in a batch of its own."""
    before = site.cluster.end(topic)
    site.produce(topic, written, batch_num_messages=1, linger_ms=0)
    wait_until(lambda: site.cluster.end(topic) > before)
